#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does `wringer allocators` show a difference where there is none? And does it find what was planted?
#
#   benches/allocators/verdicts.sh [--tables N] [--only PART,...] [--server NAME] [--library PATH] [--threads N,...] [--repeat N] [--trial N] [--time TIME] [--idle TIME] [--rows N] [--json FILE]
#
# Three parts, of each N whole tables (2; --tables 20 for the whole aim), a table being one comparison of two mallocs with all its figures: same, one library under two names (PATH; without it
# the machine's jemalloc, else the plain shim); cpu, a shim before glibc's malloc that burns CPU at each call, beside the same shim that burns nothing; kept, a shim that keeps
# 32 MiB from its start on. The shims are compiled on the spot. How much the shim has to burn for a tenth more CPU a query is measured first (--trial 2 repeats, some 2 minutes a try, at most 5, until 8 to 12 % are got), and asked and got are printed. Each cell (MariaDB 10.11, --threads 8, --time 5s, --idle 5s, --repeat 5) takes some 50 s: a table 9 minutes, the whole aim 9 hours, twice as long
# on a busy host, where each cell is run once more. Half of that with --time 2s --repeat 3, whose verdicts see less. In sandboxes of its own, deleted afterwards. Needs cc, jq. WRINGER names the program, without it
# the release build's. Exit code 1: of 20 tables of one library fewer than 19 are without any difference and `keep`; the shim's CPU is found in fewer than 18 of 20; the 32 MiB not in all.
#
# What the columns mean:
#   shown      figures that are shown to differ
#   cpu, idle  ratio of CPU a query (geometric mean over the loads) and of RSS at the end of the rest, second malloc beside the first
#   found      same: a difference, or another recommendation than `keep`; cpu: `cpu a query` of a load is shown to be higher; kept: `idle rss` is
set -euo pipefail
# shellcheck source=benches/allocators/common.sh
. "$(dirname "$0")/common.sh"
tables=2 only=same,cpu,kept server=mariadb@10.11 library='' threads=8 repeat=5 trial=2 time=5s idle=5s rows=20000 json=$target/bench-allocators-verdicts.json
take_flags "tables only server library threads repeat trial time idle rows json" "$@"
need_program cc gcc
need_program jq
need_wringer
own_lab

