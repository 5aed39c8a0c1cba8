#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What does a burst leave behind under each malloc, is the one recommended that gives it back, and do bytes that are held move what is said to be asked for?
#
#   benches/allocators/footprint.sh [--servers "NAME ..."] [--mallocs NAME,...] [--threads N,...] [--repeat N] [--time TIME] [--idle TIME] [--rows N] [--held "NAME ..."] [--json FILE]
#
# `wringer allocators` on each server (MariaDB 10.11): glibc, and beside it glibc-trim and jemalloc-background, each with --repeat 5, a ladder of 8 and 64 threads of --time 10s, and --idle 15s after
# the burst. Some 25 minutes; with --threads 8 --time 2s some 13. Below 3 repeats there is no verdict, so nothing can be recommended. Then, for each malloc of --held (glibc jemalloc; "" leaves
# that out), a function for MariaDB (compiled on the spot) that holds 64 MiB in blocks of 1 KiB. In sandboxes of its own, deleted afterwards. Needs cc, jq. WRINGER names the program,
# without it the release build's. Exit code 1: what glibc-trim or jemalloc-background retains is not under a fifth of glibc's; neither is recommended; or `asked_bytes` has
# moved by something else than the 64 MiB and what malloc adds to each block, off by more than 2 %.
#
# What the columns mean:
#   retained   RSS at the end of the rest less that before the burst: mean over the repeats, and the range
#   share      of what the first malloc retains; the aim is below 0.2
set -euo pipefail
# shellcheck source=benches/allocators/common.sh
. "$(dirname "$0")/common.sh"
servers=mariadb@10.11 mallocs=glibc,glibc-trim,jemalloc-background threads=8,64 repeat=5 time=10s idle=15s rows=100000 held="glibc jemalloc" json=$target/bench-allocators-footprint.json
take_flags "servers mallocs threads repeat time idle rows held json" "$@"
need_program jq
[ -z "$held" ] || need_program cc gcc
need_wringer
own_lab
status=0

for server in $servers; do
    experiment "$server" "$rows" >"$folder/mallocs.toml"
    if ! in_turn "$wringer" --quiet allocators "$folder/mallocs.toml" --malloc "$mallocs" --threads "$threads" --repeat "$repeat" --time "$time" --idle "$idle" --wait 0s \
        --to "$folder/${server%%@*}" -o json; then
        echo "$server: failed: $(tail -n 5 "$folder/said")"
        status=1
        continue
    fi
    jq -c --arg server "$server" "$of_answer"' .base as $base
        | ([.cells[] | select(.malloc == $base and .retained_bytes) | .retained_bytes] | mean) as $of_base
        | .recommendation as $recommended
        | [.cells | group_by(.malloc)[] | {malloc: .[0].malloc, cells: length, as_asked: ([.[] | select(.as_asked)] | length),
            retained_bytes: ([.[].retained_bytes | numbers] | mean), lowest: ([.[].retained_bytes | numbers] | min), highest: ([.[].retained_bytes | numbers] | max),
            idle_rss_bytes: ([.[].footprint[] | select(.mark == "idle") | .rss_bytes | numbers] | mean)}
            | .share = (if $of_base and .retained_bytes then .retained_bytes / $of_base else null end)
            | .holds = (if .malloc == "glibc-trim" or .malloc == "jemalloc-background" then .share != null and .share < 0.2 else null end)] as $rows
        | {row: "retained", server: $server, base: $base, mallocs: $rows, take: $recommended.take, because: $recommended.because, price_bytes: $recommended.price_bytes,
            follows: ($recommended.take == "glibc-trim" or $recommended.take == "jemalloc-background"),
            holds: (all($rows[]; .holds != false) and ($recommended.take == "glibc-trim" or $recommended.take == "jemalloc-background"))}' "$folder/answer" >>"$json"
    tail -1 "$json" | jq -r "$of_answer"' "\(.server), retained after the burst:", (.mallocs[] | "  \(.malloc): \(.retained_bytes | mib) (\(.lowest | mib) to \(.highest | mib), \(.as_asked) of \(.cells) cells as asked), share \(.share // 0 | . * 1000 | round / 1000)"
        + (if .holds == false then "  MISS: the aim is below 0.2" else "" end)),
        "  recommendation: \(.take)\(if .price_bytes then ", \(.price_bytes | mib)" else "" end)\(if .follows then "" else "  MISS: it does not follow" end)", (.because[] | "    \(.)")'
    [ "$(tail -1 "$json" | jq .holds)" = true ] || status=1
