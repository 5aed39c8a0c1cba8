# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Read by the scripts beside it: a home with a sandbox `bench` that goes when they end.
# shellcheck source=benches/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

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
