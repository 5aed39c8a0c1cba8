#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Gets what building and testing need and this machine lacks. Installs only build tools and test peers, and only as root;
# database servers are never installed (that would start a service): Wringer fetches them into its own cache.
set -eu

missing=""
need() { # COMMAND PACKAGE
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

need_library() { # FILE PACKAGE
    ls /usr/lib/*/"$1" >/dev/null 2>&1 || missing="$missing $2"
}

command -v cargo >/dev/null 2>&1 || {
    echo "error: cargo is not on the PATH" >&2
    echo "hint: install Rust 1.89 or newer, then run this again" >&2
    exit 3
}
need cc gcc
if [ "${1:-}" = "test" ]; then
    need chromium chromium
    need fio fio
    need strace strace
    need ioping ioping
    need valgrind valgrind
    need heaptrack heaptrack
    need_library libtcmalloc.so.4 libgoogle-perftools4
    need_library libjemalloc.so.2 libjemalloc2
    need sysbench sysbench
    need zstd zstd
    need mariadb-backup mariadb-backup
    need openssl openssl
    need fincore util-linux-extra
    need qemu-system-x86_64 qemu-system-x86
    need musl-gcc musl-tools
    need mvn maven
    need java default-jre-headless
    need xz xz-utils
    PATH=$PATH:/usr/sbin:/sbin need mke2fs e2fsprogs
    PATH=$PATH:/usr/sbin:/sbin need mkfs.xfs xfsprogs
    PATH=$PATH:/usr/sbin:/sbin need mkfs.btrfs btrfs-progs
fi

[ -z "$missing" ] && exit 0
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "note: not on this machine, and not installed because you are not root:$missing" >&2
    case "$missing" in *gcc*) exit 3 ;; esac
    exit 0
fi
echo "installing:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# shellcheck disable=SC2086
if ! { apt-get update -q && apt-get install -y -q --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -5 "$log" >&2
    echo "note: could not install:$missing" >&2
    case "$missing" in *gcc*) exit 3 ;; esac
fi
rm -f "$log"
