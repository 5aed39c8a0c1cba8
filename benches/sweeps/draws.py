# SPDX-License-Identifier: Apache-2.0
"""Random draws of repeats, and three verdicts on each: Wringer's, ministat's, and the one that took a run's slots for repeats.

draws.py --wringer PROGRAM --same A... --planted B... --across CONDITION --blocks N --draws N --seed N
Each of A and B is a run's folder, and its name has the number of its block: same-007-1, same-007-2, quota-007. Prints one JSON object. Blocks are
drawn, and each gives a cell to each side. Of --same alone, both cells are from it, and every difference that is shown is wrong; with --planted, the
second one is from there, and a loss that is shown is right: CONDITION is then what was planted, and may differ.
"""

import argparse, json, math, os, random, subprocess, sys, tempfile

BATCHES, LONGEST_BATCH_US, FEWEST_BATCHES, DEVIATIONS = 10, 1_000_000, 5, 2.8


def measured(folder):
    with open(os.path.join(folder, "result.json")) as file:
        return json.load(file)["arms"][0]["load"]["measured"]


def rate(phase):
    return phase["transactions"] / (phase["elapsed_us"] / 1e6)


def error_of_slots(phase):
    """Standard error of the throughput over its mean, from batches of the timeline, as Wringer had it before runs were its repeats."""
    slots = phase["timeline"]
    slot_us = max(slots[0]["length_us"], 1)
    batch_us = min(slot_us * len(slots) // BATCHES, LONGEST_BATCH_US)
    each = max(batch_us // slot_us, 1)
    sums = [sum(slot["transactions"] for slot in slots[at:at + each]) for at in range(0, len(slots) - each + 1, each)]
    if len(sums) < FEWEST_BATCHES:
        return None
    mean = sum(sums) / len(sums)
    variance = sum((batch - mean) ** 2 for batch in sums) / (len(sums) - 1)
    return math.sqrt(variance / len(sums)) / mean


def by_slots(a, b):
    """The first run of each side, as two arms of one run."""
    errors = error_of_slots(a), error_of_slots(b)
    if None in errors:
        return None
    ratio = rate(b) / rate(a)
    if abs(ratio - 1) <= DEVIATIONS * math.hypot(*errors) * ratio:
        return "none"
    return "lower" if ratio < 1 else "higher"


def by_ministat(a, b):
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, side in (("a", a), ("b", b)):
            paths.append(os.path.join(folder, name))
            with open(paths[-1], "w") as file:
                file.write("".join(f"{value:.6f}\n" for value in side))
        said = subprocess.run(["ministat", "-q", "-n", *paths], capture_output=True, text=True).stdout
        said += subprocess.run(["ministat", *paths], capture_output=True, text=True).stdout
    if "Difference at 95.0% confidence" not in said:
        return "none"
    return "lower" if sum(b) / len(b) < sum(a) / len(a) else "higher"


def by_wringer(program, a, b, flags):
    """The verdict on the throughput, whether any figure has one, and the smallest ratio that would have been shown."""
    command = [program, "compare", "--a", *a, "--b", *b, *flags, "-o", "json"]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"draws.py: {' '.join(command)}: {ran.stderr}")
    told = json.loads(ran.stdout)
    if told["verdict"] != "compared":
        sys.exit(f"draws.py: not comparable: {told['not_comparable']}")
    figures = told["comparisons"][0]["figures"]
    shown = [figure["name"] for figure in figures if figure["verdict"] in ("lower", "higher")]
    throughput = next(figure for figure in figures if figure["name"] == "throughput")
    verdict = throughput["verdict"] if throughput["verdict"] in ("lower", "higher") else "none"
    return verdict, bool(shown), throughput.get("detectable_ratio")


def by_block(folders):
    """The folders of each block, by its number."""
    blocks = {}
    for folder in folders:
        name = os.path.basename(folder.rstrip("/"))
        blocks.setdefault(name.split("-")[1], []).append(folder)
    return blocks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wringer", required=True)
    parser.add_argument("--same", nargs="+", required=True)
    parser.add_argument("--planted", nargs="*", default=[])
    parser.add_argument("--across", default=None)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    phases = {folder: measured(folder) for folder in args.same + args.planted}
    counts = {name: {"lower": 0, "higher": 0, "none": 0} for name in ("wringer", "ministat", "slots")}
    any_figure, detectable, untold = 0, [], 0
    same, planted = by_block(args.same), by_block(args.planted)
    blocks = sorted(block for block in same if block in planted or (not planted and len(same[block]) > 1))
    flags = ["--paired"] + (["--across", args.across] if args.across else [])
    for _ in range(args.draws):
        drawn = draw.sample(blocks, args.blocks)
        if planted:
            pairs = [(draw.choice(same[block]), draw.choice(planted[block])) for block in drawn]
        else:
            pairs = [draw.sample(same[block], 2) for block in drawn]
        a, b = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        verdict, is_any, ratio = by_wringer(args.wringer, a, b, flags)
        counts["wringer"][verdict] += 1
        any_figure += is_any
        if ratio:
            detectable.append(ratio)
        counts["ministat"][by_ministat(*([rate(phases[folder]) for folder in side] for side in (a, b)))] += 1
        of_slots = by_slots(phases[a[0]], phases[b[0]])
        if of_slots is None:
            untold += 1
        else:
            counts["slots"][of_slots] += 1
    rates = [rate(phases[folder]) for folder in args.same]
    mean = sum(rates) / len(rates)
    spread = math.sqrt(sum((one - mean) ** 2 for one in rates) / max(len(rates) - 1, 1)) / mean
    detectable.sort()
    told = {
        "cells": len(args.same), "planted_cells": len(args.planted), "blocks": args.blocks, "draws": args.draws, "seed": args.seed,
        "transactions_per_second": mean, "spread_ratio": spread, "verdicts": counts, "any_figure_shown": any_figure,
        "slots_untold": untold, "detectable_ratio_median": detectable[len(detectable) // 2] if detectable else None,
    }
    if args.planted:
        told["planted_ratio"] = sum(rate(phases[folder]) for folder in args.planted) / len(args.planted) / mean
    print(json.dumps(told))


main()
