# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# The clock is set ten years ahead and back while RAM is hidden for some seconds: it does not end early, and it does not last longer.
uptime() { cut -d. -f1 /proc/uptime; }
offset=$(($(date +%s) - $(uptime)))
decade=$((10 * 365 * 86400))
set_clock() { date -s "@$((offset + $(uptime) + $1))" >/dev/null; }
# busybox's `until_true` goes by the clock, which is what jumps here
is_sane() { # is_sane WHEN: it is held while its time is not over, and nobody takes it for older than it is
    expect 0 status -o json
    age=$(value age_s)
    passed=$(($(uptime) - begun))
    echo "$1: $(date), ${age:-no} s old after $passed s"
    if [ -z "$age" ]; then
        [ $passed -ge $LASTS ] || { set_clock 0; fail "$1: the squeeze has ended after $passed s"; }
    else
        [ "$age" -le $((passed + 1)) ] || { set_clock 0; fail "$1: it is said to be $age s old after $passed s"; }
    fi
}

# the controller's lease, which is a minute otherwise
export WRINGER_WATCHDOG='{"lease_ms":6000}'
# longer than a busy emulator takes for all that is asked meanwhile
LASTS=40
begun=$(uptime)
expect 0 ram hide 64M --for ${LASTS}s
set_clock $decade
sleep 3
is_sane "ten years ahead"
set_clock -$decade
sleep 3
is_sane "ten years back"
while role supervise >/dev/null && [ $(($(uptime) - begun)) -lt $((4 * LASTS)) ]; do usleep 200000; done
lasted=$(($(uptime) - begun))
set_clock 0
[ $lasted -ge $LASTS ] && [ $lasted -lt $((4 * LASTS)) ] || fail "$LASTS s lasted $lasted s"
until_true ram_is_back || fail "the RAM is not back"
nothing_changed

# a controller that gives no sign of life loses its lease on a clock that was set back, too
expect 0 ram hide 64M
kill -STOP "$(role supervise)"
set_clock -$decade
begun=$(uptime)
until ram_is_back || [ $(($(uptime) - begun)) -ge 120 ]; do usleep 200000; done
lasted=$(($(uptime) - begun))
set_clock 0
echo "a stopped controller's lease lasted $lasted s"
[ $lasted -lt 120 ] || fail "the lease is endless"
expect 0 undo
nothing_changed
unset WRINGER_WATCHDOG

# the age of a run that is older than its clock
expect 0 ram hide 64M
set_clock -$decade
kill_together "$(role supervise)" "$(role watchdog)"
expect 0 status
grep -q " ago" /tmp/out && grep -Eq "started [0-9]+(\.[0-9]+)? (s|min) ago" /tmp/out || grep -q "just started" /tmp/out || { set_clock 0; fail "an age that cannot be: $(cat /tmp/out)"; }
expect 0 undo
set_clock 0
nothing_changed
