#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Is each malloc on each server called by its right name? And is nothing called a malloc that serves nothing?
#
#   benches/allocators/identity.sh [--servers "NAME ..."] [--mallocs "NAME ..."] [--json FILE]
#
# Each malloc, and a library of one's own (a shim that is compiled on the spot, shown as `own`), on MariaDB 10.11, XtraDB 5.6 (MariaDB 10.1), MySQL 9 and PostgreSQL 15. The truth comes from the dynamic
# linker itself: it writes down whose malloc it has bound to the server's program (LD_DEBUG=bindings, ld.so(8)). Then, on each server whose malloc can be exchanged, what is no malloc of this
# server's: a library without malloc under jemalloc's file name; one that the linker leaves out, because the server's user may not read it; jemalloc that is mapped behind the one that serves, by the
# order of LD_PRELOAD and as the dependency of a library without malloc; and a static program, for which only `unknown` is right.
# In sandboxes of its own, deleted afterwards. As root; six minutes on a busy host. Needs cc, jq. A server or library that cannot be had here is left out, and named. WRINGER names the program,
# without it the release build's. Exit code 1: a name is wrong, a doubt was told where there is none, or a setting is said to be in force that the malloc has refused.
#
# What the columns mean:
#   said     who serves, as `sandbox start` prints it, or `memory account` where nothing was asked for
#   linker   the file whose malloc the server's program is bound to
#   result   right, refused (exit code 3 and the reason is true), or WRONG and why
set -euo pipefail
# shellcheck source=benches/allocators/common.sh
. "$(dirname "$0")/common.sh"
servers="mariadb@10.11 xtradb@5.6 mysql@9 postgresql@15" json=$target/bench-allocators-identity.json
mallocs="glibc glibc-arenas2 glibc-trim jemalloc jemalloc-background tcmalloc mimalloc own"
take_flags "servers mallocs json" "$@"
need_root "a library is made unreadable for the server's user"
need_program cc gcc
need_program jq
need_wringer
own_lab
bindings=$folder/bindings
mkdir -m 777 "$bindings"
chmod 777 "$bindings"
wrong=0 checked=0

# a malloc that is none of the known ones: passes on to the C library's
cat >"$folder/own.c" <<'C'
#include <errno.h>
#include <stddef.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
void *malloc(size_t n) { return __libc_malloc(n); }
void *calloc(size_t m, size_t n) { return __libc_calloc(m, n); }
void *realloc(void *p, size_t n) { return __libc_realloc(p, n); }
void free(void *p) { __libc_free(p); }
void *memalign(size_t a, size_t n) { return __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return __libc_memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) { return (*p = __libc_memalign(a, n)) ? 0 : ENOMEM; }
C
cc -O2 -shared -fPIC -o "$folder/libown.so" "$folder/own.c"
echo 'int wringer_bench_nothing(void) { return 0; }' >"$folder/nothing.c"
chmod 755 "$folder/libown.so"

row() { # row SERVER CASE SAID LINKER RESULT
    checked=$((checked + 1))
    case $5 in right | refused) ;; *) wrong=$((wrong + 1)) ;; esac
    jq -nc --arg server "$1" --arg case "$2" --arg said "$3" --arg linker "$4" --arg result "$5" \
        '{server: $server, case: $case, said: $said, linker: $linker, result: $result}' >>"$json"
    printf '%-14s %-32s %-27s %-25s %s\n' "$1" "$2" "$3" "$4" "$5"
}

start() { # start FLAGS...: with the linker's notes; its words go to the file said
    rm -f "$bindings"/*
    "$wringer" sandbox start bench "$@" --environment LD_DEBUG=bindings --environment "LD_DEBUG_OUTPUT=$bindings/of" >"$folder/said" 2>&1
}
stop() { "$wringer" --quiet sandbox stop bench >/dev/null 2>&1 || true; }
server_pid() { "$wringer" sandbox status bench -o json | jq '.sandboxes[0].pid // empty'; }

# the file whose malloc the program of the server with this process id was bound to, by the notes of the linker
linker() {
    local of=$bindings/of.$1 program
    program=$(tr '\0' '\n' <"/proc/$1/cmdline" | grep -aoEm1 '[^ ]*/(mariadbd|mysqld|postgres)$')
    [ -r "$of" ] || return 0
    grep -aF "$program [0] to " "$of" | grep -a 'symbol `malloc' | head -1 | sed 's/.* to \([^ ]*\) \[0\].*/\1/'
}
kind_of() { # of a file
    case $(basename "$(readlink -f "$1")") in
        libc.so.6 | libc-*.so) echo glibc ;;
        libjemalloc*) echo jemalloc ;;
        libtcmalloc*) echo tcmalloc ;;
        libmimalloc*) echo mimalloc ;;
        mariadbd | mysqld | postgres) echo itself ;;
        *) basename "$1" ;;
    esac
}
words() { sed -n 's/^ *malloc  *asked .*, got \(.*\)/\1/p' "$folder/said"; } # all that the line says
named() { words | sed 's/^NOT AS ASKED: //; s/ (.*//'; }                     # who it says serves
is_kind() { [ "${1%% *}" = "$2" ]; }                                         # "glibc 2.36" is glibc

