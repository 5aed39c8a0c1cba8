// SPDX-License-Identifier: Apache-2.0
//! Dangers for the host while a run lives: which values are read, and when they show a danger. A reading is some small files below `/proc`.
//! [`DiskWatch`] asks the file system, which may hang, and does not wait for the answer.

use super::inquiry::Inquiry;
use super::limits::Limits;
use host::process::Identity;
use journal::{Begun, OomVictim, Role, State, Step, StepState};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use units::Bytes;

/// One look at the host.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) total_bytes: u64,
    pub(crate) available_bytes: u64,
    /// `None`: a kernel without pressure information.
    pub(crate) full_avg10_percent: Option<f64>,
    /// OOM kills since boot, without those in the run's own cgroups: such a kill only means that a server has reached its own limit.
    pub(crate) oom_kills: u64,
    /// The processes that hide RAM live, so that they are the kernel's first victims.
    pub(crate) holders_live: bool,
    pub(crate) disks: Vec<Space>,
}

impl Reading {
    /// `disk` looks at the folder of the sandboxes. `own_kills` keeps the kills of the run's cgroups, also of those that are gone.
    pub(crate) fn take(state: &State, disk: &mut DiskWatch, own_kills: &mut BTreeMap<PathBuf, u64>) -> Self {
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let kib = |name| number_after(&meminfo, name).unwrap_or(u64::MAX >> 10) << 10;
        let vmstat = fs::read_to_string("/proc/vmstat").unwrap_or_default();
        own_kills.extend(own_oom_kills(state));
        let own: u64 = own_kills.values().sum();
        let pressure = fs::read_to_string("/proc/pressure/memory").unwrap_or_default();
        Self {
            total_bytes: kib("MemTotal:"),
            available_bytes: kib("MemAvailable:"),
            full_avg10_percent: full_avg10(&pressure),
            oom_kills: number_after(&vmstat, "oom_kill ").unwrap_or(0).saturating_sub(own),
            holders_live: holders(state).all(Identity::is_alive),
            disks: disk.look().into_iter().collect(),
        }
    }

    /// The first danger, in words. `before` is the previous reading.
    pub(crate) fn danger(&self, before: &Self, state: &State, limits: &Limits) -> Option<String> {
        let of_ram = hides_ram(state).then(|| self.memory(before, limits, server_is_victim(state))).flatten();
        of_ram.or_else(|| has_server(state).then(|| self.disk(limits)).flatten())
    }

    fn memory(&self, before: &Self, limits: &Limits, server_is_victim: bool) -> Option<String> {
        let available = Bytes(self.available_bytes);
        let floor = limits.floor_bytes(self.total_bytes);
        // the experiment is meant to run out of memory: it ends when the kernel kills the server
        if self.available_bytes < floor && !server_is_victim {
            return Some(format!("only {available} of RAM were available, and the floor is {}", Bytes(floor)));
        }
        // a kill within the limit of somebody else's cgroup alone is no danger to the host
        let short = !self.holders_live || self.available_bytes < limits.pressure_floor_bytes(self.total_bytes);
        let killed = self.oom_kills.saturating_sub(before.oom_kills);
        if killed > 0 && if server_is_victim { !self.holders_live } else { short } {
            return Some(format!("the kernel killed {killed} process(es) for want of memory while RAM was hidden"));
        }
        let full = self.full_avg10_percent.filter(|full| *full >= limits.pressure_full_percent)?;
        short.then(|| {
            format!("every task waited for memory in {full:.0} % of the last 10 s, with {available} of RAM available")
        })
    }

    fn disk(&self, limits: &Limits) -> Option<String> {
        self.disks.iter().find_map(|(folder, free, size)| {
            let floor = limits.disk_floor_bytes(*size);
            (*free < floor).then(|| {
                format!(
                    "the disk of {} is nearly full: {} are free, and {} must stay",
                    folder.display(),
                    Bytes(*free),
                    Bytes(floor)
                )
            })
        })
    }
}

fn holders(state: &State) -> impl Iterator<Item = &Identity> {
    let holds = |step: &&StepState| matches!(step.change, Step::Process { role: Role::Holder, .. });
    state.steps.iter().filter(|step| step.is_open()).filter(holds).flat_map(|step| &step.processes)
}

/// The steps that hide RAM: by a process, or by pages or blocks that no process holds.
fn hiding(state: &State) -> impl Iterator<Item = &StepState> {
    let hides = |step: &&StepState| {
        use Step::{HugePool, MemoryBlocks, Process};
        matches!(step.change, Process { role: Role::Holder, .. } | HugePool { .. } | MemoryBlocks { .. })
    };
    state.steps.iter().filter(|step| step.is_open()).filter(hides)
}

