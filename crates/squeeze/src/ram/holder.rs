// SPDX-License-Identifier: Apache-2.0
//! The body of `wringer internal holder`: reserves huge pages, reports them, and waits for its end.
//!
//! Its own memory is a few locked pages. It ends, and with it the reservation, on SIGTERM, on SIGKILL, and at the end of its
//! lifeline, that is when controller and watchdog are both dead.

use crate::ram::refused::Refused;
use crate::{Error, Meminfo};
use host::process::{Order, lifeline, report_not_ready, report_ready};
use serde::{Deserialize, Serialize};
use std::fs;
use std::time::{Duration, Instant};
use units::{Bytes, MapsLine};

/// The order that a holder gets.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Options {
    /// Pages of the default huge page size.
    pub pages: u64,
    pub page_bytes: u64,
    pub deadline: Duration,
    /// The `MemAvailable` at which it stops reserving.
    pub floor_bytes: u64,
    /// The expected oom_score_adj of this process, checked before it reserves. 1000: the kernel kills it before any database.
    pub oom_score_adj: i32,
}

impl Order for Options {
    const ROLE: &'static str = "holder";
    type Ready = Held;
}

/// The report after reserving, or after giving up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Huge pages for a holder, ordinary pages for a balloon.
    pub reserved_pages: u64,
    /// Calls that the kernel could not satisfy at once.
    pub failed_calls: u64,
    pub elapsed_us: u64,
    /// Why it reserved less: `deadline`, `floor`.
    pub stopped: Option<String>,
    /// For a balloon: whether all of it is locked, so that it cannot be swapped. Huge pages are never swapped.
    pub locked: Option<bool>,
}

/// The pause after a failed call. Each call reserves one page, because a call that fails returns all its pages.
const RETRY: Duration = Duration::from_millis(1);
/// After how many bytes the floor is checked; at least after each page.
const LOOK_EVERY_BYTES: u64 = 128 << 20;

/// Returns when the process should end. Its reservation ends with the process.
///
/// # Errors
/// `oom_score_adj` is not as expected. Nothing was reserved then, because the kernel would kill another process first.
pub fn run(options: &Options) -> Result<(), Error> {
    let lifeline = lifeline();
    if let Err(error) = check_oom_score(options.oom_score_adj) {
        report_not_ready(&error.to_string());
        return Err(error);
    }
    lock_own_memory();
    host::pause_point("before a holder reserves");
    let held = reserve(options)?;
    report_ready::<Options>(&held);
    wait_for_end(lifeline.as_ref());
    Ok(())
}

/// Raising it is always allowed (proc_pid_oom_score_adj(5)). It is read back all the same, before anything is reserved.
pub(crate) fn check_oom_score(asked: i32) -> Result<(), Error> {
    let score = fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
    if score.trim() == asked.to_string() {
        return Ok(());
    }
    Err(Error::HolderAnswer { answer: format!("oom_score_adj is '{}', not {asked}: nothing was taken", score.trim()) })
}

/// Locks the holder's own pages, so that it never waits for them. Future mappings are not locked: that would touch the huge pages.
fn lock_own_memory() {
    // SAFETY: takes flags only. After a failure only the lock is missing.
    unsafe { libc::mlockall(libc::MCL_CURRENT) };
}

fn reserve(options: &Options) -> Result<Held, Error> {
    reserve_by(options, &mut || Ok(Meminfo::now()?.available_bytes), &mut || reserve_one(options.page_bytes))
}

