#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Takes a picture of the top of a report: docs/picture.sh REPORT.html PICTURE.png. Needs chromium.
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: docs/picture.sh REPORT.html PICTURE.png" >&2; exit 2; }
command -v chromium >/dev/null || { echo "needs chromium: apt install chromium" >&2; exit 3; }
report=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
HOME="$folder" chromium --headless --no-sandbox --hide-scrollbars --window-size=1000,1500 --virtual-time-budget=5000 \
    --screenshot="$folder/picture.png" "file://$report"
mv "$folder/picture.png" "$2"
