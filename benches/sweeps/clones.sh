#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What does a kept fill save, and can anybody tell its clone from a fresh fill? How long until the data are there, filled and cloned; the same
# with room of a file system that shares blocks; and runs on fresh fills beside runs on clones, compared by `wringer compare`.
#
#   benches/sweeps/clones.sh [--size SIZE] [--big SIZE] [--pairs N] [--minutes N] [--json] [--folder FOLDER]
#
# SIZE of the table (256M); --big, of the data that are cloned by reflink on XFS and Btrfs, each on a loop device (10G; 0 leaves it out), which needs root, mkfs.xfs, mkfs.btrfs and
# that much room; --pairs, of runs that are compared (10; 0 leaves them out): some 8 minutes; --minutes, how long a clone of each server is written to before it is checked
# (10; 0 leaves that out): CHECK TABLE, amcheck. Needs jq. A table on the standard output, with --json one object a row; progress goes to
# standard error. FOLDER on the disk to try (/var/tmp). WRINGER names the program, without it the release build's.
# Exit code 1: a clone is not 5 times sooner there than a fill; a clone by reflink takes more than 2 s; a difference is shown; the smallest ratio that would have been shown is above 1.1;
# a clone has other rows than a fresh fill, or a server's own check finds fault with it.
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
size=256M big=10G pairs=10 minutes=10 json=false folder=/var/tmp
while [ $# -gt 0 ]; do
    case "$1" in
        --size) size=${2:?--size wants a size}; shift ;;
        --big) big=${2:?--big wants a size}; shift ;;
        --pairs) pairs=${2:?--pairs wants a number}; shift ;;
        --minutes) minutes=${2:?--minutes wants a number}; shift ;;
        --json) json=true ;;
        --folder) folder=${2:?--folder wants a folder}; shift ;;
        *) usage ;;
    esac
    shift
done
need_program jq
build_wringer
cache=${WRINGER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wringer}
work=$(mktemp -d "$folder/clones-bench.XXXXXX")
chmod 711 "$work"
mounted=()
# shellcheck disable=SC2317 # called by the trap
clean() {
    "$wringer" undo >/dev/null 2>&1 || true
    local place
    for place in "${mounted[@]}"; do umount "$place" || umount -l "$place"; done
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM
say() { echo "clones.sh: $*" >&2; }
rows=$work/rows.jsonl
: >"$rows"

# homes and caches of its own; the servers that are fetched already are used
use() { # use FOLDER
    export WRINGER_HOME=$1/home WRINGER_CACHE=$1/cache
    mkdir -p -m 711 "$WRINGER_HOME" "$WRINGER_CACHE"
    [ ! -d "$cache/servers" ] || [ -e "$WRINGER_CACHE/servers" ] || ln -s "$cache/servers" "$WRINGER_CACHE/servers"
}

experiment() { # experiment SIZE
    cat <<EOF
schema = 1
name = "clones"
[server]
flavour = "mariadb"
[server.options]
innodb_buffer_pool_size = "64M"
innodb_flush_method = "O_DIRECT"
[fill]
size = "$1"
secondary = true
[load]
workload = "oltp_read_write"
threads = 2
warmup = "1s"
time = "5s"
[[arm]]
name = "cell"
EOF
}

run() { # run TOML FOLDER FLAGS...
    local file=$1 to=$2
    shift 2
    "$wringer" run "$file" --to "$to" --force "$@" >"$work/out" 2>"$work/err" || { say "failed: $(tail -n3 "$work/err")"; exit 4; }
}

data() { jq -c '.conditions.data' "$1/result.json"; }

use "$work"
experiment "$size" >"$work/small.toml"
say "a fill of $size, and its clone"
run "$work/small.toml" "$work/filled"
run "$work/small.toml" "$work/cloned"
jq -nc --arg size "$size" --argjson filled "$(data "$work/filled")" --argjson cloned "$(data "$work/cloned")" \
    '{ row: "clone", size: $size, file_system: "the folder'"'"'s", mechanism: $cloned.mechanism, filled_us: $filled.elapsed_us, cloned_us: $cloned.elapsed_us,
       times_sooner: ($filled.elapsed_us / $cloned.elapsed_us) }' >>"$rows"