cat >"$folder/shim.c" <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
#if ROUNDS
static void burn(void) { for (volatile int at = 0; at < ROUNDS; at++) { } }
#else
static void burn(void) { }
#endif
#if KEEP
__attribute__((constructor)) static void keep(void) { mmap(0, (size_t)KEEP << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0); }
#endif
void *malloc(size_t n) { burn(); return __libc_malloc(n); }
void *calloc(size_t m, size_t n) { burn(); return __libc_calloc(m, n); }
void *realloc(void *p, size_t n) { burn(); return __libc_realloc(p, n); }
void free(void *p) { int kept = errno; __libc_free(p); errno = kept; }
void *memalign(size_t a, size_t n) { burn(); return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { burn(); return __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) { burn(); return (*p = __libc_memalign(a, n)) ? 0 : ENOMEM; }
C
shim() { # shim NAME ROUNDS KEEP
    cc -O1 -shared -fPIC -Wall -DROUNDS="$2" -DKEEP="$3" -o "$folder/$1.so" "$folder/shim.c"
    chmod 755 "$folder/$1.so"
}
shim plain 0 0
shim keeps 0 32
[ -n "$library" ] || library=$(ldconfig -p | sed -n 's/.*libjemalloc.so.2 .*=> //p' | head -1)
[ -n "$library" ] || library=$folder/plain.so

experiment "$server" "$rows" >"$folder/mallocs.toml"
failed=0
wants() { [[ ,$only, == *,$1,* ]]; }

# compare FIRST SECOND [FLAG...]: a whole table in the file answer; the files and words of the call go
compare() {
    local mallocs="$1,$2" code=0
    shift 2
    in_turn "$wringer" --quiet allocators "$folder/mallocs.toml" --malloc "$mallocs" --threads "$threads" --time "$time" --wait 0s --to "$folder/table" -o json "$@" || code=$?
    rm -rf "$folder/table"
    return "$code"
}
# cpu_ratio: of the answer, CPU a query of the second malloc by that of the first, geometric mean over loads and cells
cpu_ratio() {
    jq '.base as $base | def cpu($of): [.cells[] | select((.malloc == $base) == $of) | .loads[] | .cpu_user_us_per_query + .cpu_system_us_per_query | log] | add / length;
        (cpu(false) - cpu(true)) | exp' "$folder/answer"
}
# how many rounds of an empty loop at each call of malloc cost a tenth more CPU a query: tried, and corrected by what was got, until it is 8 to 12 %
calibrate() {
    local rounds=1500 got attempt
    for attempt in 1 2 3 4 5; do
        shim burns "$rounds" 0
        if ! compare "plain=$folder/plain.so" "burns=$folder/burns.so" --repeat "$trial" --idle 1s --burst 4s; then
            echo "calibration: failed: $(tail -n 3 "$folder/said")"
            return 1
        fi
        got=$(cpu_ratio)
        jq -nc --argjson rounds "$rounds" --argjson got "$got" '{part: "calibration", rounds: $rounds, asked: 1.1, got: $got}' >>"$json"
        tail -1 "$json" | jq -r --arg attempt "$attempt" '"calibration \($attempt): \(.rounds) rounds a call of malloc, CPU a query asked 1.1 times, got \(.got * 1000 | round / 1000) times"'
        [ "$(jq -n --argjson got "$got" '$got >= 1.08 and $got <= 1.12')" = false ] || return 0
        rounds=$(jq -n --argjson rounds "$rounds" --argjson got "$got" '$rounds * ([[0.1 / ([$got - 1, 0.01] | max), 0.25] | max, 4] | min) | round | [., 1] | max')
    done
    echo "calibration: not within 1.08 to 1.12 after 5 tries: the host is too busy for it  MISS"
    return 1
}

table() { # table PART NUMBER FIRST SECOND
    if ! compare "$3" "$4" --repeat "$repeat" --idle "$idle"; then
        echo "$1 $2: failed: $(tail -n 3 "$folder/said")"
        failed=1
        return
    fi
    jq -c --arg part "$1" --argjson table "$2" "$of_answer"'
        ([.comparisons[] | select(.figure | endswith(": cpu a query")) | .ratio | numbers]) as $cpu
        | (shown | map("\(.figure) \(.ratio * 1000 | round / 1000)")) as $shown
        | {part: $part, table: $table, figures: (.comparisons | length), not_judged: ([.comparisons[] | select(.verdict == null)] | length), shown: $shown,
            cpu_ratio: (if $cpu == [] then null else ($cpu | map(log) | add / length | exp) end),
            idle_ratio: ([.comparisons[] | select(.figure == "idle rss") | .ratio][0]),
            detectable_cpu: ([.comparisons[] | select(.figure | endswith(": cpu a query")) | .detectable_ratio | numbers] | min),
            as_asked: all(.cells[]; .as_asked), take: .recommendation.take,
            found: (if $part == "same" then $shown != [] or .recommendation.take != "keep"
                elif $part == "cpu" then any(shown[]; .verdict == "higher" and (.figure | endswith(": cpu a query")))
                else any(shown[]; .verdict == "higher" and .figure == "idle rss") end)}' "$folder/answer" >>"$json"
    tail -1 "$json" | jq -r 'def three: if . == null then "-" else . * 1000 | round / 1000 end;
        "\(.part) \(.table): \(if .found then "found" else "not found" end), take \(.take), cpu \(.cpu_ratio | three) (detectable from \(.detectable_cpu | three)), idle \(.idle_ratio | three), \(.shown | length) of \(.figures) shown\(if .shown == [] then "" else ": \(.shown | join(", "))" end)\(if .as_asked then "" else "; NOT AS ASKED" end)"'
}
! wants cpu || calibrate || failed=1
for number in $(seq "$tables"); do
    ! wants same || table same "$number" "first=$library" "second=$library"
    ! wants cpu || table cpu "$number" "plain=$folder/plain.so" "burns=$folder/burns.so"
    ! wants kept || table kept "$number" "plain=$folder/plain.so" "keeps=$folder/keeps.so"
done

# of so many tables that many: 19, 18 and 20 of 20
jq -rs --arg only "$only" '
    [("same", "cpu", "kept") as $part | select(",\($only)," | contains(",\($part),")) | [.[] | select(.part == $part)] as $of | ($of | length) as $n
        | (if $part == "same" then [$of[] | select(.found | not)] else [$of[] | select(.found)] end | length) as $good
        | ({same: 19, cpu: 18, kept: 20}[$part] * $n / 20 | ceil) as $aim
        | "\({same: "one library under two names: without any difference and keep", cpu: "10 % CPU found", kept: "32 MiB found"}[$part]) in \($good) of \($n) (aim \($aim))\(if $good < $aim or $n == 0 then "  MISS" else "" end)"][]' \
    "$json" | tee "$folder/verdict"
echo "the same as JSON, a line for each table: $json" >&2
[ "$failed" = 0 ] && ! grep -q MISS "$folder/verdict"
