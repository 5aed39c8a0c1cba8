# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# Whoever of Wringer's is killed, at whatever point, the device goes away by the watchdog or by `wringer undo`, and what was written stays.
loop=$(make_loop 8)
numbers=$(cat "/sys/block/${loop#/dev/}/dev")
gone() {
    [ "$(ls /dev/mapper)" = control ]
}
log=$WRINGER_HOME/journal/supervisor.log
# The supervisor dies at its crash points (every fifth one, or all of them), those of its release included; the watchdog lives, or is killed with
# it. Writes are not probed: that makes it quick.
points() { # points STEP
    point=1 between=0
    while [ $point -lt 100 ]; do
        rm -f "$log"
        WRINGER_CRASH_SUPERVISOR=$point wringer disk delay "$loop" --write 20ms >/tmp/out 2>&1 || true
        expect 0 undo
        gone || fail "point $point: there is still $(ls /dev/mapper)"
        grep -q "crash point" "$log" || break
        grep -q "between" "$log" && between=$((between + 1))
        point=$((point + $1))
    done
    expect 0 undo
    says "nothing to undo"
    echo "$point crash points"
    [ $point -gt 10 ] || fail "only $point crash points: are they compiled in?"
    [ "$1" -gt 1 ] || [ "$between" -gt 0 ] || fail "only $between crash points between device-mapper's load and resume"
}
step=5
[ "${points:-}" = all ] && step=1
points $step
export WRINGER_CRASH_WATCHDOG=1
points $((step + 4))
unset WRINGER_CRASH_WATCHDOG

# SIGKILL below a mounted file system: it stays, fast, until it is unmounted
mke2fs "$loop" >/dev/null
mkdir /tmp/mnt
for victims in supervise "supervise watchdog"; do
    expect 0 disk delay "$loop" --read 200ms --write 20ms
    mount -t ext4 "$(mapped)" /tmp/mnt
    echo "$victims" >/tmp/mnt/line
    pids=
    for victim in $victims; do pids="$pids $(role "$victim")"; done
    echo "SIGKILL to $victims:$pids"
    # shellcheck disable=SC2086
    kill_together $pids
    expect 5 undo
    says "mounted at /tmp/mnt"
    took=$(milliseconds "$(mapped)")
    [ "$took" -lt 3900 ] || fail "after SIGKILL to $victims it is still slow: 20 reads took $took ms"
    # a watchdog that lives tries again and again, and would undo what comes now before it is looked at
    keeper=$(role watchdog) && kill -9 "$keeper"
    # a table that was loaded and not put in force does not wait there for somebody's resume
    name=$(basename "$(mapped)")
    squeeze-test-dmsetup load "$name" 16384 delay "$numbers 0 500"
    squeeze-test-dmsetup info "$name" | grep -q "loaded 1" || fail "no table was loaded"
    expect 5 undo
    squeeze-test-dmsetup info "$name" | grep -q "loaded 0" || fail "the loaded table is still there"
    squeeze-test-dmsetup info "$name" | grep -q "table delay $numbers 0 0 $numbers 0 0 $numbers 0 0" || fail "another table is in force"
    umount /tmp/mnt
    expect 0 undo
    gone || fail "after SIGKILL to $victims there is still $(ls /dev/mapper)"
    mount -t ext4 "$loop" /tmp/mnt
    [ "$(cat /tmp/mnt/line)" = "$victims" ] || fail "after SIGKILL to $victims a file is lost"
    umount /tmp/mnt
done
rmdir /tmp/mnt

# with an undo that forgets the device this case would fail; doctor names what is left then
expect 0 disk delay "$loop" --write 20ms
kill_together "$(role supervise)" "$(role watchdog)"
WRINGER_FORGET=mapping wringer undo >/tmp/out 2>&1 || true
gone && fail "nobody would notice an undo that forgets the device"
name=$(basename "$(mapped)")
expect 0 doctor
says "$name is a slow device of no run in this home"
squeeze-test-dmsetup remove "$name"
rm -f "/dev/mapper/$name"
remove_loop "$loop"
