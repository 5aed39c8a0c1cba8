#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What does `wringer stalls watch` cost the server that it watches? Point selects on 1, 16 and 64 connections, with a watch beside them and without, in turn.
#
#   benches/stalls/cost.sh [--connections "1 16 64"] [--tiers "default deep"] [--server NAME] [--slice SECONDS] [--pairs N] [--limit PERCENT] [--quick]
#                          [--seed N] [--json FILE]
#
# One load goes on, on the same connections. Beside it, in turn, a slice of time with a watch and one without, in the order with, without, without, with.
# A load has four such pairs (30 s with slices of 3 s), and is started again until the interval of the ratio is narrower than the limit to either side
# (1 %), or N pairs (40) are done. The queries are those of the load's own timeline, of 100 ms each, which lie in a slice as a whole; a slice with a
# watch goes from the start of its process to its end, so that its beginning counts. All data lies in the buffer pool.
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
python3 - "$wringer" "$connections" "$tiers" "$slice" "$pairs" "$limit" "$seed" "$json" "$server" <<'PYTHON'
import json, math, os, statistics, subprocess, sys, time

wringer, connections, tiers, slice_s, most, limit, seed, result, server = sys.argv[1:]
slice_s, most, limit, seed = float(slice_s), int(most), float(limit) / 100, int(seed)
STUDENT = [0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09]
FLAGS = {"default": [], "deep": ["--deep"]}
AIM = {"default": 0.01, "deep": 0.05}
PAIRS_OF_A_LOAD = 4


def watch(tier):
    args = [wringer, "--quiet", "stalls", "watch", "--sandbox", "s", f"--for={slice_s}s", "-o", "json", *FLAGS[tier]]
    ran = subprocess.run(args, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stderr)
    return json.loads(ran.stdout.splitlines()[-1])


def throughput(slots, begin_us, end_us):
    """Queries a second in the slots that lie between both as a whole."""
    inside = [it for it in slots if it[0] >= begin_us and it[0] + it[1] <= end_us]
    return sum(it[2] for it in inside) * 1e6 / max(1, sum(it[1] for it in inside))


def load(tier, count, nth):
    """The (with, without) of each pair, and the summaries of the watches."""
    turns = [True, False, False, True] * (PAIRS_OF_A_LOAD // 2)
    lasts = (slice_s + 0.6) * len(turns) + 2  # a watch takes some 100 ms to begin and to end
    args = [wringer, "--quiet", "load", "oltp_point_select", "--sandbox", "s", "--table-size=100000", f"--threads={count}", f"--time={lasts:.1f}"]
    process = subprocess.Popen([*args, f"--rand-seed={seed + nth}", "-o", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.2)
    slices, said = [], []
    for with_watch in turns:
        begin = time.time()
        if with_watch:
            said.append(watch(tier))
        else:
            time.sleep(slice_s + 0.1)
        slices.append((with_watch, begin * 1e6, time.time() * 1e6))
    until = time.time()
    out, error = process.communicate()
    if process.returncode != 0:
        sys.exit(error)
    told = json.loads(out)
    measured, zero = told["load"]["measured"], told["started_unix_us"]
    if zero + measured["started_us"] + measured["elapsed_us"] < until * 1e6:
        sys.exit("the load ended before the last slice did: the machine is too busy for slices so short")
    slots = [(zero + it["at_us"], it["length_us"], it["queries"]) for it in measured["timeline"]]
    rates = [(with_watch, throughput(slots, begin, end)) for with_watch, begin, end in slices]
    pairs = []
    for first, second in zip(rates[::2], rates[1::2]):
        pair = dict((first, second))
        pairs.append((pair[True], pair[False]))
    return pairs, said


def interval(pairs):
    logs = [math.log(with_watch / without) for with_watch, without in pairs]
    mean, count = statistics.mean(logs), len(logs)
    half = (STUDENT[count - 1] if count <= len(STUDENT) else 2.0) * statistics.stdev(logs) / math.sqrt(count)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


rows, bad, began = [], False, os.getloadavg()
for tier in tiers.split():
    for count in map(int, connections.split()):
        pairs, said, nth = [], [], 0
        while True:
            more, told = load(tier, count, nth)
            pairs, said, nth = pairs + more, said + told, nth + 1
            ratio, low, high = interval(pairs)
            if high - ratio < limit and ratio - low < limit or len(pairs) >= most:
                break
        costs = [it["cost"] for it in said]
        share = statistics.median(it["cpu_share"] for it in costs)
        look = statistics.median(it["interval_p50_us"] for it in costs)
        late = sum(it["sweeps_late"] for it in costs) / max(1, sum(it["sweeps"] for it in costs))
        aim = AIM[tier]
        surely, cpu_missed = high < 1 - aim, share > aim
        bad |= surely or cpu_missed
        narrow = high - ratio < limit and ratio - low < limit
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
