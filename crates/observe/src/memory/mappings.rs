// SPDX-License-Identifier: Apache-2.0
//! The mappings of one process, and their resident memory.
//!
//! `smaps` has most fields, and only `smaps` has the flags. But for each mapping the kernel then walks all pages without a break (13 to 15 ms for
//! each GiB). So `smaps` is read up to the first large mapping; this mapping and all after it are read in slices of `pagemap`, and have no flags.

use super::elf::in_root;
use super::pagemap::{Resident, Way, has_more_than, of_mapping};
use super::reading::{LIMIT_US, Reading, STRETCH_US};
use super::smaps;
use super::target::Target;
use super::turns::identity;
use ledger::{Mapping, ProcessSeen};
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

/// A mapping with more resident memory is large: `smaps` would hold the process for more than 4 ms without a break.
const LARGE_BYTES: u64 = 256 << 20;
/// The same for a server with many processes. All of them map the same memory, so `pagemap` saves time in each of them.
const LARGE_IN_MANY: u64 = 64 << 20;
/// The most time that `smaps` and its rollup take for each MiB of 4 KiB pages.
const US_FOR_MIB: u64 = 20;

type Status = BTreeMap<String, u64>;

/// `None`: this user may not read them, or the process has ended, or the budget is used up.
pub(super) fn read(
    target: &mut Target,
    status: &Status,
    processes: usize,
    reading: &mut Reading,
) -> Option<Vec<Mapping>> {
    let maps = target.maps(reading).ok().filter(|maps| !maps.is_empty())?;
    let first_large = if may_slice(processes, reading) {
        let large_bytes = large_bytes(processes, reading);
        first_large(target, &maps, status, large_bytes, reading)
    } else {
        None
    };
    let text = match smaps::text(target.smaps(), first_large, reading) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::TimedOut => return stopped(target, reading),
        Err(_) => return None,
    };
    let mut found = ledger::mapping::mappings(&text);
    if first_large.is_some() {
        let from = found.last().map_or(0, |last| last.end);
        let rest = maps.into_iter().filter(|mapping| mapping.start >= from);
        found.extend(by_pagemap(target, rest, status, processes, reading)?);
    }
    Some(found)
}

/// Whether a large mapping may be read from `pagemap`, which holds the process for 2 MiB at a time. With `--deep`, too, unless this loses the shares
/// of shared pages, which `--deep` promises: every user can read them from `smaps`, but only root with `pagemap`.
fn may_slice(processes: usize, reading: &Reading) -> bool {
    !reading.options.deep || processes == 1 || reading.counts.is_readable()
}

/// The first mapping that may have much resident memory. Of private memory the kernel is asked: a large block of malloc may not be touched at all, and without
/// the flags of the mappings behind it InnoDB's pool is not told from them.
fn first_large(
    target: &Target,
    maps: &[Mapping],
    status: &Status,
    large_bytes: u64,
    reading: &mut Reading,
) -> Option<usize> {
    let of_process = of(status, "VmRSS");
    let may_be_large = |mapping: &Mapping| (mapping.end - mapping.start).min(of_process) > large_bytes;
    let mut is_large = |mapping: &Mapping| {
        mapping.permissions.ends_with('s')
            || has_more_than(target.pagemap(), mapping, large_bytes, reading).unwrap_or(true)
    };
    maps.iter().position(|mapping| {
        let may_be = may_be_large(mapping) && may_be_touched(mapping) && !is_hugetlb(target.pid(), mapping, status);
        may_be && is_large(mapping)
    })
}

/// The size from which a mapping is large. The smaller size is used when the counts of pages are readable; otherwise only `smaps` has the shares of
/// shared pages.
fn large_bytes(processes: usize, reading: &Reading) -> u64 {
    if processes > 1 && reading.counts.is_readable() { LARGE_IN_MANY } else { LARGE_BYTES }
}

