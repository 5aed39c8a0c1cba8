#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hiding RAM on a machine whose page cache is full, beside the shell commands that people use for it (vm.nr_hugepages, drop_caches,
# compact_memory): what was granted, the time it took, and how much of the page cache is left. Both start from the same state: a file
# as large as the RAM that is available, read page by page in random order, which is what leaves the fewest huge pages to be had.
#
#   benches/squeeze/ram.sh [SIZE_GIB] [PAIRS] [FOLDER] [JSON]     as root; 12 GiB, 3 pairs, /var/tmp
#
# FOLDER needs as much free space as the machine has RAM, and loses it again. At least 8 GiB must be left: what asks for more is for a
# virtual machine. Takes some 3 minutes a pair; programs that others run on the machine lose their page cache, too.
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
size_gib=${1:-12}
pairs=${2:-3}
json=${4:-}
need_root "it hides RAM and drops the page cache"
need_program fio
folder=$(mktemp -d "${3:-/var/tmp}/ram-bench.XXXXXX")
export WRINGER_HOME="$folder/home"
knob=/proc/sys/vm/nr_hugepages

before=$(cat $knob)
clean() {
    echo "$before" >$knob
    [ ! -d "$WRINGER_HOME" ] || "$wringer" undo >&2 || true
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

# field NAME: of /proc/meminfo, as it stands there
field() { awk -v name="$1:" '$1 == name { print $2 }' /proc/meminfo; }
gib() { awk -v kib="$1" 'BEGIN { printf "%.2f", kib / 1048576 }'; }
# seconds since START
since() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.3f", to - from }'; }

[ "$before" -eq 0 ] || { echo "somebody has $before huge pages in the pool: this compares from none" >&2; exit 3; }
available_gib=$(($(field MemAvailable) / 1048576))
[ $((available_gib - size_gib)) -ge 8 ] || { echo "$available_gib GiB are available: hiding $size_gib would leave less than 8" >&2; exit 3; }
free_gib=$(($(df --output=avail -k "$folder" | tail -1) / 1048576))
[ "$free_gib" -gt $((available_gib + 2)) ] || { echo "$folder has $free_gib GiB free, and needs $((available_gib + 2))" >&2; exit 3; }
page_kib=$(field Hugepagesize)
pages=$((size_gib * 1048576 / page_kib))
build_wringer

echo "writing $available_gib GiB" >&2
dd if=/dev/zero of="$folder/file" bs=1M count=$((available_gib * 1024)) conv=fsync status=none

# Each page once, in random order, by 4 readers that share the file; twice, because what the kernel drops meanwhile is missing after the first.
fill() {
    echo 3 >/proc/sys/vm/drop_caches
    local quarter=$((available_gib * 256))
    for _ in 1 2; do
        fio --name=fill --filename="$folder/file" --rw=randread --bs=4k --ioengine=psync --invalidate=0 --numjobs=4 --thread \
            --size="${quarter}m" --offset_increment="${quarter}m" --output=/dev/null
    done
    cached=$(field Cached) free=$(field MemFree)
}

rows=
# result HOW PAIR PAGES_AT_FIRST PAGES_IN_THE_END SECONDS SECONDS_BACK
result() {
    local left
    left=$(field Cached)
    printf '%-34s %4s   %8s %8s   %7s %7s   %9s %9s   %8s\n' "$1" "$2" "$(gib "$cached")" "$(gib "$left")" \
        "$3" "$4" "$(awk -v got="$4" -v asked="$pages" 'BEGIN { printf "%+d", got - asked }')" "$5" "$6"
    rows="$rows${rows:+,}{\"how\":\"$1\",\"pair\":$2,\"page_cache_before_kib\":$cached,\"free_before_kib\":$free,\"page_cache_after_kib\":$left,\"asked_pages\":$pages,\"first_pages\":$3,\"got_pages\":$4,\"seconds\":$5,\"seconds_back\":$6}"
}

by_shell() {
    local start first got seconds back
    start=$EPOCHREALTIME
    echo "$pages" >$knob
    first=$(field HugePages_Total) got=$first
    if [ "$got" -lt "$pages" ]; then
        echo 3 >/proc/sys/vm/drop_caches
        echo "$pages" >$knob
        got=$(field HugePages_Total)
    fi
    if [ "$got" -lt "$pages" ]; then
        echo 1 >/proc/sys/vm/compact_memory
        echo "$pages" >$knob
        got=$(field HugePages_Total)
    fi
    seconds=$(since "$start")
    start=$EPOCHREALTIME
    echo 0 >$knob
    back=$(since "$start")
    result "shell: nr_hugepages, drop_caches" "$1" "$first" "$got" "$seconds" "$back"
}

by_wringer() {
    local start got seconds back
    start=$EPOCHREALTIME
    "$wringer" ram hide "${size_gib}G" --for 10m --yes -o json "${@:2}" >"$folder/said"
    seconds=$(since "$start")
    got=$(field HugePages_Total)
    start=$EPOCHREALTIME
    "$wringer" ram release >/dev/null 2>&1
    back=$(since "$start")
    result "wringer ram hide${2:+ $2}" "$1" "$got" "$got" "$seconds" "$back"
}

printf '%-34s %4s   %8s %8s   %7s %7s   %9s %9s   %8s\n' "" pair "cached G" "left G" "first" "pages" "off" "seconds" "back s"
for pair in $(seq "$pairs"); do
    fill; by_shell "$pair"
    fill; by_wringer "$pair"
    fill; by_wringer "$pair" --drop-caches
done
if [ -n "$json" ]; then
    printf '{"schema":1,"page_kib":%s,"asked_pages":%s,"rows":[%s]}\n' "$page_kib" "$pages" "$rows" >"$json"
fi
