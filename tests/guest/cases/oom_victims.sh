# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=busybox
# PostgreSQL and MariaDB side by side in one memory cgroup of version 2: `wringer memory oom` says who would be killed first; then the cgroup's memory runs out,
# and the kernel's log says who was. With shared memory in ordinary pages and in huge pages, which the kernel does not count: another process dies then. One kill
# of PostgreSQL's, without huge pages; 20 of both with the word points=all on the kernel's command line.
export WRINGER_HOME=/data/home WRINGER_CACHE=/servers
PATIENCE=120
all=/sys/fs/cgroup
group=$all/db
sandboxes=$WRINGER_HOME/sandboxes
kills=0 right=0 scores=0
rounds=1 full=no
[ "${points:-}" = all ] && rounds=4 full=yes

start() { # start SERVER ARGUMENTS...: in the cgroup
    (
        echo 0 >$group/cgroup.procs
        expect 0 sandbox start "$@" --wait 2m
    )
}
backends() { # backends: sessions of PostgreSQL, by their title
    for process in /proc/[0-9]*; do
        case "$(tr '\0' ' ' 2>/dev/null <"$process/cmdline")" in "postgres: wringer sbtest "*) echo "${process#/proc/}" ;; esac
    done
}
grown() { # grown MEBIBYTES: a session that was not there has touched so much, in pages of all sizes; sets $pid
    for pid in $(backends); do
        case " $known " in *" $pid "*) continue ;; esac
        [ "$(awk '/^(VmRSS|HugetlbPages):/ { sum += $2 } END { print sum + 0 }' "/proc/$pid/status")" -ge $(($1 << 10)) ] && grep -q "^State:.S" "/proc/$pid/status" && return 0
    done
    return 1
}
holds() { # holds MEBIBYTES STATEMENT [STATEMENT]: a session of PostgreSQL that has come to so much, and sleeps until it is ended; sets $pid
    known=$(backends | tr '\n' ' ')
    postgresql_does "$2" >/tmp/session 2>&1 &
    until_true grown "$1" || fail "no session has come to $1 MiB: $(cat /tmp/session)"
}
# the number of pages is not known before the statement runs: else it would be computed, and copied, when it is planned
keeps() { echo "SELECT length(repeat(repeat('x', 100000), ($1 * 10 + random() * 0)::int)), pg_sleep(900)"; } # keeps MEBIBYTES, of its own
touches="CREATE UNLOGGED TABLE IF NOT EXISTS t (pad text); TRUNCATE t; ALTER TABLE t ALTER COLUMN pad SET STORAGE PLAIN; \
    INSERT INTO t SELECT repeat('x', 8000) FROM generate_series(1, 7000); SELECT pg_sleep(900)" # 56 MiB of the shared memory
