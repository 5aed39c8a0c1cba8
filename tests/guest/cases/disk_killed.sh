# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# Whoever of Wringer's is killed, the directory is usable and fast after `wringer undo`, and its files are as they were. A supervisor or a watchdog that is
# killed alone dies on the machine below, too (the campaign of faults): here with the word points=all on the kernel's command line.
mkdir /data/slow
dd if=/dev/urandom of=/data/slow/file bs=64k count=1 2>/dev/null
sum=$(md5sum </data/slow/file)
set -- slowfs "supervise watchdog" "watchdog supervise slowfs"
[ "${points:-}" = all ] && set -- "$@" supervise watchdog
for victims in "$@"; do
    expect 0 disk delay /data/slow --read 2s --write 1s
    pids=
    for victim in $victims; do pids="$pids $(role "$victim")"; done
    echo "SIGKILL to $victims:$pids"
    # shellcheck disable=SC2086
    kill_together $pids
    expect 0 undo
    expect 0 undo
    says "nothing to undo"
    grep -q " /data/slow " /proc/mounts && fail "after SIGKILL to $victims the layer is still mounted"
    [ "$(md5sum </data/slow/file)" = "$sum" ] || fail "after SIGKILL to $victims the file is damaged"
    nothing_changed
done
rm -r /data/slow