# judge_start SERVER CASE KIND AS_ASKED: the server runs; KIND is what must serve, AS_ASKED (yes, no) what must be told
judge_start() {
    local pid_now said bound result=right kind
    pid_now=$(server_pid) said=$(named) bound=$(linker "$pid_now")
    kind=$(kind_of "${bound:-nothing}")
    # a program with a malloc in itself: that of XtraDB is jemalloc, as its function mallctl shows
    [ "$kind" != itself ] || { grep -aq mallctl "$bound" && kind=jemalloc; }
    if [ "$kind" != "$3" ]; then
        result="WRONG set-up: the linker has bound $kind"
    elif ! is_kind "$said" "$kind"; then
        result="WRONG: $kind serves"
    elif [ "$4" = yes ] && words | grep -q 'NOT AS ASKED'; then
        result="WRONG: it is as asked"
    elif [ "$4" = no ] && ! words | grep -q 'NOT AS ASKED'; then
        result="WRONG: it is not as asked"
    elif [ "$4" = yes ] && words | grep -q 'DOUBT'; then
        result="WRONG: a doubt where there is none"
    elif [ "$4" = yes ] && tail -n 50 "$WRINGER_HOME/sandboxes/bench/log/server.log" | grep -aq 'Invalid conf pair'; then
        result="WRONG: the malloc has refused the setting, and the line does not tell"
    fi
    row "$1" "$2" "$said" "$(basename "${bound:--}")" "$result"
}

# judge_running SERVER CASE KIND: nothing was asked for; what `memory account` has kept
judge_running() {
    local pid_now said bound result=right kind
    pid_now=$(server_pid) bound=$(linker "$pid_now")
    "$wringer" memory account --sandbox bench --keep "$folder/kept" >/dev/null 2>&1 || true
    said=$(jq -r --argjson pid "$pid_now" '.processes[] | select(.pid == $pid) | .allocator // "unknown"' "$folder/kept")
    kind=$(kind_of "${bound:-nothing}")
    [ "$kind" = "$3" ] || result="WRONG set-up: the linker has bound $kind"
    is_kind "$said" "$3" || result="WRONG: $kind serves"
    row "$1" "$2" "$said" "$(basename "${bound:--}")" "$result"
}

each() { # each SERVER MALLOC
    local asked=$2 kind=${2%%-*}
    if [ "$asked" = own ]; then asked=own=$folder/libown.so kind=libown.so; fi
    if start --malloc "$asked"; then
        judge_start "$1" "$2" "$kind" yes
        stop
        return
    fi
    if grep -q 'this machine has no' "$folder/said"; then
        echo "$1: $2 left out: $(grep -m1 'this machine has no' "$folder/said")"
    elif grep -q 'is linked with jemalloc of its own' "$folder/said" && [ "$kind" != jemalloc ] && [ -z "$(server_pid)" ]; then
        # is that true? The linker's word of the same server without --malloc
        start && bound=$(linker "$(server_pid)") || bound=
        stop
        if [ "$(kind_of "${bound:-nothing}")" = itself ] && grep -aq mallctl "$bound"; then
            row "$1" "$2" "refused: jemalloc in itself" "$(basename "$bound")" refused
        else
            row "$1" "$2" "refused: jemalloc in itself" "$(basename "${bound:--}")" "WRONG: the program has none in itself"
        fi
    else
        no_start "$1" "$2"
    fi
    stop
}

library() { # library MALLOC: its file, as `sandbox start` names it
    start --malloc "$1" || return 0
    sed -n 's/^ *malloc  *asked [^(]*(\([^)]*\)).*/\1/p' "$folder/said"
    stop
}

no_start() { # no_start SERVER CASE
    row "$1" "$2" - - "WRONG: does not start: $(grep -m1 error "$folder/said" || tail -1 "$folder/said")"
}
serves_nothing() { # serves_nothing SERVER CASE LIBRARY: what serves without it serves with it, too
    if start --malloc "$3"; then judge_start "$1" "$2" "$linked" no; else no_start "$1" "$2"; fi
    stop
}
refused() { # refused SERVER CASE LIBRARY: nothing is started, exit code 3
    local code=0
    start --malloc "$3" || code=$?
    if [ "$code" = 3 ] && [ -z "$(server_pid)" ]; then
        row "$1" "$2" "refused" - refused
    else
        row "$1" "$2" "exit code $code" - "WRONG: it is not refused"
    fi
    stop
}
preloaded() { # preloaded SERVER CASE KIND LIBRARIES: in the caller's LD_PRELOAD
    if LD_PRELOAD=$4 start; then judge_running "$1" "$2" "$3"; else no_start "$1" "$2"; fi
    stop
}

