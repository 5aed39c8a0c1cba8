#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints Debian's name of a processor architecture as `uname -m` names it.
# usage: debian-architecture.sh ARCH
case ${1:-} in
aarch64) echo arm64 ;;
x86_64) echo amd64 ;;
*)
    echo "error: which Debian architecture is '${1:-}'? Known here: aarch64, x86_64" >&2
    exit 2
    ;;
esac
