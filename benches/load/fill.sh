#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `wringer fill` beside what people do by hand: `sysbench prepare`, then an ALTER that widens the rows to four a page (as "Trick to Simulate
# Higher Latency IOs on Linux" does, with the columns that `fill` makes), then FLUSH. Same server (a MariaDB sandbox of its own), same
# columns, same number of rows and no index on k; in turn, the order changing from pair to pair; each ends with the pages written out, and
# the table's file is measured. Bytes of the file per second, and their ratio with its 95 % interval (Student's t on the logarithms).
# With 73 rows a page, sysbench's own, there is no ALTER.
#
#   benches/load/fill.sh [--rows N] [--per-page N] [--pairs N] [--json FILE]
set -euo pipefail
# shellcheck source=benches/load/common.sh
. "$(dirname "$0")/common.sh"
rows=40000 per_page=4 pairs=5 json=$target/bench-fill.json
while [ $# -gt 0 ]; do
    case $1 in
        --rows | --per-page | --pairs | --json)
            [ $# -ge 2 ] || usage
            name=${1#--}
            printf -v "${name//-/_}" '%s' "$2"
            shift
            ;;
        *) usage ;;
    esac
    shift
done
command -v sysbench >/dev/null || { echo "needs sysbench 1.0 (package sysbench)" >&2; exit 3; }
command -v python3 >/dev/null || { echo "needs python3, for the interval" >&2; exit 3; }
need_wringer

own_home
"$wringer" sandbox deploy mariadb --name bench -c innodb_buffer_pool_size=256M --start >&2
eval "$("$wringer" sandbox export bench env)"
user=$(printf '%s' "$WRINGER_DSN" | sed 's|^[a-z]*://\([^:@]*\).*|\1|')
# the same socket for both
export WRINGER_DSN="mysql://$user:$MYSQL_PWD@localhost/sbtest?socket=$MYSQL_UNIX_PORT"
file=$home/sandboxes/bench/data/sbtest/sbtest1.ibd
sql() { "$wringer" sandbox use bench "$1" 2>"$home/said" >/dev/null || { cat "$home/said" >&2; return 1; }; }

fill=("$wringer" fill --table-size="$rows" --rows-per-page="$per_page" --create-secondary=off)
columns=$("${fill[@]}" --dry-run | grep -o "filler[0-9]* BINARY([0-9]*) DEFAULT '' NOT NULL" | sed 's/^/ADD COLUMN /' | paste -sd, || true)

by_hand() {
    sysbench oltp_point_select --mysql-socket="$MYSQL_UNIX_PORT" --mysql-user="$user" --mysql-password="$MYSQL_PWD" \
        --table-size="$rows" --create_secondary=off prepare >/dev/null
    # without FORCE the columns would be added to the definition alone
    [ -z "$columns" ] || sql "ALTER TABLE sbtest1 $columns, FORCE"
    sql "FLUSH TABLES sbtest1 FOR EXPORT" # unlocked with its connection's end
}
by_wringer() {
    "${fill[@]}" >/dev/null 2>&1
}
# one LABEL: prints milliseconds, the file's bytes and the pages that hold rows
one() {
    sql "DROP TABLE IF EXISTS sbtest1"
    local from to
    from=$(date +%s%N)
    "$1"
    to=$(date +%s%N)
    local size pages
    size=$(stat -c %s "$file")
    sql "ANALYZE TABLE sbtest1"
    pages=$("$wringer" sandbox use bench "SELECT stat_value FROM mysql.innodb_index_stats WHERE table_name = 'sbtest1'
        AND index_name = 'PRIMARY' AND stat_name = 'n_leaf_pages'" 2>/dev/null | grep -o '[0-9]*' | tail -1)
    echo "$1 $(((to - from) / 1000000)) $size $pages" | tee -a "$home/figures"
}
for pair in $(seq "$pairs"); do
    if [ $((pair % 2)) = 1 ]; then one by_hand; one by_wringer; else one by_wringer; one by_hand; fi
done
mkdir -p "$(dirname "$json")"
python3 - "$home/figures" "$json" "$rows" <<'PYTHON'
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
json.dump({"schema": 1, "rows": int(sys.argv[3]), "file_bytes": sizes, "row_pages": pages, "bytes_per_second": speeds,
           "ratio": ratio, "ratio_low": low, "ratio_high": high}, open(sys.argv[2], "w"), indent=1)
PYTHON
echo "the same as JSON: $json" >&2