no_wrong_name() { # no_wrong_name SERVER
    local jemalloc mimalloc bare hidden behind linked
    jemalloc=$(library jemalloc) mimalloc=$(library mimalloc)
    if [ -z "$jemalloc" ] || [ -z "$mimalloc" ]; then
        if grep -q 'this machine has no' "$folder/said"; then
            echo "$1: libraries that serve nothing are left out: $(grep -m1 'this machine has no' "$folder/said")"
        else
            no_start "$1" "jemalloc, mimalloc"
        fi
        return 0
    fi
    # who serves when nothing is asked for
    start
    linked=$(kind_of "$(linker "$(server_pid)")")
    stop

    mkdir -p "$folder/bare"
    chmod 755 "$folder/bare"
    bare=$folder/bare/libjemalloc.so.2
    cc -shared -fPIC -o "$bare" "$folder/nothing.c"
    serves_nothing "$1" "no malloc in it" "$bare"

    # readable for this user, who checks it, and not for the server's
    hidden=$folder/libhidden.so
    cp "$jemalloc" "$hidden"
    chmod 600 "$hidden"
    refused "$1" "not readable for the server's user" "$hidden"
    # the linker leaves it out, with a line in the log
    preloaded "$1" "the linker leaves it out" "$linked" "$hidden"

    # in the linker's order the dependencies of what is preloaded come after those of the program
    behind=$folder/libneeds.so
    cc -shared -fPIC -o "$behind" "$folder/nothing.c" -Wl,--no-as-needed "$jemalloc"
    chmod 755 "$behind"
    serves_nothing "$1" "jemalloc behind, as a dependency" "$behind"

    preloaded "$1" "jemalloc behind mimalloc" mimalloc "$mimalloc:$jemalloc"
    preloaded "$1" "mimalloc behind jemalloc" jemalloc "$jemalloc:$mimalloc"
}

static_program() {
    local said result=right
    cat >"$folder/held.c" <<'C'
#include <stdlib.h>
#include <unistd.h>
int main(void) { void *volatile p = malloc(9); if (write(1, p, 1) == 1) pause(); free(p); return 0; }
C
    if ! cc -static -o "$folder/held" "$folder/held.c" 2>/dev/null; then
        echo "a static program is left out: no static C library"
        return 0
    fi
    LD_PRELOAD=$(library_of_machine) "$folder/held" >"$folder/byte" &
    pid=$!
    until [ -s "$folder/byte" ]; do sleep 0.05; done
    "$wringer" memory account --pid "$pid" --keep "$folder/kept" >"$folder/account" 2>&1 || true
    said=$(jq -r '.processes[0].allocator // "unknown"' "$folder/kept")
    [ "$said" = unknown ] || result="WRONG: nothing says which"
    row "-" "static program" "$said" - "$result"
    # words about its malloc must have a name in them
    ! grep -q 'malloc:  serves' "$folder/account" || row "-" "static program, in words" "$(grep -om1 'malloc:  serves malloc' "$folder/account")" - "WRONG: a sentence without a name"
    kill "$pid"
    wait "$pid" 2>/dev/null || true
    pid=
}
library_of_machine() { ldconfig -p | sed -n 's/.*libjemalloc.so.2 .*=> //p' | head -1; }

printf '%-14s %-32s %-27s %-25s %s\n' server case said linker result
for server in $servers; do
    if ! "$wringer" --quiet sandbox deploy "$server" --name bench >"$folder/said" 2>&1; then
        echo "$server: left out: $(grep -m1 error "$folder/said" || tail -1 "$folder/said")"
        continue
    fi
    for malloc in $mallocs; do each "$server" "$malloc"; done
    # where the program has a malloc in itself nothing can be exchanged
    grep -qF "$server" <<<"$(jq -r 'select(.result == "refused") | .server' "$json")" || no_wrong_name "$server"
    "$wringer" --quiet sandbox delete bench --force >/dev/null 2>&1 || true
done
static_program
echo "$checked checked, $wrong wrong$([ "$wrong" = 0 ] || echo ": THE AIM IS MISSED")"
echo "the same as JSON, a line for each row: $json" >&2
[ "$wrong" -eq 0 ] && [ "$checked" -gt 0 ]
