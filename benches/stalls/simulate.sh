#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How many simulated seconds does `wringer stalls simulate` reach in a second?
#
#   benches/stalls/simulate.sh [--seed N] [--seconds N] [--json FILE]
#
# Needs jq; no root, no server. The case of two minutes is a load of four clients at 100 queries a second each, and a scan that empties the free list two minutes
# after the last one has ended. The other lines are the same server with other loads. --seconds is how long each is simulated (60000).
#
# Exit code 1: the case of two minutes is slower than its aim, 10,000 simulated seconds a second.
#
# What the columns mean:
#   simulated  seconds of the simulated clock
#   took       seconds of this machine's clock, the program's start and its output included
#   speed      the one divided by the other
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
seed=1 seconds=60000 json=$target/bench-stalls-simulate.json
take_flags "seed seconds json" "$@"
command -v jq >/dev/null || missing jq
[ -x "$wringer" ] || missing "$wringer: cargo build --release, or WRINGER=..."
mkdir -p "$(dirname "$json")"
: >"$json"

measure() { # measure NAME SECONDS FLAG...
    local name=$1 simulated=$2 from to
    shift 2
    from=$(date +%s.%N)
    "$wringer" stalls simulate --starts 0 --seed "$seed" --time "$simulated" -o json "$@" >/dev/null
    to=$(date +%s.%N)
    jq -nc --arg name "$name" --argjson simulated "$simulated" --argjson from "$from" --argjson to "$to" \
        '{name: $name, simulated_s: $simulated, took_s: ($to - $from), speed: ($simulated / ($to - $from))}' | tee -a "$json" |
        jq -r '[.name, .simulated_s, (.took_s * 1000 | round / 1000), (.speed | round)] | @tsv' |
        awk -F'\t' '{printf "%-34s %10s %8s %10s\n", $1, $2, $3, $4}'
}

printf '%-34s %10s %8s %10s\n' "case" simulated took speed
backoff=(--server percona@8.0.29 --algorithm backoff --pages-per-query 0.73)
measure "two minutes" "$seconds" "${backoff[@]}" --threads 4 --rate 400 --burst-pages 1229 --burst-every 120
measure "nobody sends anything" "$seconds" "${backoff[@]}" --threads 0
measure "one client, as fast as it goes" $((seconds / 100)) "${backoff[@]}" --threads 1
measure "64 clients, 5 % dirty, legacy" $((seconds / 1000)) --server percona@8.0.29 --algorithm legacy --pages-per-query 0.73 --threads 64 --dirty 0.05
speed=$(jq -r 'select(.name == "two minutes").speed | floor' "$json")
echo "two minutes: $speed simulated seconds a second (aim: 10000 at least)"
[ "$speed" -ge 10000 ] || exit 1
