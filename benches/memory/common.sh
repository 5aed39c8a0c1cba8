# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Read by the scripts beside it: servers, what runs beside them and ends with the script, and MySQLTuner.
# shellcheck source=benches/load/common.sh
. "$(dirname "${BASH_SOURCE[0]}")/../load/common.sh"

# processes in the background: whatever ends the script ends them
held=()

# a home of its own; what is held ends with the script; the results go to an empty file $json
own_home_and_children() {
    own_home
    mkdir -p "$(dirname "$json")"
    : >"$json"
    trap children_end EXIT
    trap 'exit 130' INT TERM HUP
}

children_end() {
    [ ${#held[@]} = 0 ] || kill "${held[@]}" 2>/dev/null || true
    clean 2>/dev/null
}

must() { # must COMMAND...: quietly, or the script ends with what the command said
    "$@" >"$home/out" 2>"$home/said" || { cat "$home/said" "$home/out" >&2; exit 4; }
}

deployed() { # deployed SERVER SETTING...: the sandbox `bench`, whose address is in the environment
    local server=$1 setting options=()
    shift
    for setting in "$@"; do options+=(-c "$setting"); done
    must "$wringer" --quiet sandbox deploy "$server" --name bench --start "${options[@]}"
    addressed
}

# the address of the sandbox `bench`, for clients and for Wringer
addressed() {
    eval "$("$wringer" sandbox export bench env)"
    WRINGER_DSN=$("$wringer" sandbox export bench dsn)
    export WRINGER_DSN
}

gone() {
    "$wringer" --quiet sandbox delete --force bench >/dev/null 2>&1
}

# for jq: the probes of an account that hold the server's address space; a statement does not
# shellcheck disable=SC2034 # read by the scripts
def_held='def held: [.probes[] | select(.tier != "sql" and .tier != "unanswered")];'

# prints what it prints. It cannot log in where the client of this machine cannot (MariaDB's, into MySQL 9)
mysql_tuner() {
    local user
    user=$(printf '%s' "$WRINGER_DSN" | sed 's|^[a-z]*://\([^:@]*\).*|\1|')
    # by its port: with a socket it also names port 0, and Debian's clients then refuse
    timeout 60 mysqltuner --nocolor --host 127.0.0.1 --port "$MYSQL_TCP_PORT" --forcemem "$(free -m | awk '/^Mem/ { print $2 }')" --forceswap 0 \
        --user "$user" --pass "${MYSQL_PWD:-}"
}