fn of(status: &Status, name: &str) -> u64 {
    status.get(name).copied().unwrap_or(0)
}

/// Whether a mapping may have resident pages. A reserved address range has none: MariaDB reserves 8 TiB. And one page belongs to the kernel, not to a
/// process.
fn may_be_touched(mapping: &Mapping) -> bool {
    !mapping.permissions.starts_with("---") && mapping.path != "[vsyscall]"
}

/// Whether a mapping is in explicit huge pages, of which `smaps` has few to walk. They are not in VmRSS. SysV segments have the same name with and
/// without them.
fn is_hugetlb(pid: u32, mapping: &Mapping, status: &Status) -> bool {
    let huge = of(status, "HugetlbPages");
    let size = mapping.end - mapping.start;
    let may_be = huge > 0 && size.is_multiple_of(2 << 20);
    let is_named = mapping.path.starts_with("/anon_hugepage") || mapping.path.starts_with("/SYSV");
    may_be && (is_named || is_on_hugetlbfs(pid, mapping))
}

/// The kernel gives the path in the view of the process, which may have mounts of its own. So the file system of the mapped file itself is read, or,
/// if this user may not, of the path below the process's root.
fn is_on_hugetlbfs(pid: u32, mapping: &Mapping) -> bool {
    const HUGETLBFS_MAGIC: i128 = 0x9584_58f6;
    let of_file = PathBuf::from(format!("/proc/{pid}/map_files/{:x}-{:x}", mapping.start, mapping.end));
    let mut seen = [of_file, in_root(pid, &mapping.path)].into_iter().filter_map(|path| rustix::fs::statfs(path).ok());
    mapping.path.starts_with('/') && seen.next().is_some_and(|it| i128::from(it.f_type) == HUGETLBFS_MAGIC)
}

fn by_pagemap(
    target: &Target,
    rest: impl Iterator<Item = Mapping>,
    status: &Status,
    processes: usize,
    reading: &mut Reading,
) -> Option<Vec<Mapping>> {
    let mut found = Vec::new();
    let mut of_unknown_share = 0;
    for mut mapping in rest {
        if may_be_touched(&mapping) {
            let way = way(&mapping, status, processes);
            let Some(pages) = of_mapping(target.pagemap(), &mapping, way, reading) else {
                return stopped(target, reading);
            };
            let is_hugetlb = is_hugetlb(target.pid(), &mapping, status);
            fill(&mut mapping, pages, is_hugetlb);
            of_unknown_share += pages.of_unknown_share;
        }
        found.push(mapping);
    }
    if of_unknown_share > 0 && processes > 1 {
        let why = "how many processes share a page is not for this user: pss is a lower bound, as if all of the server's shared it";
        let remedy = format!("run as root, or {}", reading.remedy());
        reading.missing("shares of shared memory", why, Some(&remedy));
    }
    Some(found)
}

fn stopped(target: &Target, reading: &mut Reading) -> Option<Vec<Mapping>> {
    let why = if reading.admits(0) {
        "its pages cannot be read".to_owned()
    } else {
        format!("to read all would hold the server for more than {} ms", LIMIT_US / 1000)
    };
    let remedy = reading.remedy();
    reading.missing(format!("mappings of process {}", target.pid()), why, Some(remedy));
    None
}

fn way(mapping: &Mapping, status: &Status, processes: usize) -> Way {
    let size = mapping.end - mapping.start;
    Way {
        sparse: size > LARGE_IN_MANY && size / 2 > of(status, "VmRSS") + of(status, "VmSwap"),
        may_be_huge: mapping.inode == 0,
        sharers: processes as u64,
    }
}

