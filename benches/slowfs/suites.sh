#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Others' file-system suites on a bare directory and on the same directory below Wringer's slow layer, side by side: how much passed, and every
# failure by its name. What fails below the layer alone is the layer's fault; then the exit code is 1.
#
#   benches/slowfs/suites.sh [--short] [--delay TIME] [--folder DIR] [--pjdfstest DIR] [--xfstests DIR] [--only WORDS] [--json FILE]
#
# Needs root, for the layer is mounted; DIR of --folder on the file system to test (/var/tmp). The layer adds --delay (0) to each operation.
#   fsx        random reads, writes, cuts and mappings of one file, each read compared with what must be in it: the crate of this name from
#              crates.io, which is built into target/. Two mixtures of operations, three seeds, 10 000 operations each; --short: one seed, 5 000
#   pjdfstest  POSIX calls with their errors, modes, owners and times: DIR is a checkout of pjdfstest with its program built in it. Needs
#              openssl. It has 238 scripts and takes some minutes a side; --short leaves out those that sleep
#   xfstests   the group generic/quick: DIR is a checkout of xfstests that is built. On an ext4 file system of 4 GiB in an image; without a
#              scratch device, and without the tests that mount the file system anew, which would take the layer away. --short: 001 to 100
# --only: a suite (fsx), or parts of them, several in quotes ("chmod chown/00 generic/013").
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
fsx_version=0.3.2
short="" delay=0 folder=/var/tmp pjdfstest="" xfstests="" only="" json=$target/bench-slowfs-suites.json

while [ $# -gt 0 ]; do
    case $1 in
        --short) short=yes ;;
        --delay | --folder | --pjdfstest | --xfstests | --only | --json)
            [ $# -ge 2 ] || usage
            printf -v "${1#--}" '%s' "$2"
            shift
            ;;
        *) usage ;;
    esac
    shift
done
need_root "a layer is mounted, and pjdfstest changes owners"
if [ -n "$pjdfstest" ]; then
    pjdfstest=$(cd "$pjdfstest" && pwd)
    [ -x "$pjdfstest/pjdfstest" ] || missing "$pjdfstest/pjdfstest: autoreconf -ifs && ./configure && make pjdfstest"
    command -v openssl >/dev/null || missing "openssl, for pjdfstest's names"
fi
if [ -n "$xfstests" ]; then
    xfstests=$(cd "$xfstests" && pwd)
    [ -x "$xfstests/check" ] && [ -x "$xfstests/src/feature" ] || missing "xfstests, built: make in $xfstests"
    command -v mkfs.ext4 >/dev/null || missing "mkfs.ext4, for xfstests"
fi
build_wringer
fsx=$target/suites/fsx-$fsx_version/bin/fsx
[ -x "$fsx" ] || cargo install --quiet --locked fsx --version "$fsx_version" --root "$target/suites/fsx-$fsx_version" --target-dir "$target/suites/build"

folder=$(mktemp -d "$folder/suites-bench.XXXXXX")
export WRINGER_HOME=$folder/home
data=$folder/data disk=$folder/disk
chmod 755 "$folder"
mkdir -m 755 "$data" "$disk"
# shellcheck disable=SC2329 # by the trap
clean() {
    cd /
    "$wringer" disk release >/dev/null 2>&1 || "$wringer" undo >&2 || true
    if mountpoint -q "$disk"; then
        umount "$disk" || { echo "$disk is still mounted: it is left" >&2; return; }
    fi
    rm -rf --one-file-system "$folder"
}
trap clean EXIT

