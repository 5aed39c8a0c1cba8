#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What does looking at a server's memory cost the server? `wringer memory account` beside what is used for it elsewhere, each on the same server, in turn.
#
#   benches/memory/cost.sh [--backends N] [--clients N] [--repeat N] [--pairs N] [--only "PART ..."] [--seed N] [--json FILE]
#
# PART (all of them): `postgresql`, N backends (200) that each have read all of some 417 MiB of shared_buffers; `waits`, how long a thread that maps and unmaps
# memory waits while its process is read; `mariadb`, with 4 GiB in its buffer pool, and `mysql`, with N connections (1000), beside MySQLTuner; `record`, throughput of point selects without and with `wringer memory record --interval 1s`.
# Sandboxes of its own, deleted afterwards. As root, some ten minutes, of which a busy machine makes more. Needs jq, python3, psql. A peer that
# is not installed is left out, and named (Debian: smem, mysqltuner, which needs mysqladmin of mariadb-client).
#
# What the rows mean:
#   account, deep  `wringer memory account`, the same with --deep: milliseconds, and for how long they held the server's processes, in all and at a stretch
#   loop           the shell loop of "Why Linux HugePages are Super Important for Database Servers": awk over smaps of each process
#   smem, tuner    smem of all processes of this machine; MySQLTuner
#   total          how far the sum of `account` is from that of --deep right after it (aim: 3 %), and how often inside its own uncertainty (aim: 19 of 20)
#   wait           the longest of one mmap(2) and munmap(2) in a process of 417 MiB, while nobody and while each of them reads
#   throughput     with a recording / without, in turn beside one load (benches/paired.py), until the 95 % interval is 1 % to either side, or N pairs (40); aim: 0.99
set -euo pipefail
# shellcheck source=benches/memory/common.sh
. "$(dirname "$0")/common.sh"
backends=200 clients=1000 repeat=20 pairs=40 only="postgresql waits mariadb mysql record" seed=1 json=$target/bench-memory-cost.json
take_flags "backends clients repeat pairs only seed json" "$@"
need_root "other users' processes are read"
for program in jq python3 psql; do need_program "$program" "${program/psql/postgresql-client}"; done
need_wringer
own_home_and_children

: >"$home/rows"
row() { # row PART NAME VALUES...: for the table at the end
    printf '%s\t' "$@" | sed 's/\t$/\n/' >>"$home/rows"
}
milliseconds() { # milliseconds COMMAND...
    local from
    from=$(date +%s%N)
    "$@" >"$home/out" 2>"$home/said" || true
    echo $((($(date +%s%N) - from) / 1000))e-3
}
server_pids() {
    local first
    first=$("$wringer" sandbox status bench -o json | jq '.sandboxes[0].pid')
    echo "$first $(cat "/proc/$first/task/$first/children")"
}
# shellcheck disable=SC2016
loop() { # of the article, for these processes and not for all that are called postgres
    local PID
    for PID in "$@"; do
        awk '/Pss/ {PSS+=$2} END{getline cmd < "/proc/'"$PID"'/cmdline"; sub("\0", " ", cmd);printf "%.0f --> %s (%s)\n", PSS, cmd, '"$PID"'}' "/proc/$PID/smaps"
    done | sort -n
}
account() { # account PART NAME FLAGS...: its time, and what it held
    local part=$1 name=$2 ms
    shift 2
    ms=$(milliseconds "$wringer" --quiet memory account --sandbox bench -o json "$@")
    [ -s "$home/out" ] || { cat "$home/said" >&2; exit 4; }
    row "$part" "$name" "$ms" "$(jq -r "$def_held"'[(held | map(.held_us) | add / 1000), (held | map(.held_us_max) | max / 1000), .kernel_total_bytes, .uncertainty_bytes] | @tsv' "$home/out")"
}

