#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The slow layer beside the bare directory: how exact its delays are, what it costs, and whether depth serialises.
#
#   benches/slowfs/run.sh [FOLDER] [SECONDS]      as root; FOLDER on a local disk (default /var/tmp), SECONDS for each cell (3)
#
# Bare and layer are read in turn, cell by cell, so that both meet the same noise. Latencies are exact medians of fio's log of every
# request, not of its histogram. `asked` is the bare median plus the delay (add), or the larger of the two (total).
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
folder=$(mktemp -d "${1:-/var/tmp}/slowfs-bench.XXXXXX")
seconds=${2:-3}
delays_us=${DELAYS_US:-"0 50 100 500 1000 5000 10000 20000 100000"}
layer=
clean() {
    [ -z "$layer" ] || kill -9 "$layer" 2>/dev/null || true
    rm -rf "$folder"
}
trap clean EXIT

command -v fio >/dev/null || { echo "needs fio" >&2; exit 3; }
cargo build --quiet --release --manifest-path "$here/Cargo.toml" -p slowfs --bin slow-layer
binary=${CARGO_TARGET_DIR:-$here/target}/release/slow-layer
mkdir "$folder/data"
dd if=/dev/urandom of="$folder/data/file" bs=1M count=512 status=none conv=fsync

# start MODE DELAY_US: a fresh layer with that delay for reads and writes.
start() {
    rm -f "$folder/slowfs.sock" "$folder/ready"
    WRINGER_READY_FD=9 "$binary" "{\"directory\":\"$folder/data\",\"private\":true,\"control\":\"$folder/slowfs.sock\",\"run_id\":\"bench\",
        \"threads\":8,\"delay\":{\"read_us\":$2,\"write_us\":$2,\"sync_us\":0,\"mode\":\"$1\"},\"writeback_cache\":true,\"direct\":true,
        \"read_ahead_kib\":null,\"leave_when_alone\":false}" 9>"$folder/ready" &
    layer=$!
    until [ -s "$folder/ready" ]; do sleep 0.01; done
}

stop() {
    kill -9 "$layer"
    wait "$layer" 2>/dev/null || true
    layer=
}

# cell DEPTH DIRECTION [nsenter ...]: prints "median_us p99_us iops"
cell() {
    local depth=$1 direction=$2
    shift 2
    rm -f "$folder"/log_lat*
    "$@" fio --name=cell --filename="$folder/data/file" --direct=1 --rw="rand$direction" --bs=4k --ioengine=libaio \
        --iodepth="$depth" --time_based --runtime="$seconds" --size=512M --randrepeat=0 \
        --write_lat_log="$folder/log" --output=/dev/null
    cut -d, -f2 "$folder"/log_lat.1.log | sort -n | awk -v seconds="$seconds" '
        { value[NR] = $1 }
        END { printf "%.1f %.1f %.0f\n", value[int((NR + 1) / 2)] / 1000, value[int(NR * 0.99) + 1] / 1000, NR / seconds }'
}

ticks() { awk '{ print $14 + $15 }' "/proc/$layer/stat"; }

row() {
    local mode=$1 delay=$2 direction=$3 depth=$4 bare got before cpu
    bare=$(cell "$depth" "$direction")
    before=$(ticks)
    got=$(cell "$depth" "$direction" nsenter --mount --target "$layer")
    cpu=$(( $(ticks) - before ))
    awk -v mode="$mode" -v delay="$delay" -v direction="$direction" -v depth="$depth" -v bare="$bare" -v got="$got" \
        -v cpu="$cpu" -v seconds="$seconds" 'BEGIN {
        split(bare, b, " "); split(got, g, " ")
        asked = mode == "add" ? b[1] + delay : (b[1] > delay ? b[1] : delay)
        count = g[3] * seconds
        printf "| %s | %s | %d | %.2f | %.1f | %.1f | %.1f | %+.1f | %+.2f %% | %.1f | %d | %d | %.0f |\n", mode, direction, depth,
            delay / 1000, b[1], asked, g[1], g[1] - asked, (g[1] - asked) / asked * 100, g[2], b[3], g[3],
            count ? cpu * 10000 / count : 0
    }'
}

echo "| mode | operation | depth | delay ms | bare p50 us | asked us | got p50 us | off us | off | got p99 us | bare IOPS | got IOPS | CPU us/IO |"
echo "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
for mode in add total; do
    for delay in $delays_us; do
        start "$mode" "$delay"
        row "$mode" "$delay" read 1
        row "$mode" "$delay" read 32
        row "$mode" "$delay" write 1
        stop
    done
done
