#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `wringer load` beside sysbench 1.0 on the same MariaDB server: queries a second, and CPU of the client per query. Beside both a
# bare client, which sends the same bytes over and over to the same server and looks at nothing: what the kernel takes anyway.
#
#   benches/load/run.sh [--short] [--seconds N] [--pairs N] [--connections "1 16 64"] [--placement one|free|both] [--json FILE]
#
# All send oltp_point_select as a prepared statement with uniform keys over a Unix socket, in turn, the order changing from pair
# to pair. The server is a sandbox of its own, deleted afterwards. A ratio's confidence interval is Student's, over the pairs.
# As it is: 7 pairs of 3 s, some six minutes. --short: 3 pairs of 2 s, two minutes, wide intervals.
#
# The scheduler may put client and server on one CPU or on two, and keeps either for seconds; on a virtual machine a wake-up across
# CPUs costs three times as much as one on the same. So there are two placements: `one` holds both to one CPU, where a query's CPU
# time can be compared; `free` leaves them to the scheduler, where a disturbed machine shows in wide intervals.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
wringer=${WRINGER:-$target/release/wringer}
rows=${ROWS:-100000}
seconds=3 pairs=7 connections="1 16 64" placement=both json=$target/bench-load.json
usage() {
    sed -n '3,/^set/p' "$0" | sed '/^set/d; s/^# \{0,1\}//' >&2
    exit 2
}
while [ $# -gt 0 ]; do
    case $1 in
        --short) seconds=2 pairs=3 ;;
        --seconds | --pairs | --connections | --placement | --json)
            [ $# -ge 2 ] || usage
            printf -v "${1#--}" '%s' "$2"
            shift
            ;;
        *) usage ;;
    esac
    shift
done
case $placement in one | free | both) ;; *) usage ;; esac

command -v sysbench >/dev/null || { echo "needs sysbench 1.0 (package sysbench)" >&2; exit 3; }
[ -x "$wringer" ] || { echo "needs $wringer: cargo build --release -p wringer" >&2; exit 3; }
cargo build --quiet --release --manifest-path "$here/Cargo.toml" -p load --example beside_sysbench --example bare --example floor

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

# beside LABEL [COMMAND...]: the comparison, started by COMMAND
beside() {
    local label=$1
    shift
    # shellcheck disable=SC2086
    env -u WRINGER_DSN "$@" "$target/release/examples/beside_sysbench" \
        "$wringer" "$MYSQL_UNIX_PORT" "$user" "$rows" "$seconds" "$pairs" "$label" "$home/$label.json" $connections
    echo
}
if [ "$placement" != one ]; then
    beside free
fi
if [ "$placement" != free ]; then
    command -v taskset >/dev/null || { echo "needs taskset (package util-linux) for --placement one" >&2; exit 3; }
    server=$(cat "$home/sandboxes/bench/run/server.pid")
    cpu=$(taskset -pc $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    taskset -apc "$cpu" "$server" >/dev/null
    beside one-cpu taskset -c "$cpu"
fi
echo "the floor without a server: a ping-pong of the same bytes, with a responder that does nothing"
for count in $connections; do
    "$target/release/examples/floor" "$count" 1 | tee "$home/floor-$count.json"
done
array() { # of JSON files
    local separator=""
    printf '['
    for file in "$@"; do
        [ -e "$file" ] || continue
        printf '%s' "$separator"
        cat "$file"
        separator=,
    done
    printf ']'
}
mkdir -p "$(dirname "$json")"
printf '{"comparisons":%s,"floor":%s}\n' "$(array "$home/free.json" "$home/one-cpu.json")" "$(array "$home"/floor-*.json)" >"$json"
echo "the same as JSON: $json" >&2
