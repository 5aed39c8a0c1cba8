#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What does `wringer stalls watch` cost the server that it watches? Point selects on 1, 16 and 64 connections, with a watch beside them and without, in turn.
#
#   benches/stalls/cost.sh [--connections "1 16 64"] [--tiers "default deep"] [--server NAME] [--slice SECONDS] [--pairs N] [--limit PERCENT] [--quick]
#                          [--seed N] [--json FILE]
#
# One load goes on, on the same connections. Beside it, in turn, a slice of time with a watch and one without (benches/paired.py). A load has four such
# pairs (30 s with slices of 3 s), and is started again until the interval of the ratio is narrower than the limit to either side (1 %), or N pairs (40)
# are done. A slice with a watch goes from the start of its process to its end, so that its beginning counts. All data lies in the buffer pool.
# --quick: 8 pairs at most, slices of 2 s. Needs python3, and the server in the cache (mariadb). Needs no root; a sandbox of its own, which is deleted.
#
# Exit code 1: a watch took more of a CPU than its aim; or it surely cost more throughput than its aim: the whole interval is beyond it. An interval
# that is wider than the limit says that the machine was not quiet, or that more pairs are needed.
#
# What the columns mean:
#   ratio      queries a second with a watch by those without: geometric mean of the pairs, and Student's 95 % interval (aim: above 0.99; deep 0.95)
#   CPU        what the watch took of one CPU, median of its summaries' cost.cpu_share (aim: below 1 %; deep 5 %)
#   look       median from one look at the threads to the next, by cost.interval_p50_us; late: looks that came an interval late, of all
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
connections="1 16 64" tiers="default deep" server=mariadb slice=3 pairs=40 limit=1 quick=no seed=1 json=$target/bench-stalls-cost.json
take_flags "connections tiers server slice pairs limit quick seed json" "$@"
if [ "$quick" != no ]; then slice=2 pairs=8; fi
for tier in $tiers; do
    case $tier in default | deep) ;; *) usage ;; esac
done
need_program python3
need_wringer
own_sandboxes
trap 'exit 130' INT TERM HUP
"$wringer" --quiet sandbox deploy "$server" --name s --start -c innodb_buffer_pool_size=256M >/dev/null
"$wringer" --quiet fill --sandbox s --table-size=100000 --rand-seed="$seed" >/dev/null
PYTHONPATH=$here/benches python3 - "$wringer" "$connections" "$tiers" "$slice" "$pairs" "$limit" "$seed" "$json" "$server" <<'PYTHON'
import json, os, statistics, sys

from paired import beside_loads, interval, is_narrow

wringer, connections, tiers, slice_s, most, limit, seed, result, server = sys.argv[1:]
slice_s, most, limit, seed = float(slice_s), int(most), float(limit) / 100, int(seed)
FLAGS = {"default": [], "deep": ["--deep"]}
AIM = {"default": 0.01, "deep": 0.05}

rows, bad, began = [], False, os.getloadavg()
for tier in tiers.split():
    for count in map(int, connections.split()):
        watch = [wringer, "--quiet", "stalls", "watch", "--sandbox", "s", f"--for={slice_s}s", "-o", "json", *FLAGS[tier]]
        load = ["oltp_point_select", "--sandbox", "s", "--table-size=100000", f"--threads={count}"]
        pairs, printed = beside_loads(wringer, load, slice_s, watch, most, limit, seed)
        ratio, low, high = interval(pairs)
        said = [json.loads(it.splitlines()[-1]) for it in printed]
        costs = [it["cost"] for it in said]
        share = statistics.median(it["cpu_share"] for it in costs)
        look = statistics.median(it["interval_p50_us"] for it in costs)
        late = sum(it["sweeps_late"] for it in costs) / max(1, sum(it["sweeps"] for it in costs))
        aim = AIM[tier]
        surely, cpu_missed = high < 1 - aim, share > aim
        bad |= surely or cpu_missed
        narrow = is_narrow(pairs, limit)
        text = f"{tier:7} {count:3} connections  {statistics.median(it[1] for it in pairs):7.0f}/s  ratio {ratio:.4f} ({low:.4f} to {high:.4f}, {len(pairs)} pairs)"
        text += " MISS" if surely else "" if low > 1 - aim else " not decided"
        text += "" if narrow else f"; wider than {limit:.0%}"
        print(f"{text}  CPU {share:.2%}{' MISS' if cpu_missed else ''}  look {look / 1000:.1f} ms, late {late:.0%}", flush=True)
        rows.append({
            "tier": tier, "connections": count, "pairs": [{"with": it[0], "without": it[1]} for it in pairs], "ratio": ratio, "ratio_low": low, "ratio_high": high,
            "is_narrow": narrow, "cpu_share": share, "cpu_shares": [it["cpu_share"] for it in costs], "interval_p50_us": look, "late_share": late,
            "aim": aim, "throughput_missed": surely, "cpu_missed": cpu_missed,
        })
print(f"load average {began[0]:.1f} before and {os.getloadavg()[0]:.1f} after, {os.cpu_count()} CPUs")
about = {"schema": 1, "seed": seed, "server": server, "slice_s": slice_s, "limit": limit, "cpus": os.cpu_count(), "load_before": began[0], "load_after": os.getloadavg()[0]}
json.dump({**about, "rows": rows}, open(result, "w"), indent=1)
sys.exit(1 if bad else 0)
PYTHON
