#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does `wringer stalls watch` name the cause of stalls that it was not told of?
#
#   benches/stalls/causes.sh [--servers "NAME..."] [--causes "NAME..."] [--connections "1 16"] [--count N] [--quick] [--seed N] [--json FILE]
#
# For each server (mariadb@10.11, mysql, postgresql, xtradb@5.6), each number of connections (1 and 16) and each cause that can be planted there: N
# injections (20) of 20 ms to 2 s by the seed, beside a load that comes for what is held, while a watch looks that knows nothing of them. With
# --quick: 5 of 50 to 400 ms, on one connection. A demand for free pages (free_list_backoff, on XtraDB) lasts 1 to 2 s: a shorter one ends before the list is empty.
# Two causes at once (row_lock+sync, row_lock+disk_reads): as many of each, one plan in which they overlap, and a load for each.
# --causes names some of them. Causes that cannot be planted are listed at the end, with the reason.
#
# Beside the watch, in the same run (peers.py):
#   sampler    one client over a pipe asks performance_schema every 10 ms; on PostgreSQL pg_stat_activity. It needs mysql or psql
#   pt-stalk   once a second, the least that it can, with a threshold on Threads_running (MySQL and its kind; package percona-toolkit)
#   extension  pg_wait_sampling every 10 ms, if PG_WAIT_SAMPLING is the path of pg_wait_sampling.so for that PostgreSQL (Debian: postgresql-15-pg-wait-sampling)
# A peer that is not there is left out. The server has performance_schema and all of its waits on in this run, for the peer's sake.
#
# Needs python3, and root for the slow layer's mount and the CPU cgroup; sandboxes of its own, in a folder that is removed.
#
# Exit code 1: of the injections that were felt, less than 90 % have their cause, or more than 2 % another one; or a peer named more of them.
#
# What the columns mean:
#   felt      injections of which the witness says that they bit, and in which a statement of the load took 20 ms more than it usually does (slots
#             of 10 ms of the load's timeline)
#   right     the stall that lost most meanwhile has this cause. Of two causes at once: some stall that shares half of the injection has it
#   wrong     it has another one. Of two causes at once: neither of the two
#   unknown   it has none
#   missed    no stall was told meanwhile
#   sampler, pt-stalk, extension: of how many this peer names the cause; -: it is not there. Wrong names are in the JSON
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
PYTHONPATH=$here/benches/stalls python3 - "$wringer" "$servers" "$causes" "$connections" "$count" "$quick" "$seed" "$json" <<'PYTHON'
import json, os, shutil, signal, statistics, subprocess, sys, tempfile, time

from peers import PtStalk, Sampler, of_events

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
# two at once: what the second load does for the second cause
PAIRS = {"row_lock+sync": "oltp_insert", "row_lock+disk_reads": "oltp_point_select"}
# XtraDB refuses backoff with a smaller pool; the table is larger than the pool
PEERS_TOO = ["performance_schema=ON"]
SERVERS = {"xtradb": (["innodb_buffer_pool_size=20M", "innodb_lru_scan_depth=128", *PEERS_TOO], MANY), "postgresql": ([], ALL)}
OTHERS = (["innodb_buffer_pool_size=6M", *PEERS_TOO], ALL)

def table_of(server):
    return SERVERS.get(server.split("@")[0], OTHERS)


def planted(cause, server):
    if cause == "free_list_backoff":
        return "xtradb" in server
    # the pages of PostgreSQL are in the kernel's cache, and no read comes to the disk
    return "disk_reads" not in cause or "postgresql" not in server


def run(*words, **more):
    return subprocess.run([wringer, *words], check=True, capture_output=True, text=True, **more).stdout


