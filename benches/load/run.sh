#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `wringer load` beside sysbench 1.0 on the same MariaDB server: queries a second, CPU of the client per query, and the floor, which
# is a bare ping-pong of the same bytes.
#
#   benches/load/run.sh [SECONDS] [PAIRS]      SECONDS for each run (8), PAIRS of runs for each number of connections (5)
#
# Both send oltp_point_select as a prepared statement with uniform keys over a Unix socket, in turn, the order changing from pair
# to pair. The server is a sandbox of its own, deleted afterwards. A ratio's confidence interval is Student's, over the pairs. A
# disturbed machine shows in wide intervals: at one connection the scheduler may put client and server on one CPU or on two.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
seconds=${1:-8}
pairs=${2:-5}
rows=${ROWS:-100000}
connections=${CONNECTIONS:-"1 16 64"}
target=${CARGO_TARGET_DIR:-$here/target}
wringer=${WRINGER:-$target/release/wringer}

command -v sysbench >/dev/null || { echo "needs sysbench 1.0 (package sysbench)" >&2; exit 3; }
[ -x "$wringer" ] || { echo "needs $wringer: cargo build --release -p wringer" >&2; exit 3; }
cargo build --quiet --release --manifest-path "$here/Cargo.toml" -p load --examples

home=$(mktemp -d "${TMPDIR:-/tmp}/wringer-bench.XXXXXX")
chmod 755 "$home"
export WRINGER_HOME=$home WRINGER_CACHE=${WRINGER_CACHE:-$target/bench-cache}
clean() {
    "$wringer" sandbox delete --force bench >&2 || true
    rm -rf "$home"
}
trap clean EXIT
"$wringer" sandbox deploy mariadb --name bench -c innodb_buffer_pool_size=256M --start >&2
eval "$("$wringer" sandbox export bench env)"
user=$(printf '%s' "$WRINGER_DSN" | sed 's|^[a-z]*://\([^:@]*\).*|\1|')
sysbench oltp_point_select --mysql-socket="$MYSQL_UNIX_PORT" --mysql-user="$user" --mysql-password="$MYSQL_PWD" --table-size="$rows" \
    prepare >/dev/null

# shellcheck disable=SC2086
env -u WRINGER_DSN "$target/release/examples/beside_sysbench" "$wringer" "$MYSQL_UNIX_PORT" "$user" "$rows" "$seconds" "$pairs" $connections
echo
echo "the floor: a ping-pong of the same bytes, with a responder that does nothing"
for count in $connections; do
    "$target/release/examples/floor" "$count" 3
done
