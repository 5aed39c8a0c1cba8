#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does `wringer stalls watch` tell stalls where there are none, or call them waits for a free page where no such wait was?
#
#   benches/stalls/decoys.sh [--servers "NAME..."] [--seconds N] [--quiet-seconds N] [--quick] [--seed N] [--json FILE]
#
# Each server (mysql, mariadb@10.11) is watched three times, N seconds each (60; the first time 600):
#   quiet      50 connections that ask for one row a second, all together
#   decoys     the same, and beside it SLEEP, GET_LOCK that somebody else has, and scans of a table that is three times as large as the pool
#   updaters   16 connections that change rows of that table as fast as they can: on MariaDB, wait_free rises by thousands then
# Then waits for a free page that no read or hardly a counter shows, which are to be found: XtraDB (--hidden xtradb@5.6; none: left out; only as root), N seconds each.
#   compressed 4 connections read a compressed table under backoff: its pages lie in the pool, and what is empty is the list of frames to unpack them in. No page is read
#   batch      16 connections change rows under legacy on a disk that writes slowly: who finds the list empty waits for the LRU batch that runs, which no counter
#              counts, or writes a page out itself
# What happened there is known from a second watch, whose probes see each call of the function that waits (`--probes`, which events.sh compares with bpftrace).
# --quick: 60 and 20 seconds. Needs python3; sandboxes of its own, in a folder that is removed.
#
# Exit code 1: a cause free_list_* was named where there was no such wait, or more than one stall was told in the quiet time, or less than 95 % of the hidden waits of 100 ms
# and more were found (of 5 or more). With --quick on a busy machine the second says little: what takes a CPU from the server for 50 ms is a stall.
#
# What the columns mean:
#   wait_free   by how much Innodb_buffer_pool_wait_free rose meanwhile
#   stalls      those that were told, and by cause
#   lost        query time that they cost, in seconds
#   true        hidden waits of 100 ms and more that the probes saw; found: those of which a watch without probes told half, as free_list_*
#   reads       pages read from the disk meanwhile
#   own work    time that statements had asked to wait, or worked (SLEEP, GET_LOCK, scans): it is in no stall
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
servers="mysql mariadb@10.11" hidden=xtradb@5.6 seconds=60 quiet_seconds=600 quick=no seed=1 json=$target/bench-stalls-decoys.json
take_flags "servers hidden seconds quiet_seconds quick seed json" "$@"
if [ "$quick" != no ]; then seconds=20 quiet_seconds=60; fi
need_program python3
need_wringer
own_sandboxes
python3 - "$wringer" "$servers" "$hidden" "$seconds" "$quiet_seconds" "$seed" "$json" <<'PYTHON'
import json, os, re, subprocess, sys, threading, time

wringer, servers, hidden, seconds, quiet_seconds, seed, result = sys.argv[1:]
ROWS = 250_000
SCAN = "SELECT SUM(CRC32(c)) FROM sbtest1"
HOLD = "SELECT GET_LOCK('decoy', 5); DO SLEEP(3)"
WAIT = "SELECT GET_LOCK('decoy', 2)"
SLEEP = "DO SLEEP(1.5)"


def run(*words, **more):
    return subprocess.run([wringer, *words], check=True, capture_output=True, text=True, **more).stdout


def load(environment, *words):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([wringer, "load", *words, f"--table-size={ROWS}", f"--rand-seed={seed}"], env=environment, **quiet)


def again(sql, stop):
    """One connection after another asks for it, until all is to end."""
    while not stop.is_set():
        for one in sql.split("; "):
            subprocess.run([wringer, "sandbox", "use", "s", one], capture_output=True)


def watched(environment, mode, lasts):
    loads, decoys, stop = [], [], threading.Event()
    if mode == "updaters":
        loads.append(load(environment, "oltp_update_non_index", "--threads=16", f"--time={lasts + 6}"))
    else:
        loads.append(load(environment, "oltp_point_select", "--threads=50", "--rate=1", f"--time={lasts + 6}"))
    if mode == "decoys":
        decoys = [threading.Thread(target=again, args=(sql, stop)) for sql in (SLEEP, HOLD, WAIT, SCAN)]
        [decoy.start() for decoy in decoys]
    time.sleep(2)
    said = run("stalls", "watch", "--sandbox", "s", f"--for={lasts}s", "-o", "json")
    stop.set()
    [decoy.join() for decoy in decoys]
    [it.wait() for it in loads]
    return json.loads(said.splitlines()[-1])


rows = []
print(f"{'server':<16} {'mode':<9} {'seconds':>8} {'wait_free':>10} {'stalls':>7} {'lost':>8} {'own work':>9}  by cause")
for server in servers.split():
    run("sandbox", "deploy", server, "--name", "s", "-c", "innodb_buffer_pool_size=20M", "--start")
    environment = {**os.environ, "WRINGER_DSN": run("sandbox", "export", "s", "dsn").strip()}
    run("fill", f"--table-size={ROWS}", env=environment)
    for mode in ("quiet", "decoys", "updaters"):
        lasts = int(quiet_seconds if mode == "quiet" else seconds)
        found = watched(environment, mode, lasts)
        account = found["account"]
        causes = {name: it["stalls"] for name, it in account["by_cause"].items()}
        row = {
            "server": server, "mode": mode, "seconds": lasts, "wait_free": account["wait_free"], "stalls": sum(causes.values()), "causes": causes,
            "lost_query_us": account["lost_query_us"], "own_work_query_us": account["own_work_query_us"], "all": found["stalls"],
        }
        rows.append(row)
        shown = ", ".join(f"{count} {name}" for name, count in causes.items()) or "-"
        print(f"{server:<16} {mode:<9} {lasts:>8} {row['wait_free'] or 0:>10} {row['stalls']:>7} {row['lost_query_us'] / 1e6:>8.2f} {row['own_work_query_us'] / 1e6:>9.1f}  {shown}", flush=True)
    run("sandbox", "delete", "s", "--force")


