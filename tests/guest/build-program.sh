#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the static program as it runs in the test guest, with crash points, and the programs of tests that lie beside it. Prints where it is.
set -eu
# cargo tells a test, and a program that it runs, about its package; a build that is told about another package does its work anew
for name in $(env | sed -n 's/^\(CARGO_\(PKG\|MANIFEST\)_[A-Z_]*\)=.*/\1/p'); do unset "$name"; done
exec "$(dirname "$0")/../build-static.sh" guest --package squeeze --package sandbox --features wringer/failpoints
