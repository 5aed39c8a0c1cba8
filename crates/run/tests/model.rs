// SPDX-License-Identifier: Apache-2.0
//! Any plan, cut at any point, then recovered, leaves the first state. The journal is real, the host is a model.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use host::permit::Permit;
use host::process::Identity;
use journal::{Begun, Journal, JournalFile, Kind, Outcome, Role, RunId, Step, StepState};
use proptest::prelude::*;
use run::{CgroupVersion, Executor, Members, dismantle, neutralise};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

/// What a host has that a step may change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct World {
    values: BTreeMap<PathBuf, String>,
    cgroups: BTreeSet<PathBuf>,
    mounts: BTreeSet<PathBuf>,
    processes: BTreeSet<Identity>,
    pool: u64,
    offline: BTreeSet<u32>,
    mappings: BTreeSet<String>,
    loops: BTreeSet<String>,
}

impl World {
    fn first() -> Self {
        let values = (0..2).map(|index| (value_path(index), "first".to_owned())).collect();
        Self { values, ..Self::default() }
    }

    fn apply(&mut self, step: &Step, process: Identity) {
        match step {
            Step::Value { path, after, .. } => drop(self.values.insert(path.clone(), after.clone())),
            Step::Cgroup { path, .. } => drop(self.cgroups.insert(path.clone())),
            Step::Mount { target, .. } => drop(self.mounts.insert(target.clone())),
            Step::Process { .. } => drop(self.processes.insert(process)),
            // never all that was asked for
            Step::HugePool { before, after, .. } => self.pool = (before + after).div_ceil(2),
            Step::MemoryBlocks { kernel, .. } => self.offline.extend(kernel.parse::<u32>()),
            Step::Mapping { uuid, .. } => drop(self.mappings.insert(uuid.clone())),
            Step::LoopDevice { name, .. } => drop(self.loops.insert(name.clone())),
            Step::Note { .. } => {}
        }
    }

    /// Which a real step reads back for its record.
    fn observed(&self, step: &Step) -> Option<String> {
        match step {
            Step::HugePool { .. } => Some(self.pool.to_string()),
            Step::MemoryBlocks { kernel, .. } => Some(kernel.clone()),
            _ => None,
        }
    }
}

fn value_path(index: u8) -> PathBuf {
    PathBuf::from(format!("/proc/sys/model/value{index}"))
}

/// Counts down the events of a life; the one that finds nothing left is the crash.
#[derive(Debug, Clone)]
struct Fuel(u32);

struct Crash;

impl Fuel {
    fn burn(&mut self) -> Result<(), Crash> {
        self.0 = self.0.checked_sub(1).ok_or(Crash)?;
        Ok(())
    }
}

/// The model of `executor::RealHost`.
struct FakeHost<'a> {
    world: &'a mut World,
    known: Vec<Identity>,
    fuel: Option<&'a mut Fuel>,
    /// Steps whose undo fails for now.
    busy: BTreeSet<u32>,
    /// A kind whose undo is missing.
    forgets: Option<&'static str>,
}

impl FakeHost<'_> {
    fn crash_here(&mut self) {
        if self.fuel.as_mut().is_some_and(|fuel| fuel.burn().is_err()) {
            resume_unwind(Box::new("crash"));
        }
    }

    fn end(&mut self, step: &StepState) -> Outcome {
        let known = self.known.clone();
        let strays = self.world.processes.iter().filter(|process| !known.contains(process)).copied().collect();
        let ended: Vec<Identity> = if step.processes.is_empty() { strays } else { step.processes.clone() };
        let before = self.world.processes.len();
        self.world.processes.retain(|process| !ended.contains(process));
        outcome(self.world.processes.len() < before)
    }

    fn shrink(&mut self, before: u64) -> Outcome {
        let changed = self.world.pool != before;
        self.world.pool = before;
        outcome(changed)
    }

    fn restore(&mut self, path: &Path, before: &str, after: &str) -> Outcome {
        let found = self.world.values[path].clone();
        if found == before {
            return Outcome::Nothing;
        }
        if found != after {
            return Outcome::Conflict { expected: after.into(), found, repair: "by hand".into() };
        }
        self.world.values.insert(path.to_owned(), before.to_owned());
        Outcome::Restored
    }
}

fn outcome(changed: bool) -> Outcome {
    if changed { Outcome::Restored } else { Outcome::Nothing }
}