pub(super) fn fill(mapping: &mut Mapping, pages: Resident, is_hugetlb: bool) {
    mapping.kernel_page_bytes = super::page_bytes();
    if is_hugetlb {
        // like the kernel's own field; the sizes of pages are not known here, and nearly all are of 2 MiB
        mapping.kernel_page_bytes = 2 << 20;
        mapping.private_hugetlb = pages.exclusive;
        mapping.shared_hugetlb = pages.rss - pages.exclusive;
        return;
    }
    mapping.rss = pages.rss;
    mapping.pss = pages.pss;
    mapping.anonymous = pages.anonymous;
    mapping.swap = pages.swap;
    mapping.anon_huge_pages = pages.huge;
}

/// The kernel walks all pages of the process for it; between two mappings it releases the lock if another task waits. With `--deep` the rollup is
/// left out only when it could hold the process for too long, and all pages of the process can be read in slices.
pub(super) fn rollup(process: &ProcessSeen, processes: usize, reading: &mut Reading) -> Option<BTreeMap<String, u64>> {
    let expected_us = (of(&process.status, "VmRSS") >> 20) * US_FOR_MIB;
    let stretch = if reading.options.deep { STRETCH_US } else { STRETCH_US / 4 };
    let admitted = !may_slice(processes, reading) || (expected_us <= stretch && reading.admits(expected_us));
    let read = || fs::read_to_string(format!("/proc/{}/smaps_rollup", process.pid));
    let text = admitted.then(|| reading.hold("smaps_rollup", read))?.ok()?;
    identity(process).is_alive().then(|| ledger::mapping::sizes(&text))
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::super::pagemap::resident;
    use super::*;
    use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};

    /// Anonymous memory of this process; in its first bytes every other page is touched. The page on either side cannot be read, so that the kernel
    /// merges the mapping with no mapping of another test.
    struct Touched {
        start: *mut libc::c_void,
        length: usize,
    }

    const GUARD: usize = 4096;

    impl Touched {
        fn new(length: usize, touched: usize) -> Self {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let whole = length + 2 * GUARD;
            // SAFETY: a new mapping, which nothing else uses; it is written to within its length.
            let start = unsafe { mmap_anonymous(std::ptr::null_mut(), whole, ProtFlags::empty(), flags) }.unwrap();
            // SAFETY: within the mapping.
            let start = unsafe { start.byte_add(GUARD) };
            // SAFETY: as above.
            unsafe { mprotect(start, length, MprotectFlags::READ | MprotectFlags::WRITE) }.unwrap();
            // children of other tests' forks would have a share of it
            for advice in [Advice::LinuxNoHugepage, Advice::LinuxDontFork] {
                // SAFETY: as above.
                unsafe { madvise(start, length, advice) }.unwrap();
            }
            for at in (0..touched).step_by(8192) {
                // SAFETY: as above.
                unsafe { *start.cast::<u8>().add(at) = 1 };
            }
            Self { start, length }
        }
    }

    impl Drop for Touched {
        fn drop(&mut self) {
            // SAFETY: the mapping is ours, and is not used any more.
            unsafe { munmap(self.start.byte_sub(GUARD), self.length + 2 * GUARD) }.unwrap();
        }
    }

    fn at(mappings: &[Mapping], start: u64) -> &Mapping {
        mappings.iter().find(|it| (it.start..it.end).contains(&start)).unwrap()
    }

    #[test]
    fn a_large_mapping_is_read_by_its_pages_as_smaps_would_tell() {
        let touched = Touched::new(600 << 20, 600 << 20);
        let start = touched.start as u64;
        let mut reading = Reading::begin(Options::default());
        let status = ledger::mapping::sizes(&fs::read_to_string("/proc/self/status").unwrap());
        let smaps = || ledger::mapping::mappings(&fs::read_to_string("/proc/self/smaps").unwrap());
        let before = smaps();
        let by_pages = read(&mut super::super::target::own(&mut reading), &status, 2, &mut reading).unwrap();
        let by_smaps = smaps();
        let (pages, smaps) = (at(&by_pages, start), at(&by_smaps, start));
        assert!(pages.flags.is_empty() && !smaps.flags.is_empty(), "{} {}", pages.flags, smaps.flags);
        assert!(pages.rss >= 40 << 20 && pages.rss.abs_diff(smaps.rss) < smaps.rss / 100, "{pages:?} {smaps:?}");
        assert!(
            pages.pss.abs_diff(smaps.pss) < smaps.pss / 100 && pages.anonymous == pages.rss && pages.swap == smaps.swap
        );
        // other tests of this process map and touch memory meanwhile
        let rests = |it: &&Mapping| {
            before
                .iter()
                .chain(&by_smaps)
                .filter(|other| other.start == it.start && other.rss.abs_diff(it.rss) <= 4096)
                .count()
                == 2
        };
        let resting: Vec<u64> = by_smaps.iter().filter(rests).map(|it| it.start).collect();
        let sum = |mappings: &[Mapping], of: fn(&Mapping) -> u64| {
            mappings.iter().filter(|it| resting.contains(&it.start)).map(of).sum::<u64>()
        };
        assert!(resting.len() > 10 && resting.contains(&start), "{resting:?}");
        for of in [|it: &Mapping| it.rss, |it: &Mapping| it.pss, |it: &Mapping| it.anonymous] {
            let (pages, smaps) = (sum(&by_pages, of), sum(&by_smaps, of));
            assert!(pages.abs_diff(smaps) < smaps / 20, "{pages} {smaps}");
        }
    }

    #[test]
    fn a_huge_range_that_is_nearly_empty_is_not_read_page_by_page() {
        let touched = Touched::new(1 << 40, 0);
        let mut reading = Reading::begin(Options::default());
        let mut one =
            at(&ledger::mapping::mappings(&fs::read_to_string("/proc/self/maps").unwrap()), touched.start as u64)
                .clone();
        assert!(one.end - one.start >= 1 << 40);
        one.end = one.start + (1 << 40);
        let none = Way { sparse: true, may_be_huge: true, sharers: 1 };
        let target = super::super::target::own(&mut reading);
        let behind = one.start + (1 << 39);
        let pages = resident(target.pagemap(), behind, one.end, none, &mut reading).unwrap();
        assert_eq!(pages, Resident::default());
        let probe = reading.end().1.into_iter().find(|probe| probe.tier == "pagemap").unwrap();
        assert!(probe.count < 2000, "{probe:?}");
    }

    #[test]
    fn which_mappings_are_large() {
        let of = |start: u64, end: u64, permissions: &str, path: &str| Mapping {
            start,
            end,
            permissions: permissions.into(),
            path: path.into(),
            ..Mapping::default()
        };
        let touched = Touched::new(1 << 30, 16 << 20);
        let start = touched.start as u64;
        let maps = [
            of(0, 1 << 43, "---p", ""),
            of(0, 1 << 30, "rw-s", "/anon_hugepage (deleted)"),
            of(0, 1 << 20, "rw-p", ""),
            of(start, start + (1 << 30), "rw-p", ""),
            of(0, 1 << 30, "rw-s", "/dev/zero (deleted)"),
        ];
        let status = |rss: u64| Status::from([("VmRSS".into(), rss), ("HugetlbPages".into(), 1 << 30)]);
        let mut reading = Reading::begin(Options::default());
        let own = super::super::target::own(&mut reading);
        let can_ask = has_more_than(own.pagemap(), &maps[3], 0, &mut reading).is_some();
        let mut of_rss = |rss, large| first_large(&own, &maps, &status(rss), large, &mut reading);
        // of the private one 8 MiB are touched; a kernel before 6.7 does not tell it
        assert_eq!(of_rss(1 << 28, LARGE_IN_MANY), Some(if can_ask { 4 } else { 3 }));
        assert_eq!(of_rss(1 << 28, 4 << 20), Some(3));
        assert_eq!(of_rss(1 << 25, LARGE_IN_MANY), None, "so little is resident");
    }
}
