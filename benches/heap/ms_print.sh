#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `wringer heap show -o ms_print` beside Valgrind's ms_print: the same bytes? how much faster, and with how much memory?
#
#   benches/heap/ms_print.sh [--servers "SERVER ..."] [--megabytes N] [--repeat N] [--times N] [--mib N] [--quick] [--json FILE]
#
# Profiles are made on the spot: of small programs with each time unit, with stacks, pages and threshold 0; of each server's start, some statements and stop
# (mariadb@10.11 postgresql@15 mysql@9 xtradb) in sandboxes of its own, deleted afterwards. Each is printed with five sets of flags by both. Then a profile of
# N megabytes (100) is made of the snapshots of one of them, again and again, and printed in turn by both, N times (5), with two sets of flags. --quick: no servers.
# Needs valgrind, ms_print, jq, python3. Exit code 1: some bytes were not the same; or Wringer was less than --times (30) times as fast as ms_print without flags,
# in the median of the pairs; or it had more than --mib (100) MiB of RAM at once, with either flags. With --threshold=0 the speed is only told: each node is a line of the text.
#
# What the columns mean:
#   profile  what was profiled, and Massif's options
#   bytes    its size
#   same     of the sets of flags, with how many the bytes are the same but for the line `ms_print arguments`
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
servers="mariadb@10.11 postgresql@15 mysql@9 xtradb" megabytes=100 repeat=5 times=30 mib=100 quick=no json=$target/bench-heap-ms-print.json
take_flags "servers megabytes repeat times mib quick json" "$@"
for program in valgrind ms_print jq python3; do need_program "$program" "${program/ms_print/valgrind}"; done
build_wringer
own_sandboxes
mkdir "$folder/profiles"
: >"$json"
status=0

massif() { # massif NAME PROGRAM...: with the options in the array `options`
    local name=$1
    shift
    valgrind -q --tool=massif "${options[@]}" --massif-out-file="$folder/profiles/$name" "$@" >/dev/null 2>&1 || true
}
programs() {
    local unit list=(ls -laR /usr/share/doc)
    for unit in i ms B; do
        options=("--time-unit=$unit") && massif "ls, time unit $unit" "${list[@]}"
    done
    options=(--stacks=yes) && massif "ls, stacks" ls /
    options=(--pages-as-heap=yes) && massif "bash, pages" bash -c 'x=$(seq 10000); echo ${#x}'
    options=(--threshold=0 --detailed-freq=1) && massif "bash, threshold 0" bash -c 'for i in {1..3000}; do a[i]=$i; done'
    options=(--max-snapshots=200 --time-unit=B) && massif "python, 200 snapshots" python3 -c 'a=[bytearray(999) for _ in range(5000)]; del a; b={i: str(i) for i in range(9000)}'
}
server() { # server NAME: a profile of each of its processes
    local file said=$folder/said
    "$wringer" --quiet sandbox deploy "$1" --name bench >"$said" 2>&1 &&
        "$wringer" --quiet sandbox start bench --valgrind massif >>"$said" 2>&1 &&
        "$wringer" --quiet fill --sandbox bench --tables 1 --table-size 1000 >>"$said" 2>&1 || {
        echo "$1 left out: $(grep -m1 error "$said" || tail -1 "$said")" >&2
        "$wringer" --quiet sandbox delete bench --force >/dev/null 2>&1 || true
        return
    }
    "$wringer" --quiet sandbox stop bench >>"$said" 2>&1
    for file in "$WRINGER_HOME"/sandboxes/bench/valgrind/*.out; do
        [ ! -s "$file" ] || cp "$file" "$folder/profiles/$1, $(basename "$file" .out)"
    done
    "$wringer" --quiet sandbox delete bench --force >>"$said" 2>&1
}
without_arguments() { grep -av '^ms_print arguments:'; }
compare() { # compare FILE
    local flags same=0 all=0
    for flags in "" "--threshold=0" "--threshold=7.5" "--x=100 --y=30" "--x=5 --y=4"; do
        all=$((all + 1))
        # shellcheck disable=SC2086
        if cmp -s <(ms_print $flags "$1" 2>/dev/null | without_arguments) <("$wringer" heap show "$1" -o ms_print $flags | without_arguments); then
            same=$((same + 1))
        fi
    done
    [ $same = $all ] || status=1
    printf '%-44s %10s  %s of %s\n' "$(basename "$1")" "$(stat -c %s "$1")" $same $all
    jq -nc --arg profile "$(basename "$1")" --argjson bytes "$(stat -c %s "$1")" --argjson same $same --argjson all $all '$ARGS.named' >>"$json"
}

programs
if [ "$quick" = no ]; then for name in $servers; do server "$name"; done; fi
printf '%-44s %10s  %s\n' profile bytes same
for file in "$folder"/profiles/*; do compare "$file"; done

# all snapshots of the one with threshold 0, again and again
python3 - "$folder/profiles/bash, threshold 0" "$folder/large" "$megabytes" <<'PY'
import sys
text = open(sys.argv[1]).read()
begin = text.index("#-----------")
body = text[begin:]
with open(sys.argv[2], "w") as out:
    out.write(text[:begin] + body * (int(sys.argv[3]) * 1000000 // len(body) + 1))
PY
compare "$folder/large"
python3 - "$wringer" "$folder/large" "$repeat" "$json" "$times" "$mib" <<'PY' || status=1
import json, os, subprocess, sys, time
wringer, large, repeat, out, times, mib = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], float(sys.argv[5]), float(sys.argv[6])
# a child's RAM counts from its fork on, when it is a copy of this program: so this one stays small
def timed(words):
    begun = time.monotonic()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    assert status == 0, words
    return time.monotonic() - begun, usage.ru_maxrss / 1024
missed = False
for name, flags, least in (("default", [], times), ("threshold 0", ["--threshold=0"], 0)):
    theirs, ours = ["ms_print", *flags, large], [wringer, "heap", "show", large, "-o", "ms_print", *flags]
    pairs = [(timed(theirs), timed(ours)) for _ in range(repeat)]
    ratios = sorted(theirs[0] / ours[0] for theirs, ours in pairs)
    row = {"flags": name, "bytes": os.path.getsize(large), "ms_print_s": round(min(it[0][0] for it in pairs), 3), "wringer_s": round(min(it[1][0] for it in pairs), 3),
           "times_faster": round(ratios[len(ratios) // 2], 1), "lowest": round(ratios[0], 1), "highest": round(ratios[-1], 1), "wringer_mib": round(max(it[1][1] for it in pairs), 1)}
    row["misses"] = [*([] if ratios[len(ratios) // 2] >= least else [f"below {least:g} times"]), *([] if row["wringer_mib"] <= mib else [f"above {mib:g} MiB"])]
    print("{bytes} bytes, {flags}: {times_faster} times as fast ({lowest} to {highest}), {ms_print_s} s and {wringer_s} s at best, {wringer_mib} MiB of RAM".format(**row), *(["MISS:", "; ".join(row["misses"])] if row["misses"] else []))
    open(out, "a").write(json.dumps(row) + "\n")
    missed = missed or bool(row["misses"])
sys.exit(missed)
PY
echo "the same as JSON, a line for each row: $json" >&2
exit $status
