# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# An ordinary user whose cgroup is delegated to him needs no root for RAM, swap, CPU time and CPUs; who has none, or stands in its way
# himself, is told how to come to one. And cgroups that are mounted read-only are told from those that belong to somebody else.
all=/sys/fs/cgroup
mine=$all/mine
echo "+memory +cpu +cpuset" >$all/cgroup.subtree_control
mkdir $mine $mine/own
for place in $mine $mine/own; do
    chown nobody $place $place/cgroup.procs $place/cgroup.subtree_control
done
mkdir /tmp/nobody
chown nobody /tmp/nobody

as_nobody() { # as_nobody CODE CGROUP ARGUMENTS...: an ordinary user in this cgroup runs wringer
    expected=$1 cgroup=$2
    shift 2
    code=0
    # shellcheck disable=SC2016
    sh -c 'echo $$ >"$0/cgroup.procs"; exec su -s /bin/sh nobody -c "cd /tmp/nobody; HOME=/tmp/nobody WRINGER_HOME=/tmp/nobody/home exec wringer $*"' \
        "$cgroup" "$@" >/tmp/out 2>/tmp/err || code=$?
    echo "+ wringer $* by nobody in $cgroup   ($code)"
    [ "$code" -eq "$expected" ] && return 0
    cat /tmp/out /tmp/err
    fail "wringer $* ended with $code, not $expected"
}

as_nobody 3 $all squeeze --ram 64M true
says "$all is not writable for this user" "systemd-run --user --scope -p Delegate=yes"
as_nobody 3 $mine squeeze --cpus 0.5 true
says "has processes of its own" "mkdir \$d/own"

as_nobody 0 $mine/own doctor
grep -q "ok *memory-cgroup *v2 at $mine" /tmp/out || fail "doctor does not find it: $(cat /tmp/out)"
as_nobody 137 $mine/own squeeze --ram 64M --swap off --cpus 0.5 --cpuset 1 -- dd if=/dev/zero of=/dev/null bs=200M count=1
says "asked 64 MiB, got 64 MiB (memory cgroup v2)" "the kernel killed 1 process of it" "swap    asked off, got off" \
    "asked 0.5, got 0.5 (cpu cgroup v2)" "(cpuset cgroup v2)"
dmesg | grep " Out of memory: Killed" && fail "the host was short of memory"
[ "$(ls -d $mine/*/)" = "$mine/own/" ] || fail "a cgroup is left: $(ls -d $mine/*/)"
[ -z "$(cat $mine/cgroup.subtree_control)" ] || fail "a controller is still handed down"

mount -o remount,ro $all
expect 3 squeeze --ram 64M true
says "$all is mounted read-only" "remount,rw"
expect 3 squeeze --cpus 0.5 true
says "$all is mounted read-only"
expect 0 squeeze --cpuset 0 true
says "(CPU affinity)"
mount -o remount,rw $all

rmdir $mine/own $mine
echo "-memory -cpu -cpuset" >$all/cgroup.subtree_control
nothing_is_handed_down "in the end"
rm -r /tmp/nobody
