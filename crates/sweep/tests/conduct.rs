// SPDX-License-Identifier: Apache-2.0
//! The loop of a sweep, with cells that run nothing, and whose result the test sets: what is run, how often, and what is kept. The tests of the
//! program run real cells.
#![allow(clippy::cast_possible_truncation, clippy::disallowed_methods, clippy::unwrap_used)]

use evidence::{
    Arm, ArmOutcome, Arrivals, Conditions, Data, DataHow, Evidence, LatencyHistogram, LoadResult, Phase, TimelinePoint,
    Witness,
};
use host::places::Places;
use lab::{Missed, Outcome};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use sweep::{
    AttemptEnd, Bench, Budget, Cell, CellState, Due, Ended, Error, News, Plan, Planned, State, Sweep, Wish, read,
};

/// One sweep at a time measures on a host: those of this program wait here, those of others in [`open`].
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open<'a>(home: &'a Home, folder: &Path) -> Result<Sweep<'a>, Error> {
    loop {
        match Sweep::open(folder, &home.plan, &home.places) {
            Err(Error::Run(run::Error::Measured { who })) if !who.contains(&std::process::id().to_string()) => {
                std::thread::sleep(Duration::from_millis(200));
            }
            opened => return opened,
        }
    }
}

/// The results of the next attempts; after the last entry, every cell is measured.
#[derive(Default)]
struct Told {
    next: VecDeque<Comes>,
    /// Cell and attempt, as they ran.
    ran: Vec<String>,
    recorded: Option<Evidence>,
    stop: Arc<AtomicBool>,
}

enum Comes {
    Measured,
    /// Measured, while other programs used this share of the CPUs.
    Busy(f64),
    /// Measured, and its second half has half the throughput of its first.
    Unsteady,
    OutOfMemory,
    NotSqueezed,
    BrokeOff,
    NotRestored,
    Interrupted,
}

impl Bench for Told {
    fn run(&mut self, due: &Due<'_>, begun: &mut dyn FnMut(&str) -> Result<(), Error>) -> Result<Outcome, Error> {
        let comes = self.next.pop_front().unwrap_or(Comes::Measured);
        self.ran.push(format!("{} {}", due.cell.id, due.attempt));
        begun(&format!("w-20260101-000000-{:04x}", self.ran.len()))?;
        // the state on the disk says that it runs, before anything is done
        let state = read(due.folder.ancestors().nth(3).unwrap()).unwrap().unwrap();
        let cell = state.cells.iter().find(|cell| cell.id == due.cell.id).unwrap();
        assert_eq!((cell.state, cell.attempts.last().unwrap().end), (CellState::Running, None));
        assert!(cell.attempts.last().unwrap().run.is_some() && due.folder.is_dir());
        let missed = |outcome| vec![Missed { phase: "baseline".into(), outcome, why: "told so".into() }];
        let (evidence, outcome) = match comes {
            Comes::Measured => (measured(0.0, false), Outcome::Done),
            Comes::Busy(others) => (measured(others, false), Outcome::Done),
            Comes::Unsteady => (measured(0.0, true), Outcome::Done),
            Comes::OutOfMemory => (broken(ArmOutcome::OutOfMemory), Outcome::Missed(missed(ArmOutcome::OutOfMemory))),
            Comes::NotSqueezed => (broken(ArmOutcome::Missed), Outcome::Missed(missed(ArmOutcome::Missed))),
            Comes::BrokeOff => (broken(ArmOutcome::BrokeOff), Outcome::BrokeOff(lab::Error::NoServer)),
            Comes::NotRestored => {
                let (changes, repairs) = (vec!["a".into()], vec!["b".into()]);
                (broken(ArmOutcome::BrokeOff), Outcome::NotRestored(lab::Error::Conflicts { changes, repairs }))
            }
            Comes::Interrupted => {
                self.stop.store(true, Ordering::SeqCst);
                (broken(ArmOutcome::BrokeOff), Outcome::Interrupted(lab::Error::Interrupted))
            }
        };
        self.recorded = Some(evidence);
        Ok(outcome)
    }

