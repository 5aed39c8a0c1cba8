#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How often does `wringer compare` show a difference where there is none, and how often a loss of a tenth that was planted? Cells (a fresh start on a
# fresh clone each) in blocks, as `wringer matrix` runs them: the cells of a block beside each other, in a random order. Random draws of blocks, of
# which each gives one cell to each side. On the same data: ministat, and the verdict that took the slots of one run for repeats, as Wringer had it
# before.
#
#   benches/sweeps/verdicts.sh [--server mariadb|postgresql] [--cells N] [--planted-cells N] [--draws N] [--seconds N] [--seed N] [--json] [--folder FOLDER]
#
# 60 identical cells in blocks of two, 2000 draws of five blocks. In 30 of the blocks there is also a cell that lost a tenth to a quota of CPU time (a
# cgroup, which needs root). 30 more blocks have a cell on a slow disk, and one that lost a tenth to a longer delay of reads: two cells before them
# show how long that delay is. 2000 draws of ten blocks for each loss; 5 s each cell: some 40 minutes. --planted-cells 0 leaves the losses out. Needs
# jq, python3 and ministat. A table on the standard output, with --json one object a row; progress goes to standard error. FOLDER on the disk to try
# (/var/tmp). WRINGER names the program, without it the release build's.
# Exit code 1: more than 6 % of the draws of identical cells show a difference in any figure, or less than 90 % show a planted loss.
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
server=mariadb cells=60 planted=30 draws=2000 seconds=5 seed=1 json=false folder=/var/tmp
while [ $# -gt 0 ]; do
    case "$1" in
        --server) server=${2:?--server wants a name}; shift ;;
        --cells) cells=${2:?--cells wants a number}; shift ;;
        --planted-cells) planted=${2:?--planted-cells wants a number}; shift ;;
        --draws) draws=${2:?--draws wants a number}; shift ;;
        --seconds) seconds=${2:?--seconds wants a number}; shift ;;
        --seed) seed=${2:?--seed wants a number}; shift ;;
        --json) json=true ;;
        --folder) folder=${2:?--folder wants a folder}; shift ;;
        *) usage ;;
    esac
    shift
done
case $server in
    mariadb) pool='innodb_buffer_pool_size = "16M"' rows=300000 ram= ;;
    # PostgreSQL reads through the page cache, which must not hold the tables either
    postgresql) pool='shared_buffers = "16MB"' rows=600000 ram='server_ram = "96M"' ;;
    *) missing "--server mariadb or --server postgresql" ;;
esac
[ "$cells" -ge 10 ] || missing "10 cells: each draw takes five blocks of two"
[ "$planted" -eq 0 ] || [ "$planted" -ge 10 ] || missing "10 planted cells, or --planted-cells 0: each draw takes ten blocks"
[ "$planted" -le $((cells / 2)) ] || missing "at most half as many planted cells as identical ones: each block of two has one of them"
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
limited() { # limited CPUS
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

# tables that do not fit into the pool, so that reads of the slow disk are what limits it
delayed() { # delayed MICROSECONDS
    cat <<EOF
schema = 1
name = "cells"
[server]
flavour = "$server"
[server.options]
$pool
[fill]
rows = $rows
[squeeze]
$ram
disk = { read = "${1}us" }
[load]
workload = "oltp_point_select"
threads = 2
preheat = 20000
warmup = "1s"
time = "${seconds}s"
[[arm]]
name = "cell"
EOF
}

run_cell() { # run_cell EXPERIMENT NAME: a folder of this name
    "$wringer" run "$work/$1.toml" --to "$work/$2" >"$work/out" 2>"$work/err" ||
        { say "a cell failed: $(tail -n2 "$work/err")"; exit 4; }
}

# runs the cells of a block in a random order: EXPERIMENT:NAME each
run_block() {
    local cell
    for cell in $(python3 -c 'import random, sys
cells = sys.argv[2:]
random.Random(sys.argv[1]).shuffle(cells)
print(*cells)' "$seed-$*" "$@"); do run_cell "${cell%%:*}" "${cell#*:}"; done
}

us_a_transaction() { jq '.arms[0].load.measured | .elapsed_us / .transactions' "$work/$1/result.json"; }

"$wringer" sandbox fetch "$server" >/dev/null 2>&1 || true
limited 0.50 >"$work/same.toml"
limited 0.45 >"$work/quota.toml"
for number in $(seq $((cells / 2))); do
    [ $((number % 5)) -ne 0 ] || say "identical cells: block $number of $((cells / 2))"
    block=$(printf %03d "$number")
    also=()
    [ "$number" -gt "$planted" ] || also=("quota:quota-$block")
    run_block "same:same-$block-1" "same:same-$block-2" "${also[@]}"
done
if [ "$planted" -gt 0 ]; then
    # the time of a transaction is a + b x delay: two cells give a and b, and these the delay with which a transaction takes a ninth longer
    base=1000 more=1400
    delayed $base >"$work/slow.toml"
    delayed $more >"$work/slower.toml"
    run_cell slow first # fills
    run_block slow:base slower:more
    delay=$(jq -n --argjson base $base --argjson more $more --argjson t "$(us_a_transaction base)" --argjson u "$(us_a_transaction more)" \
        '$base + ($t / 0.9 - $t) * ($more - $base) / ($u - $t) | round')
    say "reads are delayed by $base us, and by $delay us to lose a tenth"
    delayed "$delay" >"$work/delay.toml"
    for number in $(seq "$planted"); do
        [ $((number % 5)) -ne 0 ] || say "delayed cells: block $number of $planted"
        block=$(printf %03d "$number")
        run_block "slow:slow-$block-1" "delay:delay-$block"
    done
fi

draw() { python3 "$here/benches/sweeps/draws.py" --wringer "$wringer" --draws "$draws" --seed "$seed" "$@"; }
row() { jq -c --arg server "$server" --arg row "$1" '{ row: $row, server: $server } + .'; }
rows=$work/rows.jsonl
say "drawing"
draw --blocks 5 --same "$work"/same-*/ | row identical >"$rows"
if [ "$planted" -gt 0 ]; then
    draw --blocks 10 --same "$work"/same-*/ --planted "$work"/quota-*/ --across arm.limits | row "quota" >>"$rows"
    draw --blocks 10 --same "$work"/slow-*/ --planted "$work"/delay-*/ --across arm.delay | row "delay" >>"$rows"
fi
if $json; then
    cat "$rows"
else
    printf '%-10s %-11s %6s %7s %8s %9s %9s %9s %9s %11s\n' cells server draws spread planted 'any fig.' wringer ministat slots detectable
    jq -r 'def percent: (1000 * . | round / 10 | tostring) + " %";
        def share(n): n / .draws | percent;
        def shown(v): share(if .row == "identical" then v.lower + v.higher else v.lower end);
        [.row, .server, .draws, (.spread_ratio | percent), (if .planted_ratio then .planted_ratio - 1 | percent else "-" end), share(.any_figure_shown),
         shown(.verdicts.wringer), shown(.verdicts.ministat), shown(.verdicts.slots), ((.detectable_ratio_median // 0) * 1000 | round / 1000)] | @tsv' "$rows" |
        awk -F'\t' '{ printf "%-10s %-11s %6s %7s %8s %9s %9s %9s %9s %11s\n", $1, $2, $3, $4, $5, $6, $7, $8, $9, $10 }'
fi
jq -es 'all(if .row == "identical" then .any_figure_shown <= 0.06 * .draws else .verdicts.wringer.lower >= 0.9 * .draws end)' "$rows" >/dev/null || exit 1