impl Executor for FakeHost<'_> {
    fn neutralise(&mut self, _permit: &Permit, step: &StepState) {
        self.crash_here();
        if matches!(step.change, Step::Process { role: Role::Holder, .. }) && self.forgets != Some("process") {
            self.end(step);
        }
    }

    fn undo(&mut self, _permit: &Permit, step: &StepState) -> Result<Outcome, host::Error> {
        self.crash_here();
        if self.busy.remove(&step.id.0) {
            return Err(host::Error::Interrupted);
        }
        if self.forgets == Some(kind_of(&step.change)) {
            return Ok(Outcome::Nothing);
        }
        let outcome = match &step.change {
            Step::Value { path, before, after } => self.restore(path, before, after),
            Step::Cgroup { path, .. } => outcome(self.world.cgroups.remove(path)),
            Step::Mount { target, .. } => outcome(self.world.mounts.remove(target)),
            Step::Process { .. } => self.end(step),
            Step::HugePool { before, .. } => self.shrink(*before),
            Step::MemoryBlocks { kernel, .. } => outcome(kernel.parse().is_ok_and(|it| self.world.offline.remove(&it))),
            Step::Mapping { uuid, .. } => outcome(self.world.mappings.remove(uuid)),
            Step::LoopDevice { name, .. } => outcome(self.world.loops.remove(name)),
            Step::Note { .. } => Outcome::Nothing,
        };
        self.crash_here();
        Ok(outcome)
    }

    fn sweep(&mut self, _permit: &Permit, spared: &[Identity]) -> Result<(), host::Error> {
        self.crash_here();
        if self.forgets != Some("process") {
            self.world.processes.retain(|process| spared.contains(process));
        }
        Ok(())
    }
}

fn kind_of(step: &Step) -> &'static str {
    match step {
        Step::Value { .. } => "value",
        Step::Cgroup { .. } => "cgroup",
        Step::Mount { .. } => "mount",
        Step::Process { .. } => "process",
        Step::HugePool { .. } => "huge_pool",
        Step::MemoryBlocks { .. } => "memory_blocks",
        Step::Mapping { .. } => "mapping",
        Step::LoopDevice { .. } => "loop_device",
        Step::Note { .. } => "note",
    }
}

/// One step of a plan: what, and whether its application fails, before or after it took effect.
#[derive(Debug, Clone)]
struct Planned {
    kind: u8,
    index: u8,
    fails: bool,
    takes_effect: bool,
}

fn planned() -> impl Strategy<Value = Planned> {
    (0..11_u8, 0..2_u8, prop::bool::weighted(0.15), any::<bool>())
        .prop_map(|(kind, index, fails, takes_effect)| Planned { kind, index, fails, takes_effect })
}

fn step_of(planned: &Planned, number: u32, world: &World) -> Step {
    let process = |role| Step::Process { role, program: "model".into(), stop_signal: 15, grace_ms: 10 };
    let path = PathBuf::from(format!("/model/{number}"));
    match planned.kind {
        0 | 1 => {
            let path = value_path(planned.index);
            Step::Value { before: world.values[&path].clone(), after: format!("value {number}"), path }
        }
        2 => Step::Cgroup { path, version: CgroupVersion::V2, home: None, members: Members::Marked },
        3 => Step::Mount { target: path, source: "w".into(), fstype: "fuse.wringer".into() },
        4 => process(Role::Holder),
        5 => process(if planned.index == 0 { Role::SlowLayer } else { Role::Server }),
        6 => {
            let (before, after) = (world.pool, world.pool + u64::from(number) * 10);
            Step::HugePool { before, after, nodes: Vec::new() }
        }
        7 => Step::MemoryBlocks { kernel: (32 + number).to_string(), movable: String::new(), values: vec![] },
        8 => Step::Mapping { name: format!("w-{number}"), uuid: format!("W-{number}"), device: path },
        9 => Step::LoopDevice { name: format!("w-{number}"), image: path, read_ahead: None },
        _ => Step::Note { text: "cache dropped".into() },
    }
}

fn begin() -> Begun {
    Begun {
        run: RunId::new(0, 1),
        build: "test".into(),
        uid: 0,
        controller: Identity { pid: 1, start_time: 1 },
        namespaces: None,
        boot_id: None,
        kind: Kind::Run,
        command: vec![],
        resources: vec![],
        started: 0,
    }
}

/// A controller's life: every step applied, then everything released, unless the fuel ends before.
fn live(path: &Path, plan: &[Planned], world: &mut World, fuel: &mut Fuel) -> Result<(), Crash> {
    let mut journal = Journal::create(path, begin()).unwrap();
    for (planned, number) in plan.iter().zip(1..) {
        apply(&mut journal, planned, number, world, fuel)?;
    }
    let known = journal.state().steps.iter().flat_map(|step| step.processes.clone()).collect();
    let release = AssertUnwindSafe(|| {
        let mut host = FakeHost { world, known, fuel: Some(fuel), busy: BTreeSet::new(), forgets: None };
        neutralise(&journal, &mut host);
        dismantle(&mut journal, &mut host, &mut |_| {});
    });
    catch_unwind(release).map_err(|_| Crash)
}

fn apply(
    journal: &mut Journal,
    planned: &Planned,
    number: u32,
    world: &mut World,
    fuel: &mut Fuel,
) -> Result<(), Crash> {
    fuel.burn()?;
    let step = step_of(planned, number, world);
    let (id, _permit) = journal.intent(step.clone()).unwrap();
    fuel.burn()?;
    let process = Identity { pid: 1000 + number, start_time: 7 };
    if !planned.fails || planned.takes_effect {
        world.apply(&step, process);
    }
    fuel.burn()?;
    if planned.fails {
        return Ok(());
    }
    if matches!(step, Step::Process { .. }) {
        journal.pid(id, process).unwrap();
        fuel.burn()?;
    }
    journal.done(id, world.observed(&step)).unwrap();
    Ok(())
}

