#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Which share of a server's heap profile lies in parts of the server that have a name (InnoDB, optimizer, connections, ...)? How long does the one command take that says it?
#
#   benches/heap/named.sh [--servers "SERVER ..."] [--threshold PERCENT] [--least PERCENT] [--seconds N] [--top N] [--json FILE]
#
# One `wringer memory profile` of each server (mariadb@10.11 xtradb): two tables of 20,000 rows; a scan, a sort, a temporary table, a join, a statement that is prepared,
# the tables of information_schema, and a stored function. The profile after the last of these statements counts. --threshold (0.1): callers with less than this percentage of the
# heap have no names. The caches of MyISAM and Aria are made small (-c key_buffer_size=1M and the like): else they are most of the heap, and they have a name. In sandboxes of its
# own, deleted afterwards; two minutes for each server. Needs valgrind, jq. WRINGER names the program, without it the release build's. Exit code 1: the share is below --least (90);
# or `wringer memory profile` took longer than --seconds (300) from its start to the printed functions; or a server was not profiled.
#
# What it prints of each server:
#   named    the share of the heap in parts that have a name, and the time that the command took; below it, the share of each part
#   no part  functions whose names tell no part, the --top (8) largest, each with its callers
#   hidden   what Massif sums up below its threshold, without names
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
servers="mariadb@10.11 xtradb" threshold=0.1 least=90 seconds=300 top=8 json=$target/bench-heap-named.json
take_flags "servers threshold least seconds top json" "$@"
for program in valgrind jq; do need_program "$program"; done
build_wringer
own_sandboxes
: >"$json"
status=0

statements=(
    "SELECT SUM(LENGTH(c)) FROM sbtest1"
    "SELECT id, c FROM sbtest1 ORDER BY c, pad LIMIT 10"
    "SELECT COUNT(*) FROM (SELECT DISTINCT c, pad FROM sbtest1) t"
    "SELECT COUNT(*) FROM sbtest1 a JOIN sbtest2 b ON a.k = b.k WHERE a.id < 2000"
    "PREPARE p FROM 'SELECT c FROM sbtest1 WHERE id = ?'"
    "SELECT COUNT(*) FROM information_schema.columns"
    "CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC RETURN 2 * n"
    "SELECT SUM(twice(id)) FROM sbtest2"
)

profile() { # profile SERVER: the result goes to the file result
    local words=(-c key_buffer_size=1M -c aria_pagecache_buffer_size=1M) sql
    for sql in "${statements[@]}"; do words+=(--sql "$sql"); done
    "$wringer" --quiet sandbox deploy "$1" --name bench --start >"$folder/said" 2>&1 &&
        "$wringer" --quiet fill --sandbox bench --tables 2 --table-size 20000 >>"$folder/said" 2>&1 &&
        "$wringer" --quiet sandbox stop bench >>"$folder/said" 2>&1 &&
        begun=$EPOCHREALTIME &&
        "$wringer" --quiet memory profile bench --no-native --threshold "$threshold" "${words[@]}" --to "$folder/out" -o json >"$folder/result" 2>>"$folder/said"
}

for server in $servers; do
    if profile "$server"; then
        took_s=$(jq -n "($EPOCHREALTIME - $begun) * 10 | round / 10")
        jq -c --arg name "$server" --argjson least "$least" --argjson took_s "$took_s" --argjson seconds "$seconds" '
            def sum(f): [.[] | f] | add // 0;
            .to as $to | .marks[$to].heap_bytes as $all | .hidden_bytes as $hidden
            | [.functions[].parts[] | select(.subsystem)] as $named | [.functions[] | . as $it | .parts[] | select(.subsystem | not) | $it + {bytes}] as $others
            | {name: $name, server: .server, at: .marks[$to].name, took_s: $took_s, heap_bytes: $all, named_bytes: ($named | sum(.bytes)), no_part_bytes: ($others | sum(.bytes)), hidden_bytes: $hidden,
               share: (100 * ($named | sum(.bytes)) / $all), functions_named: (.symbols | if .functions then 100 * .named / .functions else null end),
               parts: [$named | group_by(.subsystem)[] | {part: .[0].subsystem, bytes: sum(.bytes)}] | sort_by(-.bytes),
               no_part: $others}
            | .holds = (.share >= $least and $took_s <= $seconds and (.parts | length) > 0)' "$folder/result" >>"$json"
        tail -1 "$json" | jq -r --argjson top "$top" '
            def percent(bytes): "\(1000 * bytes / .heap_bytes | round / 10) %";
            def kib: "\(. / 1024 | round) KiB";
            "\(.name) (\(.server)), \(.heap_bytes | kib) at \(.at): named \(percent(.named_bytes)) after \(.took_s) s\(if .holds then "" else "  MISS" end)",
            (. as $all | .parts[] | "  \(.bytes as $bytes | $all | percent($bytes))\t\(.part)"),
            "  \(percent(.no_part_bytes))\tno part", "  \(percent(.hidden_bytes))\thidden",
            (.no_part[:$top][] | "    \(.bytes | kib)  \(.path[:6] | join(" < "))")'
        [ "$(tail -1 "$json" | jq .holds)" = true ] || status=1
    else
        echo "$server: not profiled: $(tail -n 5 "$folder/said")"
        status=1
    fi
    "$wringer" --quiet sandbox delete bench --force >/dev/null 2>&1 || true
    rm -rf "$folder/out"
done
[ "$status" = 0 ] || echo "THE AIM IS MISSED"
echo "the same as JSON, a line for each server: $json" >&2
exit $status
