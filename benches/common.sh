# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Read by all scripts here: where things are, the program under test, their usage, and what they need.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=${CARGO_TARGET_DIR:-$here/target}
wringer=${WRINGER:-$target/release/wringer}

# the head of the script, without its first two lines
head_of_script() {
    sed -n '3,/^set/p' "$0" | sed '/^set/d; s/^# \{0,1\}//'
}

usage() {
    head_of_script >&2
    exit 2
}

missing() { # missing WHAT...: the script cannot run here
    echo "needs $*" >&2
    exit 3
}

# take_flags "NAME..." "$@": each `--NAME VALUE` sets the variable NAME, which has _ where the flag has -; `--quick` has no value and sets quick=yes;
# --help prints the usage; anything else is wrong
take_flags() {
    local names=" $1 " name
    shift
    while [ $# -gt 0 ]; do
        case $1 in
            --help) head_of_script; exit 0 ;;
            --quick)
                [[ $names == *" quick "* ]] || usage
                # shellcheck disable=SC2034 # read by the script that has this flag
                quick=yes
                shift
                continue
                ;;
            --*) ;;
            *) usage ;;
        esac
        name=${1#--} name=${name//-/_}
        [ $# -ge 2 ] && [[ $names == *" $name "* ]] || usage
        printf -v "$name" '%s' "$2"
        shift 2
    done
}

# a folder of its own for sandboxes, of which none is left at the end; the data goes to the file $json
own_sandboxes() {
    folder=$(mktemp -d "${TMPDIR:-/tmp}/wringer-bench.XXXXXX")
    chmod 711 "$folder" # the server of root runs as another user
    export WRINGER_HOME=$folder/home
    mkdir -p "$(dirname "$json")"
    trap leave_sandboxes EXIT
}

leave_sandboxes() {
    "$wringer" sandbox delete --all --force >/dev/null 2>&1 || true
    "$wringer" undo >/dev/null 2>&1 || true
    rm -rf "$folder"
}

need_root() { # need_root WHY
    [ "$(id -u)" -eq 0 ] || missing "root: $*"
}

need_program() { # need_program NAME [PACKAGE]
    command -v "$1" >/dev/null || missing "$1 (package ${2:-$1})"
}

need_wringer() {
    [ -x "$wringer" ] || missing "$wringer: cargo build --release -p wringer, or set WRINGER"
}

# builds the release, unless WRINGER names another program
build_wringer() {
    [ -n "${WRINGER:-}" ] || cargo build --quiet --release --manifest-path "$here/Cargo.toml" -p wringer
}
