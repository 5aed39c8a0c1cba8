#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How much of a server's memory does `wringer memory account` explain, what does reading hold up, and what do other tools say of the same server?
#
#   benches/memory/account.sh [--servers "NAME ..."] [--json FILE]
#
# NAME as for `wringer sandbox deploy`; `+MALLOC` behind it is another malloc (mysql@9+jemalloc), `+instruments` is performance_schema with all memory instruments
# (MariaDB's default is OFF). Each server (sandboxes of its own, deleted afterwards) is looked at idle, under oltp_read_write, and after a burst of sorts and temporary tables. As
# root, or as an ordinary user whose servers they are. Servers that cannot be fetched here are left out, and named. Some twelve minutes. Needs jq. A peer that is not
# installed is left out (Debian: smem, mysqltuner, percona-toolkit). Each server runs in a memory cgroup of its own (--ram), where this user may make one.
#
# What the columns mean:
#   kernel       the sum that the leaves are held against: Pss of all processes, page tables, huge pages
#   explained    the leaves' share of it; `aim` is what it should be at least, and MISS says that it is not
#   anonymous    the server's anonymous memory, as the account counts it / what its cgroup counts (version 1: total_rss, version 2: anon); aim: within 1 %. "-" where
#                there is no such cgroup, and where not all processes were read within the budget
#   unexplained  MiB, and the largest mapping among which it lies
#   held, most   for how long reading held the server's address space: in all, and at a stretch
#   ps, smem     resident memory of all processes added up by ps, which counts shared memory again in each; the Pss that smem adds up, and how long smem takes
#   tuner        what MySQLTuner says is the maximum reached
set -euo pipefail
# shellcheck source=benches/memory/common.sh
. "$(dirname "$0")/common.sh"
servers="mariadb@10.11 mariadb@10.11+instruments mariadb@11.4 mariadb@11.4+instruments mysql@9 mysql@9+jemalloc xtradb postgresql@15 postgresql@18" json=$target/bench-memory.json
take_flags "servers json" "$@"
need_program jq
need_wringer
own_home
mkdir -p "$(dirname "$json")"
: >"$json"