def start(*words, **more):
    return subprocess.Popen([wringer, *words], **{"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True, **more})


def overlap(one, other):
    return min(one[1], other[1]) - max(one[0], other[0])


def span(it):
    begin = it["started_us"] or 0
    return begin, begin + (it["length_us"] or 0)


def loaded_by(workload, rows, threads, lasts, server):
    # of XtraDB, fewer pages are asked for than it makes free each second: without an injection nobody waits for one
    rate = ["--rate=50"] if rows is None and "xtradb" in server else []
    rows = rows or table_of(server)[1]
    flags = [f"--threads={threads}", f"--time={lasts + 14}", f"--table-size={rows}", f"--rand-seed={seed}", "--timeline-interval=10ms", *rate, "-o", "json"]
    return start("load", workload, *flags, env=environment)


def tried(server, cause, threads):
    """What was injected, the stalls that were told, each load's slots, and the peers."""
    first, *second = cause.split("+")
    workload, rows, more = LOADS[first]
    length, lasts = LASTS.get(cause, (usual_length, usual_lasts))
    loads = [loaded_by(workload, rows, threads, lasts, server)]
    many = count
    if second:
        # as many of each, in about half of the time that they would need one after another
        more, many = ["--rows", str(FEW), "--overlap"], 2 * count
        loads.append(loaded_by(PAIRS[cause], None, threads, lasts, server))
    # a pipe that nobody reads meanwhile is full after 64 KiB, and the watch would wait
    told = tempfile.TemporaryFile("w+")
    watch = start("stalls", "watch", "--sandbox", "s", "--min=20ms", "--interval=5ms", "-o", "json", stdout=told)
    is_postgresql = "postgresql" in server
    peers = {}
    if shutil.which("psql" if is_postgresql else "mysql"):
        peers["sampler"] = Sampler(is_postgresql, environment["WRINGER_DSN"], exported)
    if not is_postgresql and shutil.which("pt-stalk"):
        stalked = os.path.join(os.environ["WRINGER_HOME"], f"pt-stalk-{time.time_ns()}")
        peers["pt_stalk"] = PtStalk(environment["WRINGER_DSN"], exported, threads * len(loads) + 1, stalked)
    time.sleep(1.5)
    plan = ["--plan", "random", "--seed", seed, "--count", str(many), "--length", length, "--for", f"{lasts}s"]
    injections = json.loads(run("stalls", "inject", "--sandbox", "s", *plan, "--causes", cause.replace("+", ","), "-o", "json", *more))["injections"]
    time.sleep(1)
    watch.send_signal(signal.SIGINT)
    for peer in peers.values():
        peer.end()
    watch.wait()
    told.seek(0)
    stalls = [it for it in map(json.loads, told) if it.get("kind") == "stall"]
    slots = {}
    for of, load in zip(cause.split("+"), loads):
        loaded = json.loads(load.communicate()[0])
        zero_us = loaded["started_unix_us"]
        slots[of] = [(zero_us + it["at_us"], it["max_us"]) for it in loaded["load"]["measured"]["timeline"]]
    return injections, stalls, slots, peers


PEER = os.environ.get("PG_WAIT_SAMPLING")

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
    return of_events(most)


def verdict_of(named, near, causes, it):
    """Ours, of one injection; `named`: the cause of the stall that lost most."""
    begin, end = span(it)
    own = it["cause"]
    shared = lambda stall: 2 * overlap(span(stall), (begin, end)) >= end - begin
    if not near:
        return "missed"
    if len(causes) > 1:
        if any(stall["cause"] == own and shared(stall) for stall in near):
            return "right"
        named = "unknown" if named in causes else named
    return "right" if named == own else "unknown" if named == "unknown" else "wrong"


def judged(server, cause, threads):
    injections, stalls, slots, peers = tried(server, cause, threads)
    history = peer_history() if has_peer else []
    usual = {of: statistics.median(most for _, most in those) for of, those in slots.items()}
    found, taken = [], set()
    for it in injections:
        begin, end = span(it)
        of = it["cause"]
        longest = max((most for at, most in slots[of] if begin - SLOT_US < at <= end + AFTER_US), default=0)
        near = [stall for stall in stalls if overlap(span(stall), (begin, end + AFTER_US)) > 0]
        taken.update(id(stall) for stall in near)
        if it["bit"] is not True or longest < usual[of] + LOST_US:
            continue
        told = max(near, key=lambda stall: stall["lost_query_us"], default=None)
        verdict = verdict_of(told and told["cause"], near, cause.split("+"), it)
        theirs = {name: peer.names(begin, end) for name, peer in peers.items()}
        if has_peer:
            theirs["extension"] = peer_names(history, begin, end)
        found.append({**it, "peers": theirs, "longest_us": longest, "verdict": verdict, "told": told})
    number = lambda verdict: sum(it["verdict"] == verdict for it in found)
    beside = [stall for stall in stalls if id(stall) not in taken]
    there = [*peers, *(["extension"] if has_peer else [])]
    right_of = lambda name: sum(it["peers"][name] == it["cause"] for it in found)
    wrong_of = lambda name: sum(it["peers"][name] not in (None, it["cause"]) for it in found)
    return {
        "server": server, "connections": threads, "cause": cause, "planned": len(injections), "felt": len(found), "right": number("right"), "wrong": number("wrong"),
        "unknown": number("unknown"), "missed": number("missed"),
        "peers": {name: {"right": right_of(name), "wrong": wrong_of(name), "cost": peers[name].cost() if name in peers else None} for name in there},
        "beside": beside, "injections": found,
    }


rows, unplanted = [], {}
PEERS = (("sampler", 8), ("pt_stalk", 9), ("extension", 10))
print(f"{'server':<16} {'conn.':>5} {'cause':<19} {'felt':>5} {'right':>6} {'wrong':>6} {'unknown':>8} {'missed':>7} {'sampler':>8} {'pt-stalk':>9} {'extension':>10} {'beside':>7}")
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
    exports = (line.removeprefix("export ").partition("=") for line in run("sandbox", "export", "s", "env").splitlines())
    exported = {name: value.strip("'") for name, _, value in exports if name in ("MYSQL_PWD", "PGPASSWORD")}
    run("fill", f"--table-size={rows_of_table}", env=environment)
    for it in json.loads(run("stalls", "inject", "--list", "--sandbox", "s", "-o", "json"))["causes"]:
        if not it["can_be_planted"]:
            unplanted.setdefault((it["cause"], it["why"]), []).append(server)
    if has_peer:
        make_peer()
    for threads in connections.split():
        for cause in (*LOADS, *PAIRS):
            if causes and cause not in causes.split():
                continue
            if not planted(cause, server):
                why = "the pages of its tables are in the kernel's cache" if "disk_reads" in cause else "the server has no such wait"
                if threads == connections.split()[0]:
                    unplanted.setdefault((cause, why), []).append(server)
                continue
            row = judged(server, cause, int(threads))
            rows.append(row)
            numbers = " ".join(f"{row[key]:>{width}}" for key, width in (("felt", 5), ("right", 6), ("wrong", 6), ("unknown", 8), ("missed", 7)))
            theirs = " ".join(f"{row['peers'][name]['right'] if name in row['peers'] else '-':>{width}}" for name, width in PEERS)
            print(f"{server:<16} {threads:>5} {cause:<19} {numbers} {theirs} {len(row['beside']):>7}", flush=True)
    run("sandbox", "delete", "s", "--force")
felt, right, wrong = (sum(row[key] for row in rows) for key in ("felt", "right", "wrong"))
is_good = felt > 0 and right >= 0.9 * felt and wrong <= 0.02 * felt
print(f"{right} of {felt} right (aim: 90 %), {wrong} wrong (aim: 2 % at most)")
compared = []
for name, _ in PEERS:
    those = [row for row in rows if name in row["peers"]]
    of, ours = sum(row["felt"] for row in those), sum(row["right"] for row in those)
    theirs, amiss = (sum(row["peers"][name][key] for row in those) for key in ("right", "wrong"))
    if of == 0:
        continue
    compared.append({"peer": name, "felt": of, "right": theirs, "wrong": amiss, "ours": ours})
    costs = [row["peers"][name]["cost"] for row in those if row["peers"][name]["cost"]]
    told = ""
    if name == "sampler":
        told = f"; its questions kept the server busy for {statistics.median(it['busy_share'] for it in costs):.0%} of the time, {statistics.median(it['answer_us'] or 0 for it in costs) / 1000:.1f} ms each"
    print(f"{name}: {theirs} of the same {of} right, {amiss} wrong; this watch {ours} (aim: more){told}")
    is_good &= ours >= theirs
for (cause, why), where in sorted(unplanted.items()):
    print(f"not planted: {cause} on {', '.join(where)}: {why}")
with open(result, "w") as file:
    json.dump({"schema": 2, "seed": int(seed), "rows": rows, "peers": compared, "not_planted": [{"cause": cause, "servers": where, "why": why} for (cause, why), where in unplanted.items()]}, file, indent=1)
print(result)
sys.exit(0 if is_good else 1)
PYTHON
