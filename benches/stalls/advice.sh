#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does it come as `wringer stalls advise` says? Its prediction, on XtraDB under load, and what the same load then measures with the settings that it is about.
#
#   benches/stalls/advice.sh [--quick] [--seed N] [--threads N] [--time SECONDS] [--repeat N] [--json FILE]
#
# Needs jq and what a sandbox of XtraDB (MariaDB 10.1) needs; no root. Point selects over a table of twice the pool, from --threads clients that ask again at once.
# First `advise` reads the server under backoff at a depth of 256 pages, in the midst of that load: nothing of what is measured afterwards is known to it. Then each
# arm in turn, --repeat times: backoff at 256, 512 and 1024, legacy at 256. What counts is the median.
#
# Exit code 1: a measured change is more than 15 % off what was predicted; or legacy, which is advised, is 5 % slower than backoff at 256 pages. Other servers, and a dirty tail
# of the list, are not measured here.
#
# What the columns mean:
#   predicted  queries a second, lowest and highest of the band
#   measured   queries a second
#   change     measured, against backoff at 256; and the same predicted, the middle of its band
#   off        how far the measured change is from the predicted one (aim: 15 %)
#   in band    whether what was measured lies in what was predicted
#   longest    the longest query: its band, and measured
set -euo pipefail
# shellcheck source=benches/load/common.sh
. "$(dirname "$0")/../load/common.sh"
seed=1 threads=2 time=10 repeat=3 quick=no json=$target/bench-stalls-advice.json
take_flags "seed threads time repeat quick json" "$@"
if [ "$quick" != no ]; then time=4 repeat=1; fi
need_program jq
need_wringer
own_home
trap 'exit 130' INT TERM HUP
mkdir -p "$(dirname "$json")"

quietly() { "$wringer" --quiet "$@" >"$home/said" 2>&1 || { cat "$home/said" >&2; exit 4; }; }
quietly sandbox deploy xtradb@5.6 --name bench --start -c innodb_buffer_pool_size=32M -c innodb_buffer_pool_instances=1 -c innodb_lru_scan_depth=256 -c innodb_max_dirty_pages_pct=0
eval "$("$wringer" sandbox export bench env)"
WRINGER_DSN=$("$wringer" sandbox export bench dsn)
export WRINGER_DSN
rows=300000
quietly fill --table-size=$rows
load() { # load SECONDS: point selects, each page of the table as likely
    "$wringer" --quiet load oltp_point_select --table-size=$rows --rand-type=uniform --threads="$threads" --rand-seed="$seed" --time="$1" --percentile=100 -o json >"$home/load" 2>"$home/said"
}
sleep 5 # what was written is out of the way
quietly sandbox use bench "SET GLOBAL innodb_monitor_enable = 'buffer_LRU%'"
load 3

load $((time + 4)) &
busy=$!
sleep 2
"$wringer" --quiet stalls advise --sandbox bench --time "$time" --threads "$threads" --starts 16 --save "$home/reading" -o json >"$home/advised" 2>"$home/said.advised" || { cat "$home/said.advised" >&2; exit 4; }
wait $busy || true

for turn in $(seq "$repeat"); do
    for arm in backoff:256 legacy:256 backoff:512 backoff:1024; do
        quietly sandbox use bench "SET GLOBAL innodb_empty_free_list_algorithm = ${arm%:*}; SET GLOBAL innodb_lru_scan_depth = ${arm#*:}"
        load 2
        load "$time" || { cat "$home/said" >&2; exit 4; }
        jq -c --arg arm "$arm" --argjson turn "$turn" '{arm: $arm, turn: $turn, result: .}' "$home/load" >>"$home/measured"
    done
done
jq -n --slurpfile measured "$home/measured" --slurpfile advised "$home/advised" '
    def median: sort | .[length / 2 | floor];
    def middle: (.low + .high) / 2;
    ($advised[0].trades | map({key: "\(.algorithm):\(.lru_scan_depth)", value: .}) | from_entries) as $predicted
    | [$measured | group_by(.arm)[] | {arm: .[0].arm, qps: (map(.result.queries_per_second) | median), longest_us: (map(.result.response[-1].latency_us) | median)}] as $arms
    | ($arms[] | select(.arm == "backoff:256")) as $now
    | {advice: [$advised[0].advice[].statement], load: $advised[0].trades_of.load,
       tail: $advised[0].dirty_tail, sampled: ($advised[0].counters | map({key: .name, value: .value_per_second}) | from_entries),
       arms: [$arms[] | . as $arm | $predicted[.arm] as $p | ($p.queries_per_second) as $q
        | . + {predicted: $q, in_band: (.qps >= $q.low and .qps <= $q.high), change: (.qps / $now.qps),
               predicted_change: ($p.queries_times | middle), predicted_times: $p.queries_times, longest_predicted_us: $p.stall_max_us}
        | . + {off: (.change / .predicted_change - 1)}]}' >"$json"
jq -r '.load | join(", ")' "$json"
jq -r '.arms[] | [.arm, "\(.predicted.low | round) to \(.predicted.high | round)", (.qps | round), "\(.change * 100 | round / 100) / \(.predicted_change * 100 | round / 100)", "\(.off * 100 | round) %", .in_band,
    "\(.longest_predicted_us.low / 1000 | round) to \(.longest_predicted_us.high / 1000 | round) ms, \(.longest_us / 1000 | round) ms"] | @tsv' "$json" |
    awk -F'\t' 'BEGIN {printf "%-14s %18s %9s %14s %6s %8s  %s\n", "arm", "predicted q/s", "measured", "change", "off", "in band", "longest"} {printf "%-14s %18s %9s %14s %6s %8s  %s\n", $1, $2, $3, $4, $5, $6, $7}'
jq -r '(.arms | map(select(.arm != "backoff:256"))) as $arms | ($arms | map(.off | fabs) | max) as $off | ($arms[] | select(.arm == "legacy:256").change) as $change
    | "change, furthest off what was predicted: \($off * 100 | round) % (aim: 15 % at most)\nlegacy, against backoff at 256: \($change * 100 | round) % (aim: 95 % at least)"' "$json"
jq -e '(.arms | map(select(.arm != "backoff:256"))) as $arms | all($arms[]; .off >= -0.15 and .off <= 0.15) and all($arms[] | select(.arm == "legacy:256"); .change >= 0.95)' "$json" >/dev/null || exit 1
