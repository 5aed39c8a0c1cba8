#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Unpacks a stock Debian kernel and a static busybox below FOLDER and prints where: `vmlinuz`, `modules/`, `busybox`.
# The newest kernel that the machine's sources offer, backports of its release included; built for virtual machines, so that it is
# a third of the size. Nothing is installed; package lists are FOLDER's own. What is there already is not fetched again: remove
# FOLDER for a newer kernel. WRINGER_GUEST_SUITE takes another suite of the same archive.
# usage: fetch-kernel.sh FOLDER
set -eu
folder=${1:?the folder to unpack into}
here=$(cd "$(dirname "$0")" && pwd)
arch=$(dpkg --print-architecture)
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
suite=${WRINGER_GUEST_SUITE:-$release-backports}

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
exec 9>"$folder/.lock"
flock 9
kernel=$folder/$suite
[ -e "$kernel/complete" ] && echo "$kernel" && exit 0

lists=$folder/.lists
mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial"
# the archive that the machine is configured with, whatever its host
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sort -u | head -1)
[ -n "$archive" ] || {
    echo "error: none of this machine's package sources is Debian's" >&2
    exit 3
}
keys=/usr/share/keyrings/debian-archive-keyring.gpg

sources() { # sources SUITE...: our list of package sources
    printf '%s\n' "$@" | sort -u | sed "s#.*#deb [signed-by=$keys] $archive & main#" >"$lists/sources.list"
}
apt() { # apt PROGRAM ARGUMENTS: with lists of our own, and none of the machine's hooks
    program=$1
    shift
    "$program" -q -o Dir::Etc::SourceList="$lists/sources.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::lists="$lists/lists" \
        -o Dir::Cache="$lists/cache" -o APT::Update::Post-Invoke= -o APT::Update::Post-Invoke-Success= -o APT::Sandbox::User=root \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Debug::NoLocking=true -o Acquire::Retries=2 -o APT::Default-Release= "$@"
}

sources "$release" "$suite"
apt apt-get update >&2 || {
    echo "note: no $suite in the archive; the kernel of $release serves" >&2
    sources "$release"
    apt apt-get update >&2
}
meta=linux-image-cloud-$arch
version() { apt apt-cache show "$1" | sed -n 's/^Version: //p' | sort -rV | head -1; }
newest=$(version "$meta")
image=$(apt apt-cache show "$meta=$newest" | sed -n 's/^Depends: \(linux-image-[^ ,]*\).*/\1/p')
[ -n "$image" ] || {
    echo "error: the archive has no $meta" >&2
    exit 3
}

new=$folder/.new
rm -rf --one-file-system "$new"
mkdir -p "$new/debs" "$new/tree" "$new/modules"
(cd "$new/debs" && apt apt-get download "$image=$(version "$image")" busybox-static >&2)
for deb in "$new"/debs/*.deb; do dpkg-deb -x "$deb" "$new/tree"; done
cp "$new"/tree/boot/vmlinuz-* "$new/vmlinuz"
cp "$new"/tree/bin/busybox "$new/busybox" 2>/dev/null || cp "$new"/tree/usr/bin/busybox "$new/busybox"
# those that the guest loads, in their order; what is not there is built in
number=10
for name in $(grep -v '^#' "$here/modules.txt"); do
    file=$(find "$new/tree" -name "$name.ko*")
    case $file in
    *.ko) cp "$file" "$new/modules/$number-$name.ko" ;;
    *.ko.xz) "$new/busybox" xzcat "$file" >"$new/modules/$number-$name.ko" ;;
    esac
    number=$((number + 1))
done
rm -rf --one-file-system "$new/debs" "$new/tree"
echo "$image $newest" >"$new/complete"
rm -rf --one-file-system "$kernel" "$lists"
mv "$new" "$kernel"
echo "$kernel"
