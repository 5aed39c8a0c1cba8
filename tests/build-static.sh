#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds target/ARCH-unknown-linux-musl/release/wringer: one static file that runs on any Linux of that architecture. The Rust
# target brings its own C library; the C code inside (SQLite, the TLS primitives) needs musl's headers: musl-gcc from the
# distribution, installed as root, unpacked below target/ otherwise. For another architecture than this machine's, a cross compiler
# from the distribution, and that architecture's musl headers, unpacked below target/.
# Prints where the program is.
# usage: [ARCH=aarch64] build-static.sh [CARGO PROFILE, default release [CARGO ARGUMENTS]]
set -eu
cd "$(dirname "$0")/.."
profile=${1:-release}
[ $# -gt 0 ] && shift
here=$(uname -m)
arch=${ARCH:-$here}
target=$arch-unknown-linux-musl

rustc --print target-libdir --target "$target" 2>/dev/null | xargs test -d 2>/dev/null || {
    command -v rustup >/dev/null 2>&1 || {
        echo "error: Rust's target $target is not installed, and there is no rustup to add it" >&2
        exit 3
    }
    rustup target add "$target" >&2
}

native_compiler() {
    compiler=$(command -v musl-gcc || true)
    if [ -z "$compiler" ] && [ "$(id -u)" -eq 0 ]; then
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends musl-tools; } >&2
        compiler=$(command -v musl-gcc)
    fi
    [ -z "$compiler" ] || return 0
    root=$PWD/target/musl-tools
    if [ ! -x "$root/gcc" ]; then
        mkdir -p "$root"
        (cd "$root" && apt-get download -q musl-dev musl-tools >&2 && for deb in ./*.deb; do dpkg-deb -x "$deb" .; done)
        sed "s#/usr/\(include\|lib\)/#$root/usr/\1/#g" "$root/usr/lib/$arch-linux-musl/musl-gcc.specs" >"$root/specs"
        printf '#!/bin/sh\nexec gcc "$@" -specs "%s/specs"\n' "$root" >"$root/gcc"
        chmod +x "$root/gcc"
    fi
    compiler=$root/gcc
}

# The cross compiler's own headers are glibc's: what is compiled with those asks for functions that musl does not have.
cross_compiler() {
    cross=$arch-linux-gnu-gcc
    command -v "$cross" >/dev/null || {
        echo "error: no C compiler for $arch: $cross" >&2
        echo "hint: apt-get install gcc-$(echo "$arch" | tr _ -)-linux-gnu" >&2
        exit 3
    }
    debian=$(packaging/debian-architecture.sh "$arch")
    root=$PWD/target/musl-tools-$arch
    if [ ! -x "$root/gcc" ]; then
        mkdir -p "$root/lists/partial" "$root/cache/archives/partial"
        # lists and cache of its own: this machine's packages are left as they are
        apt() {
            apt-get -q -o APT::Architecture="$debian" -o APT::Architectures="$debian" -o Dir::State::Lists="$root/lists" \
                -o Dir::Cache="$root/cache" -o Dir::State::status=/dev/null -o APT::Sandbox::User="$(id -un)" \
                -o Acquire::Languages=none "$@" >&2
        }
        (cd "$root" && apt update && apt download musl-dev && dpkg-deb -x musl-dev_*.deb .)
        rm -rf "$root/lists" "$root/cache"
        printf '#!/bin/sh\nexec %s -nostdinc -isystem "%s" -isystem "$(%s -print-file-name=include)" "$@"\n' \
            "$cross" "$root/usr/include/$arch-linux-musl" "$cross" >"$root/gcc"
        chmod +x "$root/gcc"
    fi
    compiler=$root/gcc
    upper=$(echo "$target" | tr 'a-z-' 'A-Z_')
    export "CARGO_TARGET_${upper}_LINKER=$cross"
}

if [ "$arch" = "$here" ]; then native_compiler; else cross_compiler; fi
variable=CC_$(echo "$target" | tr - _)
env "$variable=$compiler" cargo build --profile "$profile" --target "$target" -p wringer "$@" >&2
folder=$profile
[ "$profile" = dev ] && folder=debug
program=$(cd "${CARGO_TARGET_DIR:-target}/$target/$folder" && pwd)/wringer
# a program that needs an interpreter or a library is not static
if LC_ALL=C readelf -dlW "$program" | grep -E 'INTERP|NEEDED' >&2; then
    echo "error: $program is not static" >&2
    exit 4
fi
ls -l "$program" >&2
echo "$program"
