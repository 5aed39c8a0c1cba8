// SPDX-License-Identifier: Apache-2.0
//! What each process had at its largest beside what it has now, by the kernel's mark (VmHWM): private memory, and pages of files.
//!
//! The mark is one number for both. Shared memory only grows, so it is no part of the difference. But when memory is short, the kernel takes back pages of
//! files (the text of the program and its libraries), and all processes of a PostgreSQL share those. So they count once for the server, and not in each process.

use super::concurrency::is_client;
use crate::parts::measured;
use crate::share::sane;
use crate::{Inventory, ProcessSeen};
use capability::Flavour;

pub(crate) struct HighWater<'a> {
    processes: &'a [ProcessSeen],
    /// Whether the processes share the pages of files. A single process counts them once anyway.
    are_shared: bool,
    /// The most pages of files that one client backend has now, in bytes.
    of_clients: u64,
    /// The same of all processes.
    of_all: u64,
    /// The least room that the mark of a client backend leaves for pages of files: `RssFile + VmHWM - VmRSS`.
    least_of_clients: u64,
}

impl<'a> HighWater<'a> {
    pub(crate) fn of(inventory: &'a Inventory) -> Self {
        let processes = &inventory.processes;
        let clients = || processes.iter().filter(|it| is_client(it));
        let at_most = |it| Some(file_pages(it)?.saturating_add(beyond_now(it)));
        Self {
            processes,
            are_shared: inventory.flavour == Some(Flavour::Postgresql),
            of_clients: clients().filter_map(file_pages).max().unwrap_or(0),
            least_of_clients: clients().filter_map(at_most).min().unwrap_or(u64::MAX),
            of_all: processes.iter().filter_map(file_pages).max().unwrap_or(0),
        }
    }

    /// How much more private memory the process once had than now.
    pub(crate) fn private_beyond_now(&self, process: &ProcessSeen) -> u64 {
        beyond_now(process) - self.taken_back(process)
    }

    /// The same of all processes.
    pub(crate) fn all_private_beyond_now(&self) -> u64 {
        self.processes.iter().map(|it| self.private_beyond_now(it)).sum()
    }

    /// The pages of files that were taken back from all processes, each counted as often as a process had it.
    pub(crate) fn all_taken_back(&self) -> u64 {
        self.processes.iter().map(|it| self.taken_back(it)).sum()
    }

    /// The pages of files that come back at the peak and that no process has now, each counted once.
    pub(crate) fn text(&self) -> u64 {
        let at_peak = |it| file_pages(it).unwrap_or(0).saturating_add(self.taken_back(it));
        self.processes.iter().map(at_peak).max().unwrap_or(0).saturating_sub(self.of_all)
    }

    /// The part of the difference that may be pages of files: at most the pages that the process now lacks of those that it once had.
    fn taken_back(&self, process: &ProcessSeen) -> u64 {
        let Some(now) = file_pages(process).filter(|_| self.are_shared) else { return 0 };
        self.once_had(process).saturating_sub(now).min(beyond_now(process))
    }

    /// The pages of files that the process once had: as many as the largest process of its kind has now. If no process has as many as the program's own
    /// code is long, the kernel has taken them from all of them. All backends have much the same text, so none had more of it than the backend whose mark
    /// leaves room for the least; and no process had more than all code of the program and its libraries.
    fn once_had(&self, process: &ProcessSeen) -> u64 {
        let (of_kind, least) =
            if is_client(process) { (self.of_clients, self.least_of_clients) } else { (self.of_all, u64::MAX) };
        let Some(program) = size(process, "VmExe") else { return of_kind };
        let code = program.saturating_add(size(process, "VmLib").unwrap_or(0));
        let witness = [of_kind, self.of_all].into_iter().find(|it| *it >= program);
        witness.unwrap_or(least).min(code)
    }
}

fn size(process: &ProcessSeen, name: &str) -> Option<u64> {
    process.status.get(name).map(|bytes| sane(*bytes))
}

/// `None`: a kernel before 4.5.
fn file_pages(process: &ProcessSeen) -> Option<u64> {
    size(process, "RssFile")
}

fn beyond_now(process: &ProcessSeen) -> u64 {
    size(process, "VmHWM").unwrap_or(0).saturating_sub(resident_now(process))
}

