#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `make dist`: what a release consists of, below target/dist/VERSION: for each architecture a static program in a tarball and a
# Debian package, both with man pages and completions, and SHA256SUMS of them all. Then packaging/check.sh tries them.
#
# Nothing is installed. What this machine lacks is said at once, before anything is built. The same commit gives the same file
# names, and the same archives around the same programs: their times are the commit's.
#
#   DIST_ARCHITECTURES="x86_64 aarch64"   DIST_PROFILE=release   DIST_FOLDER=target/dist
#   DIST_PROGRAMS=FOLDER    FOLDER/ARCH/wringer are built already: pack these
set -eu
cd "$(dirname "$0")/.."
architectures=${DIST_ARCHITECTURES:-x86_64 aarch64}
profile=${DIST_PROFILE:-release}
here=$(uname -m)
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

missing=""
need() { # COMMAND "PACKAGE, or how to get it"
    command -v "$1" >/dev/null 2>&1 || missing="$missing
  $1 ($2)"
}
need cargo "Rust 1.89 or newer, rustup.rs"
need readelf binutils
need dpkg-deb dpkg
need sha256sum coreutils
need gzip gzip
for arch in $architectures; do
    [ -z "${DIST_PROGRAMS:-}" ] || break
    if [ "$arch" = "$here" ]; then
        command -v apt-get >/dev/null || need musl-gcc musl-tools
    else
        need "$arch-linux-gnu-gcc" "gcc-$arch-linux-gnu"
        need apt-get "for musl's headers for $arch"
    fi
    rustc --print target-libdir --target "$arch-unknown-linux-musl" 2>/dev/null | xargs test -d 2>/dev/null ||
        need rustup "for the target $arch-unknown-linux-musl"
done
[ -z "$missing" ] || {
    echo "error: this machine lacks, to make a release:$missing" >&2
    echo "hint: on Debian: apt-get install musl-tools gcc-aarch64-linux-gnu binutils, and qemu-user-static to try the arm64 program" >&2
    exit 3
}

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y Cargo.lock)
export SOURCE_DATE_EPOCH
dist=${DIST_FOLDER:-target/dist}/$version
rm -rf "$dist"
mkdir -p "$dist"
dist=$(cd "$dist" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/wringer-dist.XXXXXX")
trap 'rm -rf "$work"' EXIT
umask 022

# The programs first: the pages and completions come out of one that this machine can run.
for arch in $architectures; do
    echo "== wringer $version for $arch" >&2
    if [ -n "${DIST_PROGRAMS:-}" ]; then
        program=$DIST_PROGRAMS/$arch/wringer
    else
        program=$(ARCH=$arch tests/build-static.sh "$profile" --locked)
    fi
    mkdir -p "$work/$arch"
    cp "$program" "$work/$arch/wringer"
    chmod 755 "$work/$arch/wringer"
done
mkdir "$work/manual"
if [ -x "$work/$here/wringer" ]; then
    "$work/$here/wringer" internal manual "$work/manual"
else
    cargo run -q --profile "$profile" -p wringer -- internal manual "$work/manual"
fi

archive() { # FOLDER NAME: reproducible
    tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -cf - "$2" |
        gzip -9n
}
for arch in $architectures; do
    name=wringer-$version-$arch-linux
    root=$work/tar/$name
    mkdir -p "$root/man" "$root/completions"
    cp "$work/$arch/wringer" LICENSE README.md CHANGELOG.md "$root/"
    cp -r docs experiments "$root/"
    cp "$work"/manual/*.1 "$root/man/"
    cp "$work/manual/wringer.bash" "$work/manual/_wringer" "$work/manual/wringer.fish" "$root/completions/"
    archive "$work/tar" "$name" >"$dist/$name.tar.gz"
    packaging/deb.sh "$arch" "$version" "$work/$arch/wringer" "$work/manual" "$dist"
done
(cd "$dist" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" SHA256SUMS)
packaging/check.sh "$dist" "$architectures"
ls -l "$dist" >&2
echo "$dist"