/// `available` returns the available bytes; `reserve_one` returns whether it has reserved one page.
fn reserve_by(
    options: &Options,
    available: &mut dyn FnMut() -> Result<u64, Error>,
    reserve_one: &mut dyn FnMut() -> bool,
) -> Result<Held, Error> {
    let started = Instant::now();
    let look_every = (LOOK_EVERY_BYTES / options.page_bytes.max(1)).max(1);
    let mut held = Held::default();
    while held.reserved_pages < options.pages {
        let is_time = held.reserved_pages.is_multiple_of(look_every);
        if is_time && available()? < options.floor_bytes.saturating_add(options.page_bytes) {
            let floor = Bytes(options.floor_bytes);
            held.stopped = Some(format!("floor: with another page, less than {floor} would be available"));
            break;
        }
        if reserve_one() {
            held.reserved_pages += 1;
            continue;
        }
        held.failed_calls += 1;
        if started.elapsed() > options.deadline {
            let why =
                Refused::beyond_the_pool(options.page_bytes).why("the kernel could not free enough pages in one piece");
            held.stopped = Some(format!("deadline: {why}"));
            break;
        }
        std::thread::sleep(RETRY);
    }
    held.elapsed_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    Ok(held)
}

/// Reserves without touching. Only the end of the process gives the mapping back.
fn reserve_one(bytes: u64) -> bool {
    let Ok(length) = usize::try_from(bytes) else { return false };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice; nothing refers to it.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    address != libc::MAP_FAILED
}

/// The huge pages that this process has reserved; 0 if its maps may not be read. `HugePages_Rsvd` counts those of all processes.
pub fn reserved_bytes(pid: u32) -> u64 {
    reserved_of(&fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default())
}

/// The kernel gives anonymous huge pages a file of this name (fs/hugetlbfs/inode.c, HUGETLB_ANON_FILE).
fn reserved_of(maps: &str) -> u64 {
    let mappings = maps.lines().filter_map(MapsLine::parse);
    mappings.filter(|mapping| mapping.name.starts_with("/anon_hugepage")).map(|mapping| mapping.bytes()).sum()
}

/// Waits until the pipe's last writer is gone; without a pipe, until a signal.
pub(crate) fn wait_for_end(lifeline: Option<&rustix::fd::OwnedFd>) {
    let Some(lifeline) = lifeline else {
        loop {
            std::thread::park();
        }
    };
    let mut byte = [0_u8];
    loop {
        match rustix::io::read(lifeline, &mut byte) {
            Ok(0) => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn only_the_holders_own_huge_pages_count() {
        let maps = "\
55d000000000-55d000400000 r-xp 00000000 fe:00 4711                       /usr/bin/wringer
7f0000000000-7f0000200000 rw-p 00000000 00:0f 1025                       /anon_hugepage (deleted)
7f0000200000-7f0000400000 rw-p 00000000 00:0f 1026                       /anon_hugepage (deleted)
7f0000400000-7f0000600000 rw-p 00000000 00:00 0 
";
        assert_eq!(reserved_of(maps), 4 * Bytes::MIB);
        assert_eq!(reserved_of(""), 0);
    }

    /// What is available in the end, with pages of this size, on a host with 8 GiB, when 16 GiB are asked for.
    fn left(page_bytes: u64, floor_bytes: u64) -> (u64, Option<String>) {
        let pages = 16 * Bytes::GIB / page_bytes;
        let options = Options { pages, page_bytes, deadline: Duration::ZERO, floor_bytes, oom_score_adj: 1000 };
        let available = Cell::new(8 * Bytes::GIB);
        let mut take = || {
            available.set(available.get().saturating_sub(page_bytes));
            true
        };
        let held = reserve_by(&options, &mut || Ok(available.get()), &mut take).expect("reserves");
        assert_eq!(available.get(), 8 * Bytes::GIB - held.reserved_pages * page_bytes);
        (available.get(), held.stopped)
    }

    #[test]
    fn the_floor_stays_available_with_pages_of_any_size() {
        for page_bytes in [2 * Bytes::MIB, 512 * Bytes::MIB, Bytes::GIB] {
            let (left, stopped) = left(page_bytes, Bytes::GIB);
            assert_eq!(left, Bytes::GIB, "pages of {}", Bytes(page_bytes));
            assert!(stopped.is_some_and(|why| why.starts_with("floor:")));
        }
        assert_eq!(left(Bytes::GIB, Bytes::GIB + 1).0, 2 * Bytes::GIB, "no part of the floor is taken");
    }
}
