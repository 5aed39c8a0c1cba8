// SPDX-License-Identifier: Apache-2.0
//! What a server's memory is made of, read once and raw: an [`ledger::Inventory`]. The arithmetic is `ledger`'s.
//!
//! | module | what it reads |
//! | --- | --- |
//! | `processes` | which processes the server has; their role, status, OOM score |
//! | `mappings` | each mapping, and what is resident in it: `smaps` up to the first large one, `pagemap` from there on |
//! | `glibc` | the chunks of glibc's arenas, through `/proc/PID/mem` |
//! | `contexts` | PostgreSQL's memory contexts, through `/proc/PID/mem` |
//! | `collations` | MariaDB's tables of collations, through `/proc/PID/mem` |
//! | `server_rows` | the server's own rows, over SQL |
//! | `huge_pages` | little of it, and the kernel's pools and limits of huge pages: a [`ledger::huge_pages::HugeSeen`] |
//! | `host_seen`, `cgroup_seen` | the host, the other processes, the server's cgroup |
//! | `repeated` | all of it again and again, for a recording: [`InventoryReader`] |
//! | `collected` | what one collects by hand, as texts for a bundle |
//! | `kernel_log` | what the OOM killer wrote to the kernel's log |
//!
//! Invariants: nothing is changed and no thread is stopped. No page is touched that is not resident: before memory is read, `pagemap` is asked.
//! What cannot be read is [`Missing`](ledger::Missing) with what would enable it, never an error.
//! What holds the target's address space locked is timed, and has a budget ([`STRETCH_US`], [`ALL_US`]).

mod cgroup_seen;
mod collations;
mod collected;
mod contexts;
mod elf;
mod glibc;
mod host_seen;
mod huge_pages;
mod kernel_log;
mod mappings;
mod page_counts;
mod pagemap;
mod pages;
mod processes;
mod reading;
mod repeated;
mod server_rows;
mod smaps;
mod target;

pub use collected::collected;
pub use huge_pages::{huge_pages, huge_pages_before_start};
pub use reading::{ALL_US, STRETCH_US};
pub use repeated::InventoryReader;
pub use server_rows::huge_page_settings;

use crate::Reopening;
use capability::Flavour;
use ledger::{Inventory, ServerSeen};
use processes::Known;
use reading::Reading;

/// How much is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// All of every process, however long that holds it.
    pub deep: bool,
    /// The other processes of the host, which the OOM killer weighs, too.
    pub candidates: bool,
    /// Only what holds no process and asks no server: all that the OOM killer's rule needs.
    pub lightly: bool,
    /// For so long the processes may be held before no other is looked into, in microseconds. `None`: [`ALL_US`], and one of each role in any case.
    pub others_us: Option<u64>,
    /// The settings that limit buffers, and the server's high-water marks, too.
    pub limits: bool,
}

/// Reads it. The version is that of PostgreSQL's data directory (`15`), and `None` of others: whoever is connected knows it better. `first_pid`: `mariadbd`, `mysqld` or the postmaster; `None`: on another host, or it cannot be told which one it is.
pub fn inventory(
    first_pid: Option<u32>,
    flavour: Option<Flavour>,
    connection: Option<&mut Reopening>,
    options: &Options,
) -> Inventory {
    inventory_of_known(first_pid, flavour, connection, options, &mut Known::default())
}

/// The same, of a server that was read before: what is known of it is not searched for again.
fn inventory_of_known(
    first_pid: Option<u32>,
    flavour: Option<Flavour>,
    connection: Option<&mut Reopening>,
    options: &Options,
    known: &mut Known,
) -> Inventory {
    let mut reading = Reading::begin(*options);
    let processes = first_pid.map(|pid| processes::read(pid, flavour, known, &mut reading)).unwrap_or_default();
    let server = connection.filter(|_| !options.lightly).map(|connection| ask(connection, flavour, &mut reading));
    let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
    let cgroup = first_pid.and_then(|pid| cgroup_seen::read(pid, &pids, &mut reading));
    let host = host_seen::read(&mut reading);
    let version = first_pid.filter(|_| flavour == Some(Flavour::Postgresql)).and_then(processes::version_of_data);
    let at_unix_us = reading.began_unix_us();
    let (took_us, probes, missing) = reading.end();
    let page_bytes = page_bytes();
    Inventory { at_unix_us, took_us, flavour, version, page_bytes, processes, server, host, cgroup, probes, missing }
}

/// The allocator that serves malloc in a process: `glibc 2.36`, `jemalloc`, `tcmalloc`, `mimalloc`, or the library's file. `None`: not told. Only the list
/// of its mappings is read, which holds it no longer than a look at that list does, and a few words of its memory.
pub fn allocator(pid: u32) -> Option<String> {
    let serving = malloc::serving(pid);
    serving.is_known().then_some(serving.name)
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
    fn a_process_that_has_ended_is_missing_and_no_error() {
        let seen = inventory(Some(4_000_000_000), Some(Flavour::Postgresql), None, &Options::default());
        assert!(seen.processes.is_empty() && seen.missing[0].why.contains("has ended"), "{:?}", seen.missing);
        let nothing = inventory(None, None, None, &Options::default());
        assert!(nothing.processes.is_empty() && nothing.missing.is_empty() && nothing.host.candidates.is_empty());
    }
}
