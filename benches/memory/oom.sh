#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does the process die that `wringer memory oom` names first? Makes real kills in memory cgroups, and counts.
#
#   benches/memory/oom.sh [--kills N] [--servers "NAME ..."] [--json FILE]
#
# Needs root, jq, and a kernel's log that may be read. Each server (a sandbox of its own, deleted afterwards) has 256 MiB of RAM and no swap, as
# `wringer sandbox start --ram` limits it. In PostgreSQL one session takes 140 MiB and keeps it. Then `memory oom` is asked, and another session takes
# more and more until the kernel kills somebody: whom it kills is read in the kernel's log. N kills in all (20), some 4 s each.
#
# What the columns mean:
#   named    the first victim of the list "in the server's memory cgroup", asked before the kill
#   killed   the process that the kernel's log names
set -euo pipefail
# shellcheck source=benches/load/common.sh
. "$(dirname "$0")/../load/common.sh"
kills=20 servers="postgresql mariadb@10.11" json=$target/bench-oom.json
take_flags "kills servers json" "$@"
need_program jq
need_wringer
own_home
need_root "a memory cgroup, and the kernel's log"
mkdir -p "$(dirname "$json")"
: >"$json"

start() {
    "$wringer" sandbox start bench --ram 256M --swap off >"$home/said" 2>&1 || { cat "$home/said" >&2; exit 4; }
}
oom() { "$wringer" memory oom --sandbox bench -o json; }
last_kill() { # by the kernel's log; this shell is named because the server may be dead
    "$wringer" memory oom --pid $$ -o json | jq -r '.last_kill.pid // 0'
}
hold() { # a session with 140 MiB of its own
    "$wringer" sandbox use bench "SET temp_buffers = '140MB'; CREATE TEMP TABLE t AS SELECT generate_series(1, 150000) AS i, repeat('x', 1000) AS pad; \
        SELECT pg_sleep(600)" >/dev/null 2>&1 &
    for _ in $(seq 200); do
        [ "$("$wringer" sandbox use bench "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'" -o json 2>/dev/null | jq -r '.. | numbers, strings' | tail -1)" = 1 ] && return
        sleep 0.2
    done
    echo "oom.sh: the session that keeps 140 MiB did not come up" >&2
    exit 4
}
grow() { # until somebody is killed
    local statement
    case $server in
        postgresql*) statement="SET work_mem = '1GB'; SET jit = off; SELECT count(*) FROM (SELECT generate_series(1, 10000000) AS i, repeat('x', 900) AS pad ORDER BY i DESC OFFSET 1) AS s" ;;
        *) statement="USE mysql; SET SESSION tmp_table_size = 4294967296, max_heap_table_size = 4294967296; \
            SELECT COUNT(*) FROM (SELECT DISTINCT seq, REPEAT('x', 400) FROM seq_1_to_5000000) AS s" ;;
    esac
    timeout 120 "$wringer" sandbox use bench "$statement" >/dev/null 2>&1 || true
}

count=0 right=0
printf '%-15s %4s %10s %10s\n' server kill named killed
for server in $servers; do
    share=$((kills / $(echo "$servers" | wc -w)))
    "$wringer" sandbox deploy "$server" --name bench -c "$(case $server in postgresql*) echo shared_buffers=32MB ;; *) echo innodb_buffer_pool_size=32M ;; esac)" \
        >"$home/said" 2>&1 || { cat "$home/said" >&2; exit 3; }
    for nth in $(seq "$share"); do
        start
        case $server in postgresql*) hold ;; esac
        before=$(last_kill)
        named=$(oom | jq .cgroup.victims[0].pid)
        grow
        killed=$(last_kill)
        [ "$killed" != "$before" ] || killed=nobody
        verdict=""
        count=$((count + 1))
        if [ "$named" = "$killed" ]; then right=$((right + 1)); else verdict="OTHER"; fi
        printf '%-15s %4s %10s %10s %s\n' "$server" "$nth" "$named" "$killed" "$verdict"
        jq -nc --arg server "$server" --arg named "$named" --arg killed "$killed" '{server: $server, named: $named, killed: $killed}' >>"$json"
        wait || true
        # PostgreSQL begins anew, and a stop in the middle of that may take long
        case $server in postgresql*) timeout 60 sh -c "until '$wringer' sandbox use bench 'SELECT 1' >/dev/null 2>&1; do sleep 0.2; done" || true ;; esac
        "$wringer" sandbox stop bench >/dev/null 2>&1 || true
    done
    "$wringer" sandbox delete --force bench >/dev/null 2>&1
done
echo "$right of $count kills: the one that was named died"
echo "the same as JSON, a line for each kill: $json" >&2
[ "$right" = "$count" ]
