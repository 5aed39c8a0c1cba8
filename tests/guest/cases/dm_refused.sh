# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# A device that somebody uses, in any way, is not put below a slow one; nor is one made that the kernel cannot make. With the word for
# device-mapper: without it the loop device would be taken where device-mapper cannot.
loop=$(make_loop 32)
refused() { # refused DEVICE WORDS...: with these words, and nothing was made
    expect 3 disk delay "$1" --read 10ms --mechanism device-mapper
    shift
    says "$@"
    [ "$(ls /dev/mapper)" = control ] || fail "a device was made: $(ls /dev/mapper)"
}
refused /dev/vda "/dev/vda is mounted at /data" "umount /data"
refused /dev/ttyS0 "neither a directory nor a block device"
for words in "--read 0.5ms" "--read 2.5ms" "--read normal:10ms,2ms" "--profile gp3" "--iops 100" "--mode total --read 10ms"; do
    # shellcheck disable=SC2086
    expect 3 disk delay "$loop" --mechanism device-mapper $words
    says "device-mapper" "FUSE layer"
done

mkswap "$loop" >/dev/null
swapon "$loop"
refused "$loop" "$loop is used for swap" "swapoff"
swapoff "$loop"

sleep 1000 <"$loop" &
reader=$!
until_true [ "/proc/$reader/fd/0" -ef "$loop" ] || fail "the reader does not open $loop"
refused "$loop" "$loop is in use by process $reader"
kill $reader
wait

# a loop device on the device: the kernel lists it among no holders
above=$(losetup -f)
losetup "$above" "$loop"
refused "$loop" "$loop is in use by $above, to which $loop is attached" "losetup -d $above"
losetup -d "$above"

blockdev --setro "$loop"
refused "$loop" "read-only"
blockdev --setrw "$loop"

# a mount that only another namespace sees
mke2fs "$loop" >/dev/null
mkdir -p /tmp/mnt
unshare -m sh -c "mount -t ext4 $loop /tmp/mnt && touch /tmp/mounted && while [ -e /tmp/mounted ]; do usleep 50000; done" &
until_true [ -e /tmp/mounted ] || fail "the other namespace does not mount"
refused "$loop" "$loop is mounted at /tmp/mnt in the mount namespace of process"
rm /tmp/mounted
wait
rmdir /tmp/mnt

# a partition is mounted, and the whole disk is asked for
printf 'o\nn\np\n1\n\n\nw\n' | fdisk /dev/vdb >/dev/null 2>&1 || true
until_true [ -b /dev/vdb1 ] || fail "there is no partition"
mke2fs /dev/vdb1 >/dev/null
mkdir /tmp/mnt
mount -t ext4 /dev/vdb1 /tmp/mnt
refused /dev/vdb "vdb1, on /dev/vdb, is mounted at /tmp/mnt"
umount /tmp/mnt
rmdir /tmp/mnt

# a partition is asked for, and somebody has the whole disk open
sleep 1000 </dev/vdb &
reader=$!
until_true [ "/proc/$reader/fd/0" -ef /dev/vdb ] || fail "the reader does not open /dev/vdb"
refused /dev/vdb1 "vdb, the disk of /dev/vdb1, is in use by process $reader"
kill $reader
wait

# for somebody with another home: what is slow already, and what lies below it. Writes are not probed: so it cannot miss.
expect 0 disk delay "$loop" --write 10ms
home=$WRINGER_HOME
export WRINGER_HOME=/tmp/other
expect 3 disk delay "$(mapped)" --read 20ms
says "is a slow device itself"
expect 3 disk delay "$loop" --read 20ms
says "$loop is held by dm-0"
# a module does not go away below a slow device
for module in dm-delay dm-mod; do rmmod $module 2>/dev/null && fail "$module was unloaded below a slow device"; done
export WRINGER_HOME="$home"
expect 0 disk release
dd if=/dev/zero of=/dev/vdb bs=1M count=1 2>/dev/null
partprobe /dev/vdb || blockdev --rereadpt /dev/vdb
remove_loop "$loop"

# without the target, and without device-mapper
rmmod dm-delay
refused /dev/vdb "delay target is not loaded" "modprobe dm-delay"
expect 0 doctor
says "modprobe dm-delay"
rmmod dm-mod
expect 3 disk delay /dev/vdb --read 10ms --mechanism device-mapper
says "no device-mapper" "modprobe dm-delay"
insmod /modules/*-dm-mod.ko
insmod /modules/*-dm-delay.ko
