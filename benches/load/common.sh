# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Read by the scripts beside it: a home with a sandbox `bench` that goes when they end.
# shellcheck source=benches/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

clean() {
    # a bench that ends has deleted it itself
    "$wringer" sandbox delete --force bench >/dev/null 2>&1 || true
    rm -rf "$home"
}

own_home() {
    home=$(mktemp -d "${TMPDIR:-/tmp}/wringer-bench.XXXXXX")
    chmod 755 "$home"
    export WRINGER_HOME=$home WRINGER_CACHE=${WRINGER_CACHE:-$target/bench-cache}
    trap clean EXIT
}
