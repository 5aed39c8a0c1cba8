# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# With Yama's ptrace_scope at 1, the default of some distributions, not even the server's own user may read in which system calls its threads wait: that is told
# once, with what would help, and the watch goes on by the kernel functions in which they wait. With 0 nothing is missing.
scope=/proc/sys/kernel/yama/ptrace_scope
[ -e $scope ] || fail "this kernel has no Yama"
before=$(cat $scope)
mkdir /tmp/nobody
chown nobody /tmp/nobody
su -s /bin/sh nobody -c "exec sleep 600" &
watched=$!
named() { [ "$(cat /proc/$watched/comm)" = sleep ]; }
until_true named || fail "no process of nobody"

watches() { # watches: as the user of the process, which is no child of the watch
    code=0
    su -s /bin/sh nobody -c "cd /tmp/nobody; HOME=/tmp/nobody WRINGER_HOME=/tmp/nobody/home exec wringer stalls watch --pid $watched --for 2s" >/tmp/out 2>/tmp/err || code=$?
    cat /tmp/out /tmp/err
    [ "$code" = 0 ] || fail "the watch ended with $code"
}
echo 1 >$scope
watches
says "not read: the system calls in which the server's threads wait" "kernel.yama.ptrace_scope is 0"
[ "$(cat /tmp/out /tmp/err | grep -c "the system calls in which")" = 1 ] || fail "it is told more than once"
echo 0 >$scope
watches
! grep -q "the system calls in which" /tmp/out /tmp/err || fail "they are not read with $scope at 0 either"
echo "$before" >$scope
kill $watched
