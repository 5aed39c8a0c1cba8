#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Is what Wringer says of a server's memory over time true: that it leaks, how fast, and how large its next peak will be?
#
#   benches/memory/over_time.sh [--steady N] [--time SECONDS] [--only "PART ..."] [--json FILE]
#
# PART (all of them): `steady`, N recordings (20) of SECONDS (200) beside a load that leaks nothing; `leaks`, recordings of as long beside leaks of a known rate;
# `peak`, eight runs, of which the first half is asked for the peak of the second. Sandboxes of its own, deleted afterwards. As root, over an hour.
# A finding needs 30 inventories, and the larger the heap, the longer is the time between two (1 % of it is for reading).
# Needs gcc, jq and python3. Exit code 1: an aim is missed.
#
# What the rows mean:
#   steady   how many recordings are called a leak (aim: one of twenty at most)
#   leak     bytes a second by the finding `memory.growth`, with its interval, and by who leaks: a function of MariaDB's that counts what it loses
#            (compiled on the spot), and a session of PostgreSQL's that prepares statements and reads its own memory contexts (aim: within 10 %)
#   peak     realistic_bytes of `wringer memory worst-case` after the first half / the largest size in the second: VmHWM, set to zero in between by
#            clear_refs, and page tables (aim: within 25 % in seven of eight). Beside it what MySQLTuner's formula calls "reached"
set -euo pipefail
# shellcheck source=benches/memory/common.sh
. "$(dirname "$0")/common.sh"
steady=20 time=200 only="steady leaks peak" json=$target/bench-memory-over-time.json
take_flags "steady time only json" "$@"
need_root "the high-water mark of a server is set to zero"
for program in gcc jq python3; do need_program "$program"; done
need_wringer
own_home_and_children

recorded() { # the finding of one recording
    must "$wringer" --quiet memory record --sandbox bench --interval 1s --time "$time" --to "$home/recording" --force
    must "$wringer" --quiet explain "$home/recording" -o json
    jq -c '[.. | objects | select(.id? == "memory.growth")] | first | .evidence' "$home/out"
}

part_steady() {
    deployed mariadb@10.11 innodb_buffer_pool_size=64M
    must "$wringer" --quiet fill --table-size=100000
    must "$wringer" --quiet load oltp_read_write --threads=4 --time=20 --table-size=100000
    "$wringer" --quiet load oltp_read_write --threads=4 --rate=50 --time=$((steady * (time + 5))) --table-size=100000 >/dev/null 2>&1 &
    held=($!)
    local nth
    for nth in $(seq "$steady"); do
        recorded | jq -c --argjson nth "$nth" '{part: "steady", nth: $nth, verdict, inventories, leaves: [.leaves[] | select(.course == "keeps_growing")]}' >>"$json"
        echo "steady $nth of $steady: $(tail -1 "$json" | jq -r .verdict)" >&2
    done
    kill "${held[@]}"
    wait "${held[@]}" 2>/dev/null || true
    held=()
    gone
}

