// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's one large piece of shared memory: which of its pages are resident, and how many.
//!
//! A process's page tables have only the pages that it has touched itself. So the processes are asked in turn, the one with most shared memory first,
//! and each only about the slices of which not all pages are known: when many have touched the same, the later ones cost nearly nothing.

use super::pagemap;
use super::reading::{ALL_US, Reading};
use super::target::Target;
use super::touched::Touched;
use super::turns::identity;
use host::process::Identity;
use ledger::{Mapping, ProcessSeen, SegmentSeen, ServerSeen};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

/// One part in this many of what all reading may take.
const SHARE: u64 = 4;
/// The System V segment that only marks the data directory as used is one page.
const SMALLEST: u64 = 64 << 10;
const HUGE_PAGE: u64 = 2 << 20;
/// `st_blocks` counts these, whatever the file system (stat(2)).
const BLOCK: u64 = 512;

pub(super) struct Segment {
    device: String,
    inode: u64,
    mapped: u64,
    touched: Touched,
    is_whole: bool,
    blocks: Option<u64>,
}

/// What the readings before have told, of a server that is read repeatedly. Pages of processes that have ended are in no process's Pss: when one of those that were asked
/// ends, nothing of it is kept.
pub(super) struct Kept {
    /// Of the mapping.
    inode: u64,
    start: u64,
    touched: Touched,
    /// When each process was last asked, and how much shared memory it had then, in bytes.
    asked: BTreeMap<Identity, (Instant, u64)>,
}

/// `None`: there is none, or this user may not look.
pub(super) fn read(seen: &[ProcessSeen], kept: &mut Option<Kept>, reading: &mut Reading) -> Option<Segment> {
    let first = seen.first()?;
    let mut target = Target::open(first, reading)?;
    let mapping = largest(target.maps(reading).ok()?)?;
    let page_bytes = if mapping.path.starts_with("/anon_hugepage") { HUGE_PAGE } else { super::page_bytes() };
    let blocks = reading.hold("maps", || blocks(first.pid, &mapping)).filter(|_| target.is_alive());
    let mut known = kept.take().filter(|kept| kept.is_of(&mapping, seen)).unwrap_or_else(|| Kept {
        inode: mapping.inode,
        start: mapping.start,
        touched: Touched::nothing_of(mapping.start, mapping.end, page_bytes),
        asked: BTreeMap::new(),
    });
    let mut processes = forks(seen);
    processes.sort_by_key(|it| known.asked.get(&identity(it)).map(|(when, _)| *when));
    let is_whole = by_all(&processes, &mut known, reading);
    let touched = known.touched.clone();
    *kept = reading.options.is_repeated().then_some(known);
    let (device, mapped) = (mapping.device, mapping.end - mapping.start);
    Some(Segment { device, inode: mapping.inode, mapped, touched, is_whole, blocks })
}

impl Kept {
    /// Pages that a process has given back, or that went to swap, may be resident no more: then everything is asked anew.
    fn is_of(&self, mapping: &Mapping, seen: &[ProcessSeen]) -> bool {
        let now: BTreeMap<Identity, u64> = seen.iter().map(|it| (identity(it), shared(it))).collect();
        let has_all = |(it, (_, then)): (&Identity, &(Instant, u64))| now.get(it).is_some_and(|bytes| bytes >= then);
        (self.inode, self.start) == (mapping.inode, mapping.start) && self.asked.iter().all(has_all)
    }
}

impl Segment {
    /// What is known of the whole. The server's rows get what is known of each allocation.
    pub(super) fn told(self, server: Option<&mut ServerSeen>) -> SegmentSeen {
        for row in server.into_iter().flat_map(|server| &mut server.shared_allocations) {
            let length = row.allocated_size.max(row.size);
            row.touched = row.offset.map(|offset| self.touched.bytes(offset, length));
        }
        SegmentSeen {
            device: self.device,
            inode: self.inode,
            mapped: self.mapped,
            touched: self.touched.sum(),
            is_whole: self.is_whole,
            blocks: self.blocks,
        }
    }
}

/// PostgreSQL has one segment, and may have small ones beside it.
fn largest(maps: Vec<Mapping>) -> Option<Mapping> {
    let is_named = |it: &Mapping| ["/dev/zero", "/SYSV", "/anon_hugepage"].iter().any(|name| it.path.starts_with(name));
    let is_one = |it: &Mapping| it.permissions.ends_with('s') && it.inode != 0 && it.offset == 0 && is_named(it);
    let ones = maps.into_iter().filter(|it| is_one(it) && it.end - it.start > SMALLEST);
    ones.max_by_key(|it| it.end - it.start)
}

