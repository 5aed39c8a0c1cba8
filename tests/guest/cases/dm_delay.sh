# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# A block device gets slow by device-mapper as in the second article: by as much as was asked, timed beside naps of the emulated processor's own, changed
# below a mounted file system, refused to go while it is mounted, and nothing that was written is lost.
loop=$(make_loop 32)
mke2fs "$loop" >/dev/null
numbers=$(cat "/sys/block/${loop#/dev/}/dev")
expect 0 disk delay "$loop" --read 0.4s --dry-run
says "delay $numbers 0 400 $numbers 0 0 $numbers 0 0"
[ "$(ls /dev/mapper)" = control ] || fail "a dry run has made a device"

echo "without: $(milliseconds "$loop") ms"
expect 0 disk delay "$loop" --read 400ms --write 60ms --sync 100ms -o json
slow=$(mapped)
grep -q "\"mapped\": \"$slow\"" /tmp/out || fail "the path was not told: $(cat /tmp/out)"
grep -q '"what": "disk.read.median"' /tmp/out || fail "reads were not measured: $(cat /tmp/out)"
grep -q '"what": "disk.sync.median"' /tmp/out || fail "syncs were not measured: $(cat /tmp/out)"
expect_delayed "$slow" 5 400 "$loop"
expect 0 disk status
says "read 400 ms, write 60 ms, sync 100 ms added" "$slow, not in use"

# changed by the other of its names. What Linux 6.7 to 6.15 gets on an emulated processor that it keeps busy itself is no matter.
expect 0 disk delay "$slow" --read 40ms -o json
case $(uname -r) in
6.12.*)
    grep -q '"what": "disk.delay_thread.cpu"' /tmp/out || fail "the burnt core was not measured: $(cat /tmp/out)"
    grep -q 'keeps one processor busy' /tmp/out || fail "the burnt core was not told: $(cat /tmp/out)"
    ;;
esac

# a change that is interrupted while it is measured: the delay before it is in force again
before=$(squeeze-test-dmsetup info "${slow#/dev/mapper/}")
wringer disk delay "$slow" --read 9s >/tmp/changed 2>&1 &
changing=$!
has_changed() { squeeze-test-dmsetup info "${slow#/dev/mapper/}" | grep -q " 9000 "; }
until_true has_changed || fail "the change is not in force: $(cat /tmp/changed)"
kill -TERM $changing
wait $changing && fail "the interrupted change ended with 0"
[ "$(squeeze-test-dmsetup info "${slow#/dev/mapper/}")" = "$before" ] || fail "it was $before, and is $(squeeze-test-dmsetup info "${slow#/dev/mapper/}")"

mkdir /tmp/mnt
mount -t ext4 "$slow" /tmp/mnt
dd if=/dev/urandom of=/tmp/mnt/file bs=64k count=2 2>/dev/null
sum=$(md5sum </tmp/mnt/file)
expect 0 disk status
says "$slow, in use"
# changed below the mounted file system
expect 0 disk delay "$loop" --read 200ms -o json
grep -q "\"table\": \"0 65536 delay $numbers 0 200 $numbers 0 0 $numbers 0 0\"" /tmp/out || fail "another table: $(cat /tmp/out)"
expect_delayed "$slow" 10 200 "$loop"
expect 3 disk delay "$slow" --read 0.5ms
says "whole milliseconds" "FUSE layer"

expect 5 disk release "$loop"
says "$slow" "mounted at /tmp/mnt" "wringer undo"
took=$(milliseconds "$slow")
# with the delay they would take 4 s
[ "$took" -lt 3900 ] || fail "what could not be released is still slow: 20 reads took $took ms"
[ "$(md5sum </tmp/mnt/file)" = "$sum" ] || fail "the file reads differently"
umount /tmp/mnt
expect 0 undo
[ "$(ls /dev/mapper)" = control ] || fail "the device is still there: $(ls /dev/mapper)"
mount -t ext4 "$loop" /tmp/mnt
[ "$(md5sum </tmp/mnt/file)" = "$sum" ] || fail "the file on the device below is damaged"
umount /tmp/mnt
rmdir /tmp/mnt

# writes that wait when it ends are not lost: four of 4 KiB, each for ten seconds, and the release comes at once
dd if=/dev/urandom of=/tmp/new bs=4k count=4 2>/dev/null
expect 0 disk delay "$loop" --write 10s
slow=$(mapped)
writers=
for at in 0 1 2 3; do
    dd if=/tmp/new of="$slow" bs=4k skip=$at seek=$((4000 + at)) count=1 oflag=direct 2>/dev/null &
    writers="$writers $!"
done
all_wait() { # each writer has opened the device, and sleeps uninterruptibly: in its write
    for writer in $writers; do
        [ "/proc/$writer/fd/1" -ef "$slow" ] && read -r _ _ state _ <"/proc/$writer/stat" && [ "$state" = D ] || return 1
    done
}
until_true all_wait || fail "no write waits"
part() { dd if="$loop" bs=4k skip=4000 count=4 iflag=direct 2>/dev/null | md5sum; }
[ "$(part)" = "$(md5sum </tmp/new)" ] && fail "the writes did not wait"
expect 0 disk release "$loop"
wait
[ "$(part)" = "$(md5sum </tmp/new)" ] || fail "writes that were on their way are lost"
rm /tmp/new
remove_loop "$loop"
