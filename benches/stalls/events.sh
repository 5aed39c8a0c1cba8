#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does `wringer stalls watch` tell the stalls of a server, by each of its tiers, and what does it cost?
#
#   benches/stalls/events.sh [--connections "1 4 16 64"] [--tiers "default deep probes"] [--seconds N] [--pairs N] [--quick] [--seed N] [--json FILE]
#
# Fills 400,000 rows in an XtraDB server (MariaDB 10.1, backoff, a pool of 64 MiB) and reads them by their key, on 1, 4, 16 and 64 connections, for
# N seconds (20) each. The clients are this script's own, and share no code with what is measured.
# Truth, where bpftrace is there and this is root: bpftrace's own probes on buf_LRU_get_free_block, calls of 5 ms and more of the clients' threads. Else it is
# what the clients felt, which has their own waits for a CPU in it: each statement of 20 ms and more; the script says so.
# Then point selects with a watch of each tier beside them and without, in turn, N pairs (4). --quick: 8 seconds, 2 pairs, 1, 4 and 16 connections.
# Needs python3 and MariaDB 10.1 in the cache (`wringer sandbox fetch mariadb@10.1`, or WRINGER_CACHE). The tier `probes` needs root.
#
# Exit code 1: an aim was missed that could be judged, which needs 20 waits or more. The line `aims` has each figure with its aim. A busy machine makes clients wait that
# no server let wait: with fewer, one of those counts too much.
#
# What the lines mean:
#   recall      of the true waits of 50 ms (default), 20 ms (deep), 5 ms (probes) and more, how many were told: the same thread, half overlapping.
#               Without bpftrace: 80, 50 and 50 ms and more of a statement, so that the rest of it matters less
#   precision   of the victims that were told, how many overlap half with true waits of their thread
#   error       told length less true length, median and 95th percentile of what it is off
#   lost        what victims lost in free_list_* by what true waits took
#   clock       wait_free_by_stalls by wait_free
#   cost        of one CPU; throughput with a watch by that without, median of the pairs
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
connections="1 4 16 64" tiers="default deep probes" seconds=20 pairs=4 quick=no seed=1 json=$target/bench-stalls-events.json
take_flags "connections tiers seconds pairs quick seed json" "$@"
if [ "$quick" != no ]; then seconds=8 pairs=2 connections=${connections/ 64/}; fi
need_program python3
need_wringer
folder=$(mktemp -d "${TMPDIR:-/tmp}/wringer-bench-events.XXXXXX")
chmod 755 "$folder" # the server of root runs as another user
export WRINGER_HOME=$folder/home
trap '"$wringer" sandbox delete s --force >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
mkdir -p "$(dirname "$json")"
"$wringer" sandbox deploy mariadb@10.1 --name s -c innodb_buffer_pool_size=64M >/dev/null 2>&1
"$wringer" sandbox start s >/dev/null 2>&1
dsn=$("$wringer" sandbox export s dsn)
"$wringer" fill --table-size=400000 --rand-seed="$seed" --dsn="$dsn" >/dev/null
pid=$("$wringer" sandbox status s -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["sandboxes"][0]["pid"])')
bpftrace=""
if [ "$(id -u)" -ne 0 ]; then
    echo "truth: what the clients felt. Of bpftrace it would be better: needs root" >&2
elif command -v bpftrace >/dev/null; then
    bpftrace=$(command -v bpftrace)
else
    echo "truth: what the clients felt. It would be better with bpftrace (package bpftrace)" >&2
fi
python3 - "$wringer" "$dsn" "$connections" "$seconds" "$pairs" "$seed" "$json" "$tiers" "$pid" "$bpftrace" "$folder" <<'PYTHON'
import hashlib, json, multiprocessing, os, random, re, signal, socket, statistics, struct, subprocess, sys, time

