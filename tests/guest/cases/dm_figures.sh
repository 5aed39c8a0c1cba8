# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# Not a test: device-mapper's delay and the FUSE layer side by side, on the same file of the same device. benches/squeeze/devices.sh
# prints what stands behind FIGURE. The file is smaller than what `disk delay` probes, so that the witness is the same for both.
READS=60
figure() { # figure MECHANISM ASKED PREDICTED: reads the file one block after the other
    busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }
    before=$(busy)
    started=$(tr -d . </proc/uptime | cut -d' ' -f1)
    expect 0 probe read /tmp/mnt/data/file --count $READS -o json
    took=$(($(tr -d . </proc/uptime | cut -d' ' -f1) - started))
    cpu=$((($(busy) - before) * 100 / (took > 0 ? took : 1)))
    echo "FIGURE $1 $2 $3 $(value p50_us) $(value p99_us) $cpu" >/dev/console
}
predicted() { # of the first thing measured, in microseconds
    sed -n '/"predicted": {/,/}/s/^ *"value": *\([0-9]*\).*/\1/p' /tmp/out | head -1
}

loop=$(make_loop 16)
mke2fs "$loop" >/dev/null
mkdir /tmp/mnt
mount -t ext4 "$loop" /tmp/mnt
mkdir /tmp/mnt/data
dd if=/dev/urandom of=/tmp/mnt/data/file bs=1k count=960 2>/dev/null
figure bare 0 0
bare=$(value p50_us)
expect 0 disk delay /tmp/mnt/data --write 1ms
for ms in 0 1 5 10 20 60; do
    expect 0 disk delay /tmp/mnt/data --read ${ms}ms
    figure fuse $ms $((ms * 1000 + bare))
done
expect 0 disk release
umount /tmp/mnt
expect 0 disk delay "$loop" --write 1ms
mount -t ext4 "$(mapped)" /tmp/mnt
for ms in 0 1 5 10 20 60; do
    expect 0 disk delay "$loop" --read ${ms}ms -o json
    [ $ms = 0 ] && figure dm-delay 0 "$bare" || figure dm-delay $ms "$(predicted)"
done
umount /tmp/mnt
expect 0 disk release
rmdir /tmp/mnt
remove_loop "$loop"
