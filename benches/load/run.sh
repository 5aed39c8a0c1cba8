#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `wringer load` beside sysbench 1.0 on the same MariaDB server: queries a second, CPU of the client per query, and the floor, which
# is a bare ping-pong of the same bytes.
#
#   benches/load/run.sh [SECONDS] [PAIRS]      SECONDS for each run (8), PAIRS of runs for each number of connections (5)
#
# Both send oltp_point_select as a prepared statement with uniform keys over a Unix socket, in turn, the order changing from pair
# to pair. The server is a sandbox of its own, deleted afterwards. A ratio's confidence interval is Student's, over the pairs.
#
# The scheduler may put client and server on one CPU or on two, and keeps either for seconds; on a virtual machine a wake-up across
# CPUs costs three times as much as one on the same. So there are two parts: placed by the scheduler, where a disturbed machine
# shows in wide intervals, and both held to one CPU, where a query's CPU time can be compared.
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

beside() {
    # shellcheck disable=SC2086
    env -u WRINGER_DSN "$@" "$target/release/examples/beside_sysbench" \
        "$wringer" "$MYSQL_UNIX_PORT" "$user" "$rows" "$seconds" "$pairs" $connections
}
echo "placed by the scheduler"
beside
if command -v taskset >/dev/null; then
    echo
    echo "client and server held to one CPU"
    server=$(cat "$home/sandboxes/bench/run/server.pid")
    cpu=$(taskset -pc $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    taskset -apc "$cpu" "$server" >/dev/null
    beside taskset -c "$cpu"
fi
echo
echo "the floor: a ping-pong of the same bytes, with a responder that does nothing"
for count in $connections; do
    "$target/release/examples/floor" "$count" 3
done