/// One attempt at undo by somebody else. Returns the report of the dismantling.
fn recover(path: &Path, world: &mut World, busy: &BTreeSet<u32>, forgets: Option<&'static str>) -> run::Report {
    let mut journal = resumed(path);
    let known = journal.state().steps.iter().flat_map(|step| step.processes.clone()).collect();
    let mut host = FakeHost { world, known, fuel: None, busy: busy.clone(), forgets };
    neutralise(&journal, &mut host);
    dismantle(&mut journal, &mut host, &mut |_| {})
}

fn resumed(path: &Path) -> Journal {
    let file = JournalFile::open_to_write(path).unwrap();
    let reading = file.read();
    Journal::resume(file, &reading).unwrap()
}

/// A record of which only the first bytes reached the disk.
fn tear(path: &Path, bytes: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    let end = journal::read(path).content().unwrap().end_bytes();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, end).unwrap();
}

/// In memory where that is possible: the model syncs thousands of records.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()) } else { tempfile::tempdir() }
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_plan_cut_anywhere_and_recovered_leaves_the_first_state(
        plan in prop::collection::vec(planned(), 1..12),
        fuel in 0..80_u32,
        second_fuel in 0..30_u32,
        torn in prop::collection::vec(any::<u8>(), 0..20),
        busy in prop::collection::btree_set(1..12_u32, 0..4),
    ) {
        let folder = folder();
        let path = folder.path().join("journal");
        let mut world = World::first();
        let whole = live(&path, &plan, &mut world, &mut Fuel(fuel)).is_ok();
        tear(&path, &torn);
        // The first who undoes dies as well.
        let _ = catch_unwind(AssertUnwindSafe(|| {
            let mut journal = resumed(&path);
            let known = journal.state().steps.iter().flat_map(|step| step.processes.clone()).collect();
            let mut second_fuel = Fuel(second_fuel);
            let mut host =
                FakeHost { world: &mut world, known, fuel: Some(&mut second_fuel), busy: busy.clone(), forgets: None };
            dismantle(&mut journal, &mut host, &mut |_| {});
        }));
        let first = recover(&path, &mut world, &busy, None);
        let second = recover(&path, &mut world, &BTreeSet::new(), None);
        prop_assert!(first.conflicts.is_empty() && second.conflicts.is_empty());
        prop_assert!(second.failures.is_empty());
        prop_assert_eq!(&world, &World::first(), "whole: {}", whole);
        let third = recover(&path, &mut world, &BTreeSet::new(), None);
        prop_assert_eq!(third, run::Report::default());
    }

    #[test]
    fn what_somebody_else_set_stays(plan in prop::collection::vec(planned(), 1..12), fuel in 0..60_u32) {
        let folder = folder();
        let path = folder.path().join("journal");
        let mut world = World::first();
        let _ = live(&path, &plan, &mut world, &mut Fuel(fuel));
        world.values.insert(value_path(0), "theirs".into());
        recover(&path, &mut world, &BTreeSet::new(), None);
        let mut expected = World::first();
        expected.values.insert(value_path(0), "theirs".into());
        prop_assert_eq!(world, expected);
    }
}

/// The property can fail: each kind of undo, left out, is seen.
#[test]
fn a_missing_undo_is_seen() {
    let kinds = ["value", "cgroup", "mount", "process", "huge_pool", "memory_blocks", "mapping"];
    for (kind, number) in kinds.into_iter().zip([0, 2, 3, 5, 6, 7, 8]) {
        let folder = folder();
        let path = folder.path().join("journal");
        let mut world = World::first();
        let plan = [Planned { kind: number, index: 1, fails: false, takes_effect: true }];
        assert!(live(&path, &plan, &mut world, &mut Fuel(4)).is_err());
        assert_ne!(world, World::first());
        recover(&path, &mut world, &BTreeSet::new(), Some(kind));
        assert_ne!(world, World::first(), "the undo of a {kind} was left out, and nothing noticed");
    }
}

/// A busy mount keeps its slow layer alive: files below it must not start to fail.
#[test]
fn a_slow_layer_serves_on_below_a_busy_mount() {
    let folder = folder();
    let path = folder.path().join("journal");
    let mut world = World::first();
    let plan: Vec<Planned> =
        [5, 3].map(|kind| Planned { kind, index: 0, fails: false, takes_effect: true }).into_iter().collect();
    for order in [plan.clone(), plan.into_iter().rev().collect()] {
        let _ = std::fs::remove_file(&path);
        assert!(live(&path, &order, &mut world, &mut Fuel(7)).is_err());
        let mount = if order[0].kind == 3 { 1 } else { 2 };
        let report = recover(&path, &mut world, &BTreeSet::from([mount]), None);
        assert_eq!(report.failures.len(), 2, "{report:?}");
        assert_eq!((world.processes.len(), world.mounts.len()), (1, 1));
        let report = recover(&path, &mut world, &BTreeSet::new(), None);
        assert!(report.failures.is_empty() && report.restored[0].starts_with("mount"), "{report:?}");
        assert_eq!(world, World::first());
    }
}
