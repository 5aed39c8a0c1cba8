// SPDX-License-Identifier: Apache-2.0
//! Counters whose growth shows how busy a host was, and with which work: of the hypervisor, of other programs, of another run, of the kernel.

use crate::host_readers::tick_us;
use crate::parse;
use host::clock::RunClock;
use host::process::{pids, run_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The flag of the kernel's own threads (linux/sched.h, PF_KTHREAD), in field 9 of /proc/PID/stat.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Reads the host's counters repeatedly, for one process and all its descendants.
#[derive(Debug, Clone)]
pub struct Look {
    clock: RunClock,
    own: u32,
    /// The file `stat` of the disk's device.
    device: Option<PathBuf>,
}

impl Look {
    /// `own`: the work of this process and of all its descendants is the run's own. `storage`: a path on the disk to be read.
    pub fn on_behalf_of(own: u32, storage: Option<&Path>) -> Self {
        Self { clock: RunClock::start(), own, device: storage.and_then(device_of) }
    }

    /// The counters now: microseconds, bytes and numbers, as their names say. Counters that this kernel does not have are left out.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        let mut counters = BTreeMap::new();
        let mut put = |name: &str, value: u64| counters.insert(name.to_owned(), value);
        put("elapsed us", self.clock.now_us());
        for (name, value) in cpu(&read("stat")) {
            put(name, value);
        }
        for (file, name) in [("cpu", "cpu"), ("io", "io"), ("memory", "memory")] {
            for (who, value) in pressure(&read(&format!("pressure/{file}"))) {
                put(&format!("waiting for {name}, {who} us"), value);
            }
        }
        let processes = processes();
        let ours = self.ours(&processes);
        let others = other_runs(&processes, &ours);
        let cpu_of = |wanted: &dyn Fn(&Process) -> bool| {
            processes.iter().filter(|it| wanted(it)).map(|process| process.cpu_us).sum::<u64>()
        };
        put("own cpu us", cpu_of(&|it| ours.contains(&it.pid)));
        put("kernel cpu us", cpu_of(&|it| it.is_kernel));
        put("other runs cpu us", cpu_of(&|it| others.pids.contains(&it.pid)));
        put("other runs", others.runs.len() as u64);
        if let Some(bytes) = self.device.as_ref().and_then(|stat| moved(&fs::read_to_string(stat).ok()?)) {
            put("disk bytes", bytes);
            put("own disk bytes", ours.iter().map(|pid| moved_by(*pid)).sum());
        }
        counters
    }

    fn ours(&self, processes: &[Process]) -> BTreeSet<u32> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        processes.iter().for_each(|it| children.entry(it.parent).or_default().push(it.pid));
        let (mut ours, mut next) = (BTreeSet::new(), vec![self.own]);
        while let Some(pid) = next.pop() {
            if ours.insert(pid) {
                next.extend(children.get(&pid).into_iter().flatten());
            }
        }
        ours
    }
}

/// A file below `/proc`; empty when this kernel does not have it, or does not show it to this user.
fn read(file: &str) -> String {
    fs::read_to_string(Path::new("/proc").join(file)).unwrap_or_default()
}

fn processes() -> Vec<Process> {
    pids().filter_map(|pid| Process::parse(pid, &read(&format!("{pid}/stat")), tick_us())).collect()
}

/// Bytes that a process and its ended children have read and written.
fn moved_by(pid: u32) -> u64 {
    let mut bytes = 0.0;
    parse::process_io(&read(&format!("{pid}/io")), |name, _, value| {
        if ["read_bytes", "write_bytes"].contains(&name) {
            bytes += value;
        }
    });
    whole(bytes)
}

#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    parent: u32,
    is_kernel: bool,
    /// The CPU time of the process and of its children that have ended.
    cpu_us: u64,
}

impl Process {
    fn parse(pid: u32, stat: &str, tick_us: f64) -> Option<Self> {
        let (_, rest) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // field 3 of proc_pid_stat(5) is the first field after the name
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = field(14)? + field(15)? + field(16)? + field(17)?;
        let parent = u32::try_from(field(4)?).ok()?;
        Some(Self { pid, parent, is_kernel: field(9)? & KERNEL_THREAD != 0, cpu_us: whole(ticks as f64 * tick_us) })
    }
}

struct OtherRuns {
    runs: BTreeSet<String>,
    pids: BTreeSet<u32>,
}

