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
# --quick: 60 and 20 seconds. Needs python3. Needs no root; sandboxes of its own, in a folder that is removed.
#
# Exit code 1: a cause free_list_* was named, or more than one stall was told in the quiet time. With --quick on a busy machine the second says
# little: what takes a CPU from the server for 50 ms is a stall.
#
# What the columns mean:
#   wait_free   by how much Innodb_buffer_pool_wait_free rose meanwhile
#   stalls      those that were told, and by cause
#   lost        query time that they cost, in seconds
#   own work    time that statements had asked to wait, or worked (SLEEP, GET_LOCK, scans): it is in no stall
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
servers="mysql mariadb@10.11" seconds=60 quiet_seconds=600 quick=no seed=1 json=$target/bench-stalls-decoys.json
take_flags "servers seconds quiet_seconds quick seed json" "$@"
if [ "$quick" != no ]; then seconds=20 quiet_seconds=60; fi
need_program python3
need_wringer
own_sandboxes
python3 - "$wringer" "$servers" "$seconds" "$quiet_seconds" "$seed" "$json" <<'PYTHON'
import json, os, subprocess, sys, threading, time

wringer, servers, seconds, quiet_seconds, seed, result = sys.argv[1:]
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
with open(result, "w") as file:
    json.dump({"schema": 1, "seed": int(seed), "rows": rows}, file, indent=1)
named = sum(count for row in rows for name, count in row["causes"].items() if name.startswith("free_list"))
most = max((row["stalls"] * 600 / max(600, row["seconds"]) for row in rows if row["mode"] == "quiet"), default=0)
print(f"{named} called waits for a free page; in the quiet time {most:.0f} stalls at most; {result}")
sys.exit(0 if named == 0 and most <= 1 else 1)
PYTHON
