#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does `wringer allocators` show a difference where there is none? And does it find what was planted?
#
#   benches/allocators/verdicts.sh [--tables N] [--only PART,...] [--server NAME] [--library PATH] [--threads N,...] [--repeat N] [--time TIME] [--idle TIME] [--rows N] [--json FILE]
#
# Three parts, of each N whole tables (2; --tables 20 for the whole aim), a table being one comparison of two mallocs with all its figures: same, one library under two names (PATH; without it
# the machine's jemalloc, else the plain shim); cpu, a shim before glibc's malloc whose threads burn a tenth of their own CPU time once more, beside the same shim that burns nothing; kept, a shim that keeps
# 32 MiB from its start on. The shims are compiled on the spot. Each cell (MariaDB 10.11, --threads 8, --time 5s, --idle 5s, --repeat 5) takes some 50 s: a table 9 minutes, the whole aim 9 hours, twice as long
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
tables=2 only=same,cpu,kept server=mariadb@10.11 library='' threads=8 repeat=5 time=5s idle=5s rows=20000 json=$target/bench-allocators-verdicts.json
take_flags "tables only server library threads repeat time idle rows json" "$@"
need_program cc gcc
need_program jq
need_wringer
own_lab

cat >"$folder/shim.c" <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
#define OWN static __thread __attribute__((tls_model("initial-exec")))
#if PERCENT
OWN long long burnt;
OWN unsigned calls;
static long long cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
/* of what this thread has used without this, so many per cent are burnt, looking at the clock included */
static void burn(void) {
    if (++calls % 32) return;
    long long from = cpu(), now = cpu();
    burnt += 2 * (now - from);
    while ((now - burnt) * PERCENT > burnt * 100) {
        for (volatile int at = 0; at < 300; at++) { }
        from = now;
        now = cpu();
        burnt += now - from;
    }
}
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
shim() { # shim NAME PERCENT KEEP
    cc -O1 -shared -fPIC -Wall -DPERCENT="$2" -DKEEP="$3" -o "$folder/$1.so" "$folder/shim.c"
    chmod 755 "$folder/$1.so"
}
shim plain 0 0
shim burns 10 0
shim keeps 0 32
[ -n "$library" ] || library=$(ldconfig -p | sed -n 's/.*libjemalloc.so.2 .*=> //p' | head -1)
[ -n "$library" ] || library=$folder/plain.so

experiment "$server" "$rows" >"$folder/mallocs.toml"
failed=0
table() { # table PART NUMBER MALLOCS
    if ! in_turn "$wringer" --quiet allocators "$folder/mallocs.toml" --malloc "$3" --threads "$threads" --repeat "$repeat" --time "$time" --idle "$idle" --wait 0s \
        --to "$folder/table" -o json; then
        echo "$1 $2: failed: $(tail -n 3 "$folder/said")"
        failed=1
        rm -rf "$folder/table"
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
    rm -rf "$folder/table"
}
wants() { [[ ,$only, == *,$1,* ]]; }
for number in $(seq "$tables"); do
    ! wants same || table same "$number" "first=$library,second=$library"
    ! wants cpu || table cpu "$number" "plain=$folder/plain.so,burns=$folder/burns.so"
    ! wants kept || table kept "$number" "plain=$folder/plain.so,keeps=$folder/keeps.so"
done

# of so many tables that many: 19, 18 and 20 of 20
jq -rs --arg only "$only" '
    [("same", "cpu", "kept") as $part | select(",\($only)," | contains(",\($part),")) | [.[] | select(.part == $part)] as $of | ($of | length) as $n
        | (if $part == "same" then [$of[] | select(.found | not)] else [$of[] | select(.found)] end | length) as $good
        | ({same: 19, cpu: 18, kept: 20}[$part] * $n / 20 | floor) as $aim
        | "\({same: "one library under two names: without any difference and keep", cpu: "10 % CPU found", kept: "32 MiB found"}[$part]) in \($good) of \($n) (aim \($aim))\(if $good < $aim or $n == 0 then "  MISS" else "" end)"][]' \
    "$json" | tee "$folder/verdict"
echo "the same as JSON, a line for each table: $json" >&2
[ "$failed" = 0 ] && ! grep -q MISS "$folder/verdict"
