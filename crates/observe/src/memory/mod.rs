// SPDX-License-Identifier: Apache-2.0
//! The parts of a server's memory, read once and raw: an [`ledger::Inventory`]. The crate `ledger` has the arithmetic.
//!
//! | module | what it reads |
//! | --- | --- |
//! | `processes` | the processes of the server; their role, status, OOM score |
//! | `process_files` | small files of a process below /proc, as text |
//! | `turns` | nothing: the order in which the processes are read, and what earlier readings have told of them |
//! | `mappings` | each mapping, and its resident memory: `smaps` up to the first large one, `pagemap` from there on |
//! | `merged_log` | the part of InnoDB's log buffers in a mapping that the kernel has merged with the pool |
//! | `holes` | large ranges without a resident page, in which untouched blocks of malloc lie |
//! | `segment`, `touched` | PostgreSQL's shared memory: the pages that any of its processes has touched, by `pagemap` |
//! | `glibc` | the chunks of glibc's arenas, through `/proc/PID/mem` |
//! | `tcmalloc` | the free spans of tcmalloc's page heap, through `/proc/PID/mem` |
//! | `resident_words` | nothing by itself: words of the process's memory, from resident pages only |
//! | `contexts` | PostgreSQL's memory contexts, through `/proc/PID/mem` |
//! | `collations` | MariaDB's tables of collations, through `/proc/PID/mem` |
//! | `server_rows` | the server's own rows, over SQL |
//! | `huge_pages` | a small part of all this, and the kernel's pools and limits of huge pages: a [`ledger::huge_pages::HugeSeen`] |
//! | `host_seen`, `cgroup_seen` | the host, the other processes, the server's cgroup |
//! | `page_cache` | how much of the server's files is in the page cache; no file is read |
//! | `repeated` | all of it repeatedly, for a recording: [`InventoryReader`] |
//! | `budget` | nothing: how often a repeated reading may be taken |
//! | `collected` | the data that people collect by hand, as texts for a bundle |
//! | `kernel_log` | the lines of the OOM killer in the kernel's log |
//! | `readable` | nothing of a server: what of all this this kernel and this user admit |
//!
//! Invariants: nothing is changed and no thread is stopped. Only resident pages are read: before memory is read, `pagemap` shows which pages are
//! resident.
//! Data that cannot be read are a [`Missing`](ledger::Missing) with what would allow the reading, never an error.
//! Each reading that holds the target's address space locked is timed, and has a budget ([`STRETCH_US`], [`ALL_US`]).

mod allocation_set;
mod budget;
mod cgroup_seen;
mod collations;
mod collected;
mod contexts;
mod elf;
mod glibc;
mod holes;
mod host_seen;
mod huge_pages;
mod kernel_log;
mod mappings;
mod merged_log;
mod page_cache;
mod page_counts;
mod pagemap;
mod pages;
mod process_files;
mod processes;
mod readable;
mod reading;
mod repeated;
mod resident_words;
mod segment;
mod server_rows;
mod smaps;
mod target;
mod tcmalloc;
mod touched;
mod turns;

pub use collected::collected;
pub use huge_pages::{huge_pages, huge_pages_before_start};
pub use readable::{Readable, readable};
pub use reading::{ALL_US, STRETCH_US};
pub use repeated::InventoryReader;
pub use server_rows::huge_page_settings;

use crate::Reopening;
use capability::Flavour;
use host::pause_point;
use host::process::Identity;
use ledger::{Inventory, ProcessSeen, ServerSeen};
use processes::Known;
use reading::Reading;
use target::Target;

/// The extent of a reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Reads all of every process, without a limit of the time for which this holds the process.
    pub deep: bool,
    /// Reads the other processes of the host, which the OOM killer compares, too.
    pub candidates: bool,
    /// Reads only data that hold no process and need no question to the server: all that the OOM killer's rule needs.
    pub lightly: bool,
    /// The time in microseconds for which the processes may be held, and which the reader may use of a CPU; after it no further process is read in
    /// detail. `None`: [`ALL_US`], any time of a CPU, and three processes of each role in any case: the server is read once.
    pub others_us: Option<u64>,
    /// Reads the settings that limit buffers, and the server's high-water marks, too.
    pub limits: bool,
}

impl Options {
    /// Whether this is one of many readings, each of which has a small budget.
    fn is_repeated(&self) -> bool {
        self.others_us.is_some()
    }
}

/// Reads the inventory. Its version is that of PostgreSQL's data directory (`15`), and `None` for other servers: a caller with a connection knows the
/// exact version. `first_pid`: `mariadbd`, `mysqld` or the postmaster; `None`: the server is on another host, or its process is not known.
pub fn inventory(
    first_pid: Option<u32>,
    flavour: Option<Flavour>,
    mut connection: Option<&mut Reopening>,
    options: &Options,
) -> Inventory {
    end_session(first_pid, connection.as_deref_mut());
    inventory_of_known(first_pid, flavour, connection, options, &mut Known::default())
}

/// The session that answers is no part of the memory of PostgreSQL's processes: it begins after they were read.
fn end_session(first_pid: Option<u32>, connection: Option<&mut Reopening>) {
    if let Some((pid, connection)) = first_pid.zip(connection) {
        connection.end_session(pid);
    }
}