fn hides_ram(state: &State) -> bool {
    hiding(state).next().is_some()
}

/// Whether the kernel should kill the run's server: then the run goes on without memory until that happens.
fn server_is_victim(state: &State) -> bool {
    hiding(state).any(|step| step.oom_victim == OomVictim::Server)
}

/// Whether the run has a sandbox's server. Only then the disk is guarded: the folder in which the command of `wringer squeeze` writes is the user's
/// business.
fn has_server(state: &State) -> bool {
    let sandbox = |begun: &Begun| begun.resources.iter().any(|resource| resource.starts_with("sandbox-"));
    state.begun.as_ref().is_none_or(sandbox) && has_open(state, |role| role == Role::Server)
}

fn has_open(state: &State, wanted: impl Fn(Role) -> bool) -> bool {
    state.steps.iter().any(|step| step.is_open() && matches!(step.change, Step::Process { role, .. } if wanted(role)))
}

/// The number that follows `name` at the begin of a line.
fn number_after(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// The value in `full avg10=0.00 avg60=0.00 avg300=0.00 total=0` (kernel, accounting/psi.rst).
fn full_avg10(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("full avg10=")?.split(' ').next()?.parse().ok())
}

/// The OOM kills of each cgroup of the run. `memory.events` on v2, and `memory.oom_control` on v1 since Linux 4.13, have a line `oom_kill N`.
fn own_oom_kills(state: &State) -> Vec<(PathBuf, u64)> {
    let cgroups = state.steps.iter().filter_map(|step| match &step.change {
        Step::Cgroup { path, .. } => Some(path),
        _ => None,
    });
    let files = cgroups.flat_map(|path| ["memory.events", "memory.oom_control"].map(|name| path.join(name)));
    let kills = |file: PathBuf| Some((number_after(&fs::read_to_string(&file).ok()?, "oom_kill ")?, file));
    files.filter_map(kills).map(|(count, file)| (file, count)).collect()
}

/// Folder, free bytes, size.
pub(crate) type Space = (PathBuf, u64, u64);

/// Watches the free space of the sandboxes' disk. When that file system does not answer, the last known number stays.
pub(crate) struct DiskWatch {
    inquiry: Option<Inquiry<Option<Space>>>,
    known: Option<Space>,
}

impl DiskWatch {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { inquiry: Inquiry::start("ask the disk", move || space(&folder)), known: None }
    }

    /// The space as it was at the look before this one.
    fn look(&mut self) -> Option<Space> {
        if let Some(answer) = self.inquiry.as_mut().and_then(|inquiry| inquiry.answer(true)) {
            self.known = answer;
        }
        self.known.clone()
    }
}

