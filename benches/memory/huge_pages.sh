#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Is the number of `wringer hugepages advise` the smallest with which a server has all its huge pages? Each server is started with as many pages, and with one
# less.
#
#   benches/memory/huge_pages.sh [SERVER ...]
#
# SERVER as for `wringer sandbox deploy` (postgresql@12 ... postgresql@18, mariadb@10.11, mysql@9, xtradb). Sandboxes of its own, deleted afterwards; the pool is
# given back. Servers that cannot be fetched here are left out, and named. As root, half a minute for each. Needs jq. Exit code 1: a number was not exact.
#
# What the columns mean:
#   basis     by whose word the number is: the server's figure, its allocations, its mapping
#   vmpeak    what VmPeak gives, and how many pages that are too many
#   advised   pages
#   with N    PostgreSQL with huge_pages=on: does it start; the others: are all in huge pages
#   with N-1  the same; "no" is right
set -euo pipefail
# shellcheck source=benches/load/common.sh
. "$(dirname "$0")/../load/common.sh"
servers=("$@")
[ ${#servers[@]} -gt 0 ] || servers=(postgresql@12 postgresql@13 postgresql@14 postgresql@15 postgresql@16 postgresql@17 postgresql@18 mariadb@10.11 mariadb@11.4 mysql@9 xtradb)
case ${servers[0]} in -*) usage ;; esac
need_root "the pool of huge pages is the host's"
need_program jq
need_wringer
own_home
failed=0

quietly() { "$wringer" --quiet "$@" >/dev/null 2>&1; }
advised() { "$wringer" --quiet hugepages advise --sandbox bench -o json; }
with() { # with PAGES: yes or no
    local got=no
    "$wringer" --quiet hugepages apply --pages "$1" --strict --drop-caches >/dev/null || { echo "few"; return; }
    if quietly sandbox start bench --huge-pages on; then
        if quietly hugepages check --sandbox bench; then got=yes; fi
        quietly sandbox stop bench
    fi
    quietly hugepages release
    echo "$got"
}
row() { # row SERVER
    local advice pages peak all less size
    case $1 in postgresql*) size=shared_buffers=128MB ;; *) size=innodb_buffer_pool_size=256M ;; esac
    quietly sandbox deploy "$1" --name bench -c "$size" || { printf '%-14s cannot be had here\n' "$1"; return; }
    quietly sandbox start bench
    advice=$(advised)
    quietly sandbox stop bench
    pages=$(jq '.pages_needed // 0' <<<"$advice") peak=$(jq '.pages_by_vmpeak' <<<"$advice")
    [ "$pages" -gt 1 ] || { printf '%-14s not told\n' "$1"; quietly sandbox delete bench --force; failed=1; return; }
    all=$(with "$pages") less=$(with $((pages - 1)))
    quietly sandbox delete bench --force
    [ "$all $less" = "yes no" ] || failed=1
    printf '%-14s %-12s %8s %+9d %8s %7s %9s\n' "$1" "$(jq -r .need.basis <<<"$advice")" "$peak" $((peak - pages)) "$pages" "$all" "$less"
}

printf '%-14s %-12s %8s %9s %8s %7s %9s\n' server basis vmpeak "" advised "with N" "with N-1"
for server in "${servers[@]}"; do row "$server"; done
exit "$failed"
