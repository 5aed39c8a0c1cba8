# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# More is asked of the machine than is left: the kernel ends the holder first, and the server lives. The squeeze ends with it.
mkfifo /tmp/never
dd if=/dev/zero of=/tmp/never bs=150M 2>/dev/null &
server=$!
exec 8<>/tmp/never
expect 0 ram leave 1G
holder=$(role holder)
# somebody new takes more than what is left
dd if=/dev/zero of=/dev/null bs=1300M count=1 2>/dev/null && newcomer="lived" || newcomer="was killed, too"
dmesg | sed -n 's/.*Out of memory: //p'
echo "the newcomer $newcomer"
kill -0 $server || fail "the server was killed"
holder_is_dead() { [ ! -e "/proc/$holder/exe" ]; }
until_true holder_is_dead || fail "the holder lives: there was no shortage"
# The kernel may take the newcomer as well: it no longer waits for a victim whose huge pages are still on their way back.
first=$(dmesg | sed -n 's/.*Killed process \([0-9]*\) .*/\1/p' | head -1)
# Before a kill, the kernel lists whom it could choose from. The holder is not among them where the watchdog was quicker.
choice() { dmesg | sed -n '/Tasks state/,/Killed process/p' | sed '/Killed process/q'; }
choice
if [ -n "$first" ] && [ "$first" != "$holder" ]; then
    choice | grep -q "Tasks state" || fail "the kernel did not list whom it could kill"
    ! choice | grep -q "\[ *$holder\]" || fail "the first to be killed was $first, not the holder ($holder), which was there"
fi
gone() { ! role supervise; }
until_true gone || fail "the squeeze did not end with its holder"
kill -9 $server
exec 8>&-
rm /tmp/never