aim() { # aim SERVER
    case $1 in xtradb) echo 0.90 ;; mysql*+jemalloc) echo 0.93 ;; mysql*) echo 0.85 ;; *) echo 0.95 ;; esac
}
pids() { # the server's first process, and its children
    first=$("$wringer" sandbox status bench -o json | jq '.sandboxes[0].pid')
    echo "$first $(cat "/proc/$first/task/$first/children" 2>/dev/null)"
}
by_ps() { # KiB
    # shellcheck disable=SC2046
    ps -o rss= -p $(pids | tr -s ' ' ',' | sed 's/,$//') | awk '{ sum += $1 } END { print sum + 0 }'
}
by_smem() { # KiB and milliseconds, or nothing
    command -v smem >/dev/null || return 0
    local from list
    list=" $(pids) " from=$(date +%s%N)
    smem -H -c "pid pss" 2>/dev/null | awk -v list="$list" 'index(list, " " $1 " ") { sum += $2 } END { printf "%d ", sum }'
    echo $((($(date +%s%N) - from) / 1000000))
}
by_tuner() { # of MariaDB and MySQL; nothing of the others, nor where the client on this machine cannot log in (MariaDB's, into MySQL 9)
    command -v mysqltuner >/dev/null || return 0
    case $server in postgresql*) return 0 ;; esac
    mysql_tuner 2>/dev/null | sed -n 's/.*Maximum reached memory usage: \([^ ]*\).*/\1/p' || true
}
look() { # look STATE
    local account ps smem tuner
    account=$("$wringer" memory account --sandbox bench -o json --keep "$home/kept")
    ps=$(by_ps) smem=$(by_smem) tuner=$(by_tuner)
    jq -nc --arg server "$server" --arg state "$1" --arg tuner "$tuner" --arg smem "$smem" --arg own "$own" --argjson ps "$ps" --argjson aim "$(aim "$server")" \
        --argjson account "$account" --slurpfile kept "$home/kept" "$def_held"'
        ($smem | split(" ") | map(tonumber)) as $smem | ($account | held) as $held
            | [$kept[0].processes[] | .rollup.Pss_Anon // (.mappings // [] | map(select(.anonymous and .rss) | .anonymous * (.pss // 0) / .rss) | add)] as $anonymous
            | ([$account.leaves[].resident_bytes] | add + $account.unexplained_bytes - $account.kernel_total_bytes) as $off
            | {server: $server, state: $state, aim: $aim,
            kernel_total_bytes: $account.kernel_total_bytes, explained_share: $account.explained_share, unexplained_bytes: $account.unexplained_bytes,
            sum_less_total_bytes: $off, anonymous_bytes: (if $anonymous | all then $anonymous | add else null end),
            cgroup_anonymous_bytes: (if $own == "yes" then [$account.beside[] | select(.name == "cgroup_anonymous") | .bytes] | first else null end),
            uncertainty_bytes: $account.uncertainty_bytes, overcounted_bytes: $account.overcounted_bytes, held_us: ([$held[].held_us] | add // 0), held_us_max: ([$held[].held_us_max] | max // 0),
            largest_unnamed: ($account.unexplained[0].mappings[0] // null), ps_bytes: ($ps * 1024),
            smem_bytes: (if $smem[0] then $smem[0] * 1024 else null end), smem_ms: ($smem[1] // null), mysqltuner_reached: $tuner}' >>"$json"
    tail -1 "$json" | jq -r '
        def mib: . / 1048576 * 10 | round / 10;
        [.server, .state, (.kernel_total_bytes | mib), (.explained_share * 1000 | round / 1000),
         (if .explained_share < .aim or .explained_share > 1.01 then "\(.aim) MISS" else .aim end),
         (if .anonymous_bytes and .cgroup_anonymous_bytes then (.anonymous_bytes / .cgroup_anonymous_bytes * 10000 | round / 10000
            | if . < 0.99 or . > 1.01 then "\(.) MISS" else . end) else "-" end), (.unexplained_bytes | mib),
         (.held_us / 1000 | round), (.held_us_max / 1000 * 10 | round / 10), (.ps_bytes | mib),
         (if .smem_bytes then "\(.smem_bytes | mib) (\(.smem_ms) ms)" else "-" end), (if .mysqltuner_reached == "" then "-" else .mysqltuner_reached end),
         (if .largest_unnamed then "\(.largest_unnamed.range) \(.largest_unnamed.resident_bytes | mib) MiB" else "-" end)] | @tsv' |
        awk -F'\t' '{ printf "%-25s %-6s %9s %9s %-10s %-11s %11s %7s %7s %9s %18s %8s  %s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13 }'
}
burst() { # sorts and temporary tables, eight at once, twice
    local statement
    case $server in
        postgresql*) statement="SELECT count(*) FROM (SELECT k, c FROM sbtest1 ORDER BY c, k OFFSET 1) AS s" ;;
        *) statement="SELECT COUNT(*) FROM (SELECT k, c, COUNT(*) FROM sbtest1 GROUP BY c, k, id ORDER BY c LIMIT 1000000) AS s" ;;
    esac
    for _ in 1 2 3 4 5 6 7 8; do "$wringer" sandbox use bench "$statement; $statement" >/dev/null 2>&1 & done
    wait
}

printf '%-25s %-6s %9s %9s %-10s %-11s %11s %7s %7s %9s %18s %8s  %s\n' server state kernel explained aim anonymous unexplained held most ps smem tuner "largest unnamed mapping"
printf '%-25s %-6s %9s %9s %-10s %-11s %11s %7s %7s %9s\n' "" "" MiB "" "" "" MiB ms ms MiB
own=no
"$wringer" doctor --need server-ram >/dev/null 2>&1 && own=yes
started() { # deploys and starts $server
    local options=() start=() addition
    for addition in $(tr + ' ' <<<"${server#"${server%%+*}"}"); do
        case $addition in
            instruments) options+=(-c performance_schema=ON -c "performance_schema_instrument=memory/%=COUNTED") ;;
            *) start+=(--malloc "$addition") ;;
        esac
    done
    [ $own = no ] || start+=(--ram 4G)
    "$wringer" sandbox deploy "${server%%+*}" --name bench "${options[@]}" && "$wringer" sandbox start bench "${start[@]}"
}
for server in $servers; do
    if ! started >"$home/said" 2>&1; then
        "$wringer" sandbox delete --force bench >/dev/null 2>&1 || true
        echo "$server: left out: $(grep -m1 error "$home/said" || tail -1 "$home/said")"
        continue
    fi
    addressed
    "$wringer" fill --table-size=100000 >"$home/said" 2>&1 || { cat "$home/said" >&2; exit 4; }
    sleep 3
    look idle
    "$wringer" load oltp_read_write --table-size=100000 --threads=16 --time=15 >/dev/null 2>&1 &
    load=$!
    sleep 5
    look load
    wait $load || true
    burst
    look burst
    gone
done
echo "the same as JSON, a line for each row: $json" >&2
