# SPDX-License-Identifier: Apache-2.0
"""Pairs of measurements that were taken in turn: their ratio with Student's 95 % interval, and what a command costs a load that goes on beside it.

Read by the benches (PYTHONPATH), and a program of its own for scripts:

    paired.py WRINGER SLICE_SECONDS PAIRS LIMIT SEED LOAD_ARGUMENTS... -- COMMAND...

prints the pairs and their ratio as JSON: queries a second of `wringer load LOAD_ARGUMENTS` with COMMAND beside it, and without.
"""
import json
import math
import statistics
import subprocess
import sys
import time

STUDENT = [0, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09]
PAIRS_OF_A_LOAD = 4


def interval(pairs):
    """Geometric mean of the first by the second of each pair, and the two ends of its 95 % interval."""
    logs = [math.log(first / second) for first, second in pairs]
    mean, count = statistics.mean(logs), len(logs)
    if count < 2:
        return math.exp(mean), 0.0, math.inf
    half = (STUDENT[count - 1] if count <= len(STUDENT) else 2.0) * statistics.stdev(logs) / math.sqrt(count)
    return math.exp(mean), math.exp(mean - half), math.exp(min(mean + half, 700))


def is_narrow(pairs, limit):
    ratio, low, high = interval(pairs)
    return high - ratio < limit and ratio - low < limit


def run(command):
    """The command's standard output; the program ends when the command fails."""
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stderr)
    return ran.stdout


def throughput(slots, begin_us, end_us):
    """Queries a second in the slots that lie between both as a whole."""
    inside = [it for it in slots if it[0] >= begin_us and it[0] + it[1] <= end_us]
    return sum(it[2] for it in inside) * 1e6 / max(1, sum(it[1] for it in inside))


def beside_one_load(wringer, arguments, slice_s, command):
    """One load goes on, on the same connections. Beside it the command runs, for `slice_s`, and then it does not, in the order with, without, without,
    with. The queries are those of the load's own timeline, of 100 ms each. Returns the (with, without) of each pair, and what the commands printed."""
    turns = [True, False, False, True] * (PAIRS_OF_A_LOAD // 2)
    lasts = (slice_s + 0.6) * len(turns) + 2  # a command takes some 100 ms to begin and to end
    args = [wringer, "--quiet", "load", *arguments, f"--time={lasts:.1f}", "-o", "json"]
    process = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.2)
    slices, printed = [], []
    for is_with in turns:
        begin = time.time()
        if is_with:
            printed.append(run(command))
        else:
            time.sleep(slice_s + 0.1)
        slices.append((is_with, begin * 1e6, time.time() * 1e6))
    until = time.time()
    out, error = process.communicate()
    if process.returncode != 0:
        sys.exit(error)
    told = json.loads(out)
    measured, zero = told["load"]["measured"], told["started_unix_us"]
    if zero + measured["started_us"] + measured["elapsed_us"] < until * 1e6:
        sys.exit("the load ended before the last slice did: the machine is too busy for slices so short")
    slots = [(zero + it["at_us"], it["length_us"], it["queries"]) for it in measured["timeline"]]
    rates = [(is_with, throughput(slots, begin, end)) for is_with, begin, end in slices]
    pairs = []
    for first, second in zip(rates[::2], rates[1::2]):
        pair = dict((first, second))
        pairs.append((pair[True], pair[False]))
    return pairs, printed


def beside_loads(wringer, arguments, slice_s, command, most, limit, seed):
    """Loads, until the interval of the ratio is narrower than the limit to either side, or `most` pairs are done."""
    pairs, printed, nth = [], [], 0
    while True:
        more, said = beside_one_load(wringer, [*arguments, f"--rand-seed={seed + nth}"], slice_s, command)
        pairs, printed, nth = pairs + more, printed + said, nth + 1
        if is_narrow(pairs, limit) or len(pairs) >= most:
            return pairs, printed


def main():
    wringer, slice_s, most, limit, seed, *rest = sys.argv[1:]
    at = rest.index("--")
    pairs, _ = beside_loads(wringer, rest[:at], float(slice_s), rest[at + 1:], int(most), float(limit), int(seed))
    ratio, low, high = interval(pairs)
    json.dump({
        "pairs": [{"with": it[0], "without": it[1]} for it in pairs], "ratio": ratio, "ratio_low": low, "ratio_high": high,
        "is_narrow": is_narrow(pairs, float(limit)),
    }, sys.stdout)


if __name__ == "__main__":
    main()
