# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# Real servers on a slow disk, whose power is cut from outside any time after "POWER may go". First it looks at what the cut before has left: the
# host undone, both servers recovered, every acknowledged commit there, and nothing to be said against the tables by the servers' own
# checks. Variables of the kernel's command line: mechanism=fuse|dm|none, liar=yes for a layer whose syncs do nothing, and for each server mariadb=N, postgresql=N, what was acknowledged before.
export WRINGER_HOME=/data/home WRINGER_CACHE=/servers
[ -z "${liar:-}" ] || export WRINGER_BROKEN_SYNC=1
PATIENCE=120
sandboxes=$WRINGER_HOME/sandboxes
servers="${mariadb:+mariadb} ${postgresql:+postgresql}"
mkdir -p $sandboxes

# --- after a cut ---
if [ -e $WRINGER_HOME/journal ]; then
    expect 0 status -o json
    runs=$(grep -c '"condition": ' /tmp/out) || true
    [ "$(grep -c '"condition": "stale"' /tmp/out)" = "$runs" ] || fail "a run of another boot is not called stale: $(cat /tmp/out)"
    expect 0 undo
    expect 0 undo
    says "nothing to undo"
    nothing_changed
    echo "POWER $runs stale runs" >/dev/console
fi

# --- the disk, slow in one way or another, and the servers on it ---
case $mechanism in
fuse)
    mount -t ext4 /dev/vdb $sandboxes
    # reads are not probed: an emulated processor would miss the tolerance
    for server in $servers; do expect 0 disk delay $sandboxes/$server/data --write 1ms --sync 5ms; done
    ;;
dm)
    expect 0 disk delay /dev/vdb --write 4ms
    mount -t ext4 "$(mapped)" $sandboxes
    ;;
none) mount -t ext4 /dev/vdb $sandboxes ;;
esac
query() { # query SERVER SQL WORDS: which it must answer
    expect 0 sandbox use "$1" "$2"
    says "$3"
}
survivors() { # survivors SERVER ACKNOWLEDGED
    [ "$2" -gt 0 ] || return 0
    query "$1" "SELECT CONCAT('has ', COUNT(*), ' commits') FROM durable WHERE id <= $2 AND twin = id AND LENGTH(pad) = 150" "has $2 commits"
    case $1 in
    mariadb) query mariadb "CHECK TABLE durable EXTENDED" "status   | OK" ;;
    postgresql)
        query postgresql "CREATE EXTENSION IF NOT EXISTS amcheck" ""
        query postgresql "SELECT bt_index_check(indexrelid, true) FROM pg_index WHERE indrelid = 'durable'::regclass" "(2 rows)"
        query postgresql "SELECT CONCAT('damage in ', COUNT(*), ' places') FROM verify_heapam('durable')" "damage in 0 places"
        ;;
    esac
    echo "POWER $1 has $2 commits" >/dev/console
}
for server in $servers; do expect 0 sandbox start $server --wait 2m; done
survivors mariadb "${mariadb:-0}"
survivors postgresql "${postgresql:-0}"

# --- until the next cut ---
if [ "$mechanism" = none ]; then
    for server in $servers; do expect 0 sandbox stop $server; done
    umount $sandboxes
    return 0
fi
commit() { # commit SERVER: until the power goes; when it ends before, the console says why
    sandbox-test-commits "$1" >/dev/console 2>/tmp/end.$1 || true
    echo "COMMITS ended: $(cat /tmp/end.$1)" >/dev/console
}
for server in $servers; do commit $server & done
echo "POWER may go" >/dev/console
wait
