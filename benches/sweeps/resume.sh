#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does a matrix lose or repeat a cell when it is killed? And is the remaining time right that it tells after one block?
#
#   benches/sweeps/resume.sh [--blocks N] [--kills N] [--seed N] [--writes yes|no] [--json FILE] [--folder FOLDER]
#
# Six settings of a small MariaDB, 10 blocks: 60 cells. First one matrix without a kill, for the remaining time. Then another one, whose process is
# ended by SIGKILL at 20 random moments; then, where WRINGER_WITH_FAILPOINTS names a program with failpoints, one that is ended before and after
# every write of its state. Each is run to its end: each cell counts once, none was begun again once it was done, and no run, sandbox or mount is left.
# With --blocks 1 there is no remaining time to judge, and that part is left out.
# Some 15 minutes, and as long again for the writes. Needs jq. One line for each part; --json writes them to FILE as one object. WRINGER names
# the program, without it the release build's. Exit code 1: a cell was lost or repeated, something was left, or the time was off by more than 20 %.
set -euo pipefail
# shellcheck source=benches/sweeps/common.sh
. "$(dirname "$0")/common.sh"
blocks=10 kills=20 seed=1 writes=yes json='' folder=/var/tmp
take_flags "blocks kills seed writes json folder" "$@"
need_program jq
need_wringer
work=$(mktemp -d "$folder/resume-bench.XXXXXX")
chmod 711 "$work"
export WRINGER_HOME=$work/home
mkdir -m 711 "$WRINGER_HOME"
# kept fills go to a cache of its own; fetched servers are linked
cache=${WRINGER_CACHE:-}
export WRINGER_CACHE=$work/cache
mkdir "$WRINGER_CACHE"
[ -z "$cache" ] || [ ! -d "$cache/servers" ] || cp -al "$cache/servers" "$WRINGER_CACHE"
pid=
# shellcheck disable=SC2317 # called by the trap
clean() {
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
    "$wringer" undo >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM
say() { echo "resume.sh: $*" >&2; }

cat >"$work/cells.toml" <<EOF
schema = 1
name = "cells"
[server]
flavour = "mariadb"
[server.options]
innodb_buffer_pool_size = "16M"
[fill]
rows = 1000
[load]
workload = "oltp_point_select"
time = "1s"
[matrix]
blocks = $blocks
seed = $seed
[matrix.cross]
"load.threads" = [1, 2, 4]
"load.distribution" = ["uniform", "zipfian"]
EOF
cells=$((6 * blocks))

matrix() { # matrix FOLDER PROGRAM
    (exec "${2:-$wringer}" matrix run "$work/cells.toml" --to "$work/$1" --wait 0s --in-turn --quiet)
}

exec_matrix() { # of a background process: becomes the program
    exec "$wringer" matrix run "$work/cells.toml" --to "$work/$1" --wait 0s --in-turn --quiet >/dev/null 2>&1
}

result='{}' bad=0
note() { # note NAME OBJECT
    result=$(jq -c --arg name "$1" --argjson value "$2" '.[$name] = $value' <<<"$result")
    jq -r --arg name "$1" '"\($name): " + (to_entries | map("\(.key) \(.value)") | join(", "))' <<<"$2"
}

judge() { # judge NAME FOLDER KILLS REPEATED
    local lost twice rest
    lost=$((cells - $(done_cells "$work/$2")))
    twice=$(state "$work/$2" '[.cells[] | select([.attempts[] | select(.end == "counts")] | length != 1)] | length')
    rest=$(left "$work")
    note "$1" "{\"cells\":$cells,\"kills\":$3,\"lost\":$lost,\"not_counted_once\":$twice,\"begun_again\":$4,\"left\":$rest}"
    [ $((lost + twice + $4 + rest)) -eq 0 ] || bad=1
}

"$wringer" sandbox fetch mariadb >/dev/null 2>&1 || true
say "$cells cells without a kill"
exec_matrix whole &
pid=$!
told_us= began=
while kill -0 "$pid" 2>/dev/null; do
    if [ -z "$told_us" ] && [ "$(state "$work/whole" '[.cells[] | select(.block == 1 and .state != "done")] | length')" = 0 ]; then
        told_us=$(state "$work/whole" '.remaining.us // 0') began=${EPOCHREALTIME/./}
    fi
    sleep 0.2
done
wait "$pid"
pid=
took_us=$((${EPOCHREALTIME/./} - ${began:-0}))
told_us=${told_us:-0}
if [ "$blocks" -lt 2 ]; then
    say "left out: the remaining time, which is told after one block of several"
else
    ratio=$(jq -n "$told_us / $took_us * 1000 | round / 1000")
    note remaining "{\"told_s\":$((told_us / 1000000)),\"took_s\":$((took_us / 1000000)),\"ratio\":$ratio}"
    jq -en "$ratio >= 0.8 and $ratio <= 1.2" >/dev/null || bad=1
fi

say "$kills kills at random moments"
RANDOM=$seed
killed=0 again=0
while [ "$killed" -lt "$kills" ]; do
    before=$(state "$work/killed" "$attempts")
    exec_matrix killed &
    pid=$!
    # from at once to about four cells
    sleep "$(jq -n "$RANDOM / 32768 * 8 + 0.05")"
    if kill -9 "$pid" 2>/dev/null; then killed=$((killed + 1)); fi
    wait "$pid" 2>/dev/null || true
    pid=
    again=$((again + $(repeated "$before" "$(state "$work/killed" "$attempts")")))
    [ "$(done_cells "$work/killed")" != "$cells" ] || break
done
before=$(state "$work/killed" "$attempts")
matrix killed >/dev/null
again=$((again + $(repeated "$before" "$(state "$work/killed" "$attempts")")))
judge killed killed "$killed" "$again"

if [ "$writes" = yes ] && [ -n "${WRINGER_WITH_FAILPOINTS:-}" ]; then
    say "a kill before and after every write of the state"
    killed=0 again=0
    # of each call the first and second are those of its beginning, then come a cell that begins and a cell that has ended
    while [ "$(done_cells "$work/written")" != "$cells" ]; do
        for at in 1 2 3 4 5 6; do
            before=$(state "$work/written" "$attempts")
            WRINGER_CRASH_AT_STATE=$at matrix written "$WRINGER_WITH_FAILPOINTS" >/dev/null 2>&1 || killed=$((killed + 1))
            again=$((again + $(repeated "$before" "$(state "$work/written" "$attempts")")))
        done
    done
    matrix written >/dev/null
    judge written written "$killed" "$again"
else
    say "left out: kills at each write; they need a program with failpoints in WRINGER_WITH_FAILPOINTS"
fi
[ -z "$json" ] || jq . <<<"$result" >"$json"
exit $bad