/// Runs of Wringer that are not descendants of this process, as far as this user may see them.
fn other_runs(processes: &[Process], ours: &BTreeSet<u32>) -> OtherRuns {
    let marked = processes.iter().filter(|it| !it.is_kernel).filter_map(|it| Some((it.pid, run_of(it.pid)?)));
    let (below_us, others): (Vec<_>, Vec<_>) = marked.partition(|(pid, _)| ours.contains(pid));
    let own: BTreeSet<String> =
        below_us.into_iter().map(|(_, run)| run).chain(std::env::var(host::process::RUN_VARIABLE).ok()).collect();
    // our own watchdog is no descendant of this process
    let (pids, runs) = others.into_iter().filter(|(_, run)| !own.contains(run)).unzip();
    OtherRuns { runs, pids }
}

fn cpu(stat: &str) -> Vec<(&'static str, u64)> {
    let mut times: BTreeMap<String, f64> = BTreeMap::new();
    parse::stat(stat, tick_us(), |name, _, value| {
        times.insert(name.to_owned(), value);
    });
    let sum = |names: &[&str]| whole(names.iter().filter_map(|name| times.get(*name)).sum());
    if !times.contains_key("idle") {
        return Vec::new();
    }
    // the host's user time includes the time of guests
    let all = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
    vec![
        ("host cpu us", sum(&all)),
        ("host idle us", sum(&["idle", "iowait"])),
        ("host interrupts us", sum(&["irq", "softirq"])),
        ("host stolen us", sum(&["steal"])),
    ]
}

fn pressure(text: &str) -> Vec<(String, u64)> {
    let mut totals = Vec::new();
    parse::pressure(text, |name, _, value| {
        if let Some((who, "total")) = name.split_once('.') {
            totals.push((who.to_owned(), whole(value)));
        }
    });
    totals
}

/// The file `stat` of the device that holds `path`; `None` when the file system has no device of its own, such as an overlay.
fn device_of(path: &Path) -> Option<PathBuf> {
    let there = path.ancestors().find(|path| path.exists())?;
    let device = rustix::fs::stat(there).ok()?.st_dev;
    let stat = format!("/sys/dev/block/{}:{}/stat", rustix::fs::major(device), rustix::fs::minor(device));
    Some(PathBuf::from(stat)).filter(|stat| stat.exists())
}

/// Bytes that the device has read and written.
fn moved(stat: &str) -> Option<u64> {
    let fields: Vec<u64> = stat.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    Some(whole((fields.get(2)? + fields.get(6)?) as f64 * parse::SECTOR_BYTES))
}

#[allow(clippy::cast_possible_truncation)] // counters are whole, and not negative
fn whole(value: f64) -> u64 {
    value.max(0.0).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn what_stands_in_proc() {
        let stat = "4711 (a) b) S 12 1 1 0 -1 2129984 1 2 3 4 10 20 30 40 20 0 1 0 99 0 0";
        let found = Process::parse(4711, stat, 10_000.0).expect("is one");
        assert_eq!(found, Process { pid: 4711, parent: 12, is_kernel: true, cpu_us: 1_000_000 });
        assert_eq!(Process::parse(1, "1 (init", 1.0), None);
        let cpu = cpu("cpu  1 1 1 5 1 1 1 9 100 0\ncpu0 1 1 1 5 1 1 1 9 0 0\n");
        let tick = whole(tick_us());
        assert_eq!(cpu[0], ("host cpu us", 20 * tick));
        assert_eq!(cpu[3], ("host stolen us", 9 * tick));
        assert_eq!(moved(" 10 0 8 1 20 0 16 2 0 3 4"), Some(24 * 512));
        assert_eq!(pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=77\n"), [("some".to_owned(), 77)]);
    }

    /// The same work counts as others' for one observer and as own for another one: each is the control of the other.
    #[test]
    fn the_work_of_a_child_is_own_and_not_to_a_stranger() {
        let mine = Look::on_behalf_of(std::process::id(), None);
        // a process that has no children
        let nobody = Look::on_behalf_of(u32::MAX, None);
        let own = |look: &Look| look.counters()["own cpu us"];
        let (before, strange) = (own(&mine), own(&nobody));
        let until = Instant::now() + Duration::from_secs(60);
        while own(&mine) < before + 100_000 {
            assert!(Instant::now() < until, "100 ms of CPU time in a minute");
        }
        assert_eq!((own(&nobody), strange), (0, 0));
    }
}
