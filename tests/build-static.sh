#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds target/x86_64-unknown-linux-musl/release/wringer: one static file that runs on any x86-64 Linux. The Rust target brings
# its own C library; the C code inside (SQLite, the TLS primitives) needs musl's headers, which come as musl-gcc from the
# distribution: installed as root, unpacked below target/ otherwise.
# Prints where the program is.
# usage: build-static.sh [CARGO PROFILE, default release [CARGO ARGUMENTS]]
set -eu
cd "$(dirname "$0")/.."
profile=${1:-release}
[ $# -gt 0 ] && shift
arch=$(uname -m)
target=$arch-unknown-linux-musl

rustc --print target-libdir --target "$target" 2>/dev/null | xargs test -d 2>/dev/null || {
    command -v rustup >/dev/null 2>&1 || {
        echo "error: Rust's target $target is not installed, and there is no rustup to add it" >&2
        exit 3
    }
    rustup target add "$target" >&2
}

compiler=$(command -v musl-gcc || true)
if [ -z "$compiler" ] && [ "$(id -u)" -eq 0 ]; then
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends musl-tools; } >&2
    compiler=$(command -v musl-gcc)
fi
if [ -z "$compiler" ]; then
    root=$PWD/target/musl-tools
    if [ ! -x "$root/gcc" ]; then
        mkdir -p "$root"
        (cd "$root" && apt-get download -q musl-dev musl-tools >&2 && for deb in ./*.deb; do dpkg-deb -x "$deb" .; done)
        sed "s#/usr/\(include\|lib\)/#$root/usr/\1/#g" "$root/usr/lib/$arch-linux-musl/musl-gcc.specs" >"$root/specs"
        printf '#!/bin/sh\nexec gcc "$@" -specs "%s/specs"\n' "$root" >"$root/gcc"
        chmod +x "$root/gcc"
    fi
    compiler=$root/gcc
fi

variable=CC_$(echo "$target" | tr - _)
env "$variable=$compiler" cargo build --profile "$profile" --target "$target" -p wringer "$@"
folder=$profile
[ "$profile" = dev ] && folder=debug
program=$(cd "${CARGO_TARGET_DIR:-target}/$target/$folder" && pwd)/wringer
# a program that needs an interpreter or a library is not static
case $(LC_ALL=C ldd "$program" 2>&1) in
*"statically linked"* | *"not a dynamic executable"*) ;;
*)
    echo "error: $program is not static:" >&2
    ldd "$program" >&2
    exit 4
    ;;
esac
ls -l "$program" >&2
echo "$program"
