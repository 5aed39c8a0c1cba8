# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# Somebody else limits a cgroup while Wringer has the memory controller handed down: taking it away would lift their limit.
WRINGER_CRASH_WATCHDOG=1 WRINGER_CRASH=16 squeeze-test-server-ram true 64M >/tmp/out 2>&1 && fail "it was not killed"
grep -q memory /sys/fs/cgroup/cgroup.subtree_control || fail "the controller is not handed down at this point"
mkdir /sys/fs/cgroup/somebody
echo 32M >/sys/fs/cgroup/somebody/memory.max
expect 5 undo
says "somebody uses it"
[ "$(cat /sys/fs/cgroup/somebody/memory.max)" = $((32 << 20)) ] || fail "somebody's limit is gone"
rmdir /sys/fs/cgroup/somebody
expect 0 undo
echo -memory >/sys/fs/cgroup/cgroup.subtree_control
