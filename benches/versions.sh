#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One version of Wringer beside another: throughput of a load, the client's CPU for each query, the time of a fill, the exactness of a
# delay, and the time of a whole run. To see whether a change has cost something.
#
#   benches/versions.sh BEFORE [AFTER] [--pairs N] [--loads N] [--only load|instructions|fill|rest] [--folder FOLDER] [--json FILE]
#
# BEFORE and AFTER are programs, for example target/release/wringer of two work trees; AFTER is the release build of this one unless it
# is given. Both work in turn, and the order changes from pair to pair. A row says: after divided by before, with Student's 95 % interval over the
# pairs. A row whose interval holds 1 shows no difference; `wide` says that the interval is wider than 5 % of the ratio, and that more pairs or a
# quieter machine are needed. Without options 14 pairs, each with six loads of 1 s by either version in turn, some 15 minutes; --only load, --only instructions and --only fill measure these alone, --only rest
# leaves out the load and the instructions. As root, for the delay. Needs fio, jq, python3, taskset and valgrind.
#
# What the rows mean:
#   queries a second     `wringer load oltp_point_select`, 8 connections over a Unix socket to one MariaDB, which both versions use;
#                        client and server are held to one CPU, because a scheduler that moves them makes more difference than most changes
#   CPU per query        of `wringer load` in the same run: its threads, with the kernel's part for them
#   user CPU per query   the same without the kernel's part. The kernel divides the two by ticks of its timer: 40 pairs have an interval of 10 %
#   instructions a query those of the client's program, without the kernel's, counted by Valgrind: 200,000 queries more, and how many instructions more.
#                        No timer and no other program on the machine changes this count, so it shows what the row above is too coarse for
#   fill                 seconds for `wringer fill`, two tables of 50,000 rows, on that CPU
#   delayed read         the median of direct reads under `wringer squeeze --disk` with 2 ms for each read, by fio
#   run                  seconds for `wringer run` of a small experiment: deploy, fill, two arms of 3 s, explain, report, release
set -euo pipefail
# shellcheck source=benches/load/common.sh
. "$(dirname "$0")/load/common.sh"
pairs=14 loads=6 only=all folder=/var/tmp json=$target/bench-versions.json
programs=()
while [ $# -gt 0 ]; do
    case $1 in
        --pairs | --loads | --only | --folder | --json)
            [ $# -ge 2 ] || usage
            printf -v "${1#--}" '%s' "$2"
            shift
            ;;
        -*) usage ;;
        *) programs+=("$1") ;;
    esac
    shift