leak() { # leak NAME TRUTH_BYTES_PER_SECOND FINDING
    jq -c --arg name "$1" --argjson truth "$2" '[.leaves[] | select(.growth == "leak" or .growth == "unnamed")] as $leaks
        | {part: "leak", name: $name, truth: $truth, verdict, inventories, leaf: $leaks[0].path, rate: (($leaks[0].bytes_per_hour // 0) / 3600),
           low: (($leaks[0].low_bytes_per_hour // 0) / 3600), high: (($leaks[0].high_bytes_per_hour // 0) / 3600)}' <<<"$3" >>"$json"
    echo "leak $1: $(tail -1 "$json" | jq -r '"\(.rate | round) bytes a second, true \(.truth | round)"')" >&2
}

part_leaks() {
    # what a server calls of a UDF (MariaDB's documentation, "Creating User-Defined Functions"): no header is needed
    cat >"$home/leak.c" <<'C'
#include <stdlib.h>
#include <string.h>
struct arguments { unsigned count; int *types; char **values; };
static long long lost;
char leak_init(void *it, void *arguments, char *message) { (void)it; (void)arguments; (void)message; return 0; }
long long leak(void *it, struct arguments *arguments, char *is_null, char *error) {
    (void)it; (void)is_null; (void)error;
    for (long long left = *(long long *)arguments->values[0]; left > 0; left -= 1024) {
        void *block = malloc(1008); /* 1024 with malloc's own 16 */
        if (block) memset(block, 7, 1008), lost += 1024;
    }
    return lost;
}
C
    gcc -O1 -shared -fPIC -o "$home/leak.so" "$home/leak.c"
    chmod 755 "$home/leak.so"
    deployed mariadb@10.11 innodb_buffer_pool_size=64M plugin_dir="$home"
    must "$wringer" --quiet fill --table-size=10000
    must "$wringer" sandbox use bench <<'SQL'
CREATE FUNCTION leak RETURNS INTEGER SONAME 'leak.so';
DELIMITER //
CREATE PROCEDURE leaking(bytes INT) BEGIN WHILE TRUE DO DO leak(bytes); DO SLEEP(0.05); END WHILE; END //
SQL
    local bytes before after finding from until
    for bytes in 4096 16384 65536 262144; do
        "$wringer" sandbox use bench "CALL leaking($bytes)" >/dev/null 2>&1 &
        held=($!)
        sleep 3
        before=$("$wringer" sandbox use bench "SELECT leak(0)" | grep -o '[0-9]*$') from=$(date +%s%N)
        finding=$(recorded)
        after=$("$wringer" sandbox use bench "SELECT leak(0)" | grep -o '[0-9]*$') until=$(date +%s%N)
        "$wringer" sandbox use bench "SELECT CONCAT('KILL ', id) FROM information_schema.processlist WHERE info LIKE 'CALL%' OR info LIKE 'DO %'" |
            { grep -o 'KILL [0-9][0-9]*' || true; } | while read -r statement; do "$wringer" sandbox use bench "$statement" >/dev/null; done
        wait "${held[@]}" 2>/dev/null || true
        held=()
        leak "MariaDB, a function that loses $bytes bytes a call" "$(python3 -c "print(($after - $before) / ($until - $from) * 1e9)")" "$finding"
    done
    gone
    deployed postgresql@15
    must "$wringer" --quiet fill --table-size=10000
    for each in 1 4 16; do
        must "$wringer" sandbox use bench "DROP TABLE IF EXISTS marks; CREATE TABLE marks (at float8, bytes bigint)"
        "$wringer" sandbox use bench "DO \$\$ DECLARE nth int := 0; started timestamptz; bytes bigint; BEGIN
            FOR round IN 1..100000 LOOP
                IF round IN (60, 60 + $((time * 20))) THEN
                    INSERT INTO marks SELECT extract(epoch FROM clock_timestamp()), sum(used_bytes) FROM pg_backend_memory_contexts;
                END IF;
                FOR one IN 1..$each LOOP
                    nth := nth + 1;
                    EXECUTE format('PREPARE leak_%s AS SELECT k, c, pad FROM sbtest1 WHERE id = %s AND k > %s', nth, nth, nth);
                END LOOP;
                PERFORM pg_sleep(0.05);
                EXIT WHEN round > 60 + $((time * 20));
            END LOOP; END \$\$" >/dev/null 2>"$home/session" &
        held=($!)
        sleep 4
        finding=$(recorded)
        wait "${held[@]}" || { cat "$home/session" >&2; exit 4; }
        held=()
        leak "PostgreSQL, $each prepared each time" \
            "$("$wringer" sandbox use bench "SELECT (max(bytes) - min(bytes)) / (max(at) - min(at)) FROM marks" 2>/dev/null | grep -o '[0-9.]*$' | tail -1)" "$finding"
    done
    gone
}

part_peak() {
    local server load pid
    for server in mariadb@10.11 mariadb@11.4 mysql@9 xtradb; do
        for load in oltp_read_write bursts; do
            deployed "$server" innodb_buffer_pool_size=64M
            must "$wringer" --quiet fill --table-size=100000
            half "$load"
            must "$wringer" --quiet memory worst-case --sandbox bench -o json
            cp "$home/out" "$home/asked"
            pid=$("$wringer" sandbox status bench -o json | jq '.sandboxes[0].pid')
            echo 5 >"/proc/$pid/clear_refs"
            half "$load"
            awk '/^VmHWM|^VmPTE/ { sum += $2 } END { print sum * 1024 }' "/proc/$pid/status" >"$home/peak"
            jq -c --arg server "$server" --arg load "$load" --argjson peak "$(cat "$home/peak")" '{part: "peak", server: $server, load: $load, peak_bytes: $peak,
                now_bytes, realistic_bytes, ratio: (.realistic_bytes / $peak), reached: ([.comparison[] | select(.name | test("reached")) | .bytes] | first)}' "$home/asked" >>"$json"
            echo "peak $server $load: $(tail -1 "$json" | jq .ratio)" >&2
            gone
        done
    done
}
half() { # half LOAD: 20 s
    if [ "$1" = bursts ]; then
        # now and then eight sessions sort, or make temporary tables
        for _ in 1 2 3; do
            for _ in 1 2 3 4 5 6 7 8; do
                "$wringer" sandbox use bench "SELECT COUNT(*) FROM (SELECT k, c, COUNT(*) FROM sbtest1 WHERE id <= 50000 GROUP BY c, k, id ORDER BY c LIMIT 1000000) AS s" >/dev/null 2>&1 &
            done
            wait
        done
    else
        must "$wringer" --quiet load "$1" --threads=16 --time=20 --table-size=100000
    fi
}

for part in $only; do
    declare -F "part_$part" >/dev/null || usage
    "part_$part"
done
echo "the same as JSON, a line for each row: $json" >&2
python3 - "$json" <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
bad = False
mib = lambda it: f"{it / 1048576:.1f} MiB" if it else "-"
def aim(holds):
    global bad
    bad |= not holds
    return "" if holds else "  MISS"
steady = [it for it in rows if it["part"] == "steady"]
if steady:
    leaks = sum(it["verdict"] == "leak" for it in steady)
    names = sorted({it["verdict"] for it in steady})
    print(f"steady  {leaks} of {len(steady)} recordings are called a leak; verdicts: {', '.join(names)}{aim(leaks <= max(1, len(steady) // 20))}")
for it in rows:
    if it["part"] == "leak":
        near = it["truth"] and abs(it["rate"] / it["truth"] - 1) <= 0.1
        print(f"leak    {it['name']}: {it['rate']:.0f} bytes a second ({it['low']:.0f} to {it['high']:.0f}), true {it['truth']:.0f}, {it['verdict']}, {it['leaf']}, {it['inventories']} inventories{aim(near)}")
peaks = [it for it in rows if it["part"] == "peak"]
for it in peaks:
    off = "" if abs(it["ratio"] - 1) <= 0.25 else "  off"
    print(f"peak    {it['server']:<14} {it['load']:<16} realistic {mib(it['realistic_bytes'])}, reached {mib(it['peak_bytes'])}: {it['ratio']:.3f}; MySQLTuner's {mib(it['reached'])}{off}")
if peaks:
    near = sum(abs(it["ratio"] - 1) <= 0.25 for it in peaks)
    print(f"peak    {near} of {len(peaks)} within 25 %{aim(near >= len(peaks) * 7 / 8)}")
sys.exit(1 if bad else 0)
PYTHON