part_postgresql() {
    echo "cost.sh: PostgreSQL with $backends backends" >&2
    deployed postgresql@15 shared_buffers=512MB max_connections=$((backends + 20)) autovacuum=off
    # four tables: one of more than a quarter of shared_buffers would be read through a small ring of pages
    must "$wringer" --quiet fill --tables=4 --size=417M
    # the whole tables, and each backend itself: an index alone would answer, and parallel workers would read the most
    export PGOPTIONS="-c enable_indexscan=off -c enable_indexonlyscan=off -c enable_bitmapscan=off -c max_parallel_workers_per_gather=0"
    mkfifo "$home/hold"
    exec 9<>"$home/hold"
    local nth
    for nth in $(seq "$backends"); do
        # the `cat` holds the connection, and the shell below ends it
        {
            printf 'SELECT count(k) FROM sbtest%d;\n' 1 2 3 4
            exec cat "$home/hold"
        } 9>&- | psql -qAt >/dev/null 2>>"$home/psql" 9>&- &
        held+=($!)
        [ $((nth % 8)) != 0 ] || sleep 1
    done
    for nth in $(seq 240); do
        [ "$(psql -qAtc "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND state = 'idle' AND query LIKE '%sbtest4;'")" -lt "$backends" ] || break
        sleep 0.5
    done
    [ "$nth" -lt 240 ] || { echo "the backends did not come to rest: $(tail -1 "$home/psql")" >&2; exit 4; }
    unset PGOPTIONS
    local pids round touched statuses
    read -ra pids <<<"$(server_pids)"
    statuses=("${pids[@]/#//proc/}")
    statuses=("${statuses[@]/%//status}")
    # all but a few processes of the server's own have touched the shared memory
    touched=$(awk '/^RssShmem/ && $2 > 300 * 1024 {n++} END {print n + 0}' "${statuses[@]}")
    [ "$touched" -ge "$backends" ] || { echo "only $touched of $backends backends have read all" >&2; exit 4; }
    for round in $(seq "$repeat"); do
        account postgresql account
        account postgresql deep --deep
        if [ "$round" -le 5 ]; then
            row postgresql loop "$(milliseconds loop "${pids[@]}")"
            ! command -v smem >/dev/null || row postgresql smem "$(milliseconds smem -H -c 'pid pss')"
        fi
    done
    # the end of what they read
    exec 9>&-
    wait "${held[@]}" || true
    held=()
    gone
}

part_waits() {
    echo "cost.sh: waits of a thread" >&2
    cat >"$home/waits.py" <<'PYTHON'
# a thread maps and unmaps 4 KiB beside 417 MiB that are touched. Each line of the input ends a span: its longest wait is printed, in microseconds
import ctypes, mmap, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
memory = mmap.mmap(-1, 417 << 20)
memory.madvise(15)  # MADV_NOHUGEPAGE: pages of 4 KiB, as a server has them
for at in range(0, 417 << 20, 4096):
    memory[at] = 1
longest = [0]
def worker():
    while True:
        start = time.perf_counter_ns()
        libc.munmap(libc.mmap(None, 4096, 3, 0x22, -1, 0), 4096)
        longest[0] = max(longest[0], time.perf_counter_ns() - start)
        time.sleep(0.0002)
threading.Thread(target=worker, daemon=True).start()
print("ready", flush=True)
for line in sys.stdin:
    print(longest[0] / 1000, flush=True)
    longest[0] = 0
PYTHON
    coproc WAITS { exec python3 "$home/waits.py"; }
    # shellcheck disable=SC2153
    local pid=$WAITS_PID said round who
    held+=("$pid")
    read -r said <&"${WAITS[0]}"
    longest() { echo >&"${WAITS[1]}"; read -r said <&"${WAITS[0]}"; echo "$said"; }
    local readers=(nobody account loop)
    ! command -v smem >/dev/null || readers+=(smem)
    for round in $(seq 8); do
        for who in "${readers[@]}"; do
            longest >/dev/null
            case $who in
                nobody) sleep 0.5 ;;
                account) "$wringer" --quiet memory account --pid "$pid" -o json >"$home/out" 2>"$home/said" || { cat "$home/said" >&2; exit 4; } ;;
                loop) loop "$pid" >/dev/null ;;
                smem) smem -H -c 'pid pss' >/dev/null 2>&1 ;;
            esac
            row waits "$who" "$(longest)"
        done
    done
    kill "$pid"
    wait "$pid" 2>/dev/null || true
    held=()
}

part_mariadb() {
    echo "cost.sh: MariaDB with 4 GiB in its buffer pool, beside MySQLTuner" >&2
    deployed mariadb@10.11 innodb_buffer_pool_size=4608M
    must "$wringer" --quiet fill --tables=4 --size=4G
    beside_tuner mariadb
    gone
}

part_mysql() {
    echo "cost.sh: MySQL with $clients connections, beside MySQLTuner" >&2
    deployed mysql@9 innodb_buffer_pool_size=256M max_connections=$((clients + 20))
    must "$wringer" --quiet fill --table-size=100000
    # each connection works once in ten seconds
    "$wringer" --quiet load oltp_point_select --table-size=100000 --threads="$clients" --rate=$((clients / 10)) --time=600 >/dev/null 2>"$home/said" &
    held=($!)
    local nth sessions=0
    for nth in $(seq 240); do
        sleep 0.5
        sessions=$("$wringer" sandbox use bench "SHOW STATUS LIKE 'Threads_connected'" | grep -o '[0-9]*$')
        [ "$sessions" -lt "$clients" ] || break
    done
    [ "$sessions" -ge "$clients" ] || { echo "only $sessions of $clients connections: $(tail -1 "$home/said")" >&2; exit 4; }
    beside_tuner mysql
    kill "${held[@]}"
    wait "${held[@]}" || true
    held=()
    gone
}

