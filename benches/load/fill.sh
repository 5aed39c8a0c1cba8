#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `wringer fill` beside what people do by hand: `sysbench prepare`, then an ALTER that widens the rows (as "Trick to Simulate
# Higher Latency IOs on Linux" does, with the columns that `fill` makes), then what writes the pages out. Same server (a sandbox of its
# own), same columns, same number of rows and no index on k; in turn, the order changing from pair to pair; and the table's file is
# measured. Bytes of the file per second, and their ratio with its 95 % interval (Student's t on the logarithms).
# With sysbench's own rows (--per-page 73 in MariaDB and MySQL, 37 in PostgreSQL) there is no ALTER.
#
#   benches/load/fill.sh [--server mariadb|mysql|postgresql] [--rows N] [--per-page N] [--pairs N] [--json FILE]
set -euo pipefail
# shellcheck source=benches/load/common.sh
. "$(dirname "$0")/common.sh"
server=mariadb rows=40000 per_page=4 pairs=5 json=$target/bench-fill.json
while [ $# -gt 0 ]; do
    case $1 in
        --server | --rows | --per-page | --pairs | --json)
            [ $# -ge 2 ] || usage
            name=${1#--}
            printf -v "${name//-/_}" '%s' "$2"
            shift
            ;;
        *) usage ;;
    esac
    shift
done
need_program sysbench
need_program python3
need_wringer

own_home
sql() { "$wringer" sandbox use bench "$1" 2>"$home/error" || { cat "$home/error" >&2; return 1; }; }
number() { sql "$1" | grep -o '[0-9][0-9]*' | tail -1; }
case $server in
    mariadb | mysql)
        "$wringer" sandbox deploy "$server" --name bench -c innodb_buffer_pool_size=256M --start >&2
        eval "$("$wringer" sandbox export bench env)"
        user=$(printf '%s' "$WRINGER_DSN" | sed 's|^[a-z]*://\([^:@]*\).*|\1|')
        # the same socket for both
        export WRINGER_DSN="mysql://$user:$MYSQL_PWD@localhost/sbtest?socket=$MYSQL_UNIX_PORT"
        by_sysbench=(--mysql-socket="$MYSQL_UNIX_PORT" --mysql-user="$user" --mysql-password="$MYSQL_PWD")
        # without FORCE the columns would be added to the definition alone
        widen() { sql "ALTER TABLE sbtest1 $1, FORCE"; }
        write_out() { sql "FLUSH TABLES sbtest1 FOR EXPORT"; } # unlocked with its connection's end
        size() { stat -c %s "$home/sandboxes/bench/data/sbtest/sbtest1.ibd"; }
        pages() {
            sql "ANALYZE TABLE sbtest1" >/dev/null
            number "SELECT stat_value FROM mysql.innodb_index_stats WHERE table_name = 'sbtest1' AND index_name = 'PRIMARY'
                AND stat_name = 'n_leaf_pages'"
        }
        ;;
    postgresql)
        "$wringer" sandbox deploy postgresql --name bench -c shared_buffers=256MB --start >&2
        eval "$("$wringer" sandbox export bench env)"
        WRINGER_DSN=$("$wringer" sandbox export bench dsn)
        export WRINGER_DSN="$WRINGER_DSN?socket=$PGHOST/.s.PGSQL.$PGPORT"
        by_sysbench=(--db-driver=pgsql --pgsql-host="$PGHOST" --pgsql-port="$PGPORT" --pgsql-user="$PGUSER" --pgsql-password="$PGPASSWORD" --pgsql-db="$PGDATABASE")
        # a column with a constant default is not written into the rows before these are
        widen() { sql "ALTER TABLE sbtest1 SET (toast_tuple_target=8160)" && sql "ALTER TABLE sbtest1 $1" && sql "VACUUM FULL sbtest1"; }
        write_out() { sql "VACUUM (FREEZE, ANALYZE) sbtest1" && sql "CHECKPOINT"; }
        size() { number "SELECT pg_relation_size('sbtest1')"; }
        pages() { number "SELECT pg_relation_size('sbtest1') / current_setting('block_size')::int"; }
        ;;
    *) usage ;;
esac

fill=("$wringer" fill --table-size="$rows" --rows-per-page="$per_page" --create-secondary=off)
columns=$("${fill[@]}" --dry-run | grep -oE "filler[0-9]* (BINARY|CHAR)\([0-9]*\) DEFAULT '' NOT NULL" | sed 's/^/ADD COLUMN /' | paste -sd, || true)

by_hand() {
    sysbench oltp_point_select "${by_sysbench[@]}" --table-size="$rows" --create_secondary=off prepare
    [ -z "$columns" ] || widen "$columns"
    write_out
}
by_wringer() {
    "${fill[@]}"
}
# one LABEL: prints milliseconds, the file's bytes and the pages that hold rows
one() {
    sql "DROP TABLE IF EXISTS sbtest1" >/dev/null
    local from to
    from=$(date +%s%N)
    "$1" >"$home/said" 2>&1 || { cat "$home/said" >&2; return 1; }
    to=$(date +%s%N)
    echo "$1 $(((to - from) / 1000000)) $(size) $(pages)" | tee -a "$home/figures"
}
for pair in $(seq "$pairs"); do
    if [ $((pair % 2)) = 1 ]; then one by_hand; one by_wringer; else one by_wringer; one by_hand; fi
done
mkdir -p "$(dirname "$json")"
python3 - "$home/figures" "$json" "$rows" "$server" <<'PYTHON'
import json, math, sys
speeds, sizes, pages = {"by_hand": [], "by_wringer": []}, {}, {}
for line in open(sys.argv[1]):
    how, ms, size, leaves = line.split()
    speeds[how].append(int(size) / int(ms) * 1000)
    sizes[how], pages[how] = int(size), int(leaves)
logs = [math.log(ours / theirs) for ours, theirs in zip(speeds["by_wringer"], speeds["by_hand"])]
count, mean = len(logs), sum(logs) / len(logs)
student = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
half = 0.0
if count > 1:
    deviation = math.sqrt(sum((value - mean) ** 2 for value in logs) / (count - 1))
    half = student.get(count, 2.0) * deviation / math.sqrt(count)
low, ratio, high = (math.exp(value) for value in (mean - half, mean, mean + half))
mib = {how: sum(values) / len(values) / 2**20 for how, values in speeds.items()}
print(f"sysbench prepare + ALTER {mib['by_hand']:.1f} MiB/s, wringer fill {mib['by_wringer']:.1f} MiB/s of the table's file")
print(f"pages of rows: {pages['by_hand']} and {pages['by_wringer']}")
print(f"files: {sizes['by_hand']} and {sizes['by_wringer']} bytes; ratio {ratio:.2f} ({low:.2f} to {high:.2f}), {count} pairs")
json.dump({"schema": 1, "server": sys.argv[4], "rows": int(sys.argv[3]), "file_bytes": sizes, "row_pages": pages, "bytes_per_second": speeds,
           "ratio": ratio, "ratio_low": low, "ratio_high": high}, open(sys.argv[2], "w"), indent=1)
PYTHON
echo "the same as JSON: $json" >&2
