// SPDX-License-Identifier: Apache-2.0
//! Observations of a server that runs: its threads, as the kernel shows them, and its connections, as the server shows them. Plain data; times are
//! microseconds since the watch began.

use serde::Serialize;

/// What a thread does at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// Waits for its client: for a statement, or for room to send an answer.
    Idle,
    /// Waits at this `epoll` descriptor, for its client or for another process: the number of the descriptor tells which, once it is known where
    /// the thread waits when it is idle.
    Polling(u64),
    /// Has a CPU, or would take one.
    Running,
    /// In a sleep that nothing but its own end wakes: `select` without descriptors, `nanosleep`.
    Asleep,
    /// Waits for another thread or process: `futex`, a semaphore.
    Blocked,
    /// In the kernel, and in no system call: a page fault that waits.
    Faulting,
    /// In the kernel's search for free memory, or held back because its cgroup uses too much memory.
    Reclaiming,
    /// Waits for the disk to read.
    Reading,
    /// Waits for the disk to write, to a file of this kind.
    Syncing(Written),
}

/// Which of InnoDB's files a thread writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// Nobody asked, or the file has another name.
    Unknown,
    /// The redo log, or the binary log.
    Log,
    /// The system tablespace, or a file of the doublewrite buffer: what is written to the file of a table is written there first.
    Doublewrite,
    /// The file of a table, or of undo logs.
    Table,
}

/// What keeps a thread from running at all, whatever it would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stop {
    /// A signal: SIGSTOP and its kind.
    Signal,
    /// A tracer: a debugger.
    Tracer,
    /// The freezer of its cgroup: `docker pause`.
    Freezer,
}

/// One thread at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub thread: u32,
    /// Of a thread that is stopped: what it was stopped in.
    pub doing: Doing,
    /// The thread's `schedstat`. `None`: it was not read because the thread does nothing, or it cannot be read. It is read while the thread is stopped, and with the
    /// first sample after that.
    pub sched: Option<Sched>,
    /// `None`: the thread is not stopped.
    pub stop: Option<Stop>,
}

/// The three numbers of `/proc/PID/task/TID/schedstat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sched {
    /// Time on a CPU. The kernel updates it at its ticks, every 1 to 10 ms.
    pub cpu_ns: u64,
    /// Time in the queue for a CPU.
    pub queued_ns: u64,
    /// How often the thread was given a CPU. The number does not change while the thread is in one wait.
    pub turns: u64,
}

/// What the server says that a connection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Says {
    Idle,
    /// Runs a statement; the server names no wait.
    Busy,
    RowLock,
    MetadataLock,
    DiskRead,
    Sync,
    /// Room in the redo log, or a checkpoint.
    Checkpoint,
    BufferPin,
    Mutex,
    /// A wait that the statement asked for: `SLEEP`, `GET_LOCK`, `pg_sleep`; or a wait for other processes that do a part of its own work: the workers of
    /// a parallel query.
    AskedToWait,
    /// It serves no client: replication, the server's own threads.
    Background,
}

/// One connection, as the server shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// The server's number of the connection.
    pub connection: u64,
    /// The kernel's number of its thread, or of its process. `None`: the server does not say.
    pub thread: Option<u32>,
    pub says: Says,
    /// In the server's own words: `Waiting for table metadata lock`, `Lock/transactionid`. May be empty.
    pub words: String,
    /// The statement with its values.
    pub statement: Option<String>,
    /// For how long its statement ran when the server was asked, in microseconds. `None`: the server does not say it, or only in whole
    /// seconds.
    pub age_us: Option<u64>,
    /// Connections that hold what this connection waits for, where the server names them.
    pub blocked_by: Vec<u64>,
    /// Connections of which it is only a guess that they hold it, where the server names none.
    pub perhaps_blocked_by: Vec<u64>,
}

/// What a server has answered.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// When the question was sent, and when the answer came.
    pub asked_us: u64,
    pub answered_us: u64,
    /// `None`: not asked, or refused.
    pub sessions: Option<Vec<Session>>,
    pub counters: Option<Counters>,
    /// Whether the algorithm in force is `backoff`, where the server was asked.
    pub backoff: Option<bool>,
    /// Free pages of each instance of the buffer pool, where the server was asked for them.
    pub free_by_instance: Option<Vec<u64>>,
}

/// Counters, summed over all instances of the buffer pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// `Innodb_buffer_pool_wait_free`, since the server's start.
    pub wait_free: Option<u64>,
    /// `Innodb_buffer_pool_pages_free`, now.
    pub pages_free: Option<u64>,
    /// `Innodb_buffer_pool_pages_LRU_flushed`, since the server's start: Percona Server, XtraDB and MariaDB have it.
    pub lru_flushed: Option<u64>,
}

/// Something that could not be read, the reason, and what would help.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub what: String,
    pub why: String,
    pub remedy: Option<String>,
}