/// All pages of the memory, also those that only processes have touched that have ended. Root may ask.
fn blocks(pid: u32, mapping: &Mapping) -> Option<u64> {
    let file = fs::metadata(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end)).ok()?;
    (file.ino() == mapping.inode).then(|| file.blocks().saturating_mul(BLOCK))
}

/// The shared memory that a process has, in bytes. Kernels before 4.5 do not tell it: then it counts as much.
fn shared(process: &ProcessSeen) -> u64 {
    let of = |name: &str| process.status.get(name).copied();
    of("RssShmem").unwrap_or(u64::MAX >> 1) + of("HugetlbPages").unwrap_or(0)
}

/// The processes that have the memory at the first one's addresses: not the programs that it has run, like an archive_command. Those with the most
/// shared memory come first.
fn forks(seen: &[ProcessSeen]) -> Vec<&ProcessSeen> {
    let is_fork = |it: &&ProcessSeen| seen.first().is_some_and(|first| first.command == it.command) && shared(it) > 0;
    let mut forks: Vec<&ProcessSeen> = seen.iter().filter(is_fork).collect();
    forks.sort_by_key(|it| std::cmp::Reverse(shared(it)));
    forks
}

/// Asks one process after the other. Whether all have been asked.
fn by_all(processes: &[&ProcessSeen], known: &mut Kept, reading: &mut Reading) -> bool {
    const WHAT: &str = "which parts of shared memory are resident";
    let limit = Limit::from_now(reading);
    for process in processes {
        let pages = match pages_of(process) {
            Ok(Some(pages)) => pages,
            Ok(None) => continue,
            Err(error) => {
                reading.missing(
                    WHAT,
                    format!("not for this user: {error}"),
                    Some(crate::ptrace_rights::for_mappings()),
                );
                return false;
            }
        };
        if !by_one(&pages, &mut known.touched, &limit, reading) {
            let why = "to look at the pages of all processes would hold the server longer than the budget admits";
            let remedy = reading.remedy();
            reading.missing(WHAT, why, Some(remedy));
            return false;
        }
        known.asked.insert(identity(process), (Instant::now(), shared(process)));
    }
    true
}

