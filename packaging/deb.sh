#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One Debian package around a static program. It has no maintainer scripts: it starts nothing, and removing it removes files alone.
# What Wringer has made on a machine (journals, sandboxes) is not the package's: docs/release.md.
# usage: deb.sh ARCH VERSION PROGRAM FOLDER-OF-THE-MANUAL FOLDER-TO-WRITE-TO
set -eu
arch=$1 version=$2 program=$3 manual=$4 to=$5
cd "$(dirname "$0")/.."
debian=$(packaging/debian-architecture.sh "$arch")
root=$(mktemp -d "${TMPDIR:-/tmp}/wringer-deb.XXXXXX")
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
umask 022
usr=$root/usr
doc=$usr/share/doc/wringer
mkdir -p "$root/DEBIAN" "$usr/bin" "$usr/share/man/man1" "$doc" \
    "$usr/share/bash-completion/completions" "$usr/share/zsh/vendor-completions" "$usr/share/fish/vendor_completions.d"
cp "$program" "$usr/bin/wringer"
cp "$manual"/*.1 "$usr/share/man/man1/"
gzip -9n "$usr"/share/man/man1/*.1
cp "$manual/wringer.bash" "$usr/share/bash-completion/completions/wringer"
cp "$manual/_wringer" "$usr/share/zsh/vendor-completions/_wringer"
cp "$manual/wringer.fish" "$usr/share/fish/vendor_completions.d/wringer.fish"
cp -r README.md docs experiments "$doc/"
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
cat >"$doc/copyright" <<TEXT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/

Files: *
Copyright: the authors of Wringer
License: Apache-2.0
 On Debian systems, the full text of the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.
TEXT
cat >"$root/DEBIAN/control" <<TEXT
Package: wringer
Version: $version
Architecture: $debian
Maintainer: the authors of Wringer <wringer@localhost>
Installed-Size: $(du -sk "$usr" | cut -f1)
Suggests: fuse3, mariadb-server-core | postgresql, sysbench
Section: database
Priority: optional
Description: pressure lab for database servers
 Makes a host look smaller (less RAM) and slower (slower disk), runs a real database on it, drives it with a real load, says
 where the memory and the latency went, and puts everything back as it was.
TEXT
find "$usr" -type d -exec chmod 755 {} +
find "$usr" -type f -exec chmod 644 {} +
chmod 755 "$usr/bin/wringer"
(cd "$root" && find usr -type f | LC_ALL=C sort | xargs md5sum >DEBIAN/md5sums)
find "$root" -exec touch -h -d "@${SOURCE_DATE_EPOCH:-0}" {} +
dpkg-deb --root-owner-group -Zxz --build "$root" "$to/wringer_${version}_$debian.deb" >&2
