#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What does looking at a server's memory cost the server? `wringer memory account` beside what is used for it elsewhere, each on the same server, in turn.
#
#   benches/memory/cost.sh [--backends N] [--repeat N] [--pairs N] [--only "PART ..."] [--seed N] [--json FILE]
#
# PART (all of them): `postgresql`, N backends (200) that each have read all of some 417 MiB of shared_buffers; `waits`, how long a thread that maps and unmaps
# memory waits while its process is read; `mariadb`, beside MySQLTuner; `record`, throughput of point selects without and with `wringer memory record --interval 1s`.
# Sandboxes of its own, deleted afterwards. As root, some seven minutes, of which a busy machine makes more. Needs jq, python3, psql. A peer that
# is not installed is left out, and named (Debian: smem, mysqltuner, which needs mysqladmin of mariadb-client).
#
# What the rows mean:
#   account, deep  `wringer memory account`, the same with --deep: milliseconds, and for how long they held the server's processes, in all and at a stretch
#   loop           the shell loop of "Why Linux HugePages are Super Important for Database Servers": awk over smaps of each process
#   smem, tuner    smem of all processes of this machine; MySQLTuner
#   total          how far the sum of `account` is from that of --deep right after it (aim: 3 %), and how often inside its own uncertainty (aim: 19 of 20)
#   wait           the longest of one mmap(2) and munmap(2) in a process of 417 MiB, while nobody and while each of them reads
#   throughput     with a recording / without, in turn, Student's 95 % interval (aim: 0.99)
set -euo pipefail
# shellcheck source=benches/load/common.sh
. "$(dirname "$0")/../load/common.sh"
backends=200 repeat=20 pairs=6 only="postgresql waits mariadb record" seed=1 json=$target/bench-memory-cost.json
take_flags "backends repeat pairs only seed json" "$@"
need_root "other users' processes are read"
for program in jq python3 psql; do need_program "$program" "${program/psql/postgresql-client}"; done
need_wringer
own_home
held=()
ended() {
    [ ${#held[@]} = 0 ] || kill "${held[@]}" 2>/dev/null || true
    clean 2>/dev/null
}
trap ended EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$(dirname "$json")"
: >"$json"

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
    row "$part" "$name" "$ms" "$(jq -r '[([.probes[].held_us] | add / 1000), ([.probes[].held_us_max] | max / 1000), .kernel_total_bytes, .uncertainty_bytes] | @tsv' "$home/out")"
}
deployed() { # deployed SERVER SETTING...
    local server=$1 setting options=()
    shift
    for setting in "$@"; do options+=(-c "$setting"); done
    "$wringer" --quiet sandbox deploy "$server" --name bench --start "${options[@]}" >"$home/said" 2>&1 || { cat "$home/said" >&2; exit 4; }
    eval "$("$wringer" sandbox export bench env)"
    WRINGER_DSN=$("$wringer" sandbox export bench dsn)
    export WRINGER_DSN
}
gone() {
    "$wringer" --quiet sandbox delete --force bench >/dev/null 2>&1
}

part_postgresql() {
    echo "cost.sh: PostgreSQL with $backends backends" >&2
    deployed postgresql@15 shared_buffers=512MB max_connections=$((backends + 20)) autovacuum=off
    # four tables: one of more than a quarter of shared_buffers would be read through a small ring of pages
    "$wringer" --quiet fill --tables=4 --size=417M >"$home/said" 2>&1 || { cat "$home/said" >&2; exit 4; }
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
    local pids round
    read -ra pids <<<"$(server_pids)"
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
    echo "cost.sh: MariaDB beside MySQLTuner" >&2
    deployed mariadb@10.11 innodb_buffer_pool_size=512M
    "$wringer" --quiet fill --tables=4 --size=300M >"$home/said" 2>&1
    local round user took
    user=$(printf '%s' "$WRINGER_DSN" | sed 's|^[a-z]*://\([^:@]*\).*|\1|')
    for round in $(seq 5); do
        account mariadb account
        if command -v mysqltuner >/dev/null; then
            took=$(milliseconds timeout 60 mysqltuner --nocolor --skippassword --socket "$MYSQL_UNIX_PORT" --user "$user" --pass "${MYSQL_PWD:-}")
            if ! grep -q 'reached memory usage' "$home/out"; then
                echo "left out: MySQLTuner, which said nothing of memory: $(cat "$home/said" "$home/out" | tail -1)"
                break
            fi
            row mariadb tuner "$took"
        fi
    done
    gone
}

part_record() {
    echo "cost.sh: point selects beside a recording" >&2
    deployed mariadb@10.11 innodb_buffer_pool_size=128M
    "$wringer" --quiet fill --table-size=100000 >"$home/said" 2>&1
    "$wringer" load oltp_point_select --threads=4 --time=5 --table-size=100000 >/dev/null 2>&1
    local pair which order
    for pair in $(seq "$pairs"); do
        order="without with"
        [ $((pair % 2)) = 1 ] || order="with without"
        for which in $order; do
            if [ "$which" = with ]; then
                "$wringer" --quiet memory record --sandbox bench --interval 1s --to "$home/recorded.$pair" >/dev/null 2>"$home/said.record" &
                held=($!)
                sleep 1.5
            fi
            "$wringer" load oltp_point_select --threads=4 --time=10 --table-size=100000 --rand-seed="$seed" -o json >"$home/load" 2>"$home/said" || { cat "$home/said" >&2; exit 4; }
            if [ "$which" = with ]; then
                kill -TERM "${held[@]}"
                wait "${held[@]}" || { cat "$home/said.record" >&2; exit 4; }
                held=()
            fi
            row record "$which" "$(jq '[.. | objects | .queries_per_second? // empty | numbers] | first' "$home/load")"
        done
    done
    gone
}

for part in $only; do "part_$part"; done
for peer in smem mysqltuner; do command -v "$peer" >/dev/null || echo "left out: $peer is not installed"; done
python3 - "$home/rows" "$json" "$backends" "$seed" <<'PYTHON'
import json, math, statistics, sys
rows = {}
for line in open(sys.argv[1]):
    part, name, *values = line.split()
    rows.setdefault(part, {}).setdefault(name, []).append([float(value) for value in values])
STUDENT = [0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09]
out = {"schema": 1, "backends": int(sys.argv[3]), "seed": int(sys.argv[4])}
middle = lambda name, of, nth=0: statistics.median(row[nth] for row in of[name])
for part in ("postgresql", "mariadb"):
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
if "record" in rows:
    logs = [math.log(w[0] / o[0]) for w, o in zip(rows["record"]["with"], rows["record"]["without"])]
    mean, count = statistics.mean(logs), len(logs)
    half = (STUDENT[count - 1] if count <= len(STUDENT) else 2.0) * statistics.stdev(logs) / math.sqrt(count) if count > 1 else math.inf
    ratio, low, high = math.exp(mean), math.exp(mean - half), math.exp(min(mean + half, 700))
    print(f"throughput  with a recording / without: {ratio:.3f}, 95 % interval {low:.3f} to {high:.3f}, {count} pairs (aim 0.99){' MISS' if ratio < 0.99 else ''}")
    out["record"] = {**rows["record"], "ratio": ratio, "ratio_low": low, "ratio_high": high}
json.dump(out, open(sys.argv[2], "w"), indent=1)
PYTHON
echo "the same as JSON: $json" >&2
