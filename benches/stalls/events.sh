#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does `wringer stalls watch` tell the stalls that the clients of a server felt, and what does it cost them?
#
#   benches/stalls/events.sh [--connections "1 4 16"] [--seconds N] [--pairs N] [--quick 1] [--seed N] [--json FILE]
#
# Fills 400,000 rows in an XtraDB server (MariaDB 10.1, backoff, a pool of 64 MiB) and reads them by their key, on 1, 4 and 16 connections, for
# N seconds (20) each. Truth is what the clients felt: each statement of 20 ms and more, with its begin. The clients are this script's own, and share no
# code with what is measured.
# Then point selects with a watch beside them and without, in turn, N pairs (4). --quick 1: 8 seconds, 2 pairs.
# Needs python3 and MariaDB 10.1 in the cache (`wringer sandbox fetch mariadb@10.1`, or WRINGER_CACHE). Needs no root.
#
# Exit code 1: recall or precision below 0.95, of 20 or more. A busy machine makes clients wait that no server let wait: with fewer, one of those counts too much.
#
# What the lines mean:
#   recall      of the statements that took 80 ms and more (so that 50 ms of them are the wait), how many were told: the same connection, half overlapping
#   precision   of the victims that were told, how many overlap half with a statement of 40 ms and more of their connection
#   error       told length less felt length, median and 95th percentile of what it is off
#   clock       wait_free_by_stalls by wait_free
#   cost        of one CPU; throughput with a watch by that without, median of the pairs
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
connections="1 4 16" seconds=20 pairs=4 quick=0 seed=1 json=$target/bench-stalls-events.json
take_flags "connections seconds pairs quick seed json" "$@"
if [ "$quick" != 0 ]; then seconds=8 pairs=2; fi
need_program python3
need_wringer
folder=$(mktemp -d "${TMPDIR:-/tmp}/wringer-bench-events.XXXXXX")
chmod 755 "$folder" # the server of root runs as another user
export WRINGER_HOME=$folder/home
trap '"$wringer" sandbox delete s --force >/dev/null 2>&1 || true; rm -rf "$folder"' EXIT
mkdir -p "$(dirname "$json")"
"$wringer" sandbox deploy mariadb@10.1 --name s -c innodb_buffer_pool_size=64M >/dev/null
"$wringer" sandbox start s >/dev/null 2>&1
dsn=$("$wringer" sandbox export s dsn)
"$wringer" fill --table-size=400000 --rand-seed="$seed" --dsn="$dsn" >/dev/null
python3 - "$wringer" "$dsn" "$connections" "$seconds" "$pairs" "$seed" "$json" <<'PYTHON'
import hashlib, json, multiprocessing, random, re, socket, statistics, struct, subprocess, sys, time

wringer, dsn, connections, seconds, pairs, seed, result = sys.argv[1:]
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


def watch(lasting):
    ran = subprocess.run([wringer, "stalls", "watch", "--sandbox", "s", f"--for={lasting}s", "-o", "json"], capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stderr)
    return json.loads(ran.stdout.splitlines()[-1])


def overlap(victim, felt):
    begin, length = victim["started_us"], victim["length_us"]
    return min(begin + length, felt[1] + felt[2]) - max(begin, felt[1])


found, bad = [], False
for count in map(int, connections.split()):
    qps, felt, said, at, until = load(count, lambda: watch(seconds))
    victims = [it for stall in said["stalls"] if stall["cause"] == "free_list_backoff" for it in stall["victims"]]
    true = [it for it in felt if it[2] >= 80_000 and it[1] > at * 1e6 + 500_000 and it[1] + it[2] < until * 1e6 - 1_200_000]
    pairs_found = [(it, victim) for it in true for victim in victims if victim["connection"] == str(it[0]) and overlap(victim, it) * 2 >= it[2]]
    told = {id(it): it for it, _ in pairs_found}
    right = [victim for victim in victims if any(str(it[0]) == victim["connection"] and it[2] >= 40_000 and overlap(victim, it) * 2 >= victim["length_us"] for it in felt)]
    errors = [victim["length_us"] - it[2] for it, victim in pairs_found]
    off = sorted(abs(it) for it in errors)
    account, cost = said["account"], said["cost"]
    one = {
        "connections": count, "queries_per_second": qps, "felt": len(true), "told": len(victims),
        "recall": len(told) / max(1, len(true)), "precision": len(right) / max(1, len(victims)),
        "error_us_median": statistics.median(errors) if errors else None, "error_us_p95": off[int(len(off) * 0.95)] if off else None,
        "wait_free": account["wait_free"], "wait_free_by_stalls": account["wait_free_by_stalls"],
        "other_causes": {name: it["stalls"] for name, it in account["by_cause"].items() if name != "free_list_backoff"},
        "cpu_share": cost["cpu_share"], "interval_p50_us": cost["interval_p50_us"],
    }
    found.append(one)
    bad |= len(true) >= 20 and one["recall"] < 0.95 or len(victims) >= 20 and one["precision"] < 0.95
    print(f"{count:3} connections  {qps:7.0f}/s  recall {one['recall']:.3f} of {len(true)}  precision {one['precision']:.3f} of {len(victims)}"
          f"  error {one['error_us_median']} us, 95 % within {one['error_us_p95']} us"
          f"  clock {account['wait_free_by_stalls']} of {account['wait_free']}  others {one['other_causes']}  cost {cost['cpu_share']:.2%}", flush=True)

ratios = []
Link().query("SET GLOBAL innodb_empty_free_list_algorithm = 'legacy'")
for turn in range(pairs):
    arms = [("with", lambda: watch(seconds // 2)), ("without", lambda: time.sleep(seconds // 2))]
    got = {name: load(4, work)[0] for name, work in (arms if turn % 2 else arms[::-1])}
    ratios.append(got["with"] / got["without"])
if ratios:
    print(f"point selects on 4 connections, with a watch by without: {statistics.median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)")
json.dump({"events": found, "throughput_ratios": ratios, "seed": seed, "seconds": seconds}, open(result, "w"), indent=1)
sys.exit(1 if bad else 0)
PYTHON
