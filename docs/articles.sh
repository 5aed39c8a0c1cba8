#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes docs/articles.md, docs/gallery and docs/gallery.png anew: runs the nine experiments of the five articles, one after the other, which takes half an hour, then
# `wringer report --articles`. Needs root, chromium and a quiet machine; builds the program for release. WRINGER: another program.
#
#   docs/articles.sh                     all of it
#   docs/articles.sh --folder FOLDER     the same; the runs stay in FOLDER, and those that are there already are not run again
#
# Exit code 1: a conclusion does not hold here, and the page says so. When a run fails, the others are run, and nothing in docs is changed; the same command with the folder that it names
# runs what is missing.
set -euo pipefail
folder=
case "${1:-}" in
    '') ;;
    --folder) folder=$(realpath -m "${2:?--folder wants a folder}") ;;
    *) echo "usage: docs/articles.sh [--folder FOLDER]" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
command -v chromium >/dev/null || { echo "needs chromium: apt install chromium" >&2; exit 3; }
if [ -z "${WRINGER:-}" ]; then
    cargo build --release -p wringer
    WRINGER=target/release/wringer
fi
is_ours=$([ -n "$folder" ] || echo yes)
folder=${folder:-$(mktemp -d /var/tmp/articles.XXXXXX)}
mkdir -p "$folder"
holds=0 runs=() failed=()
for file in experiments/article-*.toml; do
    name=$(basename "$file" .toml)
    runs+=("$folder/$name")
    [ ! -e "$folder/$name/done" ] || continue
    code=0
    "$WRINGER" run "$file" --to "$folder/$name" --force --no-kept-fill || code=$?
    case $code in
        0 | 1) echo "$code" >"$folder/$name/done" ;;
        130) exit 130 ;;
        *) failed+=("$name (exit code $code)") ;;
    esac
done
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}; the other runs are there: docs/articles.sh --folder $folder" >&2
    exit 4
fi
for run in "${runs[@]}"; do [ "$(cat "$run/done")" = 0 ] || holds=1; done
"$WRINGER" report --articles "${runs[@]}" --gallery docs/gallery --to docs/articles.md
docs/picture.sh docs/gallery/article-2-slow-disk.html docs/gallery.png
find docs/gallery -name '*.html' -size +399k | while read -r page; do echo "too large for the repository (400 KiB): $page" >&2; done
[ -z "$is_ours" ] || rm -rf "$folder"
exit $holds
