#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tries a release: the checksums; each program, the foreign ones under QEMU's user emulation; each Debian package installed into a
# root folder of its own, run there, and removed without a trace. Nothing of this machine is changed.
# usage: check.sh FOLDER ARCHITECTURES
set -eu
dist=$1 architectures=$2
here=$(uname -m)
work=$(mktemp -d "${TMPDIR:-/tmp}/wringer-check.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
    echo "error: $*" >&2
    exit 4
}

(cd "$dist" && sha256sum --quiet -c SHA256SUMS) || fail "the checksums do not fit"

runner() { # of programs for ARCH: nothing, or the emulator; false where there is none
    [ "$1" = "$here" ] && return 0
    command -v "qemu-$1-static" || command -v "qemu-$1" || { [ -n "${QEMU:-}" ] && echo "$QEMU"; }
}

smoke() { # ARCH PROGRAM
    emulator=$(runner "$1") || {
        echo "note: $2 was not started: no qemu-$1-static here (package qemu-user-static, or QEMU=PATH)" >&2
        return 0
    }
    # shellcheck disable=SC2086
    run() { $emulator "$@"; }
    run "$2" --version | grep -q '^wringer [0-9]' || fail "$2 --version"
    # reads a histogram: SIMD, C code for TLS and SQLite are linked, the arithmetic is the same everywhere
    run "$2" modes fixtures/modes/point-select-10ms.csv --delay 10ms | grep -q '0.4246 reads a query' || fail "$2 modes"
    run "$2" plan experiments/quick.toml >"$work/plan" || fail "$2 plan"
    run "$2" doctor >"$work/doctor" 2>&1 || [ $? -le 3 ] || fail "$2 doctor"
    code=0
    run "$2" load oltp_point_select --assert nonsense >"$work/usage" 2>&1 || code=$?
    [ "$code" -eq 2 ] || fail "$2 load --assert nonsense ended with $code"
    echo "checked: $2${emulator:+ under $emulator}" >&2
}

cd "$(dirname "$0")/.."
for arch in $architectures; do
    archive=$(echo "$dist"/wringer-*-"$arch"-linux.tar.gz)
    tar -xzf "$archive" -C "$work"
    smoke "$arch" "$work/$(basename "$archive" .tar.gz)/wringer"

    debian=$(packaging/debian-architecture.sh "$arch")
    package=$(echo "$dist"/wringer_*_"$debian".deb)
    root=$work/root-$arch
    mkdir -p "$root/var/lib/dpkg/info" "$root/var/lib/dpkg/updates" "$root/var/lib/dpkg/triggers" "$root/var/log"
    : >"$root/var/lib/dpkg/status"
    : >"$root/var/lib/dpkg/available"
    dpkg_there() {
        dpkg --root="$root" --log="$work/dpkg.log" --force-not-root --force-architecture --force-script-chrootless "$@" >&2
    }
    dpkg_there --install "$package" || fail "$package does not install"
    smoke "$arch" "$root/usr/bin/wringer"
    for file in usr/share/man/man1/wringer.1.gz usr/share/man/man1/wringer-load.1.gz \
        usr/share/bash-completion/completions/wringer usr/share/doc/wringer/docs/load.md; do
        [ -s "$root/$file" ] || fail "$package brings no $file"
    done
    bash -n "$root/usr/share/bash-completion/completions/wringer" || fail "the completions for bash are broken"
    if command -v man >/dev/null; then
        man -l "$root/usr/share/man/man1/wringer-load.1.gz" >"$work/page" 2>"$work/complaints" || fail "a man page is broken"
        [ ! -s "$work/complaints" ] || fail "a man page is broken: $(cat "$work/complaints")"
    fi
    dpkg_there --purge wringer || fail "$package cannot be removed"
    left=$(find "$root" -not -path "$root/var/lib/dpkg*" -not -type d)
    [ -z "$left" ] || fail "$package leaves files: $left"
    [ ! -e "$root/usr" ] || fail "$package leaves folders: $(find "$root/usr")"
    echo "checked: $package installs, runs and is removed without a trace" >&2
done
