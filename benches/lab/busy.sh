#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Do runs give answers on a busy host, and are these answers right? Runs two experiments, one-read-or-two and a file with gp3 and a hard disk, in
# three scenes: on an idle host, beside a process that uses a whole CPU, and beside writes that take half of the same disk's bandwidth.
#
#   benches/lab/busy.sh [--short] [--runs N] [--json] [--folder FOLDER]
#
# 20 runs of each file in each scene, some seven hours; --short: 5 runs each with shorter arms, under 40 minutes; --runs N: so many each, with
# the shorter arms. As root for the whole of one-read-or-two; an ordinary user's runs leave the squeeze of the host's RAM out. FOLDER on the disk to
# try (/var/tmp; 2 GiB are needed there, and removed). Needs jq and dd. Prints a table on the standard output at the end, or when it is interrupted (then with
# the runs until then); with --json one object for each scene and file. Progress goes to standard error, with a row for each scene and file as it ends. The result of each
# run is kept as a line of JSON in KEPT (busy-DATE.jsonl in the present folder). A run that takes longer than 15 minutes is interrupted. WRINGER names
# the program, without it the release build's.
#
# What the columns mean:
#   exit        how many runs ended with which exit code
#   reports     runs that left a report
#   agree       runs of one-read-or-two in whose delayed arms the reads a query, told from the humps alone, are within 5 % of both witnesses:
#               the server's counter and the slow layer's
#   off         how far they were apart at worst
#   outside     squeezes outside of their tolerance, recomputed here from the recorded looks and the tolerance that stands beside them
#   told        squeezes that the result itself reports as outside of their tolerance; `same` counts the runs in which it reports exactly those of the column before
#   busy        the median over all arms of the share of the CPUs' time that other programs, and the hypervisor, took
#   doubted     runs whose result doubts that the host was quiet
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
runs=20 short=false json=false folder=/var/tmp
while [ $# -gt 0 ]; do
    case "$1" in
        --short) short=true runs=5 ;;
        --runs) short=true runs=${2:?--runs wants a number}; shift ;;
        --json) json=true ;;
        --folder) folder=${2:?--folder wants a folder}; shift ;;
        *) usage ;;
    esac
    shift
done
need_program jq
build_wringer
kept=${KEPT:-$PWD/busy-$(date +%Y%m%d-%H%M%S).jsonl}
: >"$kept"
work=$(mktemp -d "$folder/busy-bench.XXXXXX")
chmod 711 "$work"
export WRINGER_HOME=$work/home
mkdir "$WRINGER_HOME"
chmod 711 "$WRINGER_HOME"
disturber=
# shellcheck disable=SC2317 # called by the trap
clean() {
    quiet_again
    "$wringer" undo >/dev/null 2>&1 || true
    table || true
    say "each run's figures: $kept"
    rm -rf "$work"
}
quiet_again() {
    [ -z "$disturber" ] || { kill "$disturber" 2>/dev/null || true; wait "$disturber" 2>/dev/null || true; }
    disturber=
}
trap clean EXIT
trap 'exit 130' INT TERM

say() { echo "busy.sh: $*" >&2; }
now_us() { echo $(($(date +%s%N) / 1000)); }

write_16m() { dd if=/dev/zero of="$work/written" bs=1M count=16 seek=$((16 * ($1 % 32))) oflag=direct conv=notrunc status=none; }

# Bytes a second that the disk takes of direct writes, by 512 MiB.
bandwidth() {
    local began chunk
    began=$(now_us)
    for chunk in $(seq 0 31); do write_16m "$chunk"; done
    echo $((512 * 1048576 * 1000000 / ($(now_us) - began)))
}

# Writes 16 MiB at a time, and waits until so many bytes a second are not exceeded.
write_at() {
    local began chunk=0 due late
    began=$(now_us)
    while :; do
        write_16m "$chunk"
        chunk=$((chunk + 1))
        due=$((began + chunk * 16 * 1048576 * 1000000 / $1))
        late=$(($(now_us) - due))
        [ "$late" -ge 0 ] || sleep "$(printf '%d.%06d' $((-late / 1000000)) $((-late % 1000000)))"
    done
}

burn() { while :; do :; done; }

disturb() {
    case "$1" in
        idle) ;;
        cpu) burn & disturber=$! ;;
        disk) write_at "$half" & disturber=$! ;;
    esac
}

# The files. Shorter arms keep the humps apart: fewer queries, the same delays.
reads=$work/one-read-or-two.toml disks=$work/disks.toml
cp "$here/experiments/one-read-or-two.toml" "$reads"
cp "$here/benches/lab/disks.toml" "$disks"
if $short; then
    sed -i -e 's/^time = "20s"/time = "6s"/' -e 's/^load.time = "25s"/load.time = "8s"/' -e 's/^load.time = "60s"/load.time = "20s"/' "$reads"
    sed -i -e 's/^time = "15s"/time = "5s"/' "$disks"
fi

