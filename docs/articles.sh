#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes docs/articles.md, docs/gallery and docs/gallery.png anew: runs the experiments of the five articles, which takes half an hour, then `wringer report --articles`.
# Needs root, chromium and a quiet machine. WRINGER: another program than target/release/wringer.
# With folders of runs that there are already, makes page and picture of these: docs/articles.sh FOLDER...
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${WRINGER:-}" ]; then
    cargo build --release -p wringer
    WRINGER=target/release/wringer
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if [ $# -eq 0 ]; then
    for file in experiments/article-*.toml; do
        name=$(basename "$file" .toml)
        code=0
        "$WRINGER" run "$file" --to "$folder/$name" || code=$?
        # 1: a conclusion does not hold here, and the page says so
        [ "$code" -le 1 ] || exit "$code"
    done
    set -- "$folder"/article-*
fi
"$WRINGER" report --articles "$@" --gallery docs/gallery --to docs/articles.md
docs/picture.sh docs/gallery/article-2-slow-disk.html docs/gallery.png
