// SPDX-License-Identifier: Apache-2.0
//! A cell on a real server, run without the program: the results that the caller gets.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use evidence::{ArmOutcome, Point, SampleSink, Series, Snapshot, Span};
use experiment::Experiment;
use host::places::Places;
use lab::{Bar, Cell, Ended, Found, Hooks, Outcome, Progress, Silent};
use recording::Recording;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Once};
use testkit::{own_uid, shared_cache, small_experiment};

/// A home of its own, and the cache of servers that all tests share.
struct Home {
    folder: tempfile::TempDir,
    places: Places,
}

impl Home {
    fn new() -> Self {
        static ONCE: Once = Once::new();
        // SAFETY: done once, before any test of this program has started a child; nothing here calls C's getenv.
        ONCE.call_once(|| unsafe { std::env::set_var("WRINGER_PROGRAM", env!("CARGO_BIN_EXE_lab-test-helper")) });
        let folder = tempfile::Builder::new().prefix("wringer-lab").tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let places = Places { cache: shared_cache(own_uid()), ..Places::below(folder.path()) };
        Self { folder, places }
    }

    fn recording(&self) -> std::path::PathBuf {
        self.folder.path().join("recording.sqlite")
    }

    /// Runs that did not end, and sandboxes that are there.
    fn left(&self) -> Vec<String> {
        let runs = run::find_runs(&self.places).unwrap().into_iter().filter(|run| !run.ended);
        let sandboxes = fs::read_dir(&self.places.sandboxes).into_iter().flatten().flatten();
        let sandboxes = sandboxes.map(|entry| entry.file_name().to_string_lossy().into_owned());
        runs.map(|run| run.id.to_string()).chain(sandboxes.filter(|name| name.starts_with("small-"))).collect()
    }
}

fn cell(file: &str) -> Cell {
    let experiment = Experiment::parse(file).unwrap();
    Cell::of(&experiment, Found::default(), &mut |file| Err(format!("no {file}"))).unwrap()
}

/// Ends the test where no MariaDB can be found or fetched.
macro_rules! refuse_without_server {
    ($home:expr) => {
        let request = sandbox::Request::any(sandbox::Flavour::Mariadb);
        if let Err(error @ (sandbox::Error::NoPackageClient { .. } | sandbox::Error::SuiteUnreachable { .. })) =
            sandbox::locate(&request, &$home.places, &mut ())
        {
            testkit::skip!("no MariaDB to be had: {error}");
        }
    };
}

/// Keeps all points by the names of their series.
#[derive(Default)]
struct Kept {
    names: Vec<(String, String, String)>,
    points: BTreeMap<(String, String, String), Vec<Point>>,
    snapshots: Vec<Snapshot>,
    spans: Vec<Span>,
}

impl SampleSink for Kept {
    fn declare(&mut self, series: &Series) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
        self.names.push((series.source.clone(), series.entity.clone(), series.name.clone()));
        Ok(u32::try_from(self.names.len() - 1)?)
    }

    fn points(&mut self, points: &[(u32, Point)]) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        for (number, point) in points {
            let name = self.names[usize::try_from(*number)?].clone();
            self.points.entry(name).or_default().push(*point);
        }
        Ok(())
    }

    fn snapshot(&mut self, snapshot: &Snapshot) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.snapshots.push(snapshot.clone());
        Ok(())
    }

    fn span(&mut self, span: &Span) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.spans.push(span.clone());
        Ok(())
    }
}

/// Keeps what it is told, and asks for the end when it is told `stop_at`.
struct Told {
    steps: RefCell<Vec<String>>,
    stop_at: &'static str,
    stop: Arc<AtomicBool>,
}

impl Progress for Told {
    fn step(&self, station: &str, text: &str) {
        if !self.stop_at.is_empty() && text.contains(self.stop_at) {
            self.stop.store(true, std::sync::atomic::Ordering::SeqCst);
        }
        self.steps.borrow_mut().push(format!("{station}: {text}"));
    }

    fn bar(&self, what: &str, length: Option<u64>) -> Box<dyn Bar> {
        Silent.bar(what, length)
    }
}

