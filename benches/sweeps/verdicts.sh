#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How often does `wringer compare` show a difference where there is none, and how often a loss of a tenth that was planted? Identical cells (a
# fresh start on a fresh clone each) of one experiment; random draws of them as two sides. On the same data: ministat, and the verdict that
# took the slots of one run for repeats, as Wringer had it before.
#
#   benches/sweeps/verdicts.sh [--server mariadb|postgresql] [--cells N] [--planted-cells N] [--draws N] [--seconds N] [--json] [--folder FOLDER]
#
# 60 identical cells, 2000 draws of five blocks of two; 30 cells with nine tenths of the CPU time, 2000 draws of ten a side; 5 s each: some
# 25 minutes. The loss is planted by the quota of a cgroup, which needs root; --planted-cells 0 leaves it out. Needs jq, python3 and ministat. A table on the
# standard output, with --json one object a row; progress goes to standard error. FOLDER on the disk to try (/var/tmp). WRINGER names the program, without it the release build's.
# Exit code 1: more than 6 % of the draws of identical cells show a difference in any figure, or less than 90 % show the planted loss.
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
server=mariadb cells=60 planted=30 draws=2000 seconds=5 json=false folder=/var/tmp
while [ $# -gt 0 ]; do
    case "$1" in
        --server) server=${2:?--server wants a name}; shift ;;
        --cells) cells=${2:?--cells wants a number}; shift ;;
        --planted-cells) planted=${2:?--planted-cells wants a number}; shift ;;
        --draws) draws=${2:?--draws wants a number}; shift ;;
        --seconds) seconds=${2:?--seconds wants a number}; shift ;;
        --json) json=true ;;
        --folder) folder=${2:?--folder wants a folder}; shift ;;
        *) usage ;;
    esac
    shift
done
case $server in
    mariadb | postgresql) ;;
    *) missing "--server mariadb or --server postgresql" ;;
esac
[ "$cells" -ge 10 ] || missing "10 cells: each draw takes five blocks of two"
[ "$planted" -eq 0 ] || [ "$planted" -ge 10 ] || missing "10 planted cells, or --planted-cells 0: each draw takes ten a side"
need_program jq
need_program python3
need_program ministat
[ "$planted" -eq 0 ] || need_root "a loss is planted by a quota of CPU time (--planted-cells 0 leaves it out)"
build_wringer
work=$(mktemp -d "$folder/verdicts-bench.XXXXXX")
chmod 711 "$work"
export WRINGER_HOME=$work/home
mkdir -m 711 "$WRINGER_HOME"
# shellcheck disable=SC2317 # called by the trap
clean() {
    "$wringer" undo >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM
say() { echo "verdicts.sh: $*" >&2; }

# half a CPU for the server, so that the quota is what limits it; a tenth less of it is a tenth less of its throughput
experiment() { # experiment CPUS
    local cpus=""
    [ "$planted" -eq 0 ] || cpus="cpus = $1"
    cat <<EOF
schema = 1
name = "cells"
[server]
flavour = "$server"
[fill]
rows = 20000
secondary = true
[squeeze]
$cpus
[load]
workload = "oltp_read_only"
threads = 2
warmup = "1s"
time = "${seconds}s"
[[arm]]
name = "cell"
EOF
}

run_cells() { # run_cells KIND COUNT CPUS
    experiment "$3" >"$work/$1.toml"
    local number
    for number in $(seq "$2"); do
        [ $((number % 10)) -ne 0 ] || say "$1: $number of $2"
        "$wringer" run "$work/$1.toml" --to "$work/$1-$(printf %03d "$number")" >"$work/out" 2>"$work/err" ||
            { say "a cell failed: $(tail -n2 "$work/err")"; exit 4; }
    done
}

"$wringer" sandbox fetch "$server" >/dev/null 2>&1 || true
run_cells same "$cells" 0.50
[ "$planted" -eq 0 ] || run_cells planted "$planted" 0.45

draw() { python3 "$here/benches/sweeps/draws.py" --wringer "$wringer" --draws "$draws" "$@"; }
rows=$work/rows.jsonl
say "drawing"
draw --blocks 5 --same "$work"/same-*/ | jq -c --arg server "$server" '{ row: "identical", server: $server } + .' >"$rows"
if [ "$planted" -gt 0 ]; then
    draw --blocks 10 --same "$work"/same-*/ --planted "$work"/planted-*/ |
        jq -c --arg server "$server" '{ row: "a tenth less", server: $server } + .' >>"$rows"
fi
if $json; then
    cat "$rows"
else
    printf '%-13s %-11s %6s %7s %9s %9s %9s %9s %11s\n' cells server draws spread 'any fig.' wringer ministat slots detectable
    jq -r 'def share(n): (1000 * n / .draws | round / 10 | tostring) + " %";
        def shown(v): share(if .row == "identical" then v.lower + v.higher else v.lower end);
        [.row, .server, .draws, ((1000 * .spread_ratio | round / 10 | tostring) + " %"), share(.any_figure_shown), shown(.verdicts.wringer), shown(.verdicts.ministat),
         shown(.verdicts.slots), ((.detectable_ratio_median // 0) * 1000 | round / 1000)] | @tsv' "$rows" |
        awk -F'\t' '{ printf "%-13s %-11s %6s %7s %9s %9s %9s %9s %11s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9 }'
fi
jq -es 'all(if .row == "identical" then .any_figure_shown <= 0.06 * .draws else .verdicts.wringer.lower >= 0.9 * .draws end)' "$rows" >/dev/null || exit 1
