#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `wringer load` beside sysbench 1.0 on a MariaDB server, and beside pgbench on a PostgreSQL server: queries a second, and CPU of
# the client per query. Beside both a bare client, which sends the same bytes over and over to the same server and does not look at the
# answers: its CPU is what the kernel takes for any client.
#
#   benches/load/run.sh [--short] [--seconds N] [--pairs N] [--connections "1 16 64 256 1024"] [--peers "sysbench pgbench"]
#                       [--placement one|free|both] [--json FILE]
#
# sysbench and ours send oltp_point_select, pgbench and ours `pgbench -S -M prepared`: one prepared statement in flight on each
# connection, uniform keys, a Unix socket; in turn, the order changing from pair to pair. The server is a sandbox of its own, deleted
# afterwards. A ratio's confidence interval is Student's, over the pairs.
# Without options: 5 pairs of 3 s, some fifteen minutes. --short: 3 pairs of 2 s, seven minutes, wide intervals.
#
# The scheduler may put client and server on one CPU or on two, and keeps either for seconds; on a virtual machine a wake-up across
# CPUs costs three times as much as one on the same. So there are two placements: `one` holds both to one CPU, where a query's CPU
# time can be compared; `free` leaves them to the scheduler, where a disturbed machine shows in wide intervals.
set -euo pipefail
# shellcheck source=benches/load/common.sh
. "$(dirname "$0")/common.sh"
rows=${ROWS:-100000}
seconds=3 pairs=5 connections="1 16 64 256 1024" peers="sysbench pgbench" placement=both json=$target/bench-load.json
while [ $# -gt 0 ]; do
    case $1 in
        --short) seconds=2 pairs=3 ;;
        --seconds | --pairs | --connections | --peers | --placement | --json)
            [ $# -ge 2 ] || usage
            printf -v "${1#--}" '%s' "$2"
            shift
            ;;
        *) usage ;;
    esac
    shift
done
case $placement in one | free | both) ;; *) usage ;; esac
most=1
for count in $connections; do
    [ "$count" -gt 0 ] 2>/dev/null || usage
    [ "$count" -le "$most" ] || most=$count
done

need_wringer
[ "$placement" = free ] || need_program taskset util-linux
there=""
for peer in $peers; do
    case $peer in sysbench | pgbench) ;; *) usage ;; esac
    if command -v "$peer" >/dev/null; then
        there="$there $peer"
    else
        echo "note: no $peer on the PATH: nothing is measured beside it (Debian: sysbench; postgresql-15 has pgbench)" >&2
    fi
done
[ -n "$there" ] || { echo "needs sysbench or pgbench" >&2; exit 3; }
cargo build --quiet --release --manifest-path "$here/Cargo.toml" -p load --example beside --example bare --example floor

own_home

# serve PEER: the server, and its tables
serve() {
    case $1 in
        sysbench)
            "$wringer" sandbox deploy mariadb --name bench -c innodb_buffer_pool_size=256M -c "max_connections=$((most + 50))" --start >&2
            ;;
        pgbench)
            "$wringer" sandbox deploy postgresql --name bench -c shared_buffers=256MB -c "max_connections=$((most + 50))" --start >&2
            ;;
    esac
    eval "$("$wringer" sandbox export bench env)"
    WRINGER_DSN=$("$wringer" sandbox export bench dsn)
    case $1 in
        sysbench) WRINGER_DSN="$WRINGER_DSN?socket=$MYSQL_UNIX_PORT" ;;
        pgbench) WRINGER_DSN="$WRINGER_DSN?socket=$PGHOST/.s.PGSQL.$PGPORT" ;;
    esac
    export WRINGER_DSN
    case $1 in
        sysbench) "$wringer" fill --table-size="$rows" >&2 ;;
        pgbench) "$wringer" fill --pgbench "$(((rows + 99999) / 100000))" >&2 ;;
    esac
}

# every process of the server: MariaDB is one, PostgreSQL forks one a connection, which inherits its CPUs
pin() { # CPU
    local server
    server=$(cat "$home/sandboxes/bench/run/server.pid")
    taskset -apc "$1" "$server" >/dev/null
}

# beside PEER LABEL [COMMAND...]: the comparison, started by COMMAND
beside() {
    local peer=$1 label=$2
    shift 2
    # shellcheck disable=SC2086
    "$@" "$target/release/examples/beside" "$peer" "$wringer" "$rows" "$seconds" "$pairs" "$label" "$home/$peer-$label.json" $connections
    echo
}
for peer in $there; do
    serve "$peer"
    [ "$placement" = one ] || beside "$peer" free
    if [ "$placement" != free ]; then
        cpu=$(taskset -pc $$ | sed 's/.*: *\([0-9]*\).*/\1/')
        pin "$cpu"
        beside "$peer" one-cpu taskset -c "$cpu"
    fi
    "$wringer" sandbox delete --force bench >&2
done
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
printf '{"comparisons":%s,"floor":%s}\n' "$(array "$home"/sysbench-*.json "$home"/pgbench-*.json)" "$(array "$home"/floor-*.json)" >"$json"
echo "the same as JSON: $json" >&2
