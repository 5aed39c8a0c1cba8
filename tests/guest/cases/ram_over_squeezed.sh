# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# More is asked of the machine than is left: the kernel ends the holder first, and no server. The squeeze ends with it.
mkfifo /tmp/never
dd if=/dev/zero of=/tmp/never bs=150M 2>/dev/null &
server=$!
exec 8<>/tmp/never
expect 0 ram leave 1G
holder=$(role holder)
# somebody new takes more than the gigabyte that is left
dd if=/dev/zero of=/dev/null bs=1300M count=1 2>/dev/null || fail "the newcomer was killed"
kill -0 $server || fail "the server was killed"
[ ! -e "/proc/$holder/exe" ] || fail "the holder lives: there was no shortage"
dmesg | grep "Killed process" | tail -3
dmesg | grep -q "Killed process $holder " || fail "the holder was not killed by the kernel"
[ "$(dmesg | grep -c "Killed process")" = 1 ] || fail "not only the holder was killed"
gone() { ! role supervise; }
until_true gone || fail "the squeeze did not end with its holder"
kill -9 $server
exec 8>&-
rm /tmp/never