#[test]
fn a_cell_gives_one_recording_and_the_same_samples_to_a_second_sink() {
    let home = Home::new();
    refuse_without_server!(home);
    let mut cell = cell(&small_experiment("2s", ""));
    cell.text = "what was asked".into();
    let kept = Arc::new(Mutex::new(Kept::default()));
    let stop = Arc::new(AtomicBool::new(false));
    let told = Told { steps: RefCell::default(), stop_at: "", stop: Arc::clone(&stop) };
    let hooks = Hooks { progress: &told, samples: Some(kept.clone()), stop };
    let Ended { outcome, kept: sandbox, left_alone } =
        lab::begin(&cell, &home.places, hooks).unwrap().walk(&home.recording());
    assert!(matches!(outcome, Outcome::Done), "{outcome:?}");
    assert_eq!((sandbox, left_alone), (None, Vec::new()));
    assert_eq!(home.left(), Vec::<String>::new(), "the run or its sandbox is still there");

    let evidence = Recording::read(&home.recording()).unwrap();
    assert_eq!(evidence.experiment, "what was asked");
    let [arm] = evidence.arms.as_slice() else { panic!("{} arms", evidence.arms.len()) };
    let measured = &arm.load.as_ref().expect("a load").measured;
    assert!(
        measured.transactions > 0 && measured.elapsed_us > 1_900_000,
        "{} in {}",
        measured.transactions,
        measured.elapsed_us
    );

    let kept = kept.lock().unwrap();
    let recorded: BTreeMap<_, _> = evidence
        .samples
        .iter()
        .filter(|series| !series.points.is_empty())
        .map(|series| ((series.source.clone(), series.entity.clone(), series.name.clone()), series.points.clone()))
        .collect();
    assert!(recorded.keys().any(|(source, ..)| source == "meminfo"), "nothing of the host");
    assert!(recorded.keys().any(|(source, ..)| source == "server.status"), "nothing of the server");
    let (theirs, ours): (Vec<_>, Vec<_>) = (kept.points.keys().collect(), recorded.keys().collect());
    assert_eq!(theirs, ours, "other series than the recording has");
    for (name, points) in &recorded {
        assert_eq!(&kept.points[name], points, "{name:?}");
    }
    assert_eq!((&kept.snapshots, &kept.spans), (&evidence.snapshots, &evidence.spans));
    let [status] = evidence.snapshots.as_slice() else { panic!("{:?}", evidence.snapshots) };
    assert_eq!((status.source.as_str(), status.arm.as_deref()), ("server.innodb_status", Some("baseline")));
    assert!(status.content.contains("BUFFER POOL AND MEMORY"), "{}", status.content);
    let kinds: Vec<&str> = evidence.spans.iter().map(|span| span.kind.as_str()).collect();
    assert!(kinds.starts_with(&["server.start", "fill", "server.start"]), "{kinds:?}");
    let span = evidence.spans.iter().find(|span| span.kind == "load.measured").expect("a span of the load");
    assert_eq!((span.from_us, span.length_us()), (measured.started_us, measured.elapsed_us));
    assert_eq!((arm.cell.as_str(), arm.repeat), ("baseline", 1));
    let steps = told.steps.borrow();
    for step in ["sandbox: deployed mariadb", "fill: ", "load: baseline: measuring", "load: baseline: "] {
        assert!(steps.iter().any(|it| it.starts_with(step)), "no '{step}' in {steps:#?}");
    }
}

#[test]
fn a_wish_to_stop_is_an_outcome_and_leaves_nothing() {
    let home = Home::new();
    refuse_without_server!(home);
    let cell = cell(&small_experiment("60s", ""));
    let stop = Arc::new(AtomicBool::new(false));
    let told = Told { steps: RefCell::default(), stop_at: "measuring", stop: Arc::clone(&stop) };
    let hooks = Hooks { progress: &told, samples: None, stop };
    let ended = lab::begin(&cell, &home.places, hooks).unwrap().walk(&home.recording());
    assert!(matches!(ended.outcome, Outcome::Interrupted(_)), "{:?}", ended.outcome);
    assert_eq!(home.left(), Vec::<String>::new());
    let evidence = Recording::read(&home.recording()).unwrap();
    assert_eq!(evidence.arms[0].broke_off.as_deref(), Some("somebody interrupted the run"));
}

#[test]
fn a_server_that_does_not_start_is_an_outcome() {
    let home = Home::new();
    refuse_without_server!(home);
    let file = small_experiment("2s", "").replace("innodb_buffer_pool_size = \"16M\"", "no_such_variable = \"1\"");
    let cell = cell(&file);
    let hooks = Hooks { progress: &Silent, samples: None, stop: Arc::default() };
    let ended = lab::begin(&cell, &home.places, hooks).unwrap().walk(&home.recording());
    let Outcome::CannotStart(error) = ended.outcome else { panic!("{:?}", ended.outcome) };
    assert!(error.to_string().contains("ended before it was ready"), "{error}");
    assert_eq!(home.left(), Vec::<String>::new());
}

/// More rows than any limit of this test holds, in memory.
const TAKES_ALL: &str = "CREATE TABLE much (c VARCHAR(16000) CHARACTER SET latin1) ENGINE=MEMORY SELECT REPEAT('x', 16000) AS c FROM sbtest1 a, sbtest1 b";