    fn recorded(&mut self, _due: &Due<'_>) -> Result<Option<Evidence>, recording::Error> {
        Ok(self.recorded.take())
    }

    fn tell(&mut self, _news: News<'_>) {}
}

fn evidence(arm: Arm) -> Evidence {
    let data = Data { how: DataHow::Cloned, elapsed_us: 7, ..Data::default() };
    Evidence {
        run_id: "w".into(),
        started: String::new(),
        elapsed_us: 1,
        is_cut_off: false,
        experiment: String::new(),
        files: [].into(),
        conditions: Conditions { data: Some(data), ..Conditions::default() },
        arms: vec![arm],
        measured: Vec::new(),
        samples: Vec::new(),
        snapshots: Vec::new(),
        spans: Vec::new(),
        events: Vec::new(),
    }
}

/// 100 transactions a second, each 5 ms long, for 20 s.
fn measured(others: f64, is_unsteady: bool) -> Evidence {
    let mut arm = Arm::begun("baseline", 0);
    let mut times = LatencyHistogram::new();
    times.record_n(5_000_000, 2000);
    let slot = |number: u64| TimelinePoint {
        at_us: number * 200_000,
        length_us: 200_000,
        queries: 20,
        transactions: if is_unsteady && number >= 50 { 10 } else { 20 } + number % 2,
        errors: 0,
        p50_us: 5000,
        p99_us: 5000,
        max_us: 5000,
        p95_us: None,
        mean_us: None,
    };
    let mut phase = Phase { elapsed_us: 20_000_000, transactions: 2000, ..Phase::default() };
    phase.timeline = (0..100).map(slot).collect();
    phase.transaction.response = times;
    arm.load = Some(LoadResult {
        workload: "oltp_point_select".into(),
        driver: "mysql".into(),
        connections: 1,
        workers: 1,
        arrivals: Arrivals::Closed,
        seed: 1,
        distribution: "uniform".into(),
        prepared_statements: true,
        connect: LatencyHistogram::new(),
        warmup: None,
        measured: phase,
    });
    let share = |share: f64| (share * 20e6) as u64;
    let counters = [
        ("elapsed us", 10_000_000),
        ("host cpu us", 20_000_000),
        ("host idle us", share(0.8 - others)),
        ("host interrupts us", 0),
        ("host stolen us", 0),
        ("own cpu us", share(0.2)),
        ("kernel cpu us", 0),
    ];
    let witness =
        |(counter, after): (&str, u64)| Witness { of: "host".into(), counter: counter.into(), before: 0, after };
    arm.witnesses = counters.map(witness).into();
    evidence(arm)
}

fn broken(outcome: ArmOutcome) -> Evidence {
    evidence(Arm { outcome, broke_off: Some("told so".into()), ..Arm::begun("baseline", 0) })
}

/// A folder, a home, and a plan of so many settings and blocks.
struct Home {
    folder: tempfile::TempDir,
    places: Places,
    plan: Plan,
}

impl Home {
    fn new(settings: usize, blocks: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::below(&folder.path().join("home"));
        let values = |number: usize| BTreeMap::from([("load.threads".to_owned(), number.to_string())]);
        let planned = |number| Planned { id: format!("s{number}"), values: values(number), disk_bytes: 0 };
        let key = || vec!["load.threads".to_owned()];
        let plan = Plan {
            name: "p".into(),
            keys: key(),
            groups: vec![key()],
            settings: (0..settings).map(planned).collect(),
            blocks,
            seed: 1,
            ..Plan::default()
        };
        Self { folder, places, plan }
    }

    fn results(&self) -> std::path::PathBuf {
        self.folder.path().join("out")
    }

