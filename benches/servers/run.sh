#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every server that can be fetched here, from nothing to nothing: fetched, deployed, filled, loaded with oltp_read_write, asked for the
# capabilities that Wringer's table says it has (how many agree), given an index while it is open to writers, its tables and indexes
# checked by the server's own means, deleted. One row each; the exit code is 0 when every row says ok.
#
#   benches/servers/run.sh [--seconds N] [--rows N] [SERVER...]      10 s of load, 20000 rows, all that `sandbox available` offers
#
# A SERVER is what `wringer sandbox deploy` takes: 'mariadb 11.4', 'xtradb 5.6', postgresql@18, or a tarball. Needs no root. What is
# fetched goes to the cache that WRINGER_CACHE names, else to a temporary one: 2 GB for everything.
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
seconds=10
rows=20000
servers=()
while [ $# -gt 0 ]; do
    case "$1" in
        --seconds) seconds=$2; shift 2 ;;
        --rows) rows=$2; shift 2 ;;
        -*) usage ;;
        *) servers+=("$1"); shift ;;
    esac
done
need_wringer

folder=$(mktemp -d "${TMPDIR:-/tmp}/wringer-servers.XXXXXX")
chmod 711 "$folder"
export WRINGER_HOME="$folder/home"
clean() {
    "$wringer" sandbox delete --force t >"$folder/clean" 2>&1 || true
    "$wringer" undo >>"$folder/clean" 2>&1 || cat "$folder/clean" >&2
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 130' INT TERM HUP

if [ ${#servers[@]} -eq 0 ]; then
    "$wringer" sandbox available >"$folder/available" 2>"$folder/log" || { cat "$folder/log" >&2; exit 3; }
    grep '^note' "$folder/log" >&2 || true
    # a version that both the distribution and an artifact have is one server
    mapfile -t servers < <(awk '$3 == "offered" { print $1, $2 }' "$folder/available" | awk '!seen[$0]++')
fi

now() { date +%s.%N; }
since() { awk -v from="$1" -v to="$(now)" 'BEGIN { printf "%.1f", to - from }'; }
# VALUE KEY FILE: the first number that the key has
value() { grep -o "\"$1\": *[0-9.]*" "$2" | head -1 | grep -o '[0-9.]*$' || true; }

# Words of the server: every table of the sandbox, and every index.
check() {
    case "$flavour" in
        postgresql)
            "$wringer" sandbox use t "CREATE EXTENSION IF NOT EXISTS amcheck" >/dev/null || return 1
            "$wringer" sandbox use t -o json "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam, \
                LATERAL bt_index_parent_check(c.oid, true, true) WHERE a.amname = 'btree' AND c.relkind = 'i'" \
                >"$folder/checked" || return 1
            # the first field of the only row
            local indexes
            indexes=$(tr -d ' \n' <"$folder/checked" | grep -o '"rows":\[\["[0-9]*"' | grep -o '[0-9]*') || return 1
            [ "$indexes" -gt 0 ] || return 1
            checked="amcheck $indexes indexes"
            ;;
        *)
            "$wringer" sandbox use t "CHECK TABLE sbtest1 EXTENDED" >"$folder/checked" || return 1
            grep -q 'status *| OK' "$folder/checked" || return 1
            "$wringer" sandbox use t "CHECKSUM TABLE sbtest1" >"$folder/checksum" || return 1
            checked="CHECK TABLE ok"
            ;;
    esac
}

row() { printf '%-24s %-11s %-9s %9s %9s %7s %10s %7s %6s  %-24s %s\n' "$@"; }

step() { # WHAT COMMAND...: its words in the log, for when it fails
    what=$1
    shift
    "$@" >"$folder/out" 2>"$folder/log"
}

# One server; `what` says where it stopped.
one() {
    local start
    flavour=- version=- fetch_s=- deploy_s=- filled=- queries=- errors=- agree=- checked=-
    start=$(now)
    # shellcheck disable=SC2086 # flavour and version are two words
    step fetch "$wringer" sandbox fetch $1 || return 1
    fetch_s=$(since "$start")
    # shellcheck disable=SC2086
    start=$(now) && step deploy "$wringer" sandbox deploy $1 --fetched --name t --start || return 1
    deploy_s=$(since "$start")
    read -r flavour version < <(sed -n 's/^  server  \([^ ]*\) \([^ ]*\) .*/\1 \2/p' "$folder/log")
    step export "$wringer" sandbox export t dsn || return 1
    export WRINGER_DSN
    WRINGER_DSN=$(cat "$folder/out")
    step fill "$wringer" fill --table-size "$rows" -o json || return 1
    step count "$wringer" sandbox use t -o json "SELECT count(*) FROM sbtest1" || return 1
    filled=$(tr -d ' \n' <"$folder/out" | grep -o '"rows":\[\["[0-9]*"' | grep -o '[0-9]*')
    [ "$filled" = "$rows" ] || { echo "$filled rows, not $rows" >"$folder/log"; return 1; }
    step load "$wringer" load oltp_read_write --table-size "$rows" --threads 4 --time "$seconds" -o json || return 1
    queries=$(value queries_per_second "$folder/out" | cut -d. -f1)
    errors=$(tr -d ' \n' <"$folder/out" | grep -o '"errors":{[^}]*}' | head -1 | grep -o ':[0-9]\+' | tr -d : \
        | awk '{ n += $1 } END { print n + 0 }')
    [ "${queries:-0}" -gt 0 ] || { echo "no queries" >"$folder/log"; return 1; }
    step capabilities "$wringer" sandbox capabilities t -o json || return 1
    agree=$(value agree "$folder/out")
    case "$flavour" in
        postgresql) index="CREATE INDEX CONCURRENTLY online_index ON sbtest1 (pad)" ;;
        *) index="ALTER TABLE sbtest1 ADD INDEX online_index (pad), ALGORITHM=INPLACE, LOCK=NONE" ;;
    esac
    step 'online index' "$wringer" sandbox use t "$index" || return 1
    what=check && check 2>"$folder/log" || return 1
    step stop "$wringer" sandbox stop t || return 1
    step delete "$wringer" sandbox delete t || return 1
    [ ! -e "$WRINGER_HOME/sandboxes/t" ] || { echo "something is left of it" >"$folder/log"; return 1; }
}

status=0
row server flavour version fetch_s deploy_s rows queries/s errors agree consistency verdict
for server in "${servers[@]}"; do
    if one "$server"; then verdict=ok; else verdict="FAILED at $what"; fi
    row "$server" "$flavour" "$version" "$fetch_s" "$deploy_s" "$filled" "$queries" "$errors" "$agree" "$checked" "$verdict"
    if [ "$verdict" != ok ]; then
        status=1
        sed 's/^/    /' "$folder/log" >&2
        "$wringer" sandbox delete --force t >/dev/null 2>&1 || true
    fi
done
exit $status
