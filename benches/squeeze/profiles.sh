#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each disk profile against its stated figures, as fio sees it: median and 99th percentile of random 4 KiB reads one at a time, reads a
# second with 32 under way, and what happens when burst credits run out. Then how smooth a limit is: 1000 reads a second with 32
# readers must take 32 ms each (Little), not slices of 100 ms.
#
#   benches/squeeze/profiles.sh [FOLDER] [SECONDS] [JSON]     as root; FOLDER on a local disk (/var/tmp), SECONDS a cell (2)
#
# The stated figures are the model's, driven in virtual time: `wringer disk profiles NAME`. A profile faster than this host is refused,
# and its row says so.
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
seconds=${2:-2}
json=${3:-}
folder=$(mktemp -d "${1:-/var/tmp}/profiles-bench.XXXXXX")
export WRINGER_HOME="$folder/home"
clean() {
    "$wringer" disk release "$folder/data" >/dev/null 2>&1 || "$wringer" undo >&2 || true
    rm -rf "$folder"
}
trap clean EXIT

need_root "the layer is mounted for everybody"
need_program fio
build_wringer
mkdir "$folder/data"
dd if=/dev/urandom of="$folder/data/file" bs=1M count=256 status=none conv=fsync

# read_for DEPTH SECONDS: leaves fio's log of every read in log_lat.1.log (milliseconds, nanoseconds)
read_for() {
    rm -f "$folder"/log_*
    fio --name=cell --filename="$folder/data/file" --direct=1 --rw=randread --bs=4k --ioengine=libaio --iodepth="$1" \
        --time_based --runtime="$2" --size=256M --randrepeat=0 --write_lat_log="$folder/log" --output=/dev/null
}

# percentiles: "median_us p99_us" of the log
percentiles() {
    cut -d, -f2 "$folder/log_lat.1.log" | sort -n | awk '
        { value[NR] = $1 }
        END { printf "%.0f %.0f\n", value[int((NR + 1) / 2)] / 1000, value[int(NR * 0.99) + 1] / 1000 }'
}

# rate FROM TO: reads a second that ended between these seconds
rate() {
    awk -F, -v from="$1" -v to="$2" '$1 >= from * 1000 && $1 < to * 1000 { n++ } END { printf "%.0f\n", n / (to - from) }' "$folder/log_lat.1.log"
}

# imitate WORDS...: 0, or why not
imitate() { "$wringer" disk delay "$folder/data" --for 10m "$@" >/dev/null 2>"$folder/said"; }

rows=
row() { rows="$rows${rows:+,}$1"; }

imitate --read 0
printf '%-22s %10s %8s %6s   %10s %8s %6s   %10s %8s %6s\n' "depth 1, then 32" "median us" stated off "p99 us" stated off "reads/s" stated off
for profile in hdd-7200 gp2:100G,credits=0 gp2:100G gp3 io2 standard:credits=0 pd-standard:500G pd-balanced:100G sata-ssd nvme; do
    if ! imitate --profile "$profile"; then
        why=$(sed -n 's/^error: //p' "$folder/said" | head -1)
        printf '%-22s refused: %s\n' "$profile" "$why"
        row "{\"profile\":\"$profile\",\"refused\":\"$(printf '%s' "$why" | tr '"\\' "' ")\"}"
        continue
    fi
    stated=$("$wringer" disk profiles "$profile")
    read -r median_stated p99_stated < <(awk '$1 == "read" && $2 == 1 { print $3, $5 }' <<<"$stated")
    rate_stated=$(awk '$1 == "read" && $2 == 32 { print $7 }' <<<"$stated")
    read_for 1 $((seconds * 2))
    read -r median p99 < <(percentiles)
    # credits and queues begin anew
    imitate --profile "$profile"
    read_for 32 $((seconds + 1))
    per_second=$(rate 1 $((seconds + 1)))
    off() { awk -v got="$1" -v stated="$2" 'BEGIN { printf "%+.1f%%", (got / stated - 1) * 100 }'; }
    printf '%-22s %10s %8s %6s   %10s %8s %6s   %10s %8s %6s\n' "$profile" "$median" "$median_stated" "$(off "$median" "$median_stated")" \
        "$p99" "$p99_stated" "$(off "$p99" "$p99_stated")" "$per_second" "$rate_stated" "$(off "$per_second" "$rate_stated")"
    row "{\"profile\":\"$profile\",\"median_us\":$median,\"median_stated_us\":$median_stated,\"p99_us\":$p99,\"p99_stated_us\":$p99_stated,\"reads_per_second\":$per_second,\"reads_stated_per_second\":$rate_stated}"
done

# 300 a second, 3000 with credits: 8100 credits last 8100 / (3000 - 300) = 3 s
imitate --profile gp2:100G,credits=8100
read_for 32 6
burst=$(rate 0 3) base=$(rate 3.5 6)
over=$(awk -F, -v full=1500 '{ n[int($1 / 100)]++ } END { for (slot = 0; slot in n && n[slot] * 10 > full; slot++); printf "%.1f\n", slot / 10 }' "$folder/log_lat.1.log")
printf '\ngp2:100G with 8100 credits: %s reads/s for %s s, then %s reads/s (stated: 3000 for 3.0 s, then 300)\n' "$burst" "$over" "$base"

imitate --iops 1000
read_for 32 3
read -r median p99 < <(percentiles)
printf '1000 reads/s with 32 under way: median %s us, p99 %s us (Little: 32000), %s reads/s\n' "$median" "$p99" "$(rate 1 3)"

if [ -n "$json" ]; then
    printf '{"schema":1,"profiles":[%s],"burst":{"profile":"gp2:100G,credits=8100","burst_reads_per_second":%s,"burst_seconds":%s,"base_reads_per_second":%s},"little":{"iops":1000,"depth":32,"median_us":%s,"p99_us":%s}}\n' \
        "$rows" "$burst" "$over" "$base" "$median" "$p99" >"$json"
fi
