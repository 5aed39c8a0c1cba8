// SPDX-License-Identifier: Apache-2.0
//! Finds page cache of a limited program's files that is not charged to its cgroup: another program has read them before (a backup,
//! a second server), and reading them again costs the limited program nothing.
//!
//! In: the cgroup, and the files of its program: a folder, or the open files of its processes. Out: the cached bytes of these
//! files, and the page cache charged to the cgroup. The cgroup pays for other files, too, so the difference is the least that
//! others pay for. Only the kernel's counts are read.

use ::probe::residency::residency;
use ::probe::tree;
use evidence::{Measured, Quantity};
use host::clock::thread_cpu_time;
use rustix::fs::fstatfs;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use units::Bytes;

/// The result of one look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForeignCache {
    pub files: u64,
    /// Cached bytes of these files, no matter who is charged for them.
    pub cached_bytes: u64,
    /// Page cache of any file that is charged to the cgroup.
    pub charged_bytes: u64,
}

impl ForeignCache {
    /// The least number of bytes that are charged to others.
    pub fn bytes(&self) -> u64 {
        self.cached_bytes.saturating_sub(self.charged_bytes)
    }

    /// Whether these bytes are more than 1 % of the limit, and more than the error of the kernel's counts.
    pub fn matters(&self, limit: Bytes) -> bool {
        self.bytes() > tolerance(limit)
    }

    #[must_use]
    pub fn worse(self, other: Self) -> Self {
        if other.bytes() > self.bytes() { other } else { self }
    }

    pub fn measured(&self, arm: &str, limit: Bytes, mechanism: &str, at_us: u64) -> Measured {
        Measured {
            at_us,
            arm: Some(arm.to_owned()),
            what: "server.ram.cached_by_others".into(),
            mechanism: mechanism.to_owned(),
            asked: Some(Quantity::bytes(0)),
            predicted: None,
            got: Some(Quantity::bytes(self.bytes())),
            witness: format!(
                "{} of the server's {} files are in the page cache, and {} of page cache are charged to its cgroup",
                Bytes(self.cached_bytes),
                self.files,
                Bytes(self.charged_bytes)
            ),
            within_tolerance: Some(!self.matters(limit)),
            tolerance: Some(format!("{}: 1 % of the limit, and what the kernel's counts lag", Bytes(tolerance(limit)))),
            looks: None,
            came_on: None,
        }
    }
}

impl fmt::Display for ForeignCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of its files are in the page cache of others", Bytes(self.bytes()))
    }
}

/// Each CPU may hold back a change of this many pages before the cgroup's counts show it (kernel, mm/memcontrol.c, `MEMCG_CHARGE_BATCH`).
const LAG_PAGES: u64 = 64;

fn tolerance(limit: Bytes) -> u64 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let lag = LAG_PAGES * cpus * rustix::param::page_size() as u64;
    lag.max(limit.0 / 100).max(Bytes::MIB)
}

/// Looks at all files below a folder. `None`: unknown, because the files are in RAM, or the kernel does not count.
pub fn of_folder(cgroup: &Path, folder: &Path) -> Option<ForeignCache> {
    if lives_in_ram(&File::open(folder).ok()?) {
        return None;
    }
    // Counted before the charge is read, so that pages that the program reads meanwhile are not counted as pages of others.
    let totals = tree::cached(&[folder.to_owned()], 0, &mut |_| {}).ok()?.totals;
    Some(ForeignCache { files: totals.files, cached_bytes: totals.cached_bytes, charged_bytes: charged(cgroup)? })
}

/// Looks at all files that the processes of the cgroup have open now.
pub fn of_open_files(cgroup: &Path) -> Option<ForeignCache> {
    let (mut found, mut seen) = (ForeignCache::default(), BTreeSet::new());
    let processes = fs::read_to_string(cgroup.join("cgroup.procs")).ok()?;
    for pid in processes.lines().filter_map(|line| line.parse().ok()) {
        add_open_files(pid, &mut found, &mut seen);
    }
    (found.files > 0).then_some(())?;
    Some(ForeignCache { charged_bytes: charged(cgroup)?, ..found })
}

/// Inspects the descriptors without opening the files anew: no file system has to answer.
fn add_open_files(pid: i32, found: &mut ForeignCache, seen: &mut BTreeSet<(u64, u64)>) -> Option<()> {
    let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten() {
        let is_new_file = fs::metadata(entry.path()).is_ok_and(|it| it.is_file() && seen.insert((it.dev(), it.ino())));
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let (true, Some(number)) = (is_new_file, number) else { continue };
        let Ok(file) = pidfd_getfd(&process, number, PidfdGetfdFlags::empty()).map(File::from) else { continue };
        if lives_in_ram(&file) {
            continue;
        }
        if let Ok(residency) = residency(&file, &entry.path()) {
            found.files += 1;
            found.cached_bytes += residency.cached_bytes();
        }
    }
    Some(())
}

