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

expect 143 squeeze --cpus 0.2 --cpuset 1 --summary /tmp/summary -- timeout 5 sh -c 'while :; do :; done'
says "asked 0.2, got 0.2 (cpu cgroup v2)" "asked 1, got 1 (cpuset cgroup v2)" "throttled in"
cp /tmp/summary /tmp/out
[ "$(value throttled_periods)" -gt 5 ] || fail "it was not throttled: $(cat /tmp/summary)"
used_us=$(value cpu_us) elapsed_us=$(value elapsed_us)
echo "used $used_us us of CPU in $elapsed_us us"
# what the command's own end takes is charged to it, in a machine that is emulated
[ "$used_us" -lt $((elapsed_us * 35 / 100)) ] || fail "it used more than its share"

# a file is read through the slow layer by this command alone
mkdir /data/slow
echo content >/data/slow/file
expect 0 squeeze --disk /data/slow=read=1s --cpus 1 --summary /tmp/summary -- cat /data/slow/file
says "content" "read 1 s"
cp /tmp/summary /tmp/out
[ "$(value elapsed_us)" -ge 1000000 ] || fail "it was not slow"
rm -r /data/slow

# the lines before and after: nothing is handed down any more
nothing_is_handed_down "in the end"