/// The same for a server that was read before: facts in `known` are not searched for again.
fn inventory_of_known(
    first_pid: Option<u32>,
    flavour: Option<Flavour>,
    connection: Option<&mut Reopening>,
    options: &Options,
    known: &mut Known,
) -> Inventory {
    let mut reading = Reading::begin(*options);
    let seen = first_pid.map(|pid| processes::read(pid, flavour, known, &mut reading)).unwrap_or_default();
    let (mut processes, segment) = (seen.processes, seen.segment);
    pause_point("all processes were read");
    // before the server is asked, which takes time: both count the same memory
    let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
    let cgroup = first_pid.and_then(|pid| cgroup_seen::read(pid, &pids, &mut reading));
    let mut server = connection.filter(|_| !options.lightly).map(|connection| ask(connection, flavour, &mut reading));
    pause_point("the server's rows were read");
    let segment = segment.map(|segment| segment.told(server.as_mut()));
    if let Some(process) = processes.first_mut().filter(|_| flavour == Some(Flavour::Mariadb)) {
        merged_log::part(process, server.as_ref(), &mut known.buffers, &mut reading);
    }
    let files = first_pid.and_then(|pid| page_cache::read(pid, flavour, &mut reading));
    let mut host = host_seen::read(&mut reading);
    if segment.as_ref().is_none_or(|it| it.blocks.is_none()) && host_seen::has_huge_pages(&processes) {
        host.huge_pages_of_others = host_seen::huge_pages_of_others(&pids);
    }
    let version = first_pid.filter(|_| flavour == Some(Flavour::Postgresql)).and_then(processes::version_of_data);
    let at_unix_us = reading.began_unix_us();
    let (took_us, probes, missing) = reading.end();
    let page_bytes = page_bytes();
    let interval = None;
    Inventory {
        at_unix_us,
        took_us,
        flavour,
        version,
        page_bytes,
        processes,
        server,
        segment,
        host,
        cgroup,
        files,
        probes,
        missing,
        interval,
    }
}

/// The allocator that serves malloc in a process: `glibc 2.36`, `jemalloc`, `tcmalloc`, `mimalloc`, or the library's file. `None`: not known. Only
/// the list of the process's mappings and a few words of its memory are read, which holds the process only for a short time.
pub fn allocator(pid: u32) -> Option<String> {
    let serving = malloc::serving(pid);
    serving.is_known().then_some(serving.name)
}

/// The number of arenas that glibc's malloc (`glibc 2.36`) has made in a process, counted from outside.
///
/// # Errors
/// Why they cannot be counted, in words.
pub fn arenas_of_glibc(pid: u32, allocator: &str) -> Result<usize, String> {
    of_process(pid, |target, reading| glibc::count(target, allocator, reading))
}

/// The bytes that a process holds of glibc's malloc (`glibc 2.36`), with the heads of the blocks, counted from outside as `mallinfo2` counts them in the
/// process.
///
/// # Errors
/// Why they cannot be counted, in words.
pub fn held_of_glibc(pid: u32, allocator: &str) -> Result<u64, String> {
    of_process(pid, |target, reading| glibc::held(target, allocator, reading))
}

fn of_process<T>(pid: u32, read: impl FnOnce(&mut Target, &mut Reading) -> Option<T>) -> Result<T, String> {
    let mut reading = Reading::begin(Options::default());
    let started_ticks = Identity::of(pid).map(|it| it.start_time).unwrap_or_default();
    let process = ProcessSeen { pid, started_ticks, ..ProcessSeen::default() };
    let target = Target::open(&process, &mut reading);
    let got = target.and_then(|mut target| read(&mut target, &mut reading));
    got.ok_or_else(|| reading.end().2.pop().map(|missing| missing.why).unwrap_or_default())
}

fn ask(connection: &mut Reopening, flavour: Option<Flavour>, reading: &mut Reading) -> ServerSeen {
    match flavour {
        Some(flavour) => server_rows::read(connection, flavour, reading),
        None => ServerSeen::default(),
    }
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_this_process_everything_a_process_shows() {
        let own = std::process::id();
        let seen = inventory(Some(own), None, None, &Options { candidates: true, ..Options::default() });
        let process = &seen.processes[0];
        assert_eq!((seen.processes.len(), process.pid), (1, own));
        assert!(process.status["VmRSS"] > 0 && process.oom_score.is_some() && process.started_ticks > 0);
        let mappings = process.mappings.as_ref().unwrap();
        assert!(mappings.iter().any(|mapping| mapping.path == "[stack]" && mapping.rss > 0));
        let is_glibc = process.allocator.as_ref().is_some_and(|it| it.starts_with("glibc 2."));
        assert_eq!(is_glibc, cfg!(target_env = "gnu"), "{:?}", process.allocator);
        assert!(seen.host.candidates.iter().any(|it| it.pid == own && it.rss > 0));
        assert!(seen.host.meminfo["MemTotal"] > 0 && seen.page_bytes >= 4096 && seen.took_us > 0);
        assert!(seen.probes.iter().any(|probe| probe.tier == "smaps" && probe.count > 0 && probe.held_us > 0));
    }

    #[test]
    fn who_cannot_be_counted_says_why() {
        let own = std::process::id();
        assert!(arenas_of_glibc(own, "glibc 1.0").unwrap_err().contains("glibc 1.0 is not known"));
        assert!(arenas_of_glibc(4_000_000_000, "glibc 2.36").unwrap_err().contains("has ended"));
        assert!(held_of_glibc(own, "jemalloc").unwrap_err().contains("jemalloc is not known"));
    }

    #[test]
    fn a_process_that_has_ended_is_missing_and_no_error() {
        let seen = inventory(Some(4_000_000_000), Some(Flavour::Postgresql), None, &Options::default());
        assert!(seen.processes.is_empty() && seen.missing[0].why.contains("has ended"), "{:?}", seen.missing);
        let nothing = inventory(None, None, None, &Options::default());
        assert!(nothing.processes.is_empty() && nothing.missing.is_empty() && nothing.host.candidates.is_empty());
    }
}
