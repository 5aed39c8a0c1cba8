#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All comparisons with other tools, one after the other: `make bench`. Each prints ratios to another tool that was measured in the same run, so that
# the machine's own speed cancels out. Needs a quiet machine: wide intervals mean that it was not quiet.
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
