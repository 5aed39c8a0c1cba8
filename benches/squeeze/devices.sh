#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The kernel's device-mapper delay and the FUSE layer side by side: the same file on the same loop device, read one block of 4 KiB after the
# other past the page cache, by the same witness. In the test guest, because few machines have a device to spare; its processor is emulated,
# ten to thirty times slower, so that what is below a millisecond is the emulation's own. Takes a minute or two a kernel.
#
#   benches/squeeze/devices.sh [SUITE]     SUITE: another Debian suite's kernel, bookworm has one that waits by a timer
#
# Columns: mechanism, ms asked, us predicted, median us, 99th percentile us, processor time in % of one processor while reading.
# Predicted: for device-mapper what its ticks come to, for the layer the sum of asked and bare.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
[ -z "${1:-}" ] || export WRINGER_GUEST_SUITE=$1
cd "$here"
cargo run --quiet -p guest --example figures dm_figures |
    awk '/^Linux/ { print; printf "%-10s %6s %10s %8s %8s %6s\n", "", "asked", "predicted", "median", "p99", "cpu"; next }
         NF == 6 { printf "%-10s %6d %10d %8d %8d %5d%%\n", $1, $2, $3, $4, $5, $6; next }
         { print }'