    fn run(&self, bench: &mut Told) -> (Result<Ended, Error>, State) {
        let mut sweep = open(self, &self.results()).unwrap();
        let stop = bench.stop.clone();
        let ended = sweep.run(bench, &Wish { longest_wait: Duration::ZERO, stop });
        let on_disk = read(&self.results()).unwrap().unwrap();
        assert_eq!(&on_disk, sweep.state(), "what is in memory is on the disk");
        (ended, on_disk)
    }
}

fn one(state: &State) -> &Cell {
    assert_eq!(state.cells.len(), 1);
    &state.cells[0]
}

fn ends(cell: &Cell) -> Vec<AttemptEnd> {
    cell.attempts.iter().map(|attempt| attempt.end.unwrap()).collect()
}

#[test]
fn every_cell_is_run_once_block_by_block_and_never_again() {
    let _alone = alone();
    let home = Home::new(4, 3);
    let mut bench = Told::default();
    let (ended, state) = home.run(&mut bench);
    assert_eq!(ended.unwrap(), Ended::Whole);
    assert_eq!(bench.ran.len(), 12);
    let blocks: Vec<&str> = bench.ran.iter().map(|ran| &ran[3..4]).collect();
    assert_eq!(blocks.concat(), "111122223333");
    assert_eq!((state.count(CellState::Done), state.remaining), (12, None));
    assert_eq!(state.settings.iter().map(|setting| setting.done).sum::<usize>(), 12);
    assert_eq!(state.comparisons.len(), 6, "all pairs of four");
    assert_eq!(state.comparisons[0].figures[0].pairs, Some(3));
    let mut again = Told::default();
    assert_eq!(home.run(&mut again).0.unwrap(), Ended::Whole);
    assert!(again.ran.is_empty(), "{:?}", again.ran);
}

#[test]
fn a_disturbed_cell_runs_once_more_and_then_counts_whatever_it_gives() {
    let _alone = alone();
    use AttemptEnd::{Counts, Disturbed};
    for (next, expected, is_disturbed) in [
        (vec![Comes::Busy(0.3), Comes::Measured], vec![Disturbed, Counts], false),
        (vec![Comes::Busy(0.3), Comes::Busy(0.5)], vec![Disturbed, Counts], true),
        (vec![Comes::Busy(0.05)], vec![Counts], false),
        (vec![Comes::Busy(0.3), Comes::OutOfMemory], vec![Disturbed, Counts], false),
    ] {
        let home = Home::new(1, 1);
        let mut bench = Told { next: next.into(), ..Told::default() };
        let (ended, state) = home.run(&mut bench);
        assert_eq!(ended.unwrap(), Ended::Whole);
        let cell = one(&state);
        assert_eq!((ends(cell), cell.disturbed, cell.state), (expected, is_disturbed, CellState::Done));
        let first = &cell.attempts[0];
        assert!(!first.figures.is_empty() && first.recording.is_some(), "both are kept: {first:?}");
    }
}

#[test]
fn a_cell_whose_halves_disagree_is_told_and_counts() {
    let _alone = alone();
    let home = Home::new(1, 1);
    let (_, state) = home.run(&mut Told { next: [Comes::Unsteady].into(), ..Told::default() });
    let cell = one(&state);
    assert_eq!((ends(cell), cell.unsteady, cell.disturbed), (vec![AttemptEnd::Counts], true, false));
    assert!(cell.told[0].contains("second half"), "{:?}", cell.told);
    let (_, state) = Home::new(1, 1).run(&mut Told::default());
    assert!(!one(&state).unsteady, "the control");
}

#[test]
fn out_of_memory_is_a_result_and_what_wringer_could_not_do_is_tried_again() {
    let _alone = alone();
    let home = Home::new(3, 1);
    let next = [Comes::OutOfMemory, Comes::NotSqueezed, Comes::BrokeOff];
    let (ended, state) = home.run(&mut Told { next: next.into(), ..Told::default() });
    assert_eq!(ended.unwrap(), Ended::Whole, "the others are run all the same");
    let states: Vec<CellState> = state.cells.iter().map(|cell| cell.state).collect();
    assert_eq!(states, [CellState::Done, CellState::Failed, CellState::Failed]);
    assert_eq!(state.cells[0].outcomes["baseline"], "out_of_memory");
    assert!(state.cells[0].figures.is_empty() && state.cells[1].told[0].contains("told so"), "{:?}", state.cells[1]);
    let failed: Vec<String> = state.cells[1..].iter().map(|cell| format!("{} 2", cell.id)).collect();
    let mut again = Told::default();
    let (_, state) = home.run(&mut again);
    assert_eq!(again.ran, failed);
    assert_eq!(state.count(CellState::Done), 3);
}

#[test]
fn a_host_that_is_not_restored_ends_it_at_once() {
    let _alone = alone();
    let home = Home::new(3, 1);
    let mut bench = Told { next: [Comes::NotRestored].into(), ..Told::default() };
    let (ended, state) = home.run(&mut bench);
    assert!(ended.unwrap_err().is_not_restored());
    assert_eq!(bench.ran.len(), 1);
    assert!(state.ended.unwrap().contains("not restored"));
}

#[test]
fn an_interrupted_cell_is_run_again_by_the_same_call() {
    let _alone = alone();
    let home = Home::new(2, 1);
    let mut bench = Told { next: [Comes::Measured, Comes::Interrupted].into(), ..Told::default() };
    let (ended, state) = home.run(&mut bench);
    assert_eq!(ended.unwrap(), Ended::Interrupted);
    assert_eq!((state.count(CellState::Done), state.count(CellState::Pending)), (1, 1));
    assert!(state.remaining.is_some_and(|left| left.cells == 1));
    let mut again = Told::default();
    let (_, state) = home.run(&mut again);
    assert_eq!((again.ran.len(), state.count(CellState::Done)), (1, 2));
    assert_eq!(ends(&state.cells[1]), [AttemptEnd::Interrupted, AttemptEnd::Counts]);
}

#[test]
fn a_changed_plan_runs_only_what_changed() {
    let _alone = alone();
    let mut home = Home::new(3, 2);
    home.run(&mut Told::default()).0.unwrap();
    home.plan.settings.remove(1);
    home.plan.settings.push(Planned { id: "new".into(), values: BTreeMap::new(), disk_bytes: 0 });
    let mut again = Told::default();
    let (_, state) = home.run(&mut again);
    assert_eq!(again.ran, ["new-1 1", "new-2 1"]);
    assert_eq!(state.cells.iter().filter(|cell| cell.dropped).count(), 2, "what was measured stays");
    assert!(state.settings.iter().all(|setting| setting.done == 2));
    home.plan.blocks = 3;
    let mut more = Told::default();
    home.run(&mut more).0.unwrap();
    assert!(more.ran.len() == 3 && more.ran.iter().all(|ran| ran.contains("-3 ")), "{:?}", more.ran);
}

#[test]
fn budgets_end_it_and_a_larger_one_goes_on() {
    let _alone = alone();
    let mut home = Home::new(2, 2);
    home.plan.budget = Budget { time_us: Some(1), disk_bytes: None };
    let mut bench = Told::default();
    let (ended, _) = home.run(&mut bench);
    let Ended::Budget(which) = ended.unwrap() else { panic!("it ends by its budget") };
    assert!(
        which.contains("time is used up (1 us): ") && which.contains(" are spent; 1 of 4 cells are done"),
        "{which}"
    );
    // half of it is left, and the next cell would take more than that
    let mut half = State { spent_us: 2_000_000, ..read(&home.results()).unwrap().unwrap() };
    half.cells
        .iter_mut()
        .flat_map(|cell| &mut cell.attempts)
        .for_each(|it| (it.elapsed_us, it.waited_us) = (2_300_000, 0));
    std::fs::write(home.results().join("sweep.json"), serde_json::to_vec(&half).unwrap()).unwrap();
    home.plan.budget = Budget { time_us: Some(4_000_000), disk_bytes: None };
    let Ended::Budget(which) = home.run(&mut bench).0.unwrap() else { panic!("it ends by its budget") };
    for words in ["(4 s) is too short for the next cell", "2 s are spent", "to take 2.3", "1 of 4 cells are done"] {
        assert!(which.contains(words), "{words}: {which}");
    }
    home.plan.budget = Budget { time_us: None, disk_bytes: Some(1000) };
    let (ended, _) = home.run(&mut bench);
    assert!(matches!(ended.unwrap(), Ended::Budget(which) if which.contains("disk")));
    home.plan.budget = Budget::default();
    assert_eq!(home.run(&mut bench).0.unwrap(), Ended::Whole);
    assert_eq!(bench.ran.len(), 4);
}

#[test]
fn a_budget_counts_the_time_of_attempts_that_were_killed() {
    let _alone = alone();
    let mut home = Home::new(1, 1);
    let mut bench = Told { next: [Comes::Interrupted].into(), ..Told::default() };
    let (_, mut state) = home.run(&mut bench);
    let attempt = &mut state.cells[0].attempts[0];
    (attempt.end, attempt.elapsed_us, attempt.started) = (None, 0, "2026-01-01T00:00:00Z".into());
    (state.cells[0].state, state.spent_us) = (CellState::Running, 0);
    std::fs::write(home.results().join("sweep.json"), serde_json::to_vec(&state).unwrap()).unwrap();
    home.plan.budget = Budget { time_us: Some(30_000_000), disk_bytes: None };
    let mut again = Told::default();
    let (ended, state) = home.run(&mut again);
    assert!(matches!(ended.unwrap(), Ended::Budget(which) if which.contains("is used up (30 s)")));
    assert!(again.ran.is_empty() && one(&state).attempts[0].elapsed_us > 30_000_000, "{:?}", one(&state));
    let spent_us = state.spent_us;
    home.plan.budget = Budget::default();
    let (_, state) = home.run(&mut Told::default());
    assert_eq!(one(&state).attempts[0].elapsed_us, spent_us, "it is charged once");
}

#[test]
fn no_room_for_a_cell_is_told_before_it_runs() {
    let _alone = alone();
    let mut home = Home::new(1, 1);
    home.plan.settings[0].disk_bytes = u64::MAX / 2;
    let mut bench = Told::default();
    let (ended, _) = home.run(&mut bench);
    let error = ended.unwrap_err();
    assert!(error.is_in_the_way() && error.to_string().contains("no room"), "{error}");
    assert!(bench.ran.is_empty());
}

#[test]
fn a_folder_is_one_sweeps_and_one_process_at_a_time() {
    let _alone = alone();
    let home = Home::new(1, 1);
    let refused = |folder: &Path| open(&home, folder).map(drop).unwrap_err().to_string();
    let held = open(&home, &home.results()).unwrap();
    assert!(refused(&home.results()).contains("another process runs"));
    assert!(sweep::is_running(&home.results()));
    let elsewhere = refused(&home.folder.path().join("elsewhere"));
    assert!(elsewhere.contains("another one measures on this host") && elsewhere.contains("out"), "{elsewhere}");
    drop(held);
    assert!(!sweep::is_running(&home.results()));
    home.run(&mut Told::default()).0.unwrap();
    let state = home.results().join("sweep.json");
    let text = std::fs::read_to_string(&state).unwrap();
    for (content, words) in [
        (text.replace("\"name\": \"p\"", "\"name\": \"q\""), "belongs to the sweep \"q\""),
        (text.replace("\"schema\": 1", "\"schema\": 9"), "later version"),
        (text[..text.len() / 2].to_owned(), "is not a sweep's state"),
        (String::new(), "is not a sweep's state"),
        ("{}".into(), "no \"schema\""),
    ] {
        std::fs::write(&state, content).unwrap();
        let said = refused(&home.results());
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    std::fs::write(&state, text.replace("\"name\": \"p\"", "\"name\": \"q\"")).unwrap();
    let hint = open(&home, &home.results()).map(drop).unwrap_err().hint().unwrap();
    assert!(hint.contains("name = \"q\"") && hint.contains("--to"), "{hint}");
    let foreign = home.folder.path().join("foreign");
    std::fs::create_dir(&foreign).unwrap();
    std::fs::write(foreign.join("mine.txt"), "x").unwrap();
    assert!(refused(&foreign).contains("holds other files"));
}