wringer, dsn, connections, seconds, pairs, seed, result, tiers, pid, bpftrace, folder = sys.argv[1:]
user, word, host, port, base = re.match(r"mysql://([^:]*):([^@]*)@([^:]*):(\d+)/(.*)", dsn).groups()
seconds, pairs, seed = int(seconds), int(pairs), int(seed)


class Link:
    """As much of MySQL's protocol as point selects need (mysql_native_password, COM_QUERY)."""

    def __init__(self):
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")
        hello = self.packet()
        at = hello.index(0, 1) + 1
        (self.number,) = struct.unpack_from("<I", hello, at)
        scramble = hello[at + 4 : at + 12] + hello[at + 31 : at + 43]
        once = hashlib.sha1(word.encode()).digest()
        mask = hashlib.sha1(scramble + hashlib.sha1(once).digest()).digest()
        answer = bytes(a ^ b for a, b in zip(once, mask))
        capabilities = 0x1 | 0x8 | 0x200 | 0x2000 | 0x8000
        reply = struct.pack("<IIB23x", capabilities, 1 << 24, 33) + user.encode() + b"\0"
        self.send(1, reply + bytes([len(answer)]) + answer + base.encode() + b"\0")
        self.checked(self.packet())

    def send(self, sequence, body):
        self.socket.sendall(struct.pack("<I", len(body))[:3] + bytes([sequence]) + body)

    def packet(self):
        head = self.file.read(4)
        return self.file.read(int.from_bytes(head[:3], "little"))

    def checked(self, packet):
        if packet[0] == 0xFF:
            raise RuntimeError(packet[3:].decode(errors="replace"))
        return packet

    def query(self, sql):
        self.send(0, b"\x03" + sql.encode())
        if self.checked(self.packet())[0] == 0:
            return
        ends = 0
        while ends < 2:  # of the columns, of the rows
            packet = self.checked(self.packet())
            ends += packet[0] == 0xFE and len(packet) < 9


def client(number, stop, pipe):
    link, draw, felt, done = Link(), random.Random(seed * 1000 + number), [], 0
    pipe.send(link.number)
    while not stop.is_set():
        key = draw.randint(1, 400000)
        began, at = time.monotonic(), time.time()
        link.query(f"SELECT c FROM sbtest1 WHERE id = {key}")
        took = time.monotonic() - began
        done += 1
        if took >= 0.02:
            felt.append((link.number, int(at * 1e6), int(took * 1e6)))
    pipe.send((done, felt))


def load(count, work):
    stop, ends = multiprocessing.Event(), []
    for number in range(count):
        here, there = multiprocessing.Pipe()
        process = multiprocessing.Process(target=client, args=(number, stop, there))
        process.start()
        here.recv()
        ends.append((here, process))
    time.sleep(1)
    began, at = time.monotonic(), time.time()
    said = work()
    took, until = time.monotonic() - began, time.time()
    stop.set()
    got = [here.recv() for here, _ in ends]
    for _, process in ends:
        process.join()
    return sum(done for done, _ in got) / (took + 1), [it for _, felt in got for it in felt], said, at, until


FLAGS = {"default": [], "deep": ["--deep"], "probes": ["--probes"]}
LEAST = {"default": 50_000, "deep": 20_000, "probes": 5_000}
LEAST_FELT = {"default": 80_000, "deep": 50_000, "probes": 50_000}
SYMBOL = "_Z22buf_LRU_get_free_blockP10buf_pool_t"
TRACE = """
uprobe:%(exe)s:%(symbol)s /pid == %(pid)s/ { @s[tid] = nsecs; }
uretprobe:%(exe)s:%(symbol)s /@s[tid]/ {
  if (nsecs - @s[tid] >= 5000000) { printf("%%d %%llu %%llu\\n", tid, @s[tid], nsecs - @s[tid]); }
  delete(@s[tid]);
}
END { clear(@s); }
"""