# wanted PART...: whether --only names one of them, or nothing
wanted() {
    local word part
    [ -n "$only" ] || return 0
    for word in $only; do
        for part in "$@"; do
            case $part in "$word" | "$word"/*) return 0 ;; esac
        done
    done
    return 1
}

# Each suite prints a line for each check in $data: `ok NAME`, or `not ok NAME: WHY`.

fsx_mixture() { # plain|holes
    # as its manual has them; `holes` has what a server does to a file besides
    cat <<END
[weights]
close_open = 1
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
END
    [ "$1" = plain ] || cat <<END
posix_fallocate = 5
punch_hole = 5
sendfile = 5
posix_fadvise = 1
copy_file_range = 5
END
}
run_fsx() {
    local mixture seed seeds="1 2 3" operations=10000
    [ -z "$short" ] || { seeds=1 operations=5000; }
    mkdir -p "$folder/fsx"
    for mixture in plain holes; do
        fsx_mixture "$mixture" >"$folder/fsx.toml"
        for seed in $seeds; do
            wanted fsx "fsx/$mixture" || continue
            if "$fsx" -f "$folder/fsx.toml" -P "$folder/fsx" -N "$operations" -S "$seed" "$data/fsx" >"$folder/said" 2>&1; then
                echo "ok fsx/$mixture/$seed"
            else
                echo "not ok fsx/$mixture/$seed: $(grep -v '^ *$' "$folder/said" | head -1)"
            fi
            rm -f "$data"/fsx*
        done
    done
}

run_pjdfstest() {
    local script name planned ran
    for script in "$pjdfstest"/tests/*/*.t; do
        name=${script#"$pjdfstest/tests/"} name=${name%.t}
        wanted pjdfstest "$name" || continue
        if [ -n "$short" ] && grep -q '^[[:space:]]*\(sleep\|nap\)' "$script"; then continue; fi
        (cd "$data" && sh "$script") >"$folder/said" 2>/dev/null || true
        # a failure that the suite expects itself (TODO) is none
        sed -n "s|^ok \([0-9]*\).*|ok $name:\1|p; /# TODO/d; s|^not ok \([0-9]*\)[ -]*|not ok $name:\1: |p" "$folder/said"
        planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$folder/said" | head -1)
        ran=$(grep -c '^\(not \)\{0,1\}ok' "$folder/said" || true)
        [ "${planned:-none}" = "$ran" ] || echo "not ok $name: $ran of ${planned:-no planned} checks ran"
    done
}

# The tests that can run: without those that mount the file system anew.
xfstests_list() {
    local script name
    for script in "$xfstests"/tests/generic/[0-9][0-9][0-9]; do
        name=generic/${script##*/}
        wanted xfstests "$name" || continue
        if [ -n "$short" ] && [ "${script##*/}" -gt 100 ]; then continue; fi
        grep -q '^_begin_fstest.* quick' "$script" || continue
        if grep -qE '_test_(cycle_mount|unmount|mount|remount)|_require_(scratch|shutdown)' "$script"; then continue; fi
        echo "$name"
    done
}
run_xfstests() { # bare|layer
    local left name
    case $1 in
        bare) export FSTYP=ext4 FUSE_SUBTYP="" TEST_DIR=$disk ;;
        layer) export FSTYP=fuse FUSE_SUBTYP=.wringer TEST_DIR=$data ;;
    esac
    TEST_DEV=$(findmnt -nro SOURCE "$TEST_DIR" | tail -1)
    export TEST_DEV RESULT_BASE=$folder/xfstests-$1 HOST_OPTIONS=$folder/none
    xfstests_list >"$folder/list"
    [ -s "$folder/list" ] || return 0
    # shellcheck disable=SC2046 # one word a test
    (cd "$xfstests" && ./check $(cat "$folder/list")) >"$folder/said" 2>&1 || true
    left=" $(sed -n 's/^Not run: //p; s/^Failures: //p' "$folder/said" | tr '\n' ' ') "
    sed -n 's/^Failures: //p' "$folder/said" | tr ' ' '\n' | while read -r name; do
        echo "not ok $name: $(sed -n "s|^$name .*[0-9.]*s ||p" "$folder/said" | tail -1)"
    done
    sed -n 's/^Ran: //p' "$folder/said" | tr ' ' '\n' | while read -r name; do
        case $left in *" $name "*) ;; *) echo "ok $name" ;; esac
    done
    grep -q '^Ran: ' "$folder/said" || echo "not ok xfstests: $(tail -1 "$folder/said")"
}

