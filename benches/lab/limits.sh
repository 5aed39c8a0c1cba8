#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does the verdict name what limited the server? Each arm gives a real MariaDB one limit: the disk's IOPS, the disk's bandwidth, a
# small buffer pool, or little CPU time. Each run has all four arms; a verdict is right when it names that arm's limit, and no other.
#
#   benches/lab/limits.sh [--runs N] [--json] [--folder FOLDER]
#
# 5 runs, in some 7 minutes. As root, for the CPU time; without root that arm is left out, with a message. FOLDER on the disk to try (/var/tmp; 1 GiB is needed there, and
# removed). Needs jq. A table on the standard output, with --json one object for each limit; progress goes to standard error. WRINGER names the
# program, without it the release build's. Exit code 1: a verdict named another limit, or none, or a run failed.
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
runs=5 json=false folder=/var/tmp
while [ $# -gt 0 ]; do
    case "$1" in
        --runs) runs=${2:?--runs wants a number}; shift ;;
        --json) json=true ;;
        --folder) folder=${2:?--folder wants a folder}; shift ;;
        *) usage ;;
    esac
    shift
done
need_program jq
build_wringer
work=$(mktemp -d "$folder/limits-bench.XXXXXX")
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

say() { echo "limits.sh: $*" >&2; }

file=$work/limits.toml
cp "$here/benches/lab/limits.toml" "$file"
limits="iops bandwidth pool_misses"
if [ "$(id -u)" -eq 0 ]; then
    limits="$limits cpu_quota"
else
    say "an ordinary user may not limit CPU time here: the arm cpu_quota is left out"
    sed -i '/^# cpu_quota/,$d' "$file"
fi

# One line for each arm: what was planted (the arm's name), and what the verdict names.
named='
[.arms[].name] as $arms
| $arms[] as $arm
| { planted: $arm,
    named: ([.findings[] | select(.id == "limit.by" and .arm == $arm) | .evidence.limited_by] | join(" and ")
            | if . == "" then "nothing" else . end),
    why: [.findings[] | select(.id == "limit.by" and .arm == $arm) | .evidence],
    told: ([.verdict.sentences[] | select(startswith("\"" + $arm + "\" is limited by"))] | length > 0) }'

"$wringer" sandbox fetch mariadb >/dev/null 2>&1 || true
lines=$work/lines.jsonl
: >"$lines"
for number in $(seq "$runs"); do
    say "run $number of $runs"
    out=$work/out-$number exit=0
    "$wringer" run "$file" --to "$out" --yes >"$out.out" 2>"$out.err" || exit=$?
    if [ -s "$out/result.json" ]; then
        jq -c "$named" "$out/result.json" >>"$lines"
    fi
    if [ "$exit" -ne 0 ]; then
        say "exit code $exit: $(grep -m1 '^error' "$out.err" || tail -n1 "$out.err")"
    fi
    rm -rf "$out"
done

jq -c 'select(.named != .planted)' "$lines" >&2
wrong=0
$json || printf '%-12s %5s  %s\n' planted right "named (runs)"
for limit in $limits; do
    object=$(jq -cs --arg limit "$limit" --argjson runs "$runs" '
        map(select(.planted == $limit)) | {
          planted: $limit, runs: $runs, right: (map(select(.named == $limit and .told)) | length),
          named: (group_by(.named) | map({ key: .[0].named, value: length }) | from_entries) }' "$lines")
    [ "$(jq .right <<<"$object")" -eq "$runs" ] || wrong=1
    if $json; then
        echo "$object"
    else
        jq -r '[.planted, "\(.right)/\(.runs)", ([.named | to_entries[] | "\(.key) (\(.value))"] | join(", "))] | @tsv' <<<"$object" |
            awk -F'\t' '{ printf "%-12s %5s  %s\n", $1, $2, $3 }'
    fi
done
exit "$wrong"