# One line of JSON from a result: what the table counts.
figures='
def quantity(x): if x == null then null else x.value end;
# The tolerance is written beside each row; what of it can be recomputed is, from what was predicted (else asked) and got.
def outside:
  (quantity(.got)) as $got | (quantity(.predicted) // quantity(.asked)) as $wanted
  | ((.tolerance // "") | capture("^(?<share>[0-9.]+) % (more or less|of )")? // null) as $share
  | ((.tolerance // "") | capture("at least (?<least>[0-9.]+) us")? // null) as $least
  | if .within_tolerance == null then false
    elif $share == null or $got == null or $wanted == null or .what == "disk.floor.median" then .within_tolerance == false
    else ($got - $wanted | fabs) > ([($share.share | tonumber) / 100 * $wanted, (($least.least // "0") | tonumber)] | max)
    end;
{
  exit: $exit,
  report: $report,
  broke_off: [.arms[]? | select(.broke_off != null) | .name],
  off: [.arms[]? | select(.delay != null and .delay.read_us > 0 and (.delay.varies | not))
        | .discrepancy_server_ratio, .discrepancy_layer_ratio | if . == null then null else fabs end],
  outside: [.measured[]? | select(outside) | "\(.arm // "all") \(.what)"] | unique,
  told: [.findings[]? | select(.id == "squeeze.got") | "\(.arm // "all") \(.evidence.what)"] | unique,
  others: [.conditions.busy[]?.others_ratio],
  stolen: [.conditions.busy[]?.stolen_ratio],
  doubted: ([.findings[]? | select(.id == "host.busy")] | length > 0)
}'

run_once() { # FILE OUT
    local exit=0 report=false
    timeout --foreground --signal=INT --kill-after=120 900 "$wringer" run "$1" --to "$2" --yes >"$2.out" 2>"$2.err" || exit=$?
    [ -s "$2/report.html" ] && report=true
    [ "$exit" -eq 0 ] || say "exit code $exit: $(grep -m1 '^error' "$2.err" || tail -n1 "$2.err")"
    if [ -s "$2/result.json" ]; then
        jq -c --argjson exit "$exit" --argjson report "$report" "$figures" "$2/result.json"
    else
        jq -nc --argjson exit "$exit" --argjson report "$report" "{} | $figures"
    fi
    rm -rf "$2"
}

# One object for a scene and a file, from its lines.
summary='
def median: sort | if length == 0 then null else .[length / 2 | floor] end;
{
  scene: $scene, file: $file, runs: length,
  exit_codes: (group_by(.exit) | map({ key: (.[0].exit | tostring), value: length }) | from_entries),
  reports: map(select(.report)) | length,
  agree: (if $file == "reads" then map(select((.off | length) > 0 and (.off | all(. != null and . <= 0.05)))) | length else null end),
  worst_off_ratio: ([.[].off[] | select(. != null)] | max),
  outside: ([.[].outside[]] | length), told: ([.[].told[]] | length),
  same: (map(select(.outside == .told)) | length),
  others_ratio: ([.[].others[]] | median), stolen_ratio: ([.[].stolen[]] | median),
  doubted: (map(select(.doubted)) | length)
}'

row() {
    jq -r 'def pc: if . == null then "-" else "\(. * 1000 | round / 10) %" end;
      [ .scene, .file, .runs, ([.exit_codes | to_entries[] | "\(.key):\(.value)"] | join(" ")), .reports, (.agree // "-"), (.worst_off_ratio | pc),
        .outside, .told, .same, (.others_ratio | pc), (.stolen_ratio | pc), .doubted ] | @tsv' |
        awk -F'\t' '{ printf "%-6s %-6s %5s  %-10s %7s %6s %8s %8s %5s %5s %8s %8s %8s\n", $1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13 }'
}

heading() {
    printf '%-6s %-6s %5s  %-10s %7s %6s %8s %8s %5s %5s %8s %8s %8s\n' \
        scene file runs exit reports agree off outside told same others stolen doubted
}

# What one scene and file came to; nothing, where no run of it has ended.
scene_of() { # SCENE FILE
    jq -cs --arg scene "$1" --arg file "$2" "map(select(.scene == \$scene and .file == \$file)) | if length == 0 then empty else $summary end" "$kept"
}

# shellcheck disable=SC2317 # called by the trap
table() {
    local scene file
    $json || heading
    for scene in idle cpu disk; do
        for file in reads disks; do
            if $json; then scene_of "$scene" "$file"; else scene_of "$scene" "$file" | row; fi
        done
    done
}

"$wringer" sandbox fetch mariadb >/dev/null 2>&1 || true
half=$(($(bandwidth) / 2))
say "half of what the disk takes: $((half / 1048576)) MiB/s; $runs runs of each file in each scene"
heading >&2
for scene in idle cpu disk; do
    for file in reads disks; do
        disturb "$scene"
        for number in $(seq "$runs"); do
            say "$scene, $file: $number of $runs"
            run_once "${!file}" "$work/out-$scene-$file-$number" |
                jq -c --arg scene "$scene" --arg file "$file" '{ $scene, $file } + .' >>"$kept"
        done
        quiet_again
        scene_of "$scene" "$file" | row >&2
    done
done
