#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `wringer memory profile --repeat` on what is known to leak, and on what is known not to.
#
#   benches/heap/leaks.sh [--times N] [--only NAME,...] [--json FILE]
#
# Leaks, each once: udf, a function for MariaDB (compiled on the spot) that loses 1 KiB a call; prepared, statements that are prepared and never closed, on MariaDB;
# relations, PostgreSQL's relation cache, one further table each time (5,984 bytes are used of CacheMemoryContext and "index info" a table, by pg_backend_memory_contexts of 15.18, 1,600 tables). No leaks, each N times (10): warm_up, tables
# that are opened for the first time; burst, a large temporary table that is thrown away; clean, a statement that keeps nothing. In sandboxes of its own, deleted
# afterwards. Needs gcc, valgrind, jq. Exit code 1: a leak was missed, its bytes are off by more than 10 %, its leaf or function is another one, or something else was called a leak.
#
# What the columns mean:
#   verdict   leak, warm_up, retention or none
#   bytes     a repetition, with the interval, of the ledger's leaf; expected where that is known
#   function  who allocated it, by the profile, and the bytes that it asked for
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
times=10 only=udf,prepared,relations,warm_up,burst,clean json=$target/bench-heap-leaks.json
take_flags "times only json" "$@"
for program in gcc valgrind jq; do need_program "$program"; done
build_wringer
own_sandboxes
: >"$json"
status=0

# what a server calls of a UDF (MariaDB's documentation, "Creating User-Defined Functions"): no header is needed
cat >"$folder/leak.c" <<'C'
#include <stdlib.h>
#include <string.h>
char leak_init(void *it, void *arguments, char *message) { (void)it; (void)arguments; (void)message; return 0; }
__attribute__((noinline)) void *lose_a_kilobyte(void) { void *lost = malloc(1024); if (lost) memset(lost, 7, 1024); return lost; }
long long leak(void *it, void *arguments, char *is_null, char *error) {
    (void)it; (void)arguments; (void)is_null; (void)error;
    return lose_a_kilobyte() != 0;
}
C
gcc -g -O1 -shared -fPIC -o "$folder/leak.so" "$folder/leak.c"
chmod 755 "$folder/leak.so"

deploy() { # deploy SERVER [FLAG...]
    "$wringer" --quiet sandbox deploy "$@" --name bench --start >"$folder/said" 2>&1 || missing "$1: $(tail -3 "$folder/said")"
}
use() { "$wringer" --quiet sandbox use bench "$@" >/dev/null; }
gone() { "$wringer" --quiet sandbox delete bench --force >/dev/null 2>&1 || true; }
judge() { # judge NAME VERDICT BYTES LEAF FUNCTION [FLAG...]: VERDICT `leak`, or `no leak`; BYTES, LEAF and FUNCTION empty: any
    local name=$1 expected=$2 bytes=$3 leaf=$4 function=$5 result
    shift 5
    "$wringer" --quiet sandbox stop bench >/dev/null 2>&1 || true
    rm -rf "$folder/out"
    result=$("$wringer" --quiet memory profile bench --to "$folder/out" -o json "$@" 2>"$folder/said") || {
        echo "$name: failed: $(tail -5 "$folder/said")" >&2
        status=1
        return
    }
    jq -c --arg name "$name" --arg expected "$expected" --arg bytes "$bytes" --arg leaf "$leaf" --arg function "$function" '
        {name: $name, expected: $expected, expected_bytes: ($bytes | tonumber? // null), expected_leaf: $leaf, expected_function: $function}
        + (.leak | {verdict, leaf, bytes_per_repetition, low, high, function, function_bytes_per_repetition, repetitions, grown_bytes, warm_up_bytes, path})
        | .holds = (if .expected == "leak" then .verdict == "leak" and (.expected_bytes == null or
            ((.bytes_per_repetition - .expected_bytes) | fabs) <= 0.1 * .expected_bytes)
            and (.expected_leaf == "" or .leaf == .expected_leaf) and (.expected_function == "" or .function == .expected_function) else .verdict != "leak" end)' <<<"$result" >>"$json"
    tail -1 "$json" | jq -r '"\(.name)\t\(.verdict)\t\(.leaf)\t\(.bytes_per_repetition // 0 | round) B (\(.low // 0 | round) to \(.high // 0 | round))\t\(.function) \(.function_bytes_per_repetition // 0 | round) B\t\(if .holds then "holds" else "DOES NOT HOLD" end)"'
    [ "$(tail -1 "$json" | jq .holds)" = true ] || status=1
}
wants() { [[ ,$only, == *,$1,* ]]; }

if wants udf; then
    deploy mariadb -c plugin_dir="$folder"
    use "CREATE FUNCTION leak RETURNS INTEGER SONAME 'leak.so'"
    # malloc gives 1040 bytes for 1024 (glibc, 16 bytes for itself)
    judge udf leak 1040 unexplained lose_a_kilobyte --repeat 'SELECT leak()'
    gone
fi
if wants prepared; then
    deploy mariadb
    # MariaDB 10.11 asks for 32,760 bytes, of which some fill no new page: the leaf has fewer
    judge prepared leak "" sessions/idle "Prepared_statement::Prepared_statement(THD*)" --repeat "PREPARE p{i} FROM 'SELECT {i}'"
    gone
fi
if wants relations; then
    deploy postgresql
    for from in 1 1001 2001 3001 4001; do
        use "DO \$\$ BEGIN FOR i IN $from..$((from + 999)) LOOP EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, c int)', i); END LOOP; END \$\$"
    done
    # the function is the one that happened to need a new block of the context
    judge relations leak 5984 backends/catalogue_cache "" --repeat 'SELECT count(*) FROM t{i}' --repetitions 100
    gone
fi
for turn in $(seq "$times"); do
    if wants warm_up; then
        deploy mariadb
        for from in $(seq 1 40); do use "CREATE TABLE sbtest.w$from (id INT PRIMARY KEY, c CHAR(200))"; done
        judge "warm_up $turn" "no leak" "" "" "" --repetitions 10 --repeat 'EXECUTE IMMEDIATE CONCAT("SELECT COUNT(*) FROM sbtest.w", 1 + MOD({i}, 40))'
        gone
    fi
    if wants burst; then
        deploy mariadb
        judge "burst $turn" "no leak" "" "" "" --repetitions 2 --repeat "SELECT COUNT(*) FROM (SELECT DISTINCT seq, REPEAT('x', 200) FROM seq_1_to_40000) t"
        gone
    fi
    if wants clean; then
        deploy mariadb
        judge "clean $turn" "no leak" "" "" "" --repeat 'SELECT {i} + 1'
        gone
    fi
done
exit $status
