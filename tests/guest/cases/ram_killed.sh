# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# Whoever of Wringer's is killed, the RAM comes back, and `wringer undo` puts the rest back; twice is as good as once.
# two sets that the host's own tests have not; with the word points=all on the kernel's command line each of them
set -- supervise "watchdog supervise holder"
[ "${points:-}" = all ] && set -- holder supervise watchdog "supervise watchdog" "watchdog supervise holder"
for victims in "$@"; do
    expect 0 ram hide 256M
    pids=
    for victim in $victims; do pids="$pids $(role "$victim")"; done
    echo "SIGKILL to $victims:$pids"
    # shellcheck disable=SC2086
    kill_together $pids
    # without its watchdog alone a squeeze goes on
    [ "$victims" = watchdog ] || until_true ram_is_back || fail "after SIGKILL to $victims the RAM does not come back by itself"
    expect 0 undo
    ram_is_back || fail "after SIGKILL to $victims the RAM is not back"
    expect 0 undo
    says "nothing to undo"
    nothing_changed
done
