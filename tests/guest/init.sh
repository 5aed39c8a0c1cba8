#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# The guest's first process: mounts, loads modules, runs every case of /cases.list, and ends the machine.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs -o size=64m tmp /tmp
mkdir -p /dev/shm && mount -t tmpfs shm /dev/shm
ln -sf /proc/self/fd /dev/fd
ip link set lo up
for module in /modules/*; do insmod "$module" || echo "GUEST cannot load $module"; done
# the first loop device is made now, and stays: it belongs to the machine, not to a case
losetup -f >/dev/null
[ -b /dev/vda ] && mount -t ext4 /dev/vda /data
[ -b /dev/vdc ] && mount -t ext4 -o ro /dev/vdc /servers
echo "GUEST is up: Linux $(uname -r) after $(cut -d' ' -f1 /proc/uptime) s"
for name in $(cat /cases.list); do
    /bin/sh /lib.sh frame "$name"
done
sync
echo "GUEST ends"
poweroff -f
