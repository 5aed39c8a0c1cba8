# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# The controller of a limited server dies at each of its crash points; the watchdog or `wringer undo` gives everything back, the
# controller handed down to the new cgroup too. Then watchdog and controller die together, at a few points.
point=1
while [ $point -lt 200 ]; do
    code=0
    WRINGER_CRASH=$point squeeze-test-server-ram true 64M >/tmp/out 2>&1 || code=$?
    [ $code -eq 0 ] && break
    [ $code -eq 137 ] || fail "point $point: $(cat /tmp/out)"
    expect 0 undo
    [ -z "$(cat /sys/fs/cgroup/cgroup.subtree_control)" ] || fail "point $point: the controller is still handed down"
    point=$((point + 1))
done
echo "$point crash points"
[ $point -gt 20 ] || fail "only $point crash points: are they compiled in?"
nothing_changed
for point in 8 12 16 20; do
    WRINGER_CRASH_WATCHDOG=1 WRINGER_CRASH=$point squeeze-test-server-ram true 64M >/tmp/out 2>&1 && fail "point $point: it was not killed"
    expect 0 undo
    [ -z "$(cat /sys/fs/cgroup/cgroup.subtree_control)" ] || fail "point $point: the controller is still handed down"
done
