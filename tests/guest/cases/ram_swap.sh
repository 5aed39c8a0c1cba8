# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# Swap while RAM is hidden: refused, or, with --with-swap, warned of. What somebody has in swap stays, and is read back unharmed.
mkswap /dev/vdb >/dev/null
swapon /dev/vdb
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
group=/sys/fs/cgroup/somebody
mkdir $group
sh -c "echo \$\$ >$group/cgroup.procs; exec dd if=/dev/urandom of=/tmp/swapped bs=1M count=24 2>/dev/null"
sum=$(md5sum </tmp/swapped)
echo 23M >$group/memory.reclaim 2>/dev/null || true
in_swap() { echo $(($(meminfo SwapTotal) - $(meminfo SwapFree))); }
swapped=$(in_swap)
echo "$swapped kB in swap"
[ "$swapped" -gt 8192 ] || fail "only $swapped kB went into swap"
host-snapshot >/tmp/with_swap
grep -q "swap /dev/vdb" /tmp/with_swap || fail "the snapshot does not see the swap"

for mechanism in holder pool balloon; do
    expect 3 ram hide 256M --mechanism $mechanism
    says "swap is on" "--with-swap"
    expect 0 ram hide 256M --mechanism $mechanism --with-swap
    says "swap is on: memory that is short may be paged out instead of missed"
    [ "$(in_swap)" -ge 8192 ] || fail "$mechanism: the swap was emptied"
    expect 0 ram release
    host-snapshot >/tmp/after
    cmp -s /tmp/with_swap /tmp/after || fail "$mechanism: $(diff /tmp/with_swap /tmp/after)"
done
[ "$(md5sum </tmp/swapped)" = "$sum" ] || fail "what was in swap is damaged"
rm /tmp/swapped
rmdir $group
echo -memory >/sys/fs/cgroup/cgroup.subtree_control
swapoff /dev/vdb
dd if=/dev/zero of=/dev/vdb bs=1M count=1 2>/dev/null