beside_tuner() { # beside_tuner PART: five times
    local took tuner=yes
    command -v mysqltuner >/dev/null || tuner=no
    for _ in 1 2 3 4 5; do
        account "$1" account
        [ $tuner = yes ] || continue
        took=$(milliseconds mysql_tuner)
        if grep -q 'reached memory usage' "$home/out"; then
            row "$1" tuner "$took"
        else
            echo "left out beside $1: MySQLTuner, which said nothing of memory: $(cat "$home/said" "$home/out" | tail -1)"
            tuner=no
        fi
    done
}

part_record() {
    echo "cost.sh: point selects beside a recording" >&2
    deployed mariadb@10.11 innodb_buffer_pool_size=128M
    must "$wringer" --quiet fill --table-size=100000
    "$wringer" load oltp_point_select --threads=4 --time=5 --table-size=100000 >/dev/null 2>&1
    python3 "$here/benches/paired.py" "$wringer" 5 "$pairs" 0.01 "$seed" oltp_point_select --threads=4 --table-size=100000 -- \
        "$wringer" --quiet memory record --sandbox bench --interval 1s --time 5s --to "$home/recorded" --force >"$home/record.json"
    gone
}

for part in $only; do "part_$part"; done
for peer in smem mysqltuner; do command -v "$peer" >/dev/null || echo "left out: $peer is not installed"; done
PYTHONPATH=$here/benches python3 - "$home/rows" "$json" "$backends" "$seed" "$home/record.json" <<'PYTHON'
import json, os, statistics, sys
rows = {}
for line in open(sys.argv[1]):
    part, name, *values = line.split()
    rows.setdefault(part, {}).setdefault(name, []).append([float(value) for value in values])
out = {"schema": 1, "backends": int(sys.argv[3]), "seed": int(sys.argv[4])}
middle = lambda name, of, nth=0: statistics.median(row[nth] for row in of[name])
for part in ("postgresql", "mariadb", "mysql"):
    of = rows.get(part, {})
    for name in of:
        it = {"ms": [row[0] for row in of[name]], "ratio_to_account": middle(name, of) / middle("account", of)}
        text = f"{part:<11} {name:<8} {middle(name, of):>9.1f} ms  {it['ratio_to_account']:>6.2f} of account"
        if len(of[name][0]) > 1:
            it["held_ms"], it["held_at_a_stretch_ms"] = ([row[nth] for row in of[name]] for nth in (1, 2))
            most = max(it["held_at_a_stretch_ms"])
            text += f"; held {middle(name, of, 1):.1f} ms, at a stretch {middle(name, of, 2):.2f} ms, at most {most:.2f} ms"
            text += " (aim 20)" + (" MISS" if most > 20 and name == "account" else "") if name == "account" else ""
        if name == "loop":
            share = 1 / it["ratio_to_account"]
            held = middle("account", of, 1) / middle(name, of)
            text += f"; account takes {share:.3f} of its time (aim 0.1){' MISS' if share > 0.1 else ''}, and holds the processes for {held:.3f} of it"
            it["account_takes"], it["account_holds"] = share, held
        print(text)
        out.setdefault(part, {})[name] = it
    if "deep" in of:
        off = [(a[3] - d[3]) / d[3] for a, d in zip(of["account"], of["deep"])]
        inside = sum(abs(a[3] - d[3]) <= a[4] + d[4] for a, d in zip(of["account"], of["deep"]))
        worst = max(map(abs, off))
        print(f"{part:<11} total    {statistics.median(off):+.2%} from --deep, at most {worst:.2%} (aim 3 %){' MISS' if worst > 0.03 else ''}; inside its uncertainty {inside} of {len(off)}"
              + (" MISS" if inside < 0.95 * len(off) else ""))
        out[part]["total"] = {"off": off, "inside": inside, "of": len(off), "uncertainty_share": [a[4] / a[3] for a in of["account"]]}
for name, values in rows.get("waits", {}).items():
    waits = [row[0] / 1000 for row in values]
    print(f"wait        {name:<8} longest {max(waits):.2f} ms, half of the readings below {statistics.median(waits):.2f} ms")
    out.setdefault("waits", {})[name] = {"longest_ms": waits}
if os.path.exists(sys.argv[5]):
    out["record"] = it = json.load(open(sys.argv[5]))
    verdict = "" if it["ratio_low"] > 0.99 else " MISS" if it["ratio_high"] < 0.99 else " not decided"
    print(f"throughput  with a recording / without: {it['ratio']:.4f}, 95 % interval {it['ratio_low']:.4f} to {it['ratio_high']:.4f}, {len(it['pairs'])} pairs (aim 0.99){verdict}")
json.dump(out, open(sys.argv[2], "w"), indent=1)
PYTHON
echo "the same as JSON: $json" >&2
