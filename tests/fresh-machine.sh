#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Proves the README's two commands on a fresh Debian: makes a minimal root with nothing but make, a C compiler and this
# machine's Rust, clones the project into it, and runs `make demo`, `make test` or `make test-recipes` there.
# usage: sudo tests/fresh-machine.sh demo|test|test-recipes root|user [FOLDER]     (needs mmdebstrap; FOLDER is kept for the next time)
# With WRINGER_PROGRAM=PROGRAM, `test-recipes` takes this static program instead of building one.
# Mounts live in a mount namespace of this script's own, and go with it.
set -euo pipefail

goal=${1:?demo, test or test-recipes} who=${2:?root or user} folder=${3:-/var/tmp/wringer-fresh}
here=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" -eq 0 ] || { echo "error: making a Debian root needs root" >&2; exit 3; }
if [ "${WRINGER_FRESH_INSIDE:-}" != 1 ]; then
    # A file of ours that is open inside leads there through a mount that is gone: nobody can say that it is not in a server's folder, and
    # Wringer takes it for a user of it. So nothing of this script's is open inside but two pipes.
    WRINGER_FRESH_INSIDE=1 unshare --mount --pid --fork --kill-child bash -c '
        for file in /proc/$$/fd/*; do file=${file##*/}; [ "$file" -le 2 ] || eval "exec $file>&-"; done
        exec "$@"' - "$0" "$goal" "$who" "$folder" </dev/null 2>&1 | cat
    exit
fi
mount --make-rprivate /

if [ ! -e "$folder/ready" ]; then
    command -v mmdebstrap >/dev/null || { echo "error: mmdebstrap is not on this machine" >&2; exit 3; }
    rm -rf --one-file-system "$folder"
    # the machine's own configured Debian source
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | sort -u | head -1)
    suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
    mmdebstrap --quiet --variant=minbase --include=make,gcc,libc6-dev,git,ca-certificates "$suite" "$folder" "$mirror"
    mkdir -p "$folder/opt/rust"
    cp -a "$(rustc --print sysroot)"/{bin,lib} "$folder/opt/rust/"
    useradd --root "$folder" --create-home tester
    : >"$folder/ready"
fi

mount --bind "$folder" "$folder"
cp /etc/resolv.conf "$folder/etc/resolv.conf"
# whom this machine trusts: it may reach the registries through a proxy of its own
cp -L /etc/ssl/certs/ca-certificates.crt "$folder/etc/ssl/certs/"
[ -e /etc/apt/apt.conf ] && cp /etc/apt/apt.conf "$folder/etc/apt/"
mount -t proc proc "$folder/proc"
mount --rbind /sys "$folder/sys"
# devices as udev makes them on a Debian machine: /dev/fuse is open to everybody
mount -t tmpfs -o mode=0755 dev "$folder/dev"
for node in null:1:3:666 zero:1:5:666 full:1:7:666 random:1:8:666 urandom:1:9:666 tty:5:0:666 fuse:10:229:666; do
    IFS=: read -r name major minor mode <<<"$node"
    mknod -m "$mode" "$folder/dev/$name" c "$major" "$minor"
done
ln -s /proc/self/fd "$folder/dev/fd"; ln -s fd/0 "$folder/dev/stdin"; ln -s fd/1 "$folder/dev/stdout"; ln -s fd/2 "$folder/dev/stderr"
mkdir "$folder/dev/shm" && mount -t tmpfs -o mode=1777 shm "$folder/dev/shm"

home=/root; [ "$who" = user ] && home=/home/tester
rm -rf --one-file-system "${folder:?}$home/wringer"
git clone -q "$here" "$folder$home/wringer"
[ "$who" = user ] && chown -R --no-dereference "$(stat -c %u:%g "$folder/home/tester")" "$folder$home/wringer"
if [ -n "${WRINGER_PROGRAM:-}" ]; then
    install -m 755 "$WRINGER_PROGRAM" "$folder/opt/wringer"
    WRINGER_PROGRAM=/opt/wringer
fi

# A root of its own, not a chroot: the kernel lets nobody make user namespaces inside a chroot.
mkdir -p "$folder/.outside"
cd "$folder"
pivot_root . .outside
cd /
/usr/bin/umount -l /.outside

run="cd $home/wringer && time make $goal"
echo "== make $goal as $who in a Debian root of $(dpkg -l | grep -c ^ii) packages"
environment=(HOME="$home" PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin CI=true CARGO_TERM_COLOR=never ${WRINGER_PROGRAM:+WRINGER_PROGRAM="$WRINGER_PROGRAM"})
if [ "$who" = user ]; then
    exec /usr/bin/env -i "${environment[@]}" setpriv --reuid=tester --regid=tester --init-groups bash -c "$run"
fi
exec /usr/bin/env -i "${environment[@]}" bash -c "$run"
