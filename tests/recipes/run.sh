#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Follows each page of docs/recipes to the letter, and looks whether it ends in the answer it promises, in under ten minutes, with the host as
# it was. A page runs in a folder of its own, below a home of its own: nothing is fetched that an earlier page has fetched.
# usage: [WRINGER_PROGRAM=PROGRAM] tests/recipes/run.sh [PAGE ...]      (as root; without WRINGER_PROGRAM it builds the program first)
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$here"
limit_s=600
[ "$(id -u)" -eq 0 ] || { echo "error: the recipes limit servers, which needs root" >&2; exit 3; }

if [ -z "${WRINGER_PROGRAM:-}" ]; then
    cargo build --release -p wringer
    WRINGER_PROGRAM=$here/target/release/wringer
fi
folder=$(mktemp -d)
mkdir "$folder/bin"
ln -s "$(realpath "$WRINGER_PROGRAM")" "$folder/bin/wringer"
export PATH=$folder/bin:$PATH
unset WRINGER_PROGRAM WRINGER_DSN

fail() { echo "FAILED $page: $*"; failures=$((failures + 1)); }

# What the reader brings: a dump of the database that the queries of the page are about, as mariadb-dump writes it, and larger than the small pool.
bring_smaller-machine() {
    awk 'BEGIN {
        print "-- MariaDB dump 10.19  Distrib 10.11.18-MariaDB, for debian-linux-gnu (x86_64)\n--"
        print "CREATE DATABASE /*!32312 IF NOT EXISTS*/ `shop`;\nUSE `shop`;\nDROP TABLE IF EXISTS `orders`;"
        print "CREATE TABLE `orders` (`id` int NOT NULL AUTO_INCREMENT, `customer_id` int NOT NULL, `total` decimal(10,2) NOT NULL,"
        print "  `paid` tinyint NOT NULL DEFAULT 0, `note` varchar(250) NOT NULL, PRIMARY KEY (`id`), KEY `customer` (`customer_id`)) ENGINE=InnoDB;"
        srand(1); note = sprintf("%200s", ""); gsub(/ /, "n", note)
        for (id = 1; id <= 200000; id++) {
            if (id % 500 == 1) printf "INSERT INTO `orders` VALUES "
            printf "(%d,%d,%.2f,0,\"%s\")%s", id, 1 + int(50000 * rand()), 500 * rand(), note, id % 500 ? "," : ";\n"
        }
        print "-- Dump completed on 2026-01-01  0:00:00"
    }' | gzip -1 >shop.sql.gz
}
bring_from-sysbench() { :; }
bring_in-ci() { :; }

# The answer that the page promises.
answer_smaller-machine() {
    grep -qE '^it will (not )?do$' said || fail "no answer"
    # the reason for it: the load has run to its end on both machines
    for file in today.txt smaller.txt; do grep -q 'transactions' "$file" || fail "$file has no load's result"; done
    grep -q 'p99' smaller.txt || fail "smaller.txt does not say what was asserted"
}
answer_from-sysbench() {
    grep -q 'times as many as "every commit #1"' said || fail "no comparison"
    grep -q '95th percentile:' said || fail "no output in sysbench's words"
    for file in report.html result.json; do [ -s "flush/$file" ] || fail "no flush/$file"; done
}
answer_in-ci() {
    grep -qx 'exit code 0' said || fail "the promise does not hold"
    grep -q '<testcase' junit.xml || fail "junit.xml has no test case"
    [ -s summary.md ] && [ -s out/report.html ] || fail "no summary.md or no out/report.html"
}

follow() { # PAGE
    page=$1 && mkdir "$folder/$page" && cd "$folder/$page"
    export WRINGER_HOME=$folder/$page/home
    "bring_$page"
    awk -f "$here/tests/recipes/script.awk" "$here/docs/recipes/$page.md" >script
    "$here/tests/host-snapshot" >before
    local code=0 began=$SECONDS took
    timeout --kill-after=60 $limit_s bash script >said 2>&1 </dev/null || code=$?
    took=$((SECONDS - began))
    sed "s/^/$page: /" said
    [ $code -eq 0 ] || fail "exit code $code after $took s"
    "answer_$page"
    wringer undo >undone 2>&1 && grep -q 'nothing to undo' undone || fail "it left something: $(cat undone)"
    "$here/tests/host-snapshot" >after
    diff before after || fail "the host is not as it was"
    # what a page that broke off has left would disturb the next one
    wringer sandbox stop --all >/dev/null 2>&1 || true
    echo "$page: $took s"
}

failures=0
# a server runs as another user, and must be able to pass through
chmod 711 "$folder"
export HOME=$folder
unset WRINGER_CACHE
if [ $# -eq 0 ]; then
    set --
    for file in "$here"/docs/recipes/*.md; do set -- "$@" "$(basename "$file" .md)"; done
fi
for name in "$@"; do follow "$name"; done
cd "$here"
if [ "$failures" -eq 0 ]; then
    rm -rf --one-file-system "$folder"
    echo "$# recipes followed, each to its answer"
else
    echo "$failures failures; everything is in $folder"
    exit 1
fi