class Truth:
    """Calls of the function that waits: (thread, begin, length), in microseconds since 1970, as bpftrace saw them."""

    def __enter__(self):
        self.file = open(os.path.join(folder, "calls"), "w+")
        trace = TRACE % {"exe": os.readlink(f"/proc/{pid}/exe"), "symbol": SYMBOL, "pid": pid}
        self.process = subprocess.Popen([bpftrace, "-e", trace], stdout=self.file, stderr=subprocess.PIPE, text=True)
        until = time.monotonic() + 20
        while "Attaching" not in open(self.file.name).read() and time.monotonic() < until and self.process.poll() is None:
            time.sleep(0.05)
        time.sleep(1)
        if self.process.poll() is not None:
            sys.exit("bpftrace: " + self.process.stderr.read())
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()

    def calls(self):
        zero_us = time.time() * 1e6 - time.clock_gettime(time.CLOCK_MONOTONIC) * 1e6
        found = []
        for line in open(self.file.name):
            words = line.split()
            if len(words) == 3 and all(it.isdigit() for it in words):
                thread, begin, length = map(int, words)
                found.append((thread, int(begin / 1000 + zero_us), length // 1000))
        return found


def threads_of_clients():
    """The kernel's thread of each connection."""
    link = Link()
    link.send(0, b"\x03SELECT ID, TID FROM information_schema.PROCESSLIST")
    rows, ends = {}, 0
    link.checked(link.packet())
    while ends < 2:
        packet = link.checked(link.packet())
        if packet[0] == 0xFE and len(packet) < 9:
            ends += 1
        elif ends == 1:
            first = packet[1 : 1 + packet[0]]
            second = packet[2 + packet[0] : 2 + packet[0] + packet[1 + packet[0]]]
            rows[int(first)] = int(second)
    rows.pop(link.number, None)
    return rows


def watch(tier, lasting):
    args = [wringer, "stalls", "watch", "--sandbox", "s", f"--for={lasting}s", "-o", "json", *FLAGS[tier]]
    ran = subprocess.run(args, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stderr)
    return json.loads(ran.stdout.splitlines()[-1])


def shared(victim, true):
    begin, length = victim["started_us"], victim["length_us"]
    return max(0, min(begin + length, true[1] + true[2]) - max(begin, true[1]))


def judged(tier, said, true, at, until):
    """`true`: (thread, begin, length)."""
    least = (LEAST if bpftrace else LEAST_FELT)[tier]
    victims = [it for stall in said["stalls"] if stall["cause"].startswith("free_list_") for it in stall["victims"]]
    is_within = lambda it: it[1] > at * 1e6 + 700_000 and it[1] + it[2] < until * 1e6 - 1_200_000
    expected = [it for it in true if it[2] >= least and is_within(it)]
    of = {}
    for victim in victims:
        of.setdefault(victim["thread"], []).append(victim)
    matches = [(it, max(of.get(it[0], []), key=lambda victim: shared(victim, it), default=None)) for it in expected]
    matches = [(it, victim) for it, victim in matches if victim and shared(victim, it) * 2 >= it[2]]
    right = [it for it in victims if sum(shared(it, one) for one in true if one[0] == it["thread"]) * 2 >= it["length_us"]]
    errors = [victim["length_us"] - it[2] for it, victim in matches]
    off = sorted(abs(it) for it in errors)
    near = [it for it, victim in matches if abs(victim["length_us"] - it[2]) <= max(it[2] * 0.05, 10_000)]
    told_us = sum(victim["lost_query_us"] for victim in victims if is_within((0, victim["started_us"], victim["length_us"])))
    true_us = sum(it[2] for it in true if is_within(it))
    return {
        "true": len(expected), "told": len(victims), "recall": len(matches) / max(1, len(expected)), "precision": len(right) / max(1, len(victims)),
        "error_us_median": statistics.median(errors) if errors else None, "error_us_p95": off[int(len(off) * 0.95)] if off else None,
        "lengths_near": len(near) / max(1, len(matches)), "lost_told_by_true": told_us / max(1, true_us),
    }


found, bad = [], False
for tier in tiers.split():
    for count in map(int, connections.split()):
        owners = {}

        def work():
            owners.update(threads_of_clients())
            return watch(tier, seconds)

        if bpftrace:
            with Truth() as truth:
                qps, felt, said, at, until = load(count, work)
            mine = set(owners.values())
            true = [it for it in truth.calls() if it[0] in mine]
        else:
            qps, felt, said, at, until = load(count, work)
            true = [(owners.get(it[0]), it[1], it[2]) for it in felt]
        one = {"tier": tier, "connections": count, "queries_per_second": qps, "truth": "bpftrace" if bpftrace else "felt", **judged(tier, said, true, at, until)}
        account, cost = said["account"], said["cost"]
        one |= {
            "wait_free": account["wait_free"], "wait_free_by_stalls": account["wait_free_by_stalls"],
            "other_causes": {name: it["stalls"] for name, it in account["by_cause"].items() if not name.startswith("free_list_")},
            "cpu_share": cost["cpu_share"], "interval_p50_us": cost["interval_p50_us"], "resolution_us": min(it["resolution_us"] for it in said["tiers"]),
            "hits": cost["hits"], "hits_lost": cost["hits_lost"],
        }
        found.append(one)
        many, rose = one["true"] >= 20, account["wait_free"] or 0
        by_clock = (account["wait_free_by_stalls"] or 0) / max(rose, 1)
        # what it is, whether that could be judged, its aim in words, and whether it is met
        one["aims"] = [
            ("recall", one["recall"], many, ">= 0.95", one["recall"] >= 0.95),
            ("precision", one["precision"], one["told"] >= 20, ">= 0.95", one["precision"] >= 0.95),
            ("near", one["lengths_near"], many, ">= 0.95 within 5 % or 10 ms", one["lengths_near"] >= 0.95),
            ("lost", one["lost_told_by_true"], many, "0.90 to 1.05", 0.9 <= one["lost_told_by_true"] <= 1.05),
            ("clock", by_clock, many and rose > 0, "0.95 to 1.05", 0.95 <= by_clock <= 1.05),
        ]
        bad |= any(is_judged and not is_met for _, _, is_judged, _, is_met in one["aims"])
        print(f"{tier:7} {count:3} connections  {qps:6.0f}/s  recall {one['recall']:.3f} of {one['true']}  precision {one['precision']:.3f} of {one['told']}"
              f"  error {one['error_us_median']} us, 95 % within {one['error_us_p95']} us, near {one['lengths_near']:.2f}  lost {one['lost_told_by_true']:.3f}"
              f"  clock {account['wait_free_by_stalls']} of {account['wait_free']}  others {one['other_causes']}  cost {cost['cpu_share']:.2%}"
              f"  resolution {one['resolution_us']} us", flush=True)
        shown = ((name, f"{figure:.3f}", aim, "met" if is_met else "MISSED" if is_judged else "too few to judge") for name, figure, is_judged, aim, is_met in one["aims"])
        print("    aims: " + "; ".join(f"{name} {figure} ({aim}): {verdict}" for name, figure, aim, verdict in shown), flush=True)

ratios = {}
Link().query("SET GLOBAL innodb_empty_free_list_algorithm = 'legacy'")
for turn in range(pairs):
    for tier in tiers.split():
        arms = [("with", lambda: watch(tier, seconds // 2)), ("without", lambda: time.sleep(seconds // 2))]
        got = {name: load(4, arm)[0] for name, arm in (arms if turn % 2 else arms[::-1])}
        ratios.setdefault(tier, []).append(got["with"] / got["without"])
for tier, of in ratios.items():
    print(f"point selects on 4 connections under legacy, with the tier {tier} by without: {statistics.median(of):.3f} (from {min(of):.3f} to {max(of):.3f}, {len(of)} pairs)")
json.dump({"events": found, "throughput_ratios": ratios, "seed": seed, "seconds": seconds}, open(result, "w"), indent=1)
sys.exit(1 if bad else 0)
PYTHON
