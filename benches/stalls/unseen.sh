#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does `wringer stalls simulate` predict settings that nobody has looked at? Random draws, each predicted first and then run on XtraDB.
#
#   benches/stalls/unseen.sh [--quick] [--seed N] [--draws N] [--time SECONDS] [--json FILE]
#
# Needs root, jq, perl, bpftrace and what a sandbox of XtraDB (MariaDB 10.1) needs. A draw is a scan depth of 128 to 4096 pages, 1 to 16 connections, a pool of up
# to 128 MiB, and a loop: closed, or open at a random rate. Always one instance: below 1 GiB this server makes one of whatever it is told. What goes into its prediction:
#   service time, pages a query   from a load of the same connections under `legacy`, where nobody waits for a refill
#   sleep overhead                10 ms sleeps on this host, just before the load
#   phase, first refill           from a light warm-up in which the free list never gets empty: the moments at which it grows
# Nothing comes from the stalls that are measured. Each prediction lies in FILE.predictions (one line for each draw) before its load begins.
#
# Exit code 1: less than 10 of 12 draws are within 15 % in all four figures.
#
# What the columns mean, for each of four figures:
#   measured   queries a second by the load's clock; median and longest of the waits of 20 ms and more by probes on the function that waits
#              (buf_LRU_get_free_block); what Innodb_buffer_pool_wait_free rose by
#   predicted  the same, by `wringer stalls simulate`; stalls of 20 ms and more
#   ratio      the one divided by the other; 1 where both are 0. `in` says whether all four ratios are within 15 %
# The band is that of three predictions, with the measured service time and with 10 % less and more: near the depth at which the list just lasts from one refill to
# the next, a little more speed makes stalls where there were none.
# The load under `legacy` is run once more afterwards: where it is 15 % faster or slower then, the host did not keep the speed that the prediction was made with.
# Such a draw counts, but is told apart.
set -euo pipefail
# shellcheck source=benches/load/common.sh
. "$(dirname "$0")/../load/common.sh"
seed=1 draws=12 time=8 quick=no json=$target/bench-stalls-unseen.json
take_flags "seed draws time quick json" "$@"
if [ "$quick" != no ]; then draws=2 time=4; fi
need_program jq
need_program perl
need_program bpftrace
need_root "for probes on the function that waits"
need_wringer
own_home
tracer=
stop_tracer() {
    # bpftrace can miss a signal that comes while it prints
    while [ -n "$tracer" ] && kill "$tracer" 2>/dev/null; do sleep 0.2; done
    [ -z "$tracer" ] || wait "$tracer" 2>/dev/null || true
    tracer=
}
trap 'stop_tracer; clean' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$(dirname "$json")"
: >"$json.predictions"
: >"$home/results"

quietly() { "$wringer" --quiet "$@" >"$home/said" 2>&1 || { cat "$home/said" >&2; exit 4; }; }
sql() { "$wringer" --quiet sandbox use bench "$1" 2>"$home/said"; }
number() { sql "$1" | grep -Eo '[0-9]+$' | tail -1; } # number SQL: the last column of its last row
status() { number "SHOW GLOBAL STATUS LIKE '$1'"; }
now_us() { date +%s%6N; }
table_pages=16384
quietly sandbox deploy xtradb@5.6 --name bench --start -c innodb_buffer_pool_size=64M -c innodb_max_dirty_pages_pct=0 -c innodb_adaptive_hash_index=OFF
quietly fill --sandbox bench --size=256M --rows-per-page 16
rows=$(number "SELECT COUNT(*) FROM sbtest1")
sleep 3 # what was written is out of the way

# load SECONDS THREADS RATE SEED: point selects, each page of the table as likely
load() {
    "$wringer" --quiet load oltp_point_select --sandbox bench --table-size="$rows" --rand-type=uniform --time="$1" --threads="$2" --rate="$3" --rand-seed="$4" --percentile=50,100 -o json 2>"$home/said" || { cat "$home/said" >&2; exit 4; }
}
# DEPTH THREADS INSTANCES MIB RATE: one line for each draw; a rate of 0: closed
awk -v seed="$seed" -v draws="$draws" 'BEGIN { srand(seed)
    for (i = 0; i < draws; i++) {
        depth = int(128 * exp(rand() * log(32))); threads = 1 + int(16 * rand()); instances = 1
        least = depth * 1.5 > 1300 ? depth * 1.5 : 1300
        pages = instances * least * (1 + rand()); if (pages > 8192) pages = 8192
        mib = int(pages / 64) + 1; rate = rand() < 0.67 ? 0 : int(300 * exp(rand() * log(5)))
        print depth, threads, instances, mib, rate
    } }' >"$home/draws"

