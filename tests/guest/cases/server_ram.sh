# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# One server's memory on cgroup v2: the page cache is charged and stays within the limit; two limits one after the other.
exec 7</dev/vdb
squeeze-test-server-ram "dd if=/dev/vdb of=/dev/null bs=1M count=300" 64M 128M >/tmp/out 2>&1 || fail "it failed: $(cat /tmp/out)"
cat /tmp/out
[ "$(grep -c '"server.ram.limit".*"within_tolerance":true' /tmp/out)" = 2 ] || fail "the limits are not as asked"
[ "$(grep -c '"server.ram.peak".*"within_tolerance":true' /tmp/out)" = 2 ] || fail "more was charged than the limit"
peaks=$(grep server.ram.peak /tmp/out | sed -n 's/.*"got":{[^}]*"value":\([0-9]*\).*/\1/p')
[ -n "$peaks" ] || fail "no measurement"
# shellcheck disable=SC2086
set -- $peaks
expect_near "peak under 64 MiB" "$1" $((60 << 20)) $((5 << 20))
echo 1 >/proc/sys/vm/drop_caches
exec 7<&-