/// `Ok(None)`: it has ended.
fn pages_of(process: &ProcessSeen) -> io::Result<Option<File>> {
    let is_it = |_: &File| Identity { pid: process.pid, start_time: process.started_ticks }.is_alive();
    match File::open(format!("/proc/{}/pagemap", process.pid)) {
        Ok(file) => Ok(Some(file).filter(is_it)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        Err(_) => Ok(None),
    }
}

fn by_one(pages: &File, touched: &mut Touched, limit: &Limit, reading: &mut Reading) -> bool {
    for (start, end) in touched.unknown() {
        let found = limit.admits(reading).then(|| pagemap::present(pages, (start, end), touched.page_bytes(), reading));
        let Some(found) = found.flatten() else { return false };
        found.into_iter().for_each(|(from, to)| touched.add(from, to));
    }
    true
}

/// Until when processes may be looked at.
struct Limit {
    held_us: u64,
    cpu: Option<Duration>,
}

impl Limit {
    fn from_now(reading: &Reading) -> Self {
        let share_us = reading.options.others_us.unwrap_or(ALL_US) / SHARE;
        let cpu = reading.options.others_us.map(|_| reading.cpu_time() + Duration::from_micros(share_us));
        Self { held_us: reading.used_us() + share_us, cpu }
    }

    fn admits(&self, reading: &Reading) -> bool {
        let has_time = self.cpu.is_none_or(|until| reading.cpu_time() <= until);
        reading.options.deep || (reading.used_us() <= self.held_us && has_time)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;
    use ledger::SharedAllocation;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

    const MIB: u64 = 1 << 20;

    fn child_that_touches(start: *mut u8, from: usize, to: usize) -> u32 {
        // SAFETY: the child only writes to memory that is mapped, and waits for its end.
        match unsafe { libc::fork() } {
            0 => {
                for at in (from..to).step_by(4096) {
                    // SAFETY: within the mapping.
                    unsafe { start.add(at).write_volatile(1) };
                }
                loop {
                    // SAFETY: waits for a signal.
                    unsafe { libc::pause() };
                }
            }
            child => u32::try_from(child).unwrap(),
        }
    }

    fn looked_at(pids: &[u32], options: Options) -> Option<Segment> {
        let mut reading = Reading::begin(options);
        let seen: Vec<ProcessSeen> = pids
            .iter()
            .map(|pid| ProcessSeen {
                pid: *pid,
                started_ticks: Identity::of(*pid).unwrap().start_time,
                status: ledger::mapping::sizes(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap()),
                ..ProcessSeen::default()
            })
            .collect();
        read(&seen, &mut None, &mut reading)
    }

    /// This process has the first 2 MiB, one child the next 3, another overlaps it by 1 MiB.
    #[test]
    fn the_pages_of_all_processes_count_once_and_by_allocation() {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping, which nothing else uses; it stays until the test ends.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), 512 << 20, protection, flags) }.unwrap().cast::<u8>();
        // SAFETY: within the mapping.
        (0..2 << 20).step_by(4096).for_each(|at| unsafe { start.add(at).write_volatile(1) });
        let pids = [
            std::process::id(),
            child_that_touches(start, 2 << 20, 5 << 20),
            child_that_touches(start, 4 << 20, 7 << 20),
        ];
        let is_ready = || looked_at(&pids, Options::default()).is_some_and(|it| it.touched.sum() == 7 * MIB);
        let has_all = testkit::wait_until(Duration::from_secs(20), is_ready);
        let segment = looked_at(&pids, Options::default());
        let small = looked_at(&pids, Options { others_us: Some(0), ..Options::default() });
        // SAFETY: children of this process, which have not been waited for.
        pids[1..].iter().for_each(|pid| unsafe {
            libc::kill(i32::try_from(*pid).unwrap(), libc::SIGKILL);
            libc::waitpid(i32::try_from(*pid).unwrap(), std::ptr::null_mut(), 0);
        });
        let segment = segment.unwrap();
        assert!(has_all && segment.is_whole, "{} of 7 MiB", segment.touched.sum());
        assert!(small.is_some_and(|it| !it.is_whole), "no time is left");
        let row = |offset, size| SharedAllocation { offset, size, allocated_size: size, ..SharedAllocation::default() };
        let shared_allocations = vec![row(Some(MIB), 5 * MIB), row(Some(6 * MIB + 100), MIB), row(None, MIB)];
        let mut server = ServerSeen { shared_allocations, ..ServerSeen::default() };
        let told = segment.told(Some(&mut server));
        let touched: Vec<_> = server.shared_allocations.iter().map(|row| row.touched).collect();
        assert_eq!(touched, [Some(5 * MIB), Some(MIB - 100), None]);
        assert_eq!((told.touched, told.mapped), (7 * MIB, 512 * MIB));
        assert_eq!(told.blocks.is_some(), testkit::is_root());
        assert!(told.blocks.is_none_or(|bytes| bytes == 7 * MIB), "{told:?}");
    }

    #[test]
    fn the_segment_is_the_largest_and_not_one_of_dynamic_memory() {
        let maps = "7f00-7f00000 rw-s 00000000 00:19 9 /dev/shm/PostgreSQL.1\n\
                    8f00000-8f01000 rw-s 00000000 00:01 7 /SYSV009881a1 (deleted)\n\
                    9000000-9800000 rw-s 00000000 00:01 8 /dev/zero (deleted)\n\
                    a000000-a100000 rw-s 00000000 00:01 5 /SYSV0 (deleted)\n\
                    b000000-c000000 rw-p 00000000 00:00 0 \n";
        assert_eq!(largest(ledger::mapping::mappings(maps)).unwrap().inode, 8);
        assert!(largest(Vec::new()).is_none());
    }

    #[test]
    fn programs_that_the_server_has_run_are_not_asked() {
        let of = |pid, command: &str, shared| ProcessSeen {
            pid,
            command: command.into(),
            status: [("RssShmem".into(), shared)].into(),
            ..ProcessSeen::default()
        };
        let seen = [of(1, "postgres", 5), of(2, "sh", 9), of(3, "postgres", 7), of(4, "postgres", 0)];
        assert_eq!(forks(&seen).iter().map(|it| it.pid).collect::<Vec<_>>(), [3, 1]);
    }
}
