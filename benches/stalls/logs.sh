#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How fast does `wringer stalls explain` read a slow log, in how much memory, and does it count what pt-query-digest counts?
#
#   benches/stalls/logs.sh [--mb N] [--seed N] [--json FILE]
#
# Makes a slow log of Percona Server of N MB (1000) from the seed (1): eight classes of statements in which 1 of 20,000 moments is a stall of
# several connections. Both programs read it, Wringer three times; each does the same job: classes with count, sum, maximum and 95th percentile.
# Needs python3, and for the comparison pt-query-digest (package percona-toolkit; or PT_QUERY_DIGEST names the script): where it is not there, a line
# says so, and Wringer alone is measured. Needs no root and no server; some minutes for each 100 MB, nearly all of them pt-query-digest's.
# LOG_FOLDER is where the log is made, and removed (the folder for temporary files).
#
# Exit code 1: counts, sums or maxima are not as written, or differ between the two; more than 64 MiB were taken; or it was not 20 times as fast.
#
# What the lines mean:
#   seconds   CPU time of the program; what passed on the clock stands beside it, and depends on what else the machine does
#   peak      the most memory that was resident, of the whole process
#   ratio     pt-query-digest's CPU time by Wringer's median
set -euo pipefail
# shellcheck source=benches/common.sh
. "$(dirname "$0")/../common.sh"
mb=1000 seed=1 json=$target/bench-stalls-logs.json
take_flags "mb seed json" "$@"
need_program python3
need_wringer
pt=${PT_QUERY_DIGEST:-$(command -v pt-query-digest || true)}
[ -n "$pt" ] || echo "not compared with pt-query-digest (package percona-toolkit, or PT_QUERY_DIGEST): it is not there" >&2
folder=$(mktemp -d -p "${LOG_FOLDER:-${TMPDIR:-/tmp}}" wringer-bench-logs.XXXXXX)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$(dirname "$json")"
export WRINGER_HOME=$folder/home
python3 - "$mb" "$seed" "$folder" "$wringer" "$pt" "$json" <<'PYTHON'
import array, datetime, json, math, os, random, subprocess, sys, time

mb, seed, folder, wringer, pt, result = sys.argv[1:]
path, bytes_asked, draw = f"{folder}/slow.log", int(float(mb) * 1e6), random.Random(int(seed))

# statement, usual time in microseconds, rows
CLASSES = [
    ("SELECT c FROM accounts WHERE id=%d", 70, 1),
    ("SELECT name, total FROM orders WHERE customer = %d AND state = 'open' ORDER BY made LIMIT 10", 450, 10),
    ("UPDATE accounts SET k=k+1 WHERE id=%d", 180, 1),
    ("INSERT INTO events (account, what, at) VALUES (%d, 'login from 10.0.0.1', '2026-11-23 10:00:00')", 120, 0),
    ("DELETE FROM sessions WHERE id=%d", 150, 1),
    ("SELECT a.id, b.total FROM accounts a JOIN orders b ON b.customer = a.id WHERE a.region = %d", 9000, 900),
    ("SELECT SUM(total) FROM orders WHERE day = %d", 60000, 80000),
    ("COMMIT", 900, 0),
]
WEIGHTS = [60, 12, 10, 8, 4, 3, 0.2, 3]
written_us = [array.array("Q") for _ in CLASSES]


def write_log():
    at, written, entries = datetime.datetime(2026, 11, 23), 0, 0
    with open(path, "w", buffering=1 << 20) as log:
        def entry(kind, took, end, connection):
            statement, _, rows = CLASSES[kind]
            written_us[kind].append(took)
            reads = 1 if draw.random() < 0.3 else 0
            text = (
                f"# Time: {end.isoformat(timespec='microseconds')}Z\n# User@Host: app[app] @ web{connection % 4} [10.0.0.{connection % 250}]  Id: {connection:5d}\n"
                f"# Schema: shop  Last_errno: 0  Killed: 0\n"
                f"# Query_time: {took / 1e6:.6f}  Lock_time: 0.000002  Rows_sent: {min(rows, 10)}  Rows_examined: {rows}  Rows_affected: 0  Bytes_sent: 197\n"
                f"# InnoDB_trx_id: 0\n#   InnoDB_IO_r_ops: {reads}  InnoDB_IO_r_bytes: {reads * 16384}  InnoDB_IO_r_wait: {reads * 0.000009:.6f}\n"
                f"#   InnoDB_rec_lock_wait: 0.000000  InnoDB_queue_wait: 0.000000\n#   InnoDB_pages_distinct: {4 + rows // 16}\n"
                f"SET timestamp={int(end.timestamp())};\n{statement % draw.randrange(2000000) if '%d' in statement else statement};\n"
            )
            return log.write(text)

        while written < bytes_asked:
            at += datetime.timedelta(microseconds=draw.randrange(20, 900))
            if draw.random() < 1 / 20000:
                for _ in range(draw.randrange(3, 9)):
                    at += datetime.timedelta(microseconds=draw.randrange(200, 2000))
                    written += entry(0, draw.randrange(300000, 310000), at, draw.randrange(64))
                    entries += 1
                at += datetime.timedelta(seconds=2)
                continue
            kind = draw.choices(range(len(CLASSES)), WEIGHTS)[0]
            written += entry(kind, max(1, int(CLASSES[kind][1] * draw.lognormvariate(0, 0.4))), at, draw.randrange(64))
            entries += 1
    return entries


