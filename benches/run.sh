#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All measurements against the peers, one after the other: `make bench`. Each prints ratios against a peer of the same run, so that
# the machine's own speed cancels out. Wants a quiet machine: wide intervals mean that it was not.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    for peer in sysbench fio; do
        command -v "$peer" >/dev/null || apt-get install -y -q --no-install-recommends "$peer" >&2
    done
fi
status=0
for bench in load/run load/fill servers/run squeeze/run squeeze/profiles squeeze/disks squeeze/devices squeeze/ram; do
    echo "== benches/$bench.sh"
    "benches/$bench.sh" || { echo "benches/$bench.sh did not finish" >&2; status=1; }
done
exit $status
