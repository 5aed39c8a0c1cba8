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
chromium --headless --no-sandbox --hide-scrollbars --window-size=1000,1500 --virtual-time-budget=5000 \
    --screenshot="$folder/report.png" "file://$folder/out/report.html"
mv "$folder/report.png" docs/report.png
