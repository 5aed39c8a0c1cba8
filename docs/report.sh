#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes docs/report.png anew: runs an experiment of two minutes and takes a picture of the top of its report. Needs chromium and a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v chromium >/dev/null || { echo "needs chromium: apt install chromium" >&2; exit 3; }
cargo build --release -p wringer
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
target/release/wringer run experiments/cloud-disks.toml --to "$folder/out"
docs/picture.sh "$folder/out/report.html" docs/report.png