stat() { sed -n "s/^$1 //p" $group/memory.stat; }
predicts() { # predicts WHO PID: this one is named first; every process's score is as the kernel has it
    expect 0 memory oom --sandbox postgresql -o json
    named=$(sed -n '/^  "cgroup": {/,/^  }/p' /tmp/out | sed -n 's/^ *"pid": \([0-9]*\).*/\1/p' | head -1)
    [ "$named" = "$2" ] || fail "$1, process $2, should be named first, and it is $named: $(sed -n '/^  "cgroup": {/,/^  }/p' /tmp/out | grep -E '"(pid|command|badness_pages|rss_bytes)"')"
    awk -F'[:,]' '/"oom_score_predicted"/ { predicted = $2 } /"oom_score"/ { count++; gap = predicted - $2; if ($2 !~ /[0-9]/ || gap > 1 || gap < -1) bad++ }
        END { print count, bad + 0 }' /tmp/out >/tmp/scores
    read -r count bad </tmp/scores
    [ "$count" -gt 5 ] && [ "$bad" = 0 ] || fail "$bad of $count scores are not the kernel's: $(grep oom_score /tmp/out)"
    scores=$((scores + count))
}
runs_out() { # runs_out WHO: a session of PostgreSQL takes more and more, until the kernel kills somebody: the one that was named
    dmesg -c >/dev/null
    # what cannot be dropped, and so little more that whoever takes it stays smaller than the one that is named
    echo $(($(stat anon) + $(stat shmem) + $(stat kernel) + (16 << 20))) >$group/memory.max
    postgresql_does "$(keeps 200)" >/tmp/grown 2>&1 && fail "$1: nobody was killed: $(dmesg | tail -n 5) $(cat $group/memory.stat)"
    killed=$(dmesg | sed -n 's/.*Memory cgroup out of memory: Killed process \([0-9]*\) (\([^)]*\)).*/\1 \2/p')
    # who takes it may go on when another one has died, until it dies as well: the first counts
    killed=$(echo "$killed" | head -1)
    kills=$((kills + 1))
    [ "${killed% *}" = "$named" ] && right=$((right + 1))
    echo "kill $kills, $1: named $named, killed $killed" | tee /dev/console
    echo max >$group/memory.max
}
again() { # PostgreSQL has lost a backend, and begins anew
    until_true answers || fail "PostgreSQL does not come back: $(tail -n 20 $sandboxes/postgresql/log/*)"
    wait
}

mkdir -p $sandboxes
mount -t ext4 /dev/vdb $sandboxes
echo "+memory" >$all/cgroup.subtree_control
mkdir $group
echo "shared_buffers = '64MB'" >>$sandboxes/postgresql/server.cnf
sed -i 's/^innodb_buffer_pool_size.*/innodb_buffer_pool_size = 16M/' $sandboxes/mariadb/server.cnf
echo 80 >/proc/sys/vm/nr_hugepages
echo max >$group/memory.max

for pages in off on; do
    start postgresql --huge-pages $pages
    # the limit is there when it is asked: without one, there is no cgroup to run out of memory
    for round in $(seq $rounds); do
        echo 400M >$group/memory.max
        holds 44 "$(keeps 44)"
        own=$pid
        holds 56 "$touches"
        shared=$pid
        if [ $pages = off ]; then
            predicts "shared, huge pages $pages" "$shared"
        else
            predicts "own, huge pages $pages" "$own"
        fi
        runs_out "huge pages $pages"
        again
    done
    { [ $pages = on ] || [ $full = no ]; } && break
    # a smaller one that the administrator has given a higher adjustment
    for round in $(seq $rounds); do
        echo 400M >$group/memory.max
        holds 44 "$(keeps 44)"
        own=$pid
        holds 20 "$(keeps 20)"
        echo 500 >"/proc/$pid/oom_score_adj"
        predicts "small, oom_score_adj 500" "$pid"
        runs_out "oom_score_adj 500"
        again
    done
    expect 0 sandbox stop postgresql
done

# MariaDB beside it
for pages in off on; do
    [ $full = no ] && break
    for round in $(seq $rounds); do
        echo 400M >$group/memory.max
        start mariadb --huge-pages $pages
        mariadb=$(pidof mariadbd)
        if [ $pages = off ]; then
            predicts "mariadb" "$mariadb"
        else
            holds 120 "$(keeps 120)"
            predicts "own, beside mariadb" "$pid"
        fi
        runs_out "beside MariaDB with huge pages $pages"
        again
        wringer sandbox stop mariadb >/dev/null 2>&1 || true
    done
done
wringer sandbox stop postgresql
echo "$right of $kills kills: the one that was named died; $scores scores are the kernel's" | tee /dev/console
[ $right = $kills ] || fail "$right of $kills kills"

echo 0 >/proc/sys/vm/nr_hugepages
sed -i '$d' $sandboxes/postgresql/server.cnf
until_true rmdir $group
echo "-memory" >$all/cgroup.subtree_control
umount $sandboxes
