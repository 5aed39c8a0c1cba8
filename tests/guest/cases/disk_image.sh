# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# A slow disk over an image on this kernel: its workers are killed while a file system on it is written and synced, then its keeper, then
# supervisor and watchdog. No write fails, no line is lost, and nothing stays behind.
dd if=/dev/zero of=/data/image bs=1M count=16 2>/dev/null
mke2fs -F /data/image >/dev/null 2>&1
mkdir /tmp/mnt
slow_device() { # of what the last `expect` printed as JSON
    sed -n 's/^ *"device": *"\([^"]*\)".*/\1/p' /tmp/out | head -1
}
write_lines() { # write_lines COUNT
    number=0
    while [ $number -lt "$1" ]; do
        number=$((number + 1))
        printf 'line %d ends\n' $number | dd of=/tmp/mnt/log bs=64 oflag=append conv=notrunc,fsync 2>/dev/null || echo "line $number" >>/tmp/failed
    done
}
expect_lines() { # expect_lines COUNT: whole ones, in the image alone
    [ ! -e /tmp/failed ] || fail "writes failed: $(cat /tmp/failed)"
    loop=$(losetup -f)
    losetup "$loop" /data/image
    mount -t ext4 "$loop" /tmp/mnt
    lines=$(grep -c '^line [0-9]* ends$' /tmp/mnt/log)
    umount /tmp/mnt
    losetup -d "$loop"
    [ "$lines" -eq "$1" ] || fail "$1 lines were synced, $lines are there"
}
another_worker() { # than $worker
    expect 0 disk status -o json
    [ -n "$(value worker)" ] && [ "$(value worker)" != "$worker" ]
}
all_replaced() {
    expect 0 disk status -o json
    [ "$(value restarts)" = "$killed" ]
}
detached() {
    ! grep -q wringer- /sys/block/loop*/loop/backing_file 2>/dev/null
}

expect 0 disk delay /data/image --write 5ms --sync 5ms -o json
grep -q '"survives_its_process": true' /tmp/out || fail "this kernel cannot send requests again: $(cat /tmp/out)"
mount -t ext4 "$(slow_device)" /tmp/mnt
: >/tmp/mnt/log
# once, or three times with the word points=all on the kernel's command line
deaths="1" first=16
[ "${points:-}" = all ] && deaths="1 2 3" first=40
write_lines $first &
worker=
for killed in $deaths; do
    usleep 500000
    until_true another_worker || fail "worker $worker was not replaced"
    worker=$(value worker)
    echo "SIGKILL to worker $worker, the ${killed}th"
    kill -9 "$worker"
done
wait
until_true all_replaced || fail "$(value restarts) workers were replaced"
expect 5 disk release
says "mounted at /tmp/mnt" "umount"
umount /tmp/mnt
expect 0 undo
expect_lines $first
nothing_changed

expect 0 disk delay /data/image --write 5ms --sync 5ms -o json
mount -t ext4 "$(slow_device)" /tmp/mnt
write_lines 8 &
usleep 300000
worker=
until_true another_worker || fail "there is no worker"
keeper=$(awk '{ print $4 }' "/proc/$(value worker)/stat")
echo "SIGKILL to keeper $keeper"
kill -9 "$keeper"
wait
umount /tmp/mnt
expect 0 undo
expect_lines $((first + 8))
nothing_changed

expect 0 disk delay /data/image --write 5ms --sync 5ms -o json
mount -t ext4 "$(slow_device)" /tmp/mnt
kill_together "$(role supervise)" "$(role watchdog)"
write_lines 4
umount /tmp/mnt
until_true detached || fail "the loop device does not go by itself"
expect 0 undo
expect_lines $((first + 12))
rm /data/image
rmdir /tmp/mnt
