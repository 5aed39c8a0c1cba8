# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# A server that needs more anonymous memory than its limit: the kernel ends it, and nobody else; the result says that it was killed.
# The limit is set on the new, empty cgroup before the server is started in it, so that it can never fall below what a server has.
mkfifo /tmp/pipe
dd if=/dev/zero of=/tmp/pipe bs=200M 2>/dev/null &
neighbour=$!
exec 8<>/tmp/pipe
squeeze-test-server-ram "exec dd if=/dev/zero of=/dev/null bs=100M count=1" 64M 256M >/tmp/out 2>&1 || fail "it failed: $(cat /tmp/out)"
cat /tmp/out
[ "$(sed -n 's/^status //p' /tmp/out | tr '\n' ' ')" = "Some(137) Some(0) " ] || fail "the first was to be killed, the second was to end well"
dmesg | grep -q "Memory cgroup out of memory: Killed process [0-9]* (dd)" || fail "it was not the cgroup's limit"
dmesg | grep " Out of memory: Killed" && fail "the host was short of memory"
kill -0 $neighbour || fail "a neighbour outside was killed"
kill -9 $neighbour
exec 8>&-
rm /tmp/pipe
