# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# What would hurt is refused, and nothing was changed then.
expect 3 ram leave 512M
says "floor"
expect 3 ram hide 1500M
says "RAM cannot be hidden"
nothing_changed
# huge pages of somebody else's pool
echo 8 >/proc/sys/vm/nr_hugepages
expect 3 ram hide 64M
says "pool"
[ "$(meminfo HugePages_Free)" = 8 ] || fail "the pool was touched"
echo 0 >/proc/sys/vm/nr_hugepages