done

# what a server calls of a UDF (MariaDB's documentation, "Creating User-Defined Functions"): no header is needed
cat >"$folder/hold.c" <<'C'
#include <stdlib.h>
#include <string.h>
char hold_init(void *it, void *arguments, char *message) { (void)it; (void)arguments; (void)message; return 0; }
static void *volatile blocks[65536];
long long hold(void *it, void *arguments, char *is_null, char *error) {
    (void)it; (void)arguments; (void)is_null; (void)error;
    for (int at = 0; at < 65536; at++)
        if ((blocks[at] = malloc(1024))) memset(blocks[at], 7, 1024);
    return 65536;
}
C
if [ -n "$held" ]; then
    mkdir -m 755 "$folder/plugins"
    cc -O1 -shared -fPIC -o "$folder/plugins/hold.so" "$folder/hold.c"
    chmod 755 "$folder/plugins/hold.so"
fi
for malloc in $held; do
    {
        experiment mariadb@10.11 1000 | sed "s|^innodb_buffer_pool_size.*|innodb_buffer_pool_size = \"64M\"\nplugin_dir = \"$folder/plugins\"|; /^warmup/d; s/^time = .*/time = \"1s\"/"
        printf '[[arm]]\nname = "%s"\nserver.malloc = "%s"\nload.before = [%s]\n' warm "$malloc" "\"CREATE FUNCTION hold RETURNS INTEGER SONAME 'hold.so'\"" \
            plain "$malloc" '"SELECT 1"' held "$malloc" '"SELECT hold()"'
    } >"$folder/held.toml"
    if ! in_turn "$wringer" --quiet run "$folder/held.toml" --to "$folder/held-$malloc"; then
        echo "held under $malloc: failed: $(tail -n 5 "$folder/said")"
        status=1
        continue
    fi
    # glibc adds 16 bytes to a block of 1 KiB; jemalloc has a class of this size
    "$wringer" report "$folder/held-$malloc" -o json 2>/dev/null | jq -c --arg malloc "$malloc" --argjson added "$(case $malloc in glibc*) echo 16 ;; *) echo 0 ;; esac)" '
        [.snapshots[] | select(.source == "memory.footprint") | {arm, mark: .entity, seen: (.content | if type == "string" then fromjson else . end)}] as $marks
        | def asked($arm): [$marks[] | select(.arm == $arm and .mark == "after") | .seen.asked_bytes][0];
        (65536 * (1024 + $added)) as $expected
        | {row: "held", malloc: $malloc, expected_bytes: $expected, plain_bytes: asked("plain"), held_bytes: asked("held"),
            by: [$marks[] | select(.arm == "held") | .seen.asked_by][0]}
        | .moved_bytes = (if .plain_bytes and .held_bytes then .held_bytes - .plain_bytes else null end)
        | .off = (if .moved_bytes then .moved_bytes / $expected - 1 else null end)
        | .holds = (.off != null and (.off | fabs) <= 0.02)' >>"$json"
    tail -1 "$json" | jq -r "$of_answer"' "64 MiB held under \(.malloc): asked_bytes moved by \(.moved_bytes | mib) of \(.expected_bytes | mib) (off by \(.off // 0 | . * 1000 | round / 10) %), by \(.by)\(if .holds then "" else "  MISS" end)"'
    [ "$(tail -1 "$json" | jq .holds)" = true ] || status=1
done
[ "$status" = 0 ] || echo "THE AIM IS MISSED"
echo "the same as JSON, a line for each part: $json" >&2
exit $status