/// The first arm's server does not start, the second one's is killed by the kernel: the third is measured all the same. The kernel takes its time
/// where the disk is busy: it first reads the server's own code again and again. The arm is over with its server, so the time is a bound only.
#[test]
fn the_end_of_a_server_is_the_result_of_its_arm_and_the_next_arm_has_a_new_one() {
    let home = Home::new();
    refuse_without_server!(home);
    let limits = "[[arm]]\nname = \"killed\"\nsqueeze.server_ram = \"400M\"\n\
        server.options = { max_heap_table_size = \"4G\", tmp_table_size = \"4G\" }\n\
        load = { time = \"120s\", at = [{ time = \"1s\", sql = \"TAKES_ALL\" }] }\n"
        .replace("TAKES_ALL", TAKES_ALL);
    let is_limited = may_limit_memory();
    let killed = if is_limited { limits.as_str() } else { "" };
    let arms = format!(
        "[[arm]]\nname = \"refused\"\nserver.options.no_such_variable = \"1\"\n{killed}[[arm]]\nname = \"after\"\nload = {{ probe = 64, idle = \"500ms\" }}\n"
    );
    let cell = cell(&(small_experiment("2s", "") + &arms));
    let hooks = Hooks { progress: &Silent, samples: None, stop: Arc::default() };
    let ended = lab::begin(&cell, &home.places, hooks).unwrap().walk(&home.recording());
    let Outcome::Missed(missed) = ended.outcome else { panic!("{:?}", ended.outcome) };
    assert_eq!(home.left(), Vec::<String>::new());
    let evidence = Recording::read(&home.recording()).unwrap();
    let came_to: Vec<_> = evidence.arms.iter().map(|arm| (arm.name.as_str(), arm.outcome)).collect();
    let with_limits =
        [("refused", ArmOutcome::CannotStart), ("killed", ArmOutcome::OutOfMemory), ("after", ArmOutcome::Measured)];
    let expected = with_limits.into_iter().filter(|(name, _)| is_limited || *name != "killed");
    let planted: Vec<_> = evidence.spans.iter().filter(|span| span.kind == "planted").collect();
    assert_eq!(came_to, expected.clone().collect::<Vec<_>>(), "{planted:#?} {:#?}", evidence.events);
    let told: Vec<_> = missed.iter().map(|missed| (missed.phase.as_str(), missed.outcome)).collect();
    assert_eq!(told, expected.filter(|(name, _)| *name != "after").collect::<Vec<_>>());
    for arm in &evidence.arms {
        assert_eq!(arm.broke_off.is_none(), arm.outcome == ArmOutcome::Measured, "{}: {:?}", arm.name, arm.broke_off);
    }
    let [refused, .., after] = evidence.arms.as_slice() else { panic!("{came_to:?}") };
    assert!(refused.broke_off.as_ref().unwrap().contains("ended before it was ready") && refused.load.is_none());
    assert!(after.load.as_ref().unwrap().measured.transactions > 0);
    expect_looked_at_before_and_after(&evidence);
    let log = evidence.events.iter().any(|event| event.text.contains("no_such_variable"));
    assert!(log, "the end of the server's log is in the events: {:#?}", evidence.events);
    if let Some(killed) = evidence.arms.iter().find(|arm| arm.name == "killed") {
        assert!(killed.load.as_ref().unwrap().measured.transactions > 0, "what it measured until then is kept");
        assert!(killed.broke_off.as_ref().unwrap().contains("killed by signal 9"), "{:?}", killed.broke_off);
    }
}

/// Whether this user can put a server into a memory cgroup.
fn may_limit_memory() -> bool {
    let asked =
        squeeze::limits::LimitRequest { ram: Some(units::Bytes::mib(400)), ..squeeze::limits::LimitRequest::default() };
    squeeze::limits::plan(&asked, squeeze::limits::OptionNames::EXPERIMENT).is_ok()
}

/// The arm `after` has 64 reads of each kind before its load, and half a second of rest after it.
fn expect_looked_at_before_and_after(evidence: &evidence::Evidence) {
    let got = |what: &str| {
        let found = evidence.measured.iter().find(|it| it.what == what && it.arm.as_deref() == Some("after"));
        found.and_then(|it| it.got).unwrap_or_else(|| panic!("no {what}: {:#?}", evidence.measured)).value
    };
    for series in ["direct.cold", "cached.cold", "cached.warm", "direct.warm"] {
        assert_eq!(got(&format!("probe.read.{series}.reads")), 64.0, "{series}");
        assert!(got(&format!("probe.read.{series}.rate")) > 0.0, "{series}");
    }
    assert!(
        got("probe.scan.cold.cached") < 0.1 && got("probe.scan.warm.cached") > 0.9,
        "the first scan fills the cache"
    );
    assert!(got("probe.scan.warm") > 0.0 && got("idle.rss.begin") > 1e6 && got("idle.vsz.end") >= got("idle.rss.end"));
    let span = |kind: &str| evidence.spans.iter().find(|span| span.kind == kind).unwrap_or_else(|| panic!("no {kind}"));
    let of_after = |span: &&Span| span.kind == "load.measured" && span.entity == "after";
    let load = evidence.spans.iter().find(of_after).unwrap();
    assert!(span("load.probe").to_us <= load.from_us && span("load.idle").length_us() >= 500_000);
    assert!(span("load.idle").from_us >= load.to_us);
}
