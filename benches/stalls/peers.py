# SPDX-License-Identifier: Apache-2.0
"""What other ways of looking say of the cause of a stall: read by causes.sh.

Sampler   one client over a pipe, every 10 ms. MySQL and its kind: performance_schema, with all instruments of waits and the consumer events_waits_current on, and
          on MySQL who waits for whose lock; a statement in its table with no wait nested in it waits for a free page if it reads, by elimination, and for a row if it locks. PostgreSQL: pg_stat_activity.
PtStalk   pt-stalk with the shortest interval that it has (1 s) and a threshold on Threads_running that the load by itself does not reach; what the files name that it
          collected: a lock of a row or of a table, a commit.
"""
import collections, glob, os, re, signal, statistics, subprocess, threading, time

EVERY_S = 0.010
COMMITS = {"commit", "starting commit", "waiting for handler commit", "waiting for prior transaction to commit", "updating status", "query end"}
OF_MYSQL = """SELECT t.PROCESSLIST_ID, IFNULL(t.PROCESSLIST_STATE, ''), IFNULL(w.EVENT_NAME, ''), IFNULL(w.OPERATION, ''), {waits_for_row},
 IFNULL(REPLACE(REPLACE(LEFT(t.PROCESSLIST_INFO, 64), '\t', ' '), '\n', ' '), ''), IFNULL(w.EVENT_ID, 0)
 FROM performance_schema.threads t LEFT JOIN performance_schema.events_waits_current w ON w.THREAD_ID = t.THREAD_ID AND w.END_EVENT_ID IS NULL
 WHERE t.TYPE = 'FOREGROUND' AND t.PROCESSLIST_COMMAND IN ('Query', 'Execute') AND t.PROCESSLIST_ID <> CONNECTION_ID(); SELECT 'end';\n"""
# MySQL from 8.0 on. information_schema.INNODB_TRX is no source for a client that asks so often: what it shows is renewed only when nobody has read it for 100 ms, so the
# peer would see nothing, and neither would anybody else
WAITS_FOR_ROW = "(SELECT COUNT(*) FROM performance_schema.data_lock_waits l WHERE l.REQUESTING_THREAD_ID = t.THREAD_ID)"
OF_POSTGRESQL = """SELECT pid, coalesce(wait_event_type, ''), coalesce(wait_event, '') FROM pg_stat_activity
 WHERE backend_type = 'client backend' AND state = 'active' AND pid <> pg_backend_pid(); SELECT 'end';\n"""
# wait events of PostgreSQL (wait_event_names.txt) by cause
EVENTS = {
    "row_lock": {("Lock", "transactionid"), ("Lock", "tuple")},
    "metadata_lock": {("Lock", "relation"), ("Lock", "virtualxid"), ("Lock", "object")},
    "sync": {("IO", "WALSync"), ("IO", "WalSync"), ("IO", "WALWrite"), ("IO", "WalWrite"), ("LWLock", "WALWrite"), ("LWLock", "WALWriteLock"), ("IO", "DataFileSync")},
    "disk_reads": {("IO", "DataFileRead")},
}


def of_events(event):
    return next((cause for cause, events in EVENTS.items() if event in events), None)


def of_postgresql(rows):
    """The cause of each connection that the server lists. No wait event: it works, or has no CPU."""
    return ["cpu" if not kind else of_events((kind, event)) for _, kind, event in rows]


def of_mysql(rows):
    """The same; of the waits of one thread, the innermost."""
    innermost = {}
    for row in rows:
        if row[0] not in innermost or int(row[6]) > int(innermost[row[0]][6]):
            innermost[row[0]] = row
    return [one_of_mysql(*row[1:6]) for row in innermost.values()]


def one_of_mysql(state, event, operation, waits_for_row, statement):
    if waits_for_row != "0":
        return "row_lock"
    if "metadata lock" in state or event.startswith(("wait/lock/metadata", "wait/lock/table")):
        return "metadata_lock"
    if event.startswith("wait/io/file"):
        return "disk_reads" if operation == "read" else "sync"
    if state.lower() in COMMITS:
        return "sync"
    if event.startswith("wait/io/table"):
        is_read = statement.lower().startswith("select") and "for update" not in statement.lower()
        return "free_list_backoff" if is_read else "row_lock"
    if event.startswith("wait/synch"):
        return "mutex"
    return "cpu" if not event else None


