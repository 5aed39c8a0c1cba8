// SPDX-License-Identifier: Apache-2.0
//! Known failures of servers in Valgrind, found by words in the logs.

use serde::Serialize;

/// A known failure, and its cure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KnownFailure {
    pub what: &'static str,
    pub cure: &'static str,
}

/// Words, one of which must be in a log; what the words mean; the cure.
type Row = (&'static [&'static str], &'static str, &'static str);

/// Seen with Valgrind 3.19 and MariaDB 10.11 and 11.8; the words of Valgrind's are in its coregrind/m_aspacemgr/aspacemgr-linux.c (VG_N_SEGMENTS, out of
/// memory), m_scheduler/scheduler.c (MAX_THREADS), m_signals.c (instruction).
const ROWS: [Row; 8] = [
    (
        &["VG_N_SEGMENTS is too low"],
        "the server has more mappings than Valgrind can keep (30,000 in version 3.19)",
        "fewer connections and a smaller pool: each thread's stack and each chunk of a pool is a mapping (`-c max_connections=100 -c innodb_buffer_pool_size=128M`)",
    ),
    (
        &["MAX_THREADS", "Use --max-threads"],
        "the server has more threads than Valgrind was told to keep",
        "fewer connections (`-c max_connections=100`), and no pool of threads that is larger",
    ),
    (
        &["Cannot map innodb_buffer_pool_size_max"],
        "MariaDB reserves 8 TiB of addresses for a pool that may grow, and Valgrind does not have so many",
        "`-c innodb_buffer_pool_size_max=256M`, or as large as the pool is: Wringer gives this option itself, and an option of yours stands above it",
    ),
    (
        &["Using io_uring", "Using liburing", "Using Linux native AIO"],
        "the server submits its input and output past the C library (io_uring), which Valgrind does not know: it waits for ever",
        "`-c innodb_use_native_aio=0`, of PostgreSQL `-c io_method=worker`: Wringer gives this option itself, and an option of yours stands above it",
    ),
    (
        &["Valgrind's memory management: out of memory", "out of memory (mmap)"],
        "Valgrind has no addresses or no memory left for its own notes",
        "a smaller pool, and more free RAM: beside its own memory, a server in Massif needs about 100 MiB",
    ),
    (
        &["Cannot allocate memory for the buffer pool", "could not map anonymous shared memory"],
        "the pool has no place in the addresses that Valgrind leaves to a program",
        "a smaller pool (`-c innodb_buffer_pool_size=128M`, `-c shared_buffers=128MB`)",
    ),
    (
        &["unhandled instruction bytes", "Unrecognised instruction", "Illegal opcode"],
        "the server uses instructions of this CPU that this Valgrind does not know",
        "a newer Valgrind, or another build of the server",
    ),
    (
        &["unhandled amd64-linux syscall", "unhandled arm64-linux syscall"],
        "the server makes a system call that this Valgrind does not know, and is told that the kernel has none",
        "a newer Valgrind, where the server does not go on without it",
    ),
];

/// The known failures in the last lines of a server's log and of Valgrind's log.
pub fn known(logs: &str) -> Vec<KnownFailure> {
    let is_told = |row: &&Row| row.0.iter().any(|words| logs.contains(words));
    ROWS.iter().filter(is_told).map(|(_, what, cure)| KnownFailure { what, cure }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the programs write them.
    #[test]
    fn failures_are_known_by_their_words() {
        let cure = |log: &str| known(log).first().map(|it| it.cure).unwrap_or_default();
        assert!(
            cure("--1-- VALGRIND INTERNAL: VG_N_SEGMENTS is too low.  Increase it and rebuild.")
                .contains("fewer connections")
        );
        let reserved = "[ERROR] InnoDB: Cannot map innodb_buffer_pool_size_max=8388608m";
        assert!(cure(reserved).contains("innodb_buffer_pool_size_max=256M"));
        assert!(cure("2026-11-20 [Note] InnoDB: Using io_uring").contains("innodb_use_native_aio=0"));
        assert!(cure("==7== Use --max-threads=INT to specify a larger number").contains("fewer connections"));
        let asked = "[Warning] unknown variable 'loose_innodb_buffer_pool_size_max=128M'";
        assert!(known(asked).is_empty() && known("[Note] mariadbd: ready for connections.").is_empty());
    }
}
