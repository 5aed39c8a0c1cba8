# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Read by the scripts beside it: a home and a cache of their own, experiment files, what the answers of `wringer allocators` come to.
# shellcheck source=benches/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../common.sh"

# a folder $folder with a home that goes at the end; fills go to a cache of its own, fetched servers and mallocs are those of the caller's cache
own_lab() {
    local cache=${WRINGER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/wringer} part
    folder=$(mktemp -d "${BENCH_FOLDER:-${TMPDIR:-/tmp}}/wringer-bench.XXXXXX")
    chmod 711 "$folder" # the server of root runs as another user
    export WRINGER_HOME=$folder/home WRINGER_CACHE=$folder/cache
    mkdir -m 711 "$WRINGER_HOME" "$WRINGER_CACHE"
    mkdir -p "$(dirname "$json")"
    for part in servers mallocs; do
        mkdir -p "$cache/$part"
        ln -s "$cache/$part" "$WRINGER_CACHE/$part"
    done
    : >"$json"
    trap leave_lab EXIT
    trap 'exit 130' INT TERM HUP
}

pid=
leave_lab() {
    [ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
    leave_sandboxes
}

say() { echo "$(basename "$0"): $*" >&2; }

# experiment SERVER [ROWS]: the file of `wringer examples mallocs`, for that server (mysql@9) and with so many rows
experiment() {
    local flavour=${1%%@*} version=
    [[ $1 != *@* ]] || version="version = \"${1#*@}\""
    "$wringer" examples mallocs | sed "s/^flavour = .*/flavour = \"$flavour\"\n$version/; s/^rows = .*/rows = ${2:-100000}/"
}

# whether the program has refused because another one measures on this host, by its words in the file said
is_taken() { grep -q 'another one measures on this host' "$folder/said"; }

# in_turn COMMAND...: its answer goes to the file answer, its words to the file said; while another one measures on this host, it is tried again
in_turn() {
    local code
    while true; do
        code=0
        "$@" >"$folder/answer" 2>"$folder/said" || code=$?
        [ "$code" -eq 3 ] && is_taken || return "$code"
        sleep 5
    done
}

# what the jq programs here have in common
# shellcheck disable=SC2034,SC2016 # for the scripts; the jq variables are jq's
of_answer='
    def mean: if length == 0 then null else add / length end;
    def mib: if . == null then "-" else "\(. / 1048576 * 10 | round / 10) MiB" end;
    def shown: [.comparisons[] | select(.verdict == "lower" or .verdict == "higher")];'