slow() {
    "$wringer" disk delay "$data" --read "$delay" --write "$delay" --sync "$delay" --for 2h -o json >"$folder/said" || { cat "$folder/said" >&2; exit 4; }
    [ "$(findmnt -nro FSTYPE "$data" | tail -1)" = fuse.wringer ] || { echo "no layer is mounted over $data" >&2; exit 4; }
}

run() { # SUITE bare|layer
    case $1 in
        fsx) run_fsx ;;
        pjdfstest) run_pjdfstest ;;
        xfstests) run_xfstests "$2" ;;
    esac >"$folder/$1.$2"
}
suites=""
for suite in fsx ${pjdfstest:+pjdfstest} ${xfstests:+xfstests}; do
    if [ "$suite" = xfstests ]; then
        truncate -s 4G "$folder/image"
        mkfs.ext4 -q "$folder/image"
        mount -o loop "$folder/image" "$disk"
        # a layer is not put over what is mounted
        data=$disk/data
        mkdir -m 755 "$data"
    fi
    run "$suite" bare
    slow
    run "$suite" layer
    "$wringer" disk release "$data" >/dev/null 2>&1
    if [ -s "$folder/$suite.bare" ] || [ -s "$folder/$suite.layer" ]; then suites="$suites $suite"; fi
done
[ -n "$suites" ] || { echo "--only names nothing that could run" >&2; exit 2; }

passed() { grep -c '^ok ' "$1" || true; }
failed() { sed -n 's/^not ok //p' "$1"; }
# names alone: why may differ from run to run
names() { sed -n 's/^not ok //p' "$1" | sed 's/: .*//' | sort -u; }
in_json() { # of lines
    sed 's/\\/\\\\/g; s/"/\\"/g; s/[[:cntrl:]]/ /g; s/.*/"&"/' | paste -sd,
}
worse=0
printf '%-10s %6s  %12s %12s   %12s %12s\n' suite "checks" "bare passed" "failed" "layer passed" "failed"
mkdir -p "$(dirname "$json")"
{
    printf '{"delay":"%s","kernel":"%s","file_system":"%s","suites":[' "$delay" "$(uname -r)" "$(stat -fc %T "$folder")"
    separator=""
    for suite in $suites; do
        bare=$folder/$suite.bare layer=$folder/$suite.layer
        printf '%s{"suite":"%s","bare":{"passed":%d,"failed":[%s]},"layer":{"passed":%d,"failed":[%s]}}' "$separator" "$suite" \
            "$(passed "$bare")" "$(failed "$bare" | in_json)" "$(passed "$layer")" "$(failed "$layer" | in_json)"
        separator=,
    done
    printf ']}\n'
} >"$json"
for suite in $suites; do
    bare=$folder/$suite.bare layer=$folder/$suite.layer
    printf '%-10s %6d  %12d %12d   %12d %12d\n' "$suite" "$(wc -l <"$bare")" "$(passed "$bare")" "$(failed "$bare" | wc -l)" \
        "$(passed "$layer")" "$(failed "$layer" | wc -l)"
done
for suite in $suites; do
    names "$folder/$suite.bare" >"$folder/names.bare"
    names "$folder/$suite.layer" >"$folder/names.layer"
    comm -12 "$folder/names.bare" "$folder/names.layer" | sed "s/^/both fail:            $suite  /"
    comm -23 "$folder/names.bare" "$folder/names.layer" | sed "s/^/bare alone fails:     $suite  /"
    while read -r name; do
        worse=1
        echo "the layer alone fails: $suite  $(failed "$folder/$suite.layer" | grep -F "$name: " | head -1)"
    done < <(comm -13 "$folder/names.bare" "$folder/names.layer")
    # a check that ran bare and not below the layer has not passed
    if [ "$(wc -l <"$folder/$suite.bare")" -gt "$(wc -l <"$folder/$suite.layer")" ]; then
        worse=1
        echo "fewer checks ran below the layer: $suite"
    fi
done
echo "the same as JSON: $json" >&2
exit $worse
