# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# One command on cgroup v2: its RAM, its swap, its share of a CPU, its CPU. What was asked is what is got, and what the kernel counts is told.
expect 0 doctor
says "cpu-cgroup" "cpuset-cgroup"
grep -q "ok *cpu-cgroup *v2" /tmp/out || fail "no cpu controller of v2"

expect 137 squeeze --ram 64M --swap off --summary /tmp/summary -- dd if=/dev/zero of=/dev/null bs=200M count=1
says "asked 64 MiB, got 64 MiB (memory cgroup v2)" "the kernel killed 1 process of it"
cp /tmp/summary /tmp/out
[ "$(value oom_kills)" = 1 ] || fail "no OOM kill: $(cat /tmp/summary)"
expect_near "peak under 64 MiB" "$(value peak_bytes)" $((62 << 20)) $((4 << 20))
dmesg | grep " Out of memory: Killed" && fail "the host was short of memory"

# the page cache of what it reads counts, and is reclaimed, not killed for
exec 7</dev/vdb
expect 0 squeeze --ram 64M -- dd if=/dev/vdb of=/dev/null bs=1M count=200
says "asked 64 MiB, got 64 MiB"
exec 7<&-
echo 1 >/proc/sys/vm/drop_caches

# the same command without a share runs just before: a machine below that is busy stops this one in the middle of what it counts. Not
# beside: the kernel patches its scheduler for a share, and the emulator does not survive that while both processors are at work
burns='while :; do :; done'
(time timeout 5 sh -c "$burns" || true) 2>/tmp/free
expect 143 squeeze --cpus 0.2 --cpuset 1 --summary /tmp/summary -- timeout 5 sh -c "$burns"
says "asked 0.2, got 0.2 (cpu cgroup v2)" "asked 1, got 1 (cpuset cgroup v2)" "throttled in"
cp /tmp/summary /tmp/out
[ "$(value throttled_periods)" -gt 5 ] || fail "it was not throttled: $(cat /tmp/summary)"
per_cent=$(($(value cpu_us) * 100 / $(value elapsed_us)))
free_per_cent=$(awk '{ seconds[$1] = $2 * 60 + $3 } END { print int((seconds["user"] + seconds["sys"]) * 100 / seconds["real"]) }' /tmp/free)
echo "used $per_cent % of a CPU, without a share $free_per_cent %"
# what the command's own end takes is charged to it, in a machine that is emulated
[ $per_cent -lt $((free_per_cent * 3 / 4)) ] || fail "it used more than its share"

# a file is read through the slow layer by this command alone
mkdir /data/slow
echo content >/data/slow/file
expect 0 squeeze --disk /data/slow=read=1s --cpus 1 --summary /tmp/summary -- cat /data/slow/file
says "content" "read 1 s"
cp /tmp/summary /tmp/out
[ "$(value elapsed_us)" -ge 1000000 ] || fail "it was not slow"
rm -r /data/slow

# what somebody else has read of its files is free of the limit, and told; what it has read itself is not
dd if=/dev/urandom of=/data/file bs=1M count=24 2>/dev/null
sync
for reader in cat true; do
    echo 1 >/proc/sys/vm/drop_caches
    $reader /data/file >/dev/null
    # open from the command's first moment on: the first look at its open files comes at once, the others are seldom
    exec 3</data/file
    expect 0 squeeze --ram 64M --summary /tmp/summary -- sh -c 'cat /data/file >/dev/null; sleep 2'
    exec 3<&-
    [ $reader = true ] || says "of its files are in the page cache of others; reads of them are free of the limit"
    [ $reader = cat ] || { grep -q "page cache of others" /tmp/err && fail "it has read its file itself"; } || true
    cp /tmp/summary /tmp/out
    echo "after $reader: $(value cached_by_others_bytes) bytes are others'"
    [ $reader = true ] || [ "$(value cached_by_others_bytes)" -gt $((20 << 20)) ] || fail "only so much was seen"
done
rm /data/file

# a daemon that has left its session, its environment and every descriptor is still in the cgroup, and ends with the command; with --leave it stays,
# in the caller's own cgroup
daemons() {
    for process in /proc/[0-9]*; do
        [ "$(tr '\0' ' ' 2>/dev/null <"$process/cmdline")" != "sleep 4711 " ] || echo "${process#/proc/}"
    done
}
stays() {
    left=$(daemons)
    [ -n "$left" ]
}
ended() { [ ! -e "/proc/$left" ]; }
daemon='for fd in $(ls /proc/self/fd); do eval "exec $fd>&-"; done; exec setsid env -i sleep 4711'
# the command ends when there is a `sleep`, the only one on this machine
until_there='for _ in $(seq 600); do pidof sleep >/dev/null && break; usleep 100000; done'
expect 0 squeeze --ram 64M --leave -- sh -c "(sh -c '$daemon' &); $until_there"
until_true stays || fail "the daemon was to stay"
[ -z "$(ls "/proc/$left/fd")" ] || fail "it has descriptors: $(ls -l "/proc/$left/fd")"
cmp /proc/self/cgroup "/proc/$left/cgroup" || fail "it stays in $(cat "/proc/$left/cgroup")"
kill "$left"
until_true ended || fail "the daemon does not end"
expect 0 squeeze --ram 64M -- sh -c "(sh -c '$daemon' &); $until_there"
[ -z "$(daemons)" ] || fail "the daemon has left"

# two at a time: the first that ends leaves the controller to the other, whose limit stays; the last one takes it away
waits='touch /tmp/first; while [ ! -e /tmp/second ]; do usleep 50000; done'
wringer squeeze --ram 64M -- sh -c "$waits" >/tmp/first.out 2>&1 &
first=$!
until_true [ -e /tmp/first ]
reads="touch /tmp/second; while [ -e /proc/$first/exe ]; do usleep 50000; done; cat /sys/fs/cgroup/wringer-*/memory.max"
expect 0 squeeze --ram 48M -- sh -c "$reads"
says "asked 48 MiB, got 48 MiB" "$((48 << 20))"
wait $first || fail "the first one ended with $?: $(cat /tmp/first.out)"
nothing_is_handed_down "after both"
rm /tmp/first /tmp/second

# beside a run with another controller: each takes its own away
wringer squeeze --ram 64M -- sh -c "$waits" >/tmp/first.out 2>&1 &
first=$!
until_true [ -e /tmp/first ]
expect 0 squeeze --cpuset 0 -- sh -c "touch /tmp/second; while [ -e /proc/$first/exe ]; do usleep 50000; done; cat /sys/fs/cgroup/cgroup.subtree_control"
wait $first || fail "the first one ended with $?: $(cat /tmp/first.out)"
grep -q memory /tmp/out && fail "memory is still handed down: $(cat /tmp/out)"
rm /tmp/first /tmp/second /tmp/first.out

# the lines before and after: nothing is handed down any more
nothing_is_handed_down "in the end"
