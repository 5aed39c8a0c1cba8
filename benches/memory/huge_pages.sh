#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Is the number of `wringer hugepages advise` the smallest with which a server has all its huge pages? Each server is started with as many pages, and with one
# less.
#
#   benches/memory/huge_pages.sh [--servers "NAME ..."] [--json FILE]
#
# NAME as for `wringer sandbox deploy`. Sandboxes of its own, deleted afterwards. The pool of huge
# pages has at most some 200 of them (400 MiB). It is given back at the end, also when this script
# is killed. Servers that cannot be fetched here are left out, and named. As root, a minute for each. Needs jq. Exit code 1: a number was not exact.
#
# What the columns mean:
#   basis     by whose word the number is: the server's figure, its allocations, its mapping
#   vmpeak    what VmPeak gives, and how many pages that are too many
#   advised   pages
#   with N    PostgreSQL with huge_pages=on: does it start; the others: are all in huge pages
#   with N-1  the same; "no" is right. Without the pages for the alignment of MariaDB's pool, which it does not need at each start
#   check     with N-1, the exit code of `wringer hugepages check` of servers that start without them; 1 is right
set -euo pipefail
# shellcheck source=benches/load/common.sh
. "$(dirname "$0")/../load/common.sh"
servers="postgresql@12 postgresql@13 postgresql@14 postgresql@15 postgresql@16 postgresql@17 postgresql@18 mariadb@10.11 mariadb@11.4 mysql@9 xtradb" json=$target/bench-huge-pages.json
take_flags "servers json" "$@"
need_root "the pool of huge pages is the host's"
need_program jq
need_wringer
own_home
mkdir -p "$(dirname "$json")"
: >"$json"
failed=0
# Servers of before MySQL 9 and MariaDB 10.5 take System V segments. Huge pages for those are given to members of one group of the host's (or to whoever may
# lock so much memory): sandboxes of root run as the first user below. No group is told: then it is that user's, until the end.
group=/proc/sys/vm/hugetlb_shm_group group_before=$(cat /proc/sys/vm/hugetlb_shm_group)
user=nobody
[ "${SUDO_USER:-root}" = root ] || user=$SUDO_USER
quietly() { "$wringer" --quiet "$@" >/dev/null 2>&1; }
give_back() {
    quietly sandbox stop bench || true
    quietly hugepages release || true
    [ "$(cat "$group")" = "$group_before" ] || echo "$group_before" >"$group"
    clean 2>/dev/null
}
trap give_back EXIT
trap 'exit 130' INT TERM HUP
# where this script is killed: the same, by another process
(
    trap '' INT TERM HUP
    while kill -0 $$ 2>/dev/null; do sleep 1; done
    if [ -d "$home" ]; then give_back; fi
) </dev/null >/dev/null 2>&1 &
[ "$group_before" != 0 ] || id -g "$user" >"$group"
advised() { "$wringer" --quiet hugepages advise --sandbox bench -o json; }
with() { # with PAGES: sets `got`: does it start, and are all in huge pages; and `code`, of `check`
    got=no code=null
    local tries=0
    until "$wringer" --quiet hugepages apply --pages "$1" --strict --drop-caches >"$home/said" 2>&1; do
        # another run of Wringer's may have the host's RAM for some minutes
        if [ $((tries += 1)) -lt 300 ] && grep -q "the host's RAM is held by run" "$home/said"; then
            sleep 1
            continue
        fi
        cat "$home/said" >&2
        got=few
        return
    done
    # PostgreSQL is to refuse. The others are told in their option file, and start with what there is
    case $server in postgresql*) start=(--huge-pages on) ;; *) start=() ;; esac
    if quietly sandbox start bench "${start[@]}"; then
        code=0
        quietly hugepages check --sandbox bench || code=$?
        [ "$code" = 0 ] && got=yes
        quietly sandbox stop bench
    fi
    quietly hugepages release
}
row() { # row SERVER
    local server=$1 advice got code start pages peak all less options
    # a pool of 64 MiB has chunks of 1 MiB in MariaDB 11.4, which never lie in huge pages
    case $server in postgresql*) options=(-c shared_buffers=64MB) ;; *) options=(-c innodb_buffer_pool_size=128M -c large_pages=ON) ;; esac
    if ! "$wringer" --quiet sandbox deploy "$server" --name bench "${options[@]}" >"$home/said" 2>&1; then
        printf '%-14s left out: %s\n' "$server" "$(grep -m1 error "$home/said" || tail -1 "$home/said")"
        return
    fi
    quietly sandbox start bench
    advice=$("$wringer" --quiet hugepages advise --sandbox bench -o json)
    quietly sandbox stop bench
    pages=$(jq '.pages_needed // 0' <<<"$advice") peak=$(jq '.pages_by_vmpeak' <<<"$advice")
    [ "$pages" -gt 1 ] || { printf '%-14s not told\n' "$server"; quietly sandbox delete bench --force; failed=1; return; }
    with "$pages"
    all=$got
    with $((pages - 1 - $(jq '[.parts[] | select(.what == "pool alignment") | .bytes / 2097152] | add // 0' <<<"$advice")))
    less=$got
    quietly sandbox delete bench --force
    case "$server $all $less $code" in postgresql*" yes no null" | *" yes no 1") ;; *) failed=1 ;; esac
    printf '%-14s %-12s %8s %+9d %8s %7s %9s %7s\n' "$server" "$(jq -r .need.basis <<<"$advice")" "$peak" $((peak - pages)) "$pages" "$all" "$less" "$code"
    jq -nc --arg server "$server" --argjson advice "$advice" --arg all "$all" --arg less "$less" --argjson code "$code" \
        '{server: $server, basis: $advice.need.basis, pages_by_vmpeak: $advice.pages_by_vmpeak, pages_needed: $advice.pages_needed,
          with_n: $all, with_one_less: $less, check_exit_code_with_one_less: $code}' >>"$json"
}

printf '%-14s %-12s %8s %9s %8s %7s %9s %7s\n' server basis vmpeak "" advised "with N" "with N-1" check
for server in $servers; do row "$server"; done
echo "the same as JSON, a line for each row: $json" >&2
exit "$failed"
