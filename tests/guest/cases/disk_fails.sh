# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# The device below a slow one, or below a slow directory, fails, or is removed: who reads gets an error, the release comes to its end,
# and the status says it. Also devices that another tool has left suspended: named, and not touched.
dm() { squeeze-test-dmsetup "$@"; }
reads() { # reads PATH: a block past the page cache; says why not
    dd if="$1" of=/dev/null bs=4k count=1 iflag=direct 2>/tmp/dd
}
fails() { # fails PATH WHEN
    reads "$1" && fail "$2: a read came back"
    grep -qi "i/o error\|input/output error" /tmp/dd || fail "$2: $(cat /tmp/dd)"
}
loop=$(make_loop 32)
numbers=$(cat "/sys/block/${loop#/dev/}/dev")

# --- somebody's mapping that is suspended ---
dm create theirs
dm load theirs 65536 linear "$numbers 0"
dm resume theirs
below=/dev/$(basename "$(dirname "$(dirname "$(grep -lx theirs /sys/block/dm-*/dm/name)")")")
until_true [ -b "$below" ] || fail "there is no $below"
dm suspend theirs
expect 3 disk delay "$below" --read 20ms
says "$below is suspended" "dmsetup resume"
expect 0 doctor
says "theirs is suspended"
expect 0 undo
dm info theirs | grep -q "suspended 1" || fail "somebody's suspended device was resumed"
dm resume theirs

# --- it fails below a slow device ---
# reads that take twice their delay would be a miss, and an emulated processor may be late by 20 ms
expect 0 disk delay "$below" --read 40ms --write 20ms
reads "$(mapped)" || fail "it does not read: $(cat /tmp/dd)"
dm load theirs 65536 error ""
dm resume theirs
fails "$(mapped)" "a device that fails"
expect 0 disk status
expect 0 disk release "$below"
[ "$(ls /dev/mapper)" = control ] || fail "there is still $(ls /dev/mapper)"
dm remove theirs
remove_loop "$loop"

# --- the disk is pulled ---
pull() {
    pci=$(readlink -f /sys/block/vdb/device/..)
    echo 1 >"$pci/remove"
    until_true [ ! -e /sys/block/vdb ] || fail "vdb is still there"
}
plug() {
    echo 1 >/sys/bus/pci/rescan
    until_true [ -b /dev/vdb ] || fail "vdb does not come back: $(ls /sys/block)"
}
expect 0 disk delay /dev/vdb --read 40ms
pull
fails "$(mapped)" "a device that is gone"
expect 0 disk status
says "the device below is GONE"
expect 0 disk release /dev/vdb
plug
nothing_changed

# --- below a mounted file system ---
mke2fs /dev/vdb >/dev/null
mkdir -p /tmp/mnt
expect 0 disk delay /dev/vdb --read 40ms
mount -t ext4 "$(mapped)" /tmp/mnt
pull
fails "$(mapped)" "a mounted device that is gone"
expect 5 disk release /dev/vdb
says "mounted at /tmp/mnt"
umount /tmp/mnt
expect 0 undo
plug
nothing_changed

# --- below a slow directory ---
mount -t ext4 /dev/vdb /tmp/mnt
mkdir /tmp/mnt/slow
dd if=/dev/urandom of=/tmp/mnt/slow/file bs=64k count=4 2>/dev/null
sync
expect 0 disk delay /tmp/mnt/slow --read 5ms
pull
code=0
cat /tmp/mnt/slow/file >/dev/null 2>/tmp/dd || code=$?
[ $code -ne 0 ] || fail "a file on a disk that is gone was read"
grep -qi "i/o error\|input/output error" /tmp/dd || fail "another error: $(cat /tmp/dd)"
expect 0 disk status
says "FAILED: the disk below answered with an error"
expect 0 disk release /tmp/mnt/slow
umount /tmp/mnt
rmdir /tmp/mnt
plug
dd if=/dev/zero of=/dev/vdb bs=1M count=1 2>/dev/null