done
case $only in all | load | instructions | fill | rest) ;; *) usage ;; esac
[ ${#programs[@]} -ge 1 ] && [ ${#programs[@]} -le 2 ] || usage
before=$(realpath "${programs[0]}") after=$(realpath "${programs[1]:-$wringer}")
for program in "$before" "$after"; do [ -x "$program" ] || missing "$program"; done
need_root "a delay is put below a folder"
for program in fio jq python3 taskset valgrind; do need_program "$program"; done
own_home
work=$(mktemp -d "$folder/wringer-versions.XXXXXX")
trap 'clean; rm -rf "$work"' EXIT
wringer=$after
taskset -c 0 "$wringer" sandbox deploy mariadb --name bench -c innodb_buffer_pool_size=256M --start >&2
eval "$("$wringer" sandbox export bench env)"
WRINGER_DSN="$("$wringer" sandbox export bench dsn)?socket=$MYSQL_UNIX_PORT"
export WRINGER_DSN
"$wringer" fill --table-size=100000 >&2
mkdir "$work/disk"
dd if=/dev/urandom of="$work/disk/file" bs=1M count=64 status=none conv=fsync
cat >"$work/run.toml" <<'TOML'
schema = 1
name = "versions"
[server]
flavour = "mariadb"
options = { innodb_buffer_pool_size = "32M", innodb_flush_method = "O_DIRECT" }
[fill]
tables = 1
rows = 20000
[squeeze]
disk = { read = "0", write = "0", sync = "0", mode = "add" }
[load]
workload = "oltp_point_select"
threads = 4
warmup = "0"
time = "3s"
[[arm]]
name = "plain"
[[arm]]
name = "slow"
squeeze.disk.read = "2ms"
TOML
figure() { echo "$version $1 $2" >>"$work/figures"; }

load() { # load VERSION PROGRAM: one second; adds the queries, and the client's CPU time, user and system
    TIMEFORMAT='%U %S'
    local spent queries
    spent=$({ time taskset -c 0 "$2" load oltp_point_select --threads=8 --time=1 --table-size=100000 -o json >"$work/load.json" 2>"$work/said"; } 2>&1)
    queries=$(jq '[.. | objects | .queries_per_second? // empty | numbers] | first' "$work/load.json")
    echo "$1 $queries $spent" >>"$work/loads"
}
loads_in_turn() { # loads_in_turn FIRST PROGRAM SECOND PROGRAM: short ones, so that a drift of the machine meets both
    : >"$work/loads"
    local nth
    for nth in $(seq "$loads"); do
        if [ $((nth % 2)) = 1 ]; then load "$1" "$2"; load "$3" "$4"; else load "$3" "$4"; load "$1" "$2"; fi
    done
    for version in before after; do
        figure "queries a second" "$(awk -v of="$version" '$1 == of { sum += $2; n++ } END { print sum / n }' "$work/loads")"
        figure "CPU per query" "$(awk -v of="$version" '$1 == of { sum += $2; cpu += $3 + $4 } END { printf "%.6g\n", cpu / sum }' "$work/loads")"
        figure "user CPU per query" "$(awk -v of="$version" '$1 == of { sum += $2; cpu += $3 } END { printf "%.6g\n", cpu / sum }' "$work/loads")"
    done
}
counted() { # counted PROGRAM QUERIES: the instructions of the client
    taskset -c 0 valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$work/counted" \
        "$1" load oltp_point_select --threads=8 --events="$2" --time=0 --table-size=100000 >"$work/said" 2>&1 || { cat "$work/said" >&2; return 1; }
    awk '/Collected :/ { print $NF }' "$work/counted"
}
instructions() { # instructions VERSION PROGRAM
    local few many
    version=$1 few=$(counted "$2" 10000)
    many=$(counted "$2" 210000)
    figure "instructions a query" "$(((many - few) / 200000))"
}
seconds_of() { # seconds_of NAME COMMAND...
    local name=$1 from
    shift
    from=$(date +%s%N)
    "$@" >"$work/said" 2>&1 || { cat "$work/said" >&2; return 1; }
    figure "$name" "$(jq -n "$(($(date +%s%N) - from)) / 1e9")"
}
delay() {
    "$1" squeeze --disk "$work/disk=read=2ms" -- fio --name=reads --filename="$work/disk/file" --direct=1 --rw=randread --bs=4k \
        --runtime=2 --time_based --output-format=json --output="$work/fio.json" >"$work/said" 2>&1 || { cat "$work/said" >&2; return 1; }
    figure "delayed read" "$(jq '.jobs[0].read.clat_ns.percentile["50.000000"] / 1e6' "$work/fio.json")"
}
fill() { # fill VERSION PROGRAM
    version=$1
    seconds_of fill taskset -c 0 "$2" fill --tables=2 --table-size=50000 --replace
}
one() { # one VERSION PROGRAM
    fill "$@"
    "$2" fill --table-size=100000 --replace >"$work/said" 2>&1
    delay "$2"
    rm -rf "$work/out"
    (cd "$work" && seconds_of run "$2" run run.toml --to "$work/out")
}
for pair in $(seq "$pairs"); do
    echo "versions.sh: pair $pair of $pairs" >&2
    if [ $((pair % 2)) = 1 ]; then both=(before "$before" after "$after"); else both=(after "$after" before "$before"); fi
    case $only in all | load) loads_in_turn "${both[@]}" ;; esac
    case $only in all | instructions) instructions "${both[@]:0:2}"; instructions "${both[@]:2:2}" ;; esac
    case $only in
        all | rest) one "${both[@]:0:2}"; one "${both[@]:2:2}" ;;
        fill) fill "${both[@]:0:2}"; fill "${both[@]:2:2}" ;;
    esac
done
mkdir -p "$(dirname "$json")"
PYTHONPATH=$here/benches python3 - "$work/figures" "$json" <<'PYTHON'
import json, sys

from paired import interval

figures = {}
for line in open(sys.argv[1]):
    version, rest = line.split(" ", 1)
    name, value = rest.rsplit(" ", 1)
    figures.setdefault(name, {}).setdefault(version, []).append(float(value))
rows = []
print(f"{'':<22} {'before':>12} {'after':>12} {'ratio':>7}  95 % interval")
for name, both in figures.items():
    pairs = list(zip(both["after"], both["before"]))
    ratio, low, high = interval(pairs)
    verdict = "no difference shown" if low <= 1 <= high else "a difference"
    if high - low > 0.05 * ratio:
        verdict += ", wide"
    middle = [sorted(both[version])[len(both[version]) // 2] for version in ("before", "after")]
    print(f"{name:<22} {middle[0]:>12.6g} {middle[1]:>12.6g} {ratio:>7.3f}  {low:.3f} to {high:.3f}  {verdict}, {len(pairs)} pairs")
    rows.append({"name": name, **both, "ratio": ratio, "ratio_low": low, "ratio_high": high, "verdict": verdict})
json.dump({"schema": 1, "rows": rows}, open(sys.argv[2], "w"), indent=1)
PYTHON
echo "the same as JSON: $json" >&2
