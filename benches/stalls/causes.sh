#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does `wringer stalls watch` name the cause of stalls that it was not told of?
#
#   benches/stalls/causes.sh [--servers "NAME..."] [--causes "NAME..."] [--connections "1 16"] [--count N] [--quick] [--seed N] [--json FILE]
#
# For each server (mariadb@10.11, mysql, postgresql, xtradb@5.6), each number of connections (1 and 16) and each cause that can be planted there: N
# injections (20) of 20 ms to 2 s by the seed, beside a load that comes for what is held, while a watch looks that knows nothing of them. With
# --quick: 5 of 50 to 400 ms, on one connection. A demand for free pages (free_list_backoff, on XtraDB) lasts 1 to 2 s: a shorter one ends before the list is empty.
# --causes names some of them.
# PG_WAIT_SAMPLING is the path of pg_wait_sampling.so for that PostgreSQL (Debian: postgresql-15-pg-wait-sampling): then this extension looks beside the
# watch, every 10 ms, and the wait event that it saw most often within an injection is taken for its answer. Without it, the peer is left out.
#
# Needs python3, and root for the slow layer's mount and the CPU cgroup; sandboxes of its own, in a folder that is removed.
#
# Exit code 1: of the injections that were felt, less than 90 % have their cause, or more than 2 % another one.
#
# What the columns mean:
#   felt      injections of which the witness says that they bit, and in which a statement of the load took 20 ms more than it usually does (slots
#             of 10 ms of the load's timeline)
#   right     the stall that lost most meanwhile has this cause
#   wrong     it has another one
#   unknown   it has none
#   missed    no stall was told meanwhile
#   peer      how many pg_wait_sampling names right
#   beside    stalls that were told while nothing was injected: what the machine, and the server by itself, did, with their causes in the JSON
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
servers="mariadb@10.11 mysql postgresql xtradb@5.6" causes="" connections="1 16" count=20 quick=no seed=1 json=$target/bench-stalls-causes.json
take_flags "servers causes connections count quick seed json" "$@"
if [ "$quick" != no ]; then connections=1 count=5; fi
need_program python3
need_wringer
need_root "a slow layer and a CPU cgroup"
own_sandboxes
python3 - "$wringer" "$servers" "$causes" "$connections" "$count" "$quick" "$seed" "$json" <<'PYTHON'
import json, os, signal, statistics, subprocess, sys, time

wringer, servers, causes, connections, count, quick, seed, result = sys.argv[1:]
count = int(count)
usual_length, usual_lasts = ("50ms..400ms", count) if quick != "no" else ("20ms..2s", 2 * count)
# of some causes: another length, and how long all injections take
LASTS = {"free_list_backoff": ("1s..2s", 3 * count)}
FEW, ALL, MANY = 100, 60000, 130000
SLOT_US, AFTER_US, LOST_US = 10_000, 60_000, 20_000
# what comes for it, over how many rows (None: the whole table, which is larger than the pool), and what else is asked of the injection
LOADS = {
    "row_lock": ("oltp_update_non_index", FEW, ["--rows", str(FEW)]),
    "metadata_lock": ("oltp_point_select", FEW, []),
    "disk_reads": ("oltp_point_select", None, []),
    "sync": ("oltp_update_non_index", FEW, []),
    "cpu": ("oltp_point_select", FEW, []),
    "free_list_backoff": ("oltp_point_select", None, []),
}
# XtraDB refuses backoff with a smaller pool; the table is larger than the pool
SERVERS = {"xtradb": (["innodb_buffer_pool_size=20M", "innodb_lru_scan_depth=128"], MANY), "postgresql": ([], ALL)}
OTHERS = (["innodb_buffer_pool_size=6M"], ALL)

def table_of(server):
    return SERVERS.get(server.split("@")[0], OTHERS)


def planted(cause, server):
    if cause == "free_list_backoff":
        return "xtradb" in server
    # the pages of PostgreSQL are in the kernel's cache, and no read comes to the disk
    return cause != "disk_reads" or "postgresql" not in server


def run(*words, **more):
    return subprocess.run([wringer, *words], check=True, capture_output=True, text=True, **more).stdout