# refills of a free list that never gets empty: microseconds of the wall clock
refills() {
    for _ in $(seq 420); do
        printf '%s' "SELECT CONCAT('at ', CAST(1000000 * UNIX_TIMESTAMP(SYSDATE(6)) AS UNSIGNED), ' ', VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_buffer_pool_pages_free'; DO SLEEP(0.004);"
    done >"$home/looks"
    sql "$(cat "$home/looks")" | grep -Eo 'at [0-9]+ [0-9]+' | awk '$3 > free && NR > 1 { if ($2 - last > 10000) print $2; last = $2 } { free = $3 }' >"$home/refills"
}

number=0
while read -r depth threads instances mib rate; do
    number=$((number + 1))
    quietly sandbox stop bench
    quietly sandbox start bench -c innodb_buffer_pool_size="${mib}M" -c innodb_buffer_pool_instances="$instances" -c innodb_lru_scan_depth="$depth" -c innodb_max_dirty_pages_pct=0 \
        -c innodb_adaptive_hash_index=OFF -c innodb_empty_free_list_algorithm=legacy
    sql "SET GLOBAL innodb_monitor_enable = 'buffer_LRU%'" >/dev/null
    pid=$("$wringer" sandbox list -o json | jq -r '.sandboxes[] | select(.name == "bench").pid')
    server=$(readlink "/proc/$pid/exe")
    waits_of="$server:_Z22buf_LRU_get_free_blockP10buf_pool_t"
    bpftrace -B line -e "uprobe:$waits_of /pid == $pid/ { @t[tid] = nsecs; } uretprobe:$waits_of /pid == $pid && @t[tid]/ { \$us = (nsecs - @t[tid]) / 1000; if (\$us >= 20000) { printf(\"wait %llu\\n\", \$us); } delete(@t[tid]); }" >"$home/waits" 2>"$home/said.bpftrace" &
    tracer=$!
    load 3 8 0 "$number" >"$home/preheat"
    total=$(status Innodb_buffer_pool_pages_total)
    demand() { number "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'buffer_LRU_get_free_search'"; }
    before=$(demand)
    launched=$(now_us)
    load 3 "$threads" 0 $((number + 100)) >"$home/legacy"
    after=$(demand)
    inputs=$(jq -c --argjson k "$threads" --argjson pages $((after - before)) --argjson launched "$launched" '
        .load.measured as $m | {pages_per_query: ($pages / $m.transactions), legacy_qps: .queries_per_second,
         service_us: ($k * 1e6 / .queries_per_second),
         launch_us: (.started_unix_us + $m.started_us - $launched)}' "$home/legacy")
    sql "SET GLOBAL innodb_empty_free_list_algorithm = backoff" >/dev/null
    # in a quiet time the LRU manager's sleep grows by 50 ms each round, up to the second that it is taken to have
    sleep 7
    # fast enough to tell two refills that are 10 ms apart, and too slow to take half of the list between them
    load 3 1 $((depth * 2 / 5 < 500 ? depth * 2 / 5 : 500)) $((number + 200)) >"$home/warm" &
    warm=$!
    sleep 0.3
    refills
    wait $warm
    overhead_us=$(perl -MTime::HiRes=time,sleep -e 'for (1..40) { $t = time; select(undef, undef, undef, 0.01); push @o, (time - $t) * 1e6 - 10000 } @o = sort { $a <=> $b } @o; printf "%.0f", $o[20]')
    # the refills of the last second of the warm-up, and when the next one of each comes: 1 s and 0.1 % of slack later, and so on
    starts=$(($(now_us) + 1500000))
    begins=$((starts + $(jq -r .launch_us <<<"$inputs" | cut -d. -f1)))
    timing=$(awk -v begins="$begins" '{ at[NR] = $1 } END { last = at[NR]; other = last
        for (i = NR - 1; i > 0; i--) if (last - at[i] < 980000) { other = at[i]; break }
        period = 1001100; n = int((begins - other) / period) + 1
        printf "{\"wake_offset_us\":%d,\"phase_us\":%d,\"refills\":%d}", other + n * period - begins, (last - other) % period, NR }' "$home/refills")
    flags=(--server mariadb@10.1.23 --algorithm backoff --lru-scan-depth "$depth" --pool $((total / instances * instances * 16384)) --instances "$instances" --threads "$threads" --time "$time" --starts 0 --seed "$seed"
        --pages-per-query "$(jq .pages_per_query <<<"$inputs")" --sleep-overhead "${overhead_us}us"
        --wake-offset "$(jq .wake_offset_us <<<"$timing")us" --phase "$(jq .phase_us <<<"$timing")us")
    [ "$rate" -eq 0 ] || flags+=(--rate "$rate")
    simulated() { # simulated FACTOR: the four figures, with a service time that is FACTOR times the one measured
        "$wringer" stalls simulate "${flags[@]}" --service-time "$(jq --argjson f "$1" '.service_us * $f * 100 | round / 100' <<<"$inputs")us" -o json |
            jq -c '.runs[0] | ([.events[].length_us | select(. >= 20000)] | sort) as $l | {queries_per_second, median_us: ($l[($l | length) / 2 | floor] // 0), max_us: ($l[-1] // 0), wait_free}'
    }
    { simulated 1; simulated 0.9; simulated 1.1; } >"$home/simulated"
    jq -sc --argjson number "$number" --argjson inputs "$inputs" --argjson timing "$timing" --argjson overhead "$overhead_us" --arg flags "${flags[*]}" '
        . as $all | {draw: $number, flags: $flags, inputs: ($inputs + $timing + {sleep_overhead_us: $overhead}), predicted: .[0],
        band: (.[0] | with_entries(.key as $k | .value = ([$all[][$k]] | {low: min, high: max})))}' "$home/simulated" >>"$json.predictions"
    sync "$json.predictions"
    lines=$(wc -l <"$home/waits")
    waits=$(status Innodb_buffer_pool_wait_free)
    left=$((starts - $(now_us)))
    [ "$left" -lt 0 ] || sleep "$(awk -v us="$left" 'BEGIN { printf "%.3f", us / 1e6 }')"
    load "$time" "$threads" "$rate" $((number + 300)) >"$home/measured"
    waits=$(($(status Innodb_buffer_pool_wait_free) - waits))
    sleep 0.3
    lengths=$(tail -n +$((lines + 1)) "$home/waits" | awk '/^wait/ { print $2 }' | jq -sc .)
    sql "SET GLOBAL innodb_empty_free_list_algorithm = legacy" >/dev/null
    load 2 "$threads" 0 $((number + 400)) >"$home/legacy.after"
    stop_tracer
    speed=$(jq -n --slurpfile after "$home/legacy.after" --argjson inputs "$inputs" '$after[0].queries_per_second / $inputs.legacy_qps * 1000 | round / 1000')
    tail -1 "$json.predictions" | jq -c --argjson lengths "$lengths" --argjson waits "$waits" --argjson late $((-left)) --argjson speed "$speed" --slurpfile load "$home/measured" '
        ($lengths | sort) as $l | . + {measured: {queries_per_second: $load[0].queries_per_second, median_us: ($l[($l | length) / 2 | floor] // 0), max_us: ($l[-1] // 0), wait_free: $waits}, stalls: ($l | length), late_us: $late, speed: $speed, is_steady: ($speed >= 0.85 and $speed <= 1.15)}
        | . as $it | .ratio = (.measured | with_entries(.key as $k | .value as $v | $it.predicted[$k] as $p | .value = (if $v == 0 and $p == 0 then 1 elif $p == 0 then null else $v / $p end)))
        | .is_in_band = all(.measured | to_entries[]; .value >= $it.band[.key].low * 0.85 and .value <= $it.band[.key].high * 1.15)
        | .is_in = all(.ratio[]; . != null and . >= 0.85 and . <= 1.15)' >>"$home/results"
    tail -1 "$home/results" | jq -r --arg draw "depth $depth, $threads clients, $instances of $mib MiB, $([ "$rate" -eq 0 ] && echo closed || echo "$rate/s")" '
        def f: if . == null then "-" else . * 100 | round / 100 end;
        "\(.draw) \($draw): " + ([("queries_per_second", "median_us", "max_us", "wait_free") as $k | "\($k) \(.measured[$k] | round) / \(.predicted[$k] | round) = \(.ratio[$k] | f)"] | join(", ")) + (if .is_in then ": in" elif .is_in_band then ": in the band" else ": out" end) + (if .is_steady then "" else ", host \(.speed) times as fast afterwards" end)'
done <"$home/draws"
jq -s '{seed: '"$seed"', draws: ., within_15_percent: (map(select(.is_in)) | length), within_band: (map(select(.is_in or .is_in_band)) | length), steady: (map(select(.is_steady)) | length), steady_within_15_percent: (map(select(.is_steady and .is_in)) | length)}' "$home/results" >"$json"
jq -r '"\(.within_15_percent) of \(.draws | length) draws are within 15 % in all four (aim: 10 of 12), \(.within_band) within 15 % of the band; of those in which the host kept its speed, \(.steady_within_15_percent) of \(.steady)"' "$json"
jq -e '.within_15_percent * 12 >= (.draws | length) * 10' "$json" >/dev/null || exit 1
