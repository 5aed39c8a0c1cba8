# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# The program runs on this kernel at all, finds cgroup v2, and nothing is changed.
expect 0 doctor
cat /tmp/out
grep -q "ok *memory-cgroup *v2" /tmp/out || fail "no cgroup v2"
expect 0 status
says "nothing is changed"
expect 0 undo
says "nothing to undo"
