# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Read by the scripts beside it: where things are, their usage, and a home with a sandbox `bench` that goes when they end.
here=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
wringer=${WRINGER:-$target/release/wringer}

# the head of the script, without its first two lines
usage() {
    sed -n '3,/^set/p' "$0" | sed '/^set/d; s/^# \{0,1\}//' >&2
    exit 2
}

need_wringer() {
    [ -x "$wringer" ] || { echo "needs $wringer: cargo build --release -p wringer" >&2; exit 3; }
}

clean() {
    "$wringer" sandbox delete --force bench >&2 || true
    rm -rf "$home"
}

own_home() {
    home=$(mktemp -d "${TMPDIR:-/tmp}/wringer-bench.XXXXXX")
    chmod 755 "$home"
    export WRINGER_HOME=$home WRINGER_CACHE=${WRINGER_CACHE:-$target/bench-cache}
    trap clean EXIT
}