/// The resident memory of a process, from the same reading as its share of the total: a statement may end between two readings.
fn resident_now(process: &ProcessSeen) -> u64 {
    if let Some(mappings) = measured(process) {
        return mappings.iter().map(|mapping| sane(mapping.rss)).fold(0, u64::saturating_add);
    }
    let of_rollup = process.rollup.as_ref().and_then(|rollup| rollup.get("Rss"));
    of_rollup.or_else(|| process.status.get("VmRSS")).map_or(0, |bytes| sane(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Assumed, ServerSeen, WorstCase, worst_case};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// `private` and `files`: what it has now, in KiB. `beyond`: how much more it had at its largest.
    fn process(pid: u32, role: &str, private: u64, files: u64, beyond: u64) -> ProcessSeen {
        let now = private + files;
        let status = [
            ("RssAnon", private),
            ("RssFile", files),
            ("VmRSS", now),
            ("VmHWM", now + beyond),
            ("VmExe", 5288),
            ("VmLib", 16_236),
        ];
        let status = status.map(|(name, kib)| (name.to_owned(), kib * KIB)).into();
        ProcessSeen { pid, role: role.into(), status, ..ProcessSeen::default() }
    }

    fn worst(processes: Vec<ProcessSeen>) -> WorstCase {
        let variables = [("max_connections".to_owned(), "100".to_owned())].into();
        let server = Some(ServerSeen { variables, ..ServerSeen::default() });
        let flavour = Some(Flavour::Postgresql);
        worst_case(&Inventory { flavour, processes, server, ..Inventory::default() }, &Assumed::default())
    }

    fn of_a_session(worst: &WorstCase) -> u64 {
        worst.bound.iter().find(|line| line.name == "sessions: all else").map_or(0, |line| line.size_bytes)
    }

    /// Twelve idle backends of a real 18.6 after memory was short.
    fn idle_ones() -> Vec<ProcessSeen> {
        let first = process(1, "postmaster", 2324, 1000, 14_000);
        [first].into_iter().chain((2..14).map(|pid| process(pid, "client backend", 2360, 4, 9150))).collect()
    }

    #[test]
    fn text_that_the_kernel_has_taken_back_counts_once() {
        let worst = worst(idle_ones());
        assert_eq!(
            worst.realistic_bytes,
            worst.now_bytes + 14_000 * KIB,
            "the postmaster's has that of the others in it"
        );
        let all = &worst.realistic[1];
        assert_eq!((all.bytes, all.source.contains("less 120.90 MiB of files")), (0, true), "{all:?}");
        assert_eq!(of_a_session(&worst), 2360 * KIB);
    }

    #[test]
    fn text_that_one_process_has_is_there_now() {
        let one = process(14, "client backend", 2360, 9154, 0);
        let worst = worst(idle_ones().into_iter().chain([one]).collect());
        // the postmaster once had more of it than the one
        assert_eq!(worst.realistic_bytes, worst.now_bytes + (1000 + 14_000 - 9154) * KIB);
    }

    #[test]
    fn a_sort_is_private_memory() {
        let sorted = |files| process(2, "client backend", 3836, files, 93_048);
        let beside = || vec![process(1, "postmaster", 2324, 16_156, 0), process(3, "client backend", 3112, 9000, 0)];
        let of = |files| {
            let worst = worst([beside(), vec![sorted(files)]].concat());
            (worst.realistic_bytes - worst.now_bytes, of_a_session(&worst))
        };
        assert_eq!(of(8956), (93_004 * KIB, (3836 + 93_004) * KIB), "it lacks 44 KiB of what another backend has");
        assert_eq!(of(4), ((93_048 - 8996) * KIB, (3836 + 93_048 - 8996) * KIB));
        let mut unknown = sorted(4);
        unknown.status.remove("RssFile");
        let worst = worst([beside(), vec![unknown]].concat());
        assert_eq!(
            worst.realistic_bytes - worst.now_bytes,
            93_048 * KIB,
            "a kernel that does not tell the pages of files"
        );
    }

    /// The idle ones had 9154 KiB of text at most, so the one that sorted had no more.
    #[test]
    fn a_sort_is_private_memory_also_where_all_have_lost_their_text() {
        let sorted = process(14, "client backend", 3836, 4, 93_048);
        let worst = worst(idle_ones().into_iter().chain([sorted]).collect());
        assert_eq!(worst.realistic_bytes - worst.now_bytes, (14_000 + 93_048 - 9150) * KIB);
        assert_eq!(of_a_session(&worst), (3836 + 93_048 - 9150) * KIB);
    }

    /// LLVM, that one backend has loaded, is not taken off what others had.
    #[test]
    fn a_library_that_a_process_has_not_loaded_was_not_taken_back_from_it() {
        let loaded = process(3, "client backend", 3112, 60_000, 0);
        let worst = worst(vec![process(2, "client backend", 3836, 8956, 93_048), loaded]);
        assert_eq!(worst.realistic_bytes - worst.now_bytes, (93_048 - (5288 + 16_236 - 8956)) * KIB);
    }

    #[test]
    fn one_process_alone_has_its_whole_mark() {
        let flavour = Some(Flavour::Mariadb);
        let processes = vec![process(1, "mariadbd", 90 << 10, 4, 30 << 10)];
        let worst = worst_case(&Inventory { flavour, processes, ..Inventory::default() }, &Assumed::default());
        assert_eq!((worst.realistic_bytes - worst.now_bytes, worst.realistic.len()), (30 * MIB, 2));
    }
}
