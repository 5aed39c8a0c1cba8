#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The slow layer beside the bare file: what it costs with delay 0, how many reads a second it carries, how exact its delays are, and
# that it uses no CPU while it gets no requests.
#
#   benches/squeeze/run.sh [FOLDER] [SECONDS] [PART...]
#
# As root. FOLDER on a local disk (/var/tmp; 512 MiB are written there, and removed), SECONDS for each cell (2), parts: add, total, check, idle; all
# of them without one, in some 6 minutes. Tables on the standard output, the same as JSON in $JSON
# (squeeze.json beside the build).
# What the columns mean: docs/slowfs.md, "Figures".
#
# Random direct reads of 4 KiB by fio with libaio, with exact percentiles from its log of every read. Wants a quiet machine: `bare p99` is what a read past
# the layer met at the same pace, so a tail there is the machine's own.
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
need_program fio
need_root "fio enters the mount namespace of the layer"
folder=$(mktemp -d "${1:-/var/tmp}/squeeze-bench.XXXXXX")
trap 'rm -rf "$folder"' EXIT
cargo build --quiet --release --manifest-path "$here/Cargo.toml" -p slowfs --bin slow-layer --example accuracy
mkdir "$folder/data"
dd if=/dev/urandom of="$folder/data/file" bs=1M count=512 status=none conv=fsync
"$target/release/examples/accuracy" "$folder/data/file" "${2:-2}" "${JSON:-$target/squeeze.json}" "${@:3}"