def start(*words, **more):
    return subprocess.Popen([wringer, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **more)


def overlap(one, other):
    return min(one[1], other[1]) - max(one[0], other[0])


def span(it):
    begin = it["started_us"] or 0
    return begin, begin + (it["length_us"] or 0)


def tried(environment, server, cause, threads):
    workload, rows, more = LOADS[cause]
    length, lasts = LASTS.get(cause, (usual_length, usual_lasts))
    # of XtraDB, fewer pages are asked for than it makes free each second: without an injection nobody waits for one
    rate = ["--rate=50"] if rows is None and "xtradb" in server else []
    rows = rows or table_of(server)[1]
    load = start("load", workload, f"--threads={threads}", f"--time={lasts + 12}", f"--table-size={rows}", f"--rand-seed={seed}", "--timeline-interval=10ms", *rate, "-o", "json", env=environment)
    watch = start("stalls", "watch", "--sandbox", "s", "--min=20ms", "--interval=5ms", "-o", "json")
    time.sleep(1.5)
    plan = ["--plan", "random", "--seed", seed, "--count", str(count), "--length", length, "--for", f"{lasts}s"]
    injections = json.loads(run("stalls", "inject", "--sandbox", "s", *plan, "--causes", cause, "-o", "json", *more))["injections"]
    time.sleep(1)
    watch.send_signal(signal.SIGINT)
    said, loaded = watch.communicate()[0], json.loads(load.communicate()[0])
    stalls = [it for it in map(json.loads, said.splitlines()) if it.get("kind") == "stall"]
    zero_us = loaded["started_unix_us"]
    slots = [(zero_us + it["at_us"], it["max_us"]) for it in loaded["load"]["measured"]["timeline"]]
    return injections, stalls, slots


PEER = os.environ.get("PG_WAIT_SAMPLING")
# wait events of PostgreSQL (wait_event_names.txt) by cause
PEERS = {
    "row_lock": {("Lock", "transactionid"), ("Lock", "tuple")},
    "metadata_lock": {("Lock", "relation"), ("Lock", "virtualxid"), ("Lock", "object")},
    "sync": {("IO", "WALSync"), ("IO", "WALWrite"), ("LWLock", "WALWrite"), ("IO", "DataFileSync")},
    "disk_reads": {("IO", "DataFileRead")},
}


def psql(sql):
    return run("sandbox", "use", "s", sql)


def make_peer():
    columns = "OUT pid int4, OUT ts timestamptz, OUT event_type text, OUT event text, OUT queryid int8"
    psql(f"CREATE OR REPLACE FUNCTION peer_history({columns}) RETURNS SETOF record AS '{PEER}', 'pg_wait_sampling_get_history' LANGUAGE C VOLATILE STRICT")


def peer_history():
    """When, event type and event of each sample that says that somebody waited for something but a client or work."""
    sql = "SELECT (extract(epoch FROM ts) * 1e6)::bigint || ' ' || event_type || ' ' || event FROM peer_history() WHERE event_type NOT IN ('Activity', 'Client')"
    rows = (line.split() for line in psql(sql).replace("|", " ").splitlines())
    return [(int(row[0]), (row[1], row[2])) for row in rows if len(row) == 3 and row[0].isdigit()]


def peer_names(history, begin, end):
    seen = {}
    for at, event in history:
        if begin <= at <= end:
            seen[event] = seen.get(event, 0) + 1
    most = max(seen, key=seen.get, default=None)
    return next((cause for cause, events in PEERS.items() if most in events), None)


def judged(server, cause, threads):
    injections, stalls, slots = tried(environment, server, cause, threads)
    history = peer_history() if has_peer else []
    usual = statistics.median(most for _, most in slots)
    found, taken = [], set()
    for it in injections:
        begin, end = span(it)
        longest = max((most for at, most in slots if begin - SLOT_US < at <= end + AFTER_US), default=0)
        if it["bit"] is not True or longest < usual + LOST_US:
            continue
        near = [stall for stall in stalls if overlap(span(stall), (begin, end + AFTER_US)) > 0]
        taken.update(id(stall) for stall in near)
        told = max(near, key=lambda stall: stall["lost_query_us"], default=None)
        named = told["cause"] if told else None
        verdict = "missed" if told is None else "right" if named == cause else "unknown" if named == "unknown" else "wrong"
        peer = peer_names(history, begin, end) if has_peer else None
        found.append({**it, "peer": peer, "longest_us": longest, "verdict": verdict, "told": told})
    number = lambda verdict: sum(it["verdict"] == verdict for it in found)
    beside = [stall for stall in stalls if id(stall) not in taken]
    return {
        "server": server, "connections": threads, "cause": cause, "planned": count, "felt": len(found), "right": number("right"), "wrong": number("wrong"),
        "unknown": number("unknown"), "missed": number("missed"),
        "peer": sum(it["peer"] == cause for it in found) if has_peer else None, "beside": beside, "injections": found,
    }


rows = []
print(f"{'server':<16} {'conn.':>5} {'cause':<17} {'felt':>5} {'right':>6} {'wrong':>6} {'unknown':>8} {'missed':>7} {'peer':>5} {'beside':>7}")
for server in servers.split():
    options, rows_of_table = table_of(server)
    pool = [word for option in options for word in ("-c", option)]
    has_peer = bool(PEER) and "postgresql" in server
    folder = os.path.dirname(PEER or "")
    sampled = ["shared_preload_libraries=pg_wait_sampling", f"dynamic_library_path={folder}:$libdir", "pg_wait_sampling.history_size=400000", "pg_wait_sampling.history_period=10"]
    peer = [word for option in sampled for word in ("-c", option)] if has_peer else []
    run("sandbox", "deploy", server, "--name", "s", *pool, *peer)
    run("sandbox", "start", "s", "--disk", "read=0", "--cpus", str(len(os.sched_getaffinity(0))))
    environment = {**os.environ, "WRINGER_DSN": run("sandbox", "export", "s", "dsn").strip()}
    run("fill", f"--table-size={rows_of_table}", env=environment)
    if has_peer:
        make_peer()
    for threads in connections.split():
        for cause in LOADS:
            if not planted(cause, server) or causes and cause not in causes.split():
                continue
            row = judged(server, cause, threads)
            rows.append(row)
            numbers = " ".join(f"{row[key]:>{width}}" for key, width in (("felt", 5), ("right", 6), ("wrong", 6), ("unknown", 8), ("missed", 7)))
            peer = "-" if row["peer"] is None else row["peer"]
            print(f"{server:<16} {threads:>5} {cause:<17} {numbers} {peer:>5} {len(row['beside']):>7}", flush=True)
    run("sandbox", "delete", "s", "--force")
with open(result, "w") as file:
    json.dump({"schema": 1, "seed": int(seed), "rows": rows}, file, indent=1)
felt, right, wrong = (sum(row[key] for row in rows) for key in ("felt", "right", "wrong"))
print(f"{right} of {felt} right, {wrong} wrong; {result}")
sys.exit(0 if felt > 0 and right >= 0.9 * felt and wrong <= 0.02 * felt else 1)
PYTHON
