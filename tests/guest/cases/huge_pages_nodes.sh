# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# Two NUMA nodes with pools of different sizes: what `wringer hugepages` says of each node is what the kernel says, before and after the pool grows, and
# when a server uses it.
export WRINGER_HOME=/data/home WRINGER_CACHE=/servers
pools() { echo "$(pool_of 0 nr_hugepages) $(pool_of 1 nr_hugepages)"; }
[ -d /sys/devices/system/node/node1 ] || fail "one node only"
mkdir -p $WRINGER_HOME/sandboxes
mount -t ext4 /dev/vdb $WRINGER_HOME/sandboxes
set_pool 0 7
set_pool 1 2
# each command takes an emulated processor seconds
if [ "${points:-}" = all ]; then
    expect 0 hugepages advise --sandbox postgresql
    says "has 9, 9 of them unclaimed; node 0: 7, node 1: 2" "/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages"
fi
expect 0 hugepages advise --sandbox postgresql -o json
tells total "7 2"
tells free "7 2"
needed=$(value pages_needed)
[ "$needed" -gt 9 ] || fail "it needs $needed pages only"

# the pool grows by what is missing, and each node's share is told
expect 0 hugepages apply --sandbox postgresql -o json
now=$(pools)
tells pages "$((${now% *} - 7)) $((${now#* } - 2))"
[ $((${now% *} + ${now#* })) = "$needed" ] || fail "the nodes have $now, and $needed are needed"

# a server takes some of each node's
if [ "${points:-}" = all ]; then
    expect 0 sandbox start postgresql --huge-pages on --wait 2m
    used=$((needed - $(pool_of 0 free_hugepages) - $(pool_of 1 free_hugepages)))
    [ $used -gt 0 ] || fail "no page is in use"
    expect 0 hugepages check --sandbox postgresql -o json
    says '"huge_pages_in_use": true'
    [ "$(value mapped_bytes)" = $((needed << 21)) ] || fail "mapped $(value mapped_bytes), needed $needed pages"
    tells total "$now"
    tells free "$(pool_of 0 free_hugepages) $(pool_of 1 free_hugepages)"
    expect 0 sandbox stop postgresql
fi
expect 0 hugepages release
# left alone, the kernel would take them from the nodes in turn, whichever gave them
[ "$(pools)" = "7 2" ] || fail "the nodes had 7 and 2 pages, and have $(pools) after the release"
set_pool 0 0
set_pool 1 0
umount $WRINGER_HOME/sandboxes
