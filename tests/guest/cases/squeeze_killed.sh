# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# The controller of a squeezed command dies at each of its crash points; the watchdog or `wringer undo` gives everything back, the
# controllers handed down too. Then watchdog and controller die together, at a few points.
point=1
while [ $point -lt 200 ]; do
    code=0
    WRINGER_CRASH=$point wringer squeeze --ram 64M --swap off --cpus 0.5 --cpuset 0 -- true >/tmp/out 2>&1 || code=$?
    [ $code -eq 0 ] && break
    [ $code -eq 137 ] || fail "point $point: $(cat /tmp/out)"
    expect 0 undo
    [ -z "$(cat /sys/fs/cgroup/cgroup.subtree_control)" ] || fail "point $point: a controller is still handed down"
    point=$((point + 1))
done
echo "$point crash points"
[ $point -gt 25 ] || fail "only $point crash points: are they compiled in?"
nothing_changed
for point in 8 12 16 20 24; do
    WRINGER_CRASH_WATCHDOG=1 WRINGER_CRASH=$point wringer squeeze --ram 64M --cpus 0.5 --cpuset 0 -- true >/tmp/out 2>&1 && fail "point $point: it was not killed"
    expect 0 undo
    [ -z "$(cat /sys/fs/cgroup/cgroup.subtree_control)" ] || fail "point $point: a controller is still handed down"
done

# Somebody else limits a CPU share meanwhile: the controller stays handed down for as long.
WRINGER_CRASH_WATCHDOG=1 WRINGER_CRASH=12 wringer squeeze --cpus 0.5 -- sleep 100 >/tmp/out 2>&1 && fail "it was not killed"
grep -q cpu /sys/fs/cgroup/cgroup.subtree_control || fail "the controller is not handed down at this point"
mkdir /sys/fs/cgroup/somebody
echo "30000 100000" >/sys/fs/cgroup/somebody/cpu.max
expect 5 undo
says "somebody uses it"
[ "$(cat /sys/fs/cgroup/somebody/cpu.max)" = "30000 100000" ] || fail "somebody's limit is gone"
rmdir /sys/fs/cgroup/somebody
expect 0 undo
echo -cpu >/sys/fs/cgroup/cgroup.subtree_control
