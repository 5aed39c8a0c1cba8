# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# The controller of a squeezed command dies at its crash points; the watchdog or `wringer undo` gives everything back, the
# controllers handed down too. Then watchdog and controller die together, at a few points.
dies_at_every_point 25 wringer squeeze --ram 64M --swap off --cpus 0.5 --cpuset 0 -- true
some="8 16 24"
[ "${points:-}" = all ] && some="8 12 16 20 24"
dies_with_its_watchdog "$some" wringer squeeze --ram 64M --cpus 0.5 --cpuset 0 -- true

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
