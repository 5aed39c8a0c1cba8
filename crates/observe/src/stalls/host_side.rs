// SPDX-License-Identifier: Apache-2.0
//! The host during a watch: tasks that wait for memory, and the disk of the data directory.

use crate::parse;
use ::stalls::watch::{DiskTimes, HostReading};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct HostSide {
    /// The file of memory pressure: of the server's cgroup, or of the host.
    memory: PathBuf,
    /// The disk's major and minor number.
    disk: Option<(u32, u32)>,
}

impl HostSide {
    /// `data`: the path of the data directory in the server's view.
    pub(super) fn of(pid: u32, data: Option<&str>) -> Self {
        let memory = cgroup_pressure(pid).unwrap_or_else(|| "/proc/pressure/memory".into());
        let disk = data.filter(|it| it.starts_with('/')).and_then(|data| {
            let device = std::fs::metadata(format!("/proc/{pid}/root{data}")).ok()?.dev();
            let numbers = (rustix::fs::major(device), rustix::fs::minor(device));
            // the kernel counts nothing for file systems without a device of their own
            disk(&std::fs::read_to_string("/proc/diskstats").ok()?, numbers).map(|_| numbers)
        });
        Self { memory, disk }
    }

    pub(super) fn knows_the_disk(&self) -> bool {
        self.disk.is_some()
    }

    pub(super) fn read(&self) -> HostReading {
        let disks = self.disk.and_then(|numbers| Some((std::fs::read_to_string("/proc/diskstats").ok()?, numbers)));
        HostReading {
            memory_us: std::fs::read_to_string(&self.memory).ok().and_then(|text| some_total(&text)),
            disk: disks.and_then(|(text, numbers)| disk(&text, numbers)),
        }
    }
}

/// The file `memory.pressure` of the process's cgroup (v2), if it is readable.
fn cgroup_pressure(pid: u32) -> Option<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    // the root cgroup has none: it is the host
    let path = Path::new("/sys/fs/cgroup").join(path.strip_prefix('/')?).join("memory.pressure");
    std::fs::read_to_string(&path).ok().and_then(|text| some_total(&text)).map(|_| path)
}

/// The microseconds in which some task waited.
pub(super) fn some_total(text: &str) -> Option<u64> {
    let mut us = None;
    parse::pressure(text, |name, _, value| {
        if name == "some.total" {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter")]
            let value = value.max(0.0) as u64;
            us = Some(value);
        }
    });
    us
}

/// One line of `/proc/diskstats` (kernel, admin-guide/iostats.rst): major, minor, name, reads, merged, sectors, ms, writes, merged, sectors, ms; from
/// Linux 5.5 on, flushes are the 16th and 17th number after the name.
fn disk(text: &str, (major, minor): (u32, u32)) -> Option<DiskTimes> {
    let line = text.lines().find(|line| {
        let mut words = line.split_ascii_whitespace().map(str::parse);
        words.next() == Some(Ok(major)) && words.next() == Some(Ok(minor))
    })?;
    let numbers: Vec<u64> = line.split_ascii_whitespace().skip(3).map_while(|word| word.parse().ok()).collect();
    let of = |nth: usize| numbers.get(nth).copied();
    Some(DiskTimes {
        reads: of(0)?,
        read_ms: of(3)?,
        writes: of(4)? + of(15).unwrap_or(0),
        write_ms: of(7)? + of(16).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_one_disk_with_its_flushes() {
        let text = "   7       0 loop0 1 0 8 2 0 0 0 0 0 2 2\n 254       0 vda 343681 40 2779788 1149306 270043 750 2011272 540624 0 318708 1721502 1 2 3 4 18654 31571\n";
        let of = DiskTimes { reads: 343_681, read_ms: 1_149_306, writes: 288_697, write_ms: 572_195 };
        assert_eq!(disk(text, (254, 0)), Some(of));
        assert_eq!(disk(text, (7, 0)), Some(DiskTimes { reads: 1, read_ms: 2, writes: 0, write_ms: 0 }));
        assert_eq!(disk(text, (7, 1)), None);
        assert_eq!(disk("garbage\n 254 0 vda 1\n", (254, 0)), None);
    }

    #[test]
    fn this_host_says_what_its_tasks_wait_for() {
        let own = HostSide::of(std::process::id(), Some("/"));
        let (first, second) = (own.read(), own.read());
        if std::path::Path::new("/proc/pressure/memory").exists() {
            assert!(second.memory_us >= first.memory_us && first.memory_us.is_some(), "{first:?}");
        }
        assert_eq!(first.disk.is_some(), own.knows_the_disk());
        assert!(!HostSide::of(std::process::id(), Some("relative")).knows_the_disk());
    }
}