def run(command):
    started = time.monotonic()
    with open(f"{folder}/out", "wb") as out:
        process = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command[0]} ended with {process.returncode}")
    with open(f"{folder}/out", "rb") as out:
        text = out.read()
    # in kilobytes, of this child alone
    return {"cpu_s": usage.ru_utime + usage.ru_stime, "clock_s": time.monotonic() - started, "peak_mib": usage.ru_maxrss / 1024}, text


entries = write_log()
size = os.path.getsize(path)
print(f"{size / 1e6:.0f} MB, {entries} entries, seed {seed}")
ours = []
for _ in range(3):
    figures, text = run([wringer, "stalls", "explain", path, "-o", "json"])
    ours.append(figures)
    print(f"wringer          {figures['cpu_s']:8.1f} s of CPU {figures['clock_s']:8.1f} s on the clock {figures['peak_mib']:8.1f} MiB peak")
explained = json.loads(text)
cpu = sorted(figures["cpu_s"] for figures in ours)[1]
peak = max(figures["peak_mib"] for figures in ours)
own = sorted((it["count"], it["sum_us"], it["max_us"]) for it in explained["classes"])
written = sorted((len(all_us), sum(all_us), max(all_us)) for all_us in written_us if all_us)
as_written = own == written
# the 95th percentiles as they were written, and how far each program's are from them
exact = {len(all_us): sorted(all_us)[math.ceil(0.95 * len(all_us)) - 1] for all_us in written_us if all_us}
apart = lambda found: max(abs(us - exact[count]) / exact[count] for count, us in found if count in exact)
told = {"mb": size / 1e6, "entries": entries, "seed": int(seed), "wringer": ours, "peak_mib": peak, "as_written": as_written,
        "p95_apart": apart([(it["count"], it["p95_us"]) for it in explained["classes"]]), "stalls": len(explained["stalls"]) + explained["stalls_left_out"]}
print(f"peak {peak:.1f} MiB; {size / 1e6 / cpu:.0f} MB a second; {len(own)} classes; {told['stalls']} stalls")
print("counts, sums and maxima: " + ("as written" if as_written else f"NOT as written\n  {own}\n  {written}"))
print(f"95th percentiles, furthest from what was written: {told['p95_apart'] * 100:.1f} %")


def compared():
    theirs, text = run(["perl", pt, "--no-version-check", "--limit", "100%", "--output", "json", path])
    print(f"pt-query-digest  {theirs['cpu_s']:8.1f} s of CPU {theirs['clock_s']:8.1f} s on the clock {theirs['peak_mib']:8.1f} MiB peak")
    digest, us = json.loads(text), lambda seconds: round(float(seconds) * 1e6)
    times = [(it["query_count"], it["metrics"]["Query_time"]) for it in digest["classes"]]
    other = sorted((count, us(time["sum"]), us(time["max"])) for count, time in times)
    # it adds up fractions of seconds
    same = len(own) == len(other) and all(a[0] == b[0] and abs(a[1] - b[1]) <= 2 and a[2] == b[2] for a, b in zip(own, other))
    ratio, other_apart = theirs["cpu_s"] / cpu, apart([(count, us(time["pct_95"])) for count, time in times])
    print(f"ratio {ratio:.1f}; counts, sums and maxima: " + ("the same" if same else f"DIFFER\n  {own}\n  {other}"))
    print(f"95th percentiles, furthest from what was written: pt-query-digest {other_apart * 100:.1f} %")
    return {"pt_query_digest": theirs, "ratio": ratio, "same_counts_and_sums": same, "p95_apart_pt_query_digest": other_apart}


if pt:
    told |= compared()
with open(result, "w") as out:
    json.dump(told, out)
sys.exit(0 if as_written and peak <= 64 and told.get("same_counts_and_sums", True) and told.get("ratio", 20) >= 20 else 1)
PYTHON