if [ "$pairs" -gt 0 ]; then
    for number in $(seq -w "$pairs"); do
        say "pair $number of $pairs"
        # which of the two is first changes from pair to pair
        if [ $((10#$number % 2)) -eq 0 ]; then
            run "$work/small.toml" "$work/clone-$number"
            run "$work/small.toml" "$work/fresh-$number" --no-kept-fill
        else
            run "$work/small.toml" "$work/fresh-$number" --no-kept-fill
            run "$work/small.toml" "$work/clone-$number"
        fi
    done
    "$wringer" compare --a "$work"/fresh-*/ --b "$work"/clone-*/ --paired -o json >"$work/compared.json" || true
    jq -c --argjson pairs "$pairs" '[.comparisons[0].figures[]] as $figures | ($figures[] | select(.name == "throughput")) as $throughput
        | { row: "fresh beside clones", pairs: $pairs, verdict: .verdict, shown: [$figures[] | select(.verdict == "lower" or .verdict == "higher") | .name],
            ratio: $throughput.ratio, low: $throughput.low, high: $throughput.high, detectable_ratio: $throughput.detectable_ratio }' "$work/compared.json" >>"$rows"
fi

# the server's own check, in words: empty when all is well
check() { # check SERVER SANDBOX
    if [ "$1" = mariadb ]; then
        "$wringer" sandbox use "$2" 'CHECK TABLE sbtest.sbtest1, sbtest.sbtest2 EXTENDED' -o json | jq -r '.rows[] | select(.[3] != "OK") | join(" ")'
    else
        "$wringer" sandbox use "$2" "CREATE EXTENSION IF NOT EXISTS amcheck" >/dev/null
        "$wringer" sandbox use "$2" "SELECT * FROM verify_heapam('sbtest1') UNION ALL SELECT * FROM verify_heapam('sbtest2')" -o json | jq -r '.rows[] | tostring'
        "$wringer" sandbox use "$2" "SELECT bt_index_parent_check(indexrelid, true, true) FROM pg_index WHERE indrelid IN ('sbtest1'::regclass, 'sbtest2'::regclass)" >/dev/null ||
            echo "bt_index_parent_check failed"
    fi
}

if [ "$minutes" != 0 ]; then
    for server in mariadb postgresql; do
        say "a clone of $server: its rows, and $minutes min of oltp_read_write"
        sum="CHECKSUM TABLE sbtest.sbtest1, sbtest.sbtest2"
        [ "$server" = mariadb ] || sum="SELECT md5(string_agg(one::text, ',' ORDER BY id)), md5((SELECT string_agg(two::text, ',' ORDER BY id) FROM sbtest2 two)) FROM sbtest1 one"
        words="rows=50000 tables=2 secondary=true"
        # the first one fills and keeps, and is a clone of that; a fill that nobody has cloned has the rows to compare with
        "$wringer" sandbox deploy "$server" --name clone --filled "$words" --start >/dev/null 2>"$work/err" || { cat "$work/err" >&2; exit 4; }
        "$wringer" sandbox deploy "$server" --name fresh --start >/dev/null 2>"$work/err" || { cat "$work/err" >&2; exit 4; }
        "$wringer" fill --sandbox fresh --rows 50000 --tables 2 --secondary-indexes 1 --rand-seed 1 >/dev/null 2>"$work/err" || { cat "$work/err" >&2; exit 4; }
        rows_of() { "$wringer" sandbox use "$1" "$sum" -o json | jq -c .rows; }
        of_clone=$(rows_of clone) of_fresh=$(rows_of fresh)
        before=$(check "$server" clone)
        load=$("$wringer" load oltp_read_write --sandbox clone --threads 4 --time "${minutes}m" -o json 2>"$work/err") || { cat "$work/err" >&2; exit 4; }
        after=$(check "$server" clone)
        jq -nc --arg server "$server" --argjson minutes "$minutes" --arg before "$before" --arg after "$after" --arg clone "$of_clone" --arg fresh "$of_fresh" \
            --argjson transactions "$(jq '[.. | .transactions? | numbers] | max' <<<"$load")" \
            '{ row: "sound", server: $server, same_rows: ($clone == $fresh), minutes: $minutes, transactions: $transactions, faults_before: $before, faults_after: $after }' >>"$rows"
        "$wringer" sandbox delete --all --force >/dev/null 2>&1
    done
fi

if [ "$big" != 0 ]; then
    need_root "a loop device is mounted (--big 0 leaves it out)"
    experiment "$big" >"$work/big.toml"
    bytes=$(numfmt --from=iec "$big")
    for kind in xfs btrfs; do
        command -v "mkfs.$kind" >/dev/null || { say "no mkfs.$kind: left out"; continue; }
        say "a clone of $big on $kind"
        place=$work/$kind
        mkdir -m 711 "$place"
        # room for the fill, its kept copy, which shares the blocks, and the log
        truncate -s $((bytes * 5 / 2 + (2 << 30))) "$work/$kind.image"
        "mkfs.$kind" -q "$work/$kind.image"
        mount -o loop "$work/$kind.image" "$place"
        mounted+=("$place")
        chmod 711 "$place"
        use "$place"
        export WRINGER_FILLS_LIMIT=1T
        run "$work/big.toml" "$work/filled-$kind"
        run "$work/big.toml" "$work/cloned-$kind"
        jq -nc --arg size "$big" --arg kind "$kind" --argjson filled "$(data "$work/filled-$kind")" --argjson cloned "$(data "$work/cloned-$kind")" \
            --argjson seconds "$(jq '[.events[] | .text | capture(" by (reflink|copy) in (?<s>[0-9.]+) s") | .s | tonumber][0]' "$work/cloned-$kind/result.json")" \
            '{ row: "clone", size: $size, file_system: $kind, mechanism: $cloned.mechanism, filled_us: $filled.elapsed_us, cloned_us: $cloned.elapsed_us, clone_alone_us: ($seconds * 1e6),
               times_sooner: ($filled.elapsed_us / $cloned.elapsed_us) }' >>"$rows"
        umount "$place"
        mounted=()
        rm -f "$work/$kind.image"
    done
fi

if $json; then
    cat "$rows"
else
    jq -r 'if .row == "clone" then "\(.size) on \(.file_system): filled in \(.filled_us / 1e5 | round / 10) s, cloned by \(.mechanism) in \(.cloned_us / 1e5 | round / 10) s, \(.times_sooner * 10 | round / 10) times sooner"
             + (if .clone_alone_us then "; the clone alone \(.clone_alone_us / 1e4 | round / 100) s" else "" end)
           elif .row == "sound" then "\(.server): a clone has \(if .same_rows then "the same rows as" else "OTHER ROWS than" end) a fresh fill; faults \(.faults_before | if . == "" then "none" else . end), after \(.minutes) min and \(.transactions) transactions \(.faults_after | if . == "" then "none" else . end)"
           else "\(.pairs) pairs of fresh fill and clone: throughput \(.ratio) (\(.low) to \(.high)), shown: \(.shown | join(", ") | if . == "" then "nothing" else . end), detectable \(.detectable_ratio)" end' "$rows"
fi
jq -es 'all(if .row == "clone" then .times_sooner >= 5 and (.clone_alone_us // 0) <= 2e6
            elif .row == "sound" then .same_rows and .faults_before == "" and .faults_after == ""
            else .shown == [] and (.detectable_ratio // 99) <= 1.1 end)' "$rows" >/dev/null || exit 1
