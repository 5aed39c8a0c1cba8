#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does a load see the stalls that `wringer stalls inject` makes, with the lengths that were asked for?
#
#   benches/stalls/inject.sh [--seed N] [--servers "NAME..."] [--quick] [--json FILE]
#
# For each server (mariadb@10.11 and postgresql) and each cause that it can have: a random plan by the seed, beside a load of one connection
# that comes for what is held. The length that was asked for is compared with the longest statement of the load that ended meanwhile, or within
# 60 ms after it (its timeline has slots of 10 ms). 20 injections of 20 ms to 2 s for each cause; with --quick 5 of 20 to 300 ms.
# Needs python3, and root for the slow layer's mount and the CPU cgroup; sandboxes of its own, in a folder that is removed.
#
# Exit code 1: of the injections that bit, the load did not see nine tenths within 10 % or 20 ms.
#
# What the columns mean:
#   planned   injections of the plan
#   bit       those of which the witness says so
#   right     those of which the load saw the length within 10 % or 20 ms
#   off       median difference of the load's length and that asked for, in milliseconds
#   longer    slots beside those in which a statement took more than 15 ms: what the machine, and the server by itself, added
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
seed=1 servers="mariadb@10.11 postgresql" quick=no json=$target/bench-stalls-inject.json
take_flags "seed servers quick json" "$@"
need_program python3
need_wringer
need_root "a slow layer and a CPU cgroup"
own_sandboxes
python3 - "$wringer" "$seed" "$quick" "$json" "$servers" <<'PYTHON'
import json, os, statistics, subprocess, sys, time

wringer, seed, quick, result, servers = sys.argv[1:]
count, shortest, longest, lasts = (5, "20ms", "300ms", 5) if quick == "yes" else (20, "20ms", "2s", 40)
ROWS, ALL_ROWS = 100, 60000
# of the load's timeline, and how long after its end a stall may still be seen
SLOT_US, AFTER_US = 10_000, 60_000
# what comes for it, over how many rows, and what else is asked of the injection
LOADS = {
    "row_lock": ("oltp_update_non_index", ROWS, ["--rows", str(ROWS)]),
    "metadata_lock": ("oltp_point_select", ROWS, []),
    "disk_reads": ("oltp_point_select", ALL_ROWS, []),
    "sync": ("oltp_update_non_index", ROWS, []),
    "cpu": ("oltp_point_select", ROWS, []),
}


def run(*words, **more):
    return subprocess.run([wringer, *words], check=True, capture_output=True, text=True, **more).stdout


def load_beside(environment, cause):
    workload, rows, more = LOADS[cause]
    words = [wringer, "load", workload, "--threads=1", f"--time={lasts + 4}", f"--table-size={rows}", f"--rand-seed={seed}", "--timeline-interval=10ms", "-o", "json"]
    load = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    time.sleep(1.5)
    plan = ["--plan", "random", "--seed", seed, "--count", str(count), "--length", f"{shortest}..{longest}", "--for", f"{lasts}s"]
    injected = json.loads(run("stalls", "inject", "--sandbox", "s", *plan, "--causes", cause, "-o", "json", *more))
    measured = json.loads(load.communicate()[0])
    zero_us = measured["started_unix_us"]
    slots = [(zero_us + it["at_us"], it["max_us"]) for it in measured["load"]["measured"]["timeline"]]
    return injected["injections"], slots


def judged(server, cause, injections, slots):
    """Each injection against the longest statement that ended from its beginning until a little after its end."""
    rest, seen = dict(slots), []
    for it in injections:
        began = it["started_us"] or 0
        inside = [at for at in rest if began - SLOT_US < at <= began + (it["length_us"] or 0) + AFTER_US]
        seen.append(max((rest.pop(at) for at in inside), default=0) / 1000)
    off = [abs(saw - it["asked_us"] / 1000) for saw, it in zip(seen, injections)]
    is_right = [difference <= max(20, it["asked_us"] / 10000) for difference, it in zip(off, injections)]
    return {
        "server": server, "cause": cause, "planned": count, "bit": sum(it["bit"] is True for it in injections), "right": sum(is_right),
        "off_ms": round(statistics.median(off), 1), "longer": sum(it > 15000 for it in rest.values()),
        "asked_ms": sum(it["asked_us"] / 1000 for it in injections), "seen_ms": sum(seen),
        "measured_ms": sum((it["length_us"] or 0) / 1000 for it in injections),
        "injections": [{**it, "seen_ms": saw} for it, saw in zip(injections, seen)],
    }


rows = []
print(f"{'server':<16} {'cause':<14} {'planned':>8} {'bit':>5} {'right':>6} {'off':>7} {'longer':>7}")
for server in servers.split():
    pool = ["-c", "innodb_buffer_pool_size=6M"] if "postgresql" not in server else []
    run("sandbox", "deploy", *server.split(), "--name", "s", *pool)
    run("sandbox", "start", "s", "--disk", "read=0", "--cpus", str(len(os.sched_getaffinity(0))))
    environment = {**os.environ, "WRINGER_DSN": run("sandbox", "export", "s", "dsn").strip()}
    run("fill", f"--table-size={ALL_ROWS}", env=environment)
    for cause in LOADS:
        if cause == "disk_reads" and "postgresql" in server:
            print(f"{server:<16} {cause:<14} left out: its pages are in the kernel's cache, and no read comes to the disk")
            continue
        row = judged(server, cause, *load_beside(environment, cause))
        rows.append(row)
        print(f"{server:<16} {cause:<14} {row['planned']:>8} {row['bit']:>5} {row['right']:>6} {row['off_ms']:>7} {row['longer']:>7}", flush=True)
    run("sandbox", "delete", "s", "--force")
with open(result, "w") as file:
    json.dump({"schema": 1, "seed": int(seed), "rows": rows}, file, indent=1)
bit, right = (sum(row[key] for row in rows) for key in ("bit", "right"))
print(f"{right} of {bit} that bit, of {count * len(rows)}; {result}")
sys.exit(0 if right >= 0.9 * bit and bit > 0 else 1)
PYTHON