def status(name):
    said = run("sandbox", "use", "s", f"SHOW GLOBAL STATUS LIKE '{name}'")
    return int(re.search(rf"^{name}\W+(\d+)", said, re.MULTILINE)[1])


HIDDEN = {
    "compressed": ("backoff", "read=0", ["oltp_point_select", "--threads=4", "--rand-type=uniform"]),
    "batch": ("legacy", "write=4ms", ["oltp_update_non_index", "--threads=16", "--rand-type=uniform"]),
}
LEAST_US = 100_000


def victims(said, cause):
    """By thread: from and to of each wait for a free page."""
    stalls = (json.loads(line) for line in said.splitlines())
    those = [it for it in stalls if it.get("kind") == "stall" and it["cause"].startswith(cause)]
    return [(it["thread"], it["started_us"], it["started_us"] + it["length_us"]) for stall in those for it in stall["victims"]]


def searched(mode, lasts):
    algorithm, disk, words = HIDDEN[mode]
    options = ["innodb_buffer_pool_size=24M", "innodb_lru_scan_depth=128", f"innodb_empty_free_list_algorithm={algorithm}", "innodb_file_format=Barracuda", "innodb_file_per_table=ON"]
    run("sandbox", "deploy", hidden, "--name", "s", *(word for option in options for word in ("-c", option)))
    run("sandbox", "start", "s", "--disk", "read=0")
    environment = {**os.environ, "WRINGER_DSN": run("sandbox", "export", "s", "dsn").strip()}
    run("fill", f"--table-size={ROWS}", env=environment)
    if mode == "compressed":
        # in a quarter of its size it fits into the pool, beside few frames of full size
        run("sandbox", "use", "s", "ALTER TABLE sbtest1 ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=4")
    run("sandbox", "restart", "s", "--disk", disk)
    environment["WRINGER_DSN"] = run("sandbox", "export", "s", "dsn").strip()
    work = load(environment, *words, f"--time={lasts + 12}")
    time.sleep(8)
    reads, rose = status("Innodb_buffer_pool_reads"), status("Innodb_buffer_pool_wait_free")
    watch = [wringer, "stalls", "watch", "--sandbox", "s", f"--for={lasts}s", "-o", "json"]
    both = [subprocess.Popen([*watch, *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for more in ([], ["--probes", f"--min={LEAST_US // 1000}ms"])]
    said, probed = (it.communicate()[0] for it in both)
    if any('"kind":"summary"' not in it.replace(" ", "") for it in (said, probed)):
        sys.exit(f"{mode}: a watch failed: {[it.returncode for it in both]}")
    reads, rose = status("Innodb_buffer_pool_reads") - reads, status("Innodb_buffer_pool_wait_free") - rose
    work.wait()
    run("sandbox", "delete", "s", "--force")
    true = [it for it in victims(probed, "free_list_") if it[2] - it[1] >= LEAST_US]
    told = victims(said, "free_list_")
    half = lambda one, other: one[0] == other[0] and 2 * (min(one[2], other[2]) - max(one[1], other[1])) >= one[2] - one[1]
    found = sum(any(half(one, other) for other in told) for one in true)
    stalls = [it for it in map(json.loads, said.splitlines()) if it.get("kind") == "stall"]
    return {"server": hidden, "mode": mode, "seconds": lasts, "true": len(true), "found": found, "reads": reads, "wait_free": rose, "all": stalls}


searches = []
if hidden != "none" and os.geteuid() != 0:
    print("waits that nothing shows: left out, needs root for the probes")
elif hidden != "none":
    print(f"{'server':<16} {'mode':<11} {'seconds':>7} {'true':>6} {'found':>6} {'reads':>8} {'wait_free':>10}")
    for mode in HIDDEN:
        row = searched(mode, int(seconds))
        searches.append(row)
        print(f"{row['server']:<16} {mode:<11} {row['seconds']:>7} {row['true']:>6} {row['found']:>6} {row['reads']:>8} {row['wait_free']:>10}", flush=True)
with open(result, "w") as file:
    json.dump({"schema": 1, "seed": int(seed), "rows": rows, "hidden": searches}, file, indent=1)
named = sum(count for row in rows for name, count in row["causes"].items() if name.startswith("free_list"))
most = max((row["stalls"] * 600 / max(600, row["seconds"]) for row in rows if row["mode"] == "quiet"), default=0)
print(f"{named} called waits for a free page (aim: 0); in the quiet time {most:.0f} stalls at most (aim: 1)")
is_found = True
for row in searches:
    is_judged, is_met = row["true"] >= 5, row["found"] >= 0.95 * row["true"]
    is_found &= is_met or not is_judged
    print(f"{row['mode']}: {row['found']} of {row['true']} found (aim: 95 %){'' if is_judged else ': too few to judge'}")
print(result)
sys.exit(0 if named == 0 and most <= 1 and is_found else 1)
PYTHON
