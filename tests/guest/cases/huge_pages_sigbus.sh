# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# A limit of huge pages in a cgroup of version 2: `wringer hugepages` names the one that ends in SIGBUS, before the start and before it happens; then a real
# server dies of it. The same statement is done when the limit is large enough, of which `check` says so, too.
export WRINGER_HOME=/data/home WRINGER_CACHE=/servers
PATIENCE=120
all=/sys/fs/cgroup
group=$all/db
config=$WRINGER_HOME/sandboxes/postgresql/server.cnf
log=$WRINGER_HOME/sandboxes/postgresql/log
start() { # start CODE ARGUMENTS...: in the cgroup
    wanted=$1
    shift
    (
        echo 0 >$group/cgroup.procs
        expect "$wanted" sandbox start postgresql --wait 2m "$@"
    )
}
# 48 MiB of pages, each touched in the server's shared memory; a table without WAL, which a crash empties
fill="CREATE UNLOGGED TABLE IF NOT EXISTS t (pad text); TRUNCATE t; ALTER TABLE t ALTER COLUMN pad SET STORAGE PLAIN; INSERT INTO t SELECT repeat('x', 8000) FROM \
    generate_series(1, 6000)"
died() { # died TIMES WORDS: so many processes so far
    times=$(cat $log/* | grep -c "terminated by signal 7") || true
    [ "$times" = "$1" ] || fail "$times processes died by SIGBUS, not $1: $2: $(tail -n 20 $log/*)"
}

mkdir -p $WRINGER_HOME/sandboxes
mount -t ext4 /dev/vdb $WRINGER_HOME/sandboxes
echo "+hugetlb" >$all/cgroup.subtree_control
mkdir $group
echo "shared_buffers = '64MB'" >>$config
set_pool 0 40
set_pool 1 20

# before: the server runs without huge pages in that cgroup
echo 32M >$group/hugetlb.2MB.max
if [ "${points:-}" = all ]; then
    start 0
    expect 0 hugepages advise --sandbox postgresql
    says "limit of cgroup /db: 32 MiB ($group/hugetlb.2MB.max), too small: the server would start, and die by SIGBUS when it touches more"
    echo 100M >$group/hugetlb.2MB.max
    echo 32M >$group/hugetlb.2MB.rsvd.max
    expect 0 hugepages advise --sandbox postgresql
    says "limit of cgroup /db: 32 MiB ($group/hugetlb.2MB.rsvd.max), too small: the server would get none"
    expect 0 sandbox stop postgresql
    start 4 --huge-pages on
    died 0 "a limit of reservations ended in SIGBUS"
    echo max >$group/hugetlb.2MB.rsvd.max
    echo 32M >$group/hugetlb.2MB.max
fi

# it starts, and has touched little of what it has mapped
start 0 --huge-pages on
expect 1 hugepages check --sandbox postgresql -o json
says '"ends_in_sigbus": true' '"huge_pages_in_use": true' "\"file\": \"$group/hugetlb.2MB.max\"" "SIGBUS kills the server when it touches more"
tells total "40 20"
tells free "$(pool_of 0 free_hugepages) $(pool_of 1 free_hugepages)"
mapped=$(value mapped_bytes)
echo "mapped $mapped, touched $(value touched_bytes), in the cgroup $(cat $group/hugetlb.2MB.current), reserved $(cat $group/hugetlb.2MB.rsvd.current)" | tee /dev/console
if [ "${points:-}" = all ]; then
    echo $((mapped - (2 << 20))) >$group/hugetlb.2MB.max
    expect 1 hugepages check --sandbox postgresql
    says "($group/hugetlb.2MB.max): too small, it ends in SIGBUS"
    echo 32M >$group/hugetlb.2MB.max
fi
died 0 "before it touched its pages"
postgresql_does "$fill" && fail "more was touched than the limit"
died 1 "of a limit that is too small"
grep -h "terminated by signal 7" $log/* | tee /dev/console

# the same statement on the same server; exactly as much as it has mapped is enough
echo "$mapped" >$group/hugetlb.2MB.max
until_true answers || fail "it does not come back: $(tail -n 20 $log/*)"
expect 0 hugepages check --sandbox postgresql
postgresql_does "$fill" || fail "$(tail -n 20 $log/*)"
died 1 "with a limit that is large enough, too"
expect 0 sandbox stop postgresql

echo 0 >/proc/sys/vm/nr_hugepages
sed -i '$d' $config
rmdir $group
echo "-hugetlb" >$all/cgroup.subtree_control
umount $WRINGER_HOME/sandboxes