class Sampler:
    def __init__(self, is_postgresql, dsn, variables):
        environment = {**os.environ, **variables}
        if is_postgresql:
            command, self.sql, self.causes = ["psql", "-X", "-q", "-A", "-t", "-F", "\t", dsn], OF_POSTGRESQL, of_postgresql
        else:
            user, host, port = re.match(r"mysql://([^:]*):[^@]*@([^:]*):(\d+)", dsn).groups()
            command = ["mysql", "--no-defaults", "-h", host, "-P", port, "-u", user, "-N", "-B", "--unbuffered"]
            self.causes = of_mysql
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        if not is_postgresql:
            self.ask("UPDATE performance_schema.setup_instruments SET ENABLED = 'YES', TIMED = 'YES' WHERE NAME LIKE 'wait/%'; "
                     "UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'events_waits_current'; SELECT 'end';\n")
            has_locks = self.ask("SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'performance_schema' AND TABLE_NAME = 'data_lock_waits'; SELECT 'end';\n")
            self.sql = OF_MYSQL.format(waits_for_row=WAITS_FOR_ROW if has_locks else "0")
        self.samples, self.took, self.stop = [], [], threading.Event()
        self.began, self.thread = time.time(), threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def ask(self, sql):
        self.process.stdin.write(sql)
        self.process.stdin.flush()
        rows = []
        for line in self.process.stdout:
            if line.rstrip("\n") == "end":
                return rows
            rows.append(line.rstrip("\n").split("\t"))
        raise RuntimeError("the peer's client ended")

    def work(self):
        while not self.stop.is_set():
            began = time.time()
            try:
                rows = self.ask(self.sql)
            except (RuntimeError, OSError):
                return
            ended = time.time()
            self.took.append(ended - began)
            self.samples.append(((began + ended) / 2 * 1e6, self.causes(rows)))
            self.stop.wait(max(0, EVERY_S - (ended - began)))

    def end(self):
        self.stop.set()
        self.thread.join(timeout=30)
        self.lasted = time.time() - self.began
        self.process.stdin.close()
        self.process.wait()

    def names(self, begin, end):
        """The cause that most of its samples name within this time."""
        seen = collections.Counter(cause for at, causes in self.samples if begin <= at <= end for cause in causes if cause)
        return seen.most_common(1)[0][0] if seen else None

    def cost(self):
        """The server answers it on a thread of its own: the time of the answers is the most that this took of a CPU."""
        return {"samples": len(self.took), "answer_us": round(statistics.median(self.took) * 1e6) if self.took else None, "busy_share": sum(self.took) / max(self.lasted, 1e-9)}


class PtStalk:
    def __init__(self, dsn, variables, threshold, folder):
        self.folder = folder
        os.makedirs(folder)
        user, host, port = re.match(r"mysql://([^:]*):[^@]*@([^:]*):(\d+)", dsn).groups()
        command = ["pt-stalk", "--function=status", "--variable=Threads_running", f"--threshold={threshold}", "--cycles=1", "--interval=1", "--run-time=1", "--sleep=0",
                   "--disk-pct-free=0", f"--dest={folder}", f"--pid={folder}/pid", f"--log={folder}/log", "--", f"--host={host}", f"--port={port}", f"--user={user}"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        # a group of its own: what it collects with has to end with it
        self.process = subprocess.Popen(command, env={**os.environ, **variables}, start_new_session=True, **quiet)

    def end(self):
        time.sleep(1.5)
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait()
        time.sleep(1)
        self.said = []
        for path in glob.glob(f"{self.folder}/*-processlist") + glob.glob(f"{self.folder}/*-lock-waits"):
            with open(path, errors="replace") as file:
                parts = re.split(r"^TS (\d+\.\d+).*$", file.read(), flags=re.M)
            for at, text in zip(parts[1::2], parts[2::2]):
                cause = "row_lock" if path.endswith("-lock-waits") and "who_blocks" in text else self.of_states(text)
                if cause:
                    self.said.append((float(at) * 1e6, cause))

    @staticmethod
    def of_states(text):
        states = re.findall(r"^\s*State: (.*)$", text, flags=re.M)
        if any("metadata lock" in state or "table level lock" in state for state in states):
            return "metadata_lock"
        return "sync" if any(state.strip().lower() in COMMITS for state in states) else None

    def names(self, begin, end):
        seen = collections.Counter(cause for at, cause in self.said if begin <= at <= end)
        return seen.most_common(1)[0][0] if seen else None

    def cost(self):
        return {"collections": len(glob.glob(f"{self.folder}/*-trigger"))}