/// Files of tmpfs and of memfd_create: they count as shared memory, and no disk is read for them.
fn lives_in_ram(file: &File) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    const HUGETLBFS: u64 = 0x9584_58f6;
    #[allow(clippy::cast_sign_loss, clippy::unnecessary_cast)] // a number of 32 bits, however it is kept
    fstatfs(file).is_ok_and(|state| [TMPFS, RAMFS, HUGETLBFS].contains(&(state.f_type as u64 & 0xffff_ffff)))
}

/// The page cache of files that is charged to a cgroup and those below it, without shared memory. v1 has `total_cache`, v2 `file`.
fn charged(cgroup: &Path) -> Option<u64> {
    let text = fs::read_to_string(cgroup.join("memory.stat")).ok()?;
    let number = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
    };
    let (cache, shared) = match number("file") {
        Some(file) => (file, number("shmem")),
        None => (number("total_cache")?, number("total_shmem")),
    };
    Some(cache.saturating_sub(shared.unwrap_or(0)))
}

/// Inspects the open files of a limited program repeatedly, seldom enough to cost less than 1 %.
#[derive(Debug)]
pub struct Watch {
    cgroup: PathBuf,
    next: Instant,
    /// The worst result so far. `None`: no file was open yet.
    pub seen: Option<ForeignCache>,
}

impl Watch {
    pub fn new(cgroup: &Path) -> Self {
        Self { cgroup: cgroup.to_owned(), next: Instant::now(), seen: None }
    }

    pub fn look(&mut self) {
        if Instant::now() < self.next {
            return;
        }
        // a look that only had to wait for a busy host has cost nothing
        let before = thread_cpu_time();
        if let Some(look) = of_open_files(&self.cgroup) {
            self.seen = Some(self.seen.map_or(look, |seen| seen.worse(look)));
        }
        self.next = Instant::now() + thread_cpu_time().saturating_sub(before) * 100;
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    fn charged_of(stat: &str) -> Option<u64> {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("memory.stat"), stat).expect("writes");
        charged(folder.path())
    }

    #[test]
    fn the_charge_is_page_cache_of_files_in_both_versions() {
        let v1 = "cache 1\nrss 5\nshmem 1\nmapped_file 9\ntotal_cache 8192\ntotal_rss 5\ntotal_shmem 4096\n";
        let v2 = "anon 77\nfile 12288\nkernel 9\nshmem 4096\nfile_mapped 4096\nfile_dirty 0\n";
        assert_eq!((charged_of(v1), charged_of(v2)), (Some(4096), Some(8192)));
        assert_eq!(charged_of("anon 77\n"), None);
    }

    #[test]
    fn only_what_the_cgroup_does_not_pay_for_is_others() {
        let look = |cached: u64, charged: u64| ForeignCache {
            files: 1,
            cached_bytes: cached << 20,
            charged_bytes: charged << 20,
        };
        assert_eq!(look(30, 10).bytes(), 20 << 20);
        assert_eq!(look(10, 30).bytes(), 0, "it pays for other files, too");
        assert!(look(30, 10).matters(Bytes::mib(64)) && !look(10, 10).matters(Bytes::mib(64)));
        assert!(!look(30, 10).matters(Bytes::gib(4)), "less than 1 % of the limit");
        assert_eq!(look(30, 10).worse(look(5, 0)), look(30, 10));
    }

    /// Looks at this process: a file that was just written is cached; a file in RAM is left out.
    #[test]
    fn what_processes_have_open_is_counted_once() {
        let folder = tempfile::tempdir_in(".").expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, vec![1; 3 << 20]).expect("writes");
        let open = [File::open(&path).expect("opens"), File::open(&path).expect("opens")];
        let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).map(File::from).expect("made");
        memory.set_len(1 << 20).expect("grows");
        let (mut found, mut seen) = (ForeignCache::default(), BTreeSet::new());
        add_open_files(i32::try_from(std::process::id()).expect("a pid"), &mut found, &mut seen);
        // the kernel may drop pages at any moment, so the later count is never larger
        let after = residency(&open[0], &path).expect("asks").cached_bytes();
        assert!(found.files >= 1 && found.cached_bytes >= after && after > 1 << 20, "{found:?}, then {after}");
        let key = open[0].metadata().map(|it| (it.dev(), it.ino())).expect("is there");
        assert!(seen.contains(&key));
        assert!(lives_in_ram(&memory) && !lives_in_ram(&open[1]));
    }
}