/// Asks the file system for its space; it may hang as the file system does.
fn space(folder: &Path) -> Option<Space> {
    let there = folder.ancestors().find(|folder| folder.is_dir())?;
    let space = rustix::fs::statvfs(there).ok()?;
    Some((folder.to_owned(), space.f_bavail * space.f_frsize, space.f_blocks * space.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::{Phase, StepId};

    const GIB: u64 = 1 << 30;

    fn state(roles: &[Role]) -> State {
        let step = |(index, role): (usize, &Role)| StepState {
            id: StepId(u32::try_from(index).expect("small")),
            change: Step::Process { role: *role, program: String::new(), stop_signal: 15, grace_ms: 0 },
            oom_victim: OomVictim::default(),
            phase: Phase::Done,
            completed: true,
            processes: vec![],
            observed: None,
        };
        State { steps: roles.iter().enumerate().map(step).collect(), ..State::default() }
    }

    fn healthy() -> Reading {
        Reading {
            total_bytes: 24 * GIB,
            available_bytes: 4 * GIB,
            full_avg10_percent: Some(1.0),
            oom_kills: 3,
            holders_live: true,
            disks: vec![("/sandboxes".into(), 10 * GIB, 100 * GIB)],
        }
    }

    fn danger(reading: &Reading, roles: &[Role]) -> Option<String> {
        reading.danger(&healthy(), &state(roles), &Limits::default())
    }

    #[test]
    fn a_healthy_host_is_left_in_peace() {
        assert_eq!(danger(&healthy(), &[Role::Holder, Role::Server]), None);
        let thrashing = Reading { full_avg10_percent: Some(99.0), ..healthy() };
        assert_eq!(danger(&thrashing, &[Role::Holder]), None, "a slow disk, and memory enough");
        assert_eq!(danger(&Reading { oom_kills: 4, ..healthy() }, &[Role::Holder]), None, "somebody's cgroup");
    }

    #[test]
    fn each_danger_is_told_in_words() {
        let check = |reading: Reading, words: &str| {
            let told = danger(&reading, &[Role::Holder, Role::Server]).expect("a danger");
            assert!(told.contains(words), "{told}");
        };
        check(Reading { available_bytes: 200 << 20, ..healthy() }, "only 200 MiB of RAM");
        check(Reading { oom_kills: 5, holders_live: false, ..healthy() }, "killed 2 process");
        check(Reading { oom_kills: 4, available_bytes: 400 << 20, ..healthy() }, "killed 1 process");
        let available_bytes = 400 << 20;
        check(Reading { full_avg10_percent: Some(93.4), available_bytes, ..healthy() }, "93 % of the last 10 s");
        check(Reading { disks: vec![("/s".into(), 100 << 20, 100 * GIB)], ..healthy() }, "disk of /s is nearly full");
    }

    #[test]
    fn a_server_that_is_to_be_killed_may_take_all_memory() {
        let starved = Reading { available_bytes: 1 << 20, oom_kills: 4, ..healthy() };
        let of_server = |reading: &Reading, change: Step| {
            let mut state = state(&[Role::Holder, Role::Server]);
            state.steps[0].change = change;
            state.steps[0].oom_victim = OomVictim::Server;
            reading.danger(&healthy(), &state, &Limits::default())
        };
        let holder = || Step::Process { role: Role::Holder, program: String::new(), stop_signal: 15, grace_ms: 0 };
        let changes = [
            holder(),
            Step::HugePool { before: 0, after: 1, nodes: Vec::new() },
            Step::MemoryBlocks { kernel: "32".into(), movable: String::new(), values: vec![] },
        ];
        for change in changes {
            assert_eq!(of_server(&starved, change.clone()), None, "{change}");
            let thrashing = Reading { full_avg10_percent: Some(95.0), ..starved.clone() };
            assert!(of_server(&thrashing, change).is_some_and(|told| told.contains("95 % of the last 10 s")));
        }
        let dead = Reading { holders_live: false, ..starved };
        assert!(of_server(&dead, holder()).is_some_and(|told| told.contains("killed 1 process")));
    }

    #[test]
    fn whom_a_step_spares_counts_while_it_hides_ram() {
        let starved = Reading { available_bytes: 1 << 20, ..healthy() };
        let mut state = state(&[Role::Holder, Role::Server]);
        state.steps[1].oom_victim = OomVictim::Server;
        assert!(starved.danger(&healthy(), &state, &Limits::default()).is_some(), "no step that hides RAM says so");
        state.steps[0].oom_victim = OomVictim::Server;
        assert_eq!(starved.danger(&healthy(), &state, &Limits::default()), None);
        state.steps[0].phase = Phase::Undone(journal::Outcome::Restored);
        state.steps.push(StepState { id: StepId(9), ..state.steps[0].clone() });
        state.steps[2].phase = Phase::Done;
        state.steps[2].oom_victim = OomVictim::Holder;
        assert!(starved.danger(&healthy(), &state, &Limits::default()).is_some(), "that was the arm before");
    }

    #[test]
    fn what_a_run_does_not_touch_is_not_its_danger() {
        let starved = Reading { available_bytes: 1, oom_kills: 9, ..healthy() };
        assert_eq!(danger(&starved, &[Role::SlowLayer, Role::Server]), None);
        let full = Reading { disks: vec![("/s".into(), 0, GIB)], ..healthy() };
        assert_eq!(danger(&full, &[Role::Holder]), None);
    }

    #[test]
    fn the_kernels_texts() {
        assert_eq!(
            full_avg10("some avg10=1.50 avg60=0\nfull avg10=12.34 avg60=0.00 avg300=0.00 total=5\n"),
            Some(12.34)
        );
        assert_eq!(number_after("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n", "oom_kill "), Some(7));
        let mut disk = DiskWatch::new("/no/such/folder".into());
        let mut take = || Reading::take(&State::default(), &mut disk, &mut BTreeMap::new());
        let reading = take();
        assert!(reading.available_bytes > 0 && reading.available_bytes < reading.total_bytes);
        let known = std::iter::repeat_with(take).find_map(|reading| reading.disks.first().cloned());
        assert!(known.is_some_and(|(_, _, size)| size > 0), "the nearest folder that is there");
    }
}
