#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What each way to slow a disk costs a request, and how exact it is: the same file bare, below a directory's FUSE layer, with the preload layer in
# the program, and as the image of a slow loop device; random direct reads and writes of 4 KiB by fio, one after the other, with no delay, 0.1, 1
# and 10 ms on top.
#
#   benches/squeeze/disks.sh [FOLDER] [SECONDS]     as root; FOLDER on a local disk (/var/tmp), SECONDS a cell (3)
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
seconds=${2:-3}
folder=$(mktemp -d "${1:-/var/tmp}/disks-bench.XXXXXX")
export WRINGER_HOME="$folder/home"
clean() {
    "$wringer" disk release >/dev/null 2>&1 || "$wringer" undo >&2 || true
    rm -rf "$folder"
}
trap clean EXIT

need_root "a layer is mounted, a loop device attached"
need_program fio
build_wringer
mkdir "$folder/data"
dd if=/dev/urandom of="$folder/data/file" bs=1M count=256 status=none conv=fsync

cell() { # cell FILE randread|randwrite: "median_us p99_us requests_per_second"
    rm -f "$folder"/log_*
    "${within[@]}" fio --name=cell --filename="$1" --direct=1 --rw="$2" --bs=4k --ioengine=psync --size=256M --time_based --runtime="$seconds" \
        --randrepeat=0 --write_lat_log="$folder/log" --output=/dev/null
    cut -d, -f2 "$folder/log_lat.1.log" | sort -n | awk -v seconds="$seconds" '
        { value[NR] = $1 }
        END { printf "%d %d %d", value[int((NR + 1) / 2)] / 1000, value[int(NR * 0.99) + 1] / 1000, NR / seconds }'
}
row() { # row NAME FILE
    # shellcheck disable=SC2046
    printf '%-24s %9d %8d %8d   %9d %8d %8d\n' "$1" $(cell "$2" randread) $(cell "$2" randwrite)
}
within=()
delay() { # delay PATH TIME
    "$wringer" disk delay "$1" --read "$2" --write "$2" --for 10m -o json >"$folder/said" 2>/dev/null || { cat "$folder/said" >&2; exit 4; }
}

times=(0 0.1ms 1ms 10ms)
printf '%-24s %9s %8s %8s   %9s %8s %8s\n' "depth 1, 4 KiB" "read p50" "p99 us" "reads/s" "write p50" "p99 us" "writes/s"
row "bare file" "$folder/data/file"
for time in "${times[@]}"; do
    delay "$folder/data" "$time"
    row "FUSE directory, $time" "$folder/data/file"
done
"$wringer" disk release >/dev/null 2>&1
for time in "${times[@]}"; do
    within=("$wringer" squeeze --quiet --no-probe --disk-mechanism preload --disk "$folder/data=read=$time,write=$time" --)
    row "preload library, $time" "$folder/data/file"
done
within=()
for time in "${times[@]}"; do
    delay "$folder/data/file" "$time"
    device=$(sed -n 's/^ *"device": *"\([^"]*\)".*/\1/p' "$folder/said" | head -1)
    row "loop device, $time" "$device"
done
