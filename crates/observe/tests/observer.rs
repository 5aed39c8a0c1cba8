// SPDX-License-Identifier: Apache-2.0
//! The observer on this host: what it reads, that it keeps to its budget, that it knows its own cost.

use capability::{Flavour, Version};
use evidence::{Event, Format, Point, SampleSink, Series, Snapshot, Span};
use host::clock::RunClock;
use observe::server::{self, ServerKind};
use observe::{Collector, Error, Kind, Observer, Options, Pace, Reader, Report, host_readers, process};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// Keeps everything, and says when points have come.
#[derive(Clone)]
struct Kept {
    series: Arc<Mutex<Vec<Series>>>,
    snapshots: Arc<Mutex<Vec<Snapshot>>>,
    spans: Arc<Mutex<Vec<Span>>>,
    rounds: Sender<()>,
}

impl Kept {
    fn new() -> (Self, Receiver<()>) {
        let (rounds, seen) = channel();
        (Self { series: Arc::default(), snapshots: Arc::default(), spans: Arc::default(), rounds }, seen)
    }

    fn find(&self, source: &str, name: &str) -> Option<Series> {
        let series = self.series.lock().expect("no panic");
        series.iter().find(|one| one.source == source && one.name == name).cloned()
    }
}

impl SampleSink for Kept {
    fn declare(&mut self, series: &Series) -> Result<u32, Boxed> {
        let mut all = self.series.lock().expect("no panic");
        all.push(series.clone());
        Ok(u32::try_from(all.len() - 1)?)
    }

    fn points(&mut self, points: &[(u32, Point)]) -> Result<(), Boxed> {
        let mut all = self.series.lock().expect("no panic");
        for (number, point) in points {
            all[usize::try_from(*number)?].points.push(*point);
        }
        let _ = self.rounds.send(());
        Ok(())
    }

    fn snapshot(&mut self, snapshot: &Snapshot) -> Result<(), Boxed> {
        self.snapshots.lock().expect("no panic").push(snapshot.clone());
        Ok(())
    }

    fn span(&mut self, span: &Span) -> Result<(), Boxed> {
        self.spans.lock().expect("no panic").push(span.clone());
        Ok(())
    }
}

fn rounds(seen: &Receiver<()>, count: usize) {
    (0..count).for_each(|_| seen.recv_timeout(Duration::from_secs(20)).expect("a round in time"));
}

/// A budget that a loaded machine keeps, too: these tests are not about tiers.
fn often() -> Options {
    Options { interval: Duration::from_millis(10), budget: 1000.0, ..Options::default() }
}

#[test]
fn host_and_process_over_time() {
    let (kept, seen) = Kept::new();
    let (mut readers, _) = host_readers::all(Path::new("/proc"));
    readers.extend(process::readers("test", std::process::id(), true));
    let observer = Observer::start(RunClock::start(), readers, kept.clone(), often()).expect("starts");
    rounds(&seen, 5);
    let report = observer.stop();
    assert!(report.rounds >= 5 && report.cpu_us > 0, "{report:?}");
    assert_eq!(report.notes, []);
    for (source, name) in [
        ("meminfo", "MemAvailable"),
        ("vmstat", "pgfault"),
        ("stat", "user"),
        ("loadavg", "load1"),
        ("process.stat", "utime"),
        ("observer", "cpu"),
        ("observer", "reading"),
    ] {
        let series = kept.find(source, name).unwrap_or_else(|| panic!("{source} {name} is missing"));
        assert!(series.points.len() >= 5, "{source} {name}");
        assert!(series.points.is_sorted_by(|a, b| a.at_us < b.at_us), "{source} {name}");
    }
    // in the first round and the last; in those between only if they took a second
    let pss = kept.find("process.smaps_rollup", "Pss").expect("was read").points;
    assert!(pss.len() >= 2 && pss.is_sorted_by(|a, b| a.at_us < b.at_us), "{pss:?}");
    let seconds = (pss[pss.len() - 1].at_us - pss[0].at_us) / 1_000_000;
    assert!(pss.len() as u64 <= seconds + 3, "dear: not in every interval of 10 ms: {pss:?}");
    assert_eq!(kept.find("process.stat", "utime").map(|it| (it.entity, it.cumulative)), Some(("test".into(), true)));
}

/// Takes one snapshot, and tells of the time since the reading before.
struct Teller {
    last_us: Option<u64>,
}

impl Reader for Teller {
    fn name(&self) -> String {
        "teller".into()
    }

    fn read(&mut self, into: &mut Collector) -> Result<(), Error> {
        match self.last_us.replace(into.now_us()) {
            None => into.snapshot("teller", "a", Format::Json, "{}".into()),
            Some(from_us) => into.span(&Span {
                from_us,
                to_us: into.now_us(),
                kind: "nap".into(),
                entity: "a".into(),
                attributes: Default::default(),
            }),
        }
        Ok(())
    }
}

#[test]
fn a_reader_tells_more_than_numbers() {
    let (kept, seen) = Kept::new();
    let readers: Vec<Box<dyn Reader>> = vec![Box::new(Teller { last_us: None })];
    let observer = Observer::start(RunClock::start(), readers, kept.clone(), often()).expect("starts");
    rounds(&seen, 3);
    assert_eq!(observer.stop().notes, []);
    let (snapshots, spans) = (kept.snapshots.lock().expect("no panic"), kept.spans.lock().expect("no panic"));
    let [snapshot] = snapshots.as_slice() else { panic!("{snapshots:?}") };
    assert_eq!((snapshot.format, snapshot.content.as_str(), &snapshot.arm), (Format::Json, "{}", &None));
    assert!(spans[0].from_us == snapshot.at_us && spans[0].length_us() > 0, "{spans:?}");
    assert!(spans.windows(2).all(|two| two[0].to_us == two[1].from_us), "{spans:?}");
}

struct Dear {
    tier: u32,
    tiers: u32,
    elsewhere: bool,
}

impl Reader for Dear {
    fn name(&self) -> String {
        format!("tier {}", self.tier)
    }

    fn read(&mut self, into: &mut Collector) -> Result<(), Error> {
        into.value("dear", "", "tier", Kind::CountNow, f64::from(self.tier));
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(200) {}
        Ok(())
    }

    fn cheapen(&mut self) -> Option<String> {
        (self.tier < self.tiers).then(|| {
            self.tier += 1;
            self.name()
        })
    }

    fn costs_elsewhere(&self) -> bool {
        self.elsewhere
    }
}

/// The tiers that a reader went through under a budget that nothing keeps to.
fn tiers(elsewhere: bool) -> (Vec<f64>, Report) {
    let (kept, seen) = Kept::new();
    let readers: Vec<Box<dyn Reader>> = vec![Box::new(Dear { tier: 0, tiers: 2, elsewhere })];
    let nothing_is_cheap_enough = Options { interval: Duration::from_millis(10), budget: 0.0, ..Options::default() };
    let observer = Observer::start(RunClock::start(), readers, kept.clone(), nothing_is_cheap_enough).expect("starts");
    rounds(&seen, 14);
    let report = observer.stop();
    let points = kept.find("dear", "tier").expect("was read").points;
    (points.iter().map(|point| point.value).collect(), report)
}

#[test]
fn a_dear_reader_goes_down_its_tiers_and_then_reads_less_often() {
    let (tiers, report) = tiers(false);
    assert_eq!(tiers[..3], [0.0, 1.0, 2.0]);
    assert!((tiers.len() as u64) < report.rounds, "it is still read every round");
    assert!(report.notes[0].text.contains("tier 1 is read instead"), "{:?}", report.notes);
    assert!(report.notes[2].text.contains("every 2 intervals"), "{:?}", report.notes);
}

/// One slow answer of a server says little; two do.
#[test]
fn what_costs_elsewhere_is_judged_by_two_readings() {
    let (tiers, _) = tiers(true);
    assert_eq!(tiers[..6], [0.0, 0.0, 1.0, 1.0, 2.0, 2.0]);
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_end_of_a_process_is_noted_once() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("starts");
    let (kept, seen) = Kept::new();
    let readers = process::readers("victim", child.id(), false);
    let count = readers.len();
    let observer = Observer::start(RunClock::start(), readers, kept.clone(), often()).expect("starts");
    rounds(&seen, 2);
    child.kill().expect("is killed");
    child.wait().expect("is reaped");
    rounds(&seen, 4);
    let report = observer.stop();
    assert_eq!(report.notes.len(), count, "each of its readers says it: {:?}", report.notes);
    assert!(report.notes.iter().all(|note| note.text.contains("has ended")));
}

/// Fails in the first reading and in the last.
struct Failing {
    readings: u32,
}

impl Reader for Failing {
    fn name(&self) -> String {
        "failing".into()
    }

    fn read(&mut self, _: &mut Collector) -> Result<(), Error> {
        self.readings += 1;
        match self.readings {
            1 => Err(Error::Unread { pid: 1 }),
            2 => Ok(()),
            _ => Err(Error::Unread { pid: 2 }),
        }
    }

    fn interval(&self) -> Option<Duration> {
        (self.readings == 2).then_some(Duration::from_secs(3600))
    }

    fn pace(&mut self) -> Option<Pace> {
        Some(Pace::Changed("seldom".into()))
    }
}

#[test]
fn each_note_is_told_once_and_not_only_at_the_end() {
    let (kept, seen) = Kept::new();
    let readers: Vec<Box<dyn Reader>> = vec![Box::new(Failing { readings: 0 })];
    let mut observer = Observer::start(RunClock::start(), readers, kept, often()).expect("starts");
    rounds(&seen, 3);
    let texts = |notes: Vec<Event>| notes.into_iter().map(|note| note.text).collect::<Vec<_>>();
    let first = "failing: process 1 could not be read, and goes on";
    assert_eq!(texts(observer.news()), [first, "failing: seldom"]);
    assert_eq!(observer.news(), []);
    assert_eq!(
        texts(observer.stop().notes),
        ["failing: process 2 could not be read, and goes on"],
        "after a good reading"
    );
}

/// A full disk, say.
struct Lost;

impl SampleSink for Lost {
    fn declare(&mut self, _: &Series) -> Result<u32, Boxed> {
        Ok(0)
    }

    fn points(&mut self, _: &[(u32, Point)]) -> Result<(), Boxed> {
        let source = std::io::Error::from_raw_os_error(28);
        Err(Box::new(Error::File { operation: "write", path: "r.sqlite".into(), source }))
    }

    fn snapshot(&mut self, _: &Snapshot) -> Result<(), Boxed> {
        Ok(())
    }

    fn span(&mut self, _: &Span) -> Result<(), Boxed> {
        Ok(())
    }
}

#[test]
fn samples_that_are_lost_are_told_with_the_cause() {
    let observer = Observer::start(RunClock::start(), Vec::new(), Lost, often()).expect("starts");
    let notes = observer.stop().notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].text.contains("samples are lost: write r.sqlite: No space left"), "{notes:?}");
}

#[test]
fn too_fine_an_interval_is_refused() {
    let (kept, _seen) = Kept::new();
    let options = Options { interval: Duration::from_millis(9), budget: 1.0, ..Options::default() };
    assert!(matches!(Observer::start(RunClock::start(), Vec::new(), kept, options), Err(Error::Interval { .. })));
}

type Answer = Result<Vec<Vec<Option<String>>>, String>;

fn answers(sql: &str) -> Answer {
    let cell = |text: &str| Some(text.to_owned());
    if sql == "SHOW GLOBAL STATUS" {
        return Ok(vec![
            vec![cell("Innodb_buffer_pool_reads"), cell("42")],
            vec![cell("Threads_running"), cell("3")],
            vec![cell("Innodb_data_read"), cell("1e3")],
            vec![cell("Rpl_semi_sync"), cell("OFF")],
            vec![cell("Null"), None],
        ]);
    }
    if sql.contains("ENABLED = 1") {
        return Ok(vec![vec![cell("log_lsn_current"), cell("7"), cell("value")]]);
    }
    Err(format!("no such thing: {sql}"))
}

#[test]
fn a_server_is_asked_what_it_knows() {
    let (kept, seen) = Kept::new();
    let kind = ServerKind::of(load::Protocol::Mysql, "10.11.19-MariaDB-0+deb12u1");
    assert_eq!(kind, ServerKind { flavour: Flavour::Mariadb, version: Version::of(&[10, 11, 19]) });
    let observer =
        Observer::start(RunClock::start(), server::readers(answers, &kind), kept.clone(), often()).expect("starts");
    rounds(&seen, 2);
    assert_eq!(observer.stop().notes, []);
    let reads = kept.find("server.status", "Innodb_buffer_pool_reads").expect("was read");
    assert!(reads.cumulative && reads.points[0].value == 42.0);
    assert!(!kept.find("server.status", "Threads_running").expect("was read").cumulative);
    assert_eq!(
        kept.find("server.status", "Innodb_data_read").map(|it| (it.unit, it.cumulative)),
        Some(("bytes".into(), true))
    );
    assert!(kept.find("server.innodb_metrics", "log_lsn_current").expect("was read").cumulative);
    assert!(kept.find("server.status", "Rpl_semi_sync").is_none());
}

#[test]
fn innodb_says_how_it_is_and_others_have_none() {
    let mut answer = |sql: &str| -> Answer {
        let row = ["InnoDB", "", "=====\nall is well"].map(|cell| Some(cell.to_owned()));
        if sql == "SHOW ENGINE INNODB STATUS" { Ok(vec![row.into()]) } else { Err(sql.to_owned()) }
    };
    let mut of =
        |flavour, version| server::innodb_status(&mut answer, &ServerKind::of(flavour, version)).expect("asks");
    assert_eq!(of(load::Protocol::Mysql, "10.11.19-MariaDB").as_deref(), Some("=====\nall is well"));
    assert_eq!(of(load::Protocol::Postgresql, "15.20"), None);
}

#[test]
fn a_statement_that_fails_is_noted_once_with_its_cause() {
    let (kept, seen) = Kept::new();
    let kind = ServerKind::of(load::Protocol::Postgresql, "15.18 (Debian 15.18-0+deb12u1)");
    assert_eq!(kind, ServerKind { flavour: Flavour::Postgresql, version: Version::of(&[15, 18]) });
    let observer =
        Observer::start(RunClock::start(), server::readers(answers, &kind), kept.clone(), often()).expect("starts");
    rounds(&seen, 3);
    let notes = observer.stop().notes;
    assert_eq!(notes.len(), 3, "database, bgwriter, wal: {notes:?}");
    assert!(notes[0].text.contains("no such thing"), "{notes:?}");
}

/// What is asked of a server that says so at login, for `server.innodb_metrics` and `server.pg_stat_io`.
#[test]
fn statements_are_those_that_the_version_has() {
    let asked = |flavour, version: &str| {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let kept = asked.clone();
        let answer = move |sql: &str| -> Answer {
            kept.lock().expect("no panic").push(sql.to_owned());
            Ok(Vec::new())
        };
        let readers = server::readers(answer, &ServerKind::of(flavour, version));
        let (sink, seen) = Kept::new();
        let observer = Observer::start(RunClock::start(), readers, sink, often()).expect("starts");
        rounds(&seen, 1);
        observer.stop();
        asked.lock().expect("no panic").join("; ")
    };
    let mysql = |version| asked(load::Protocol::Mysql, version);
    assert!(mysql("10.11.19-MariaDB").contains("WHERE ENABLED = 1"));
    assert!(mysql("10.1.23-MariaDB").contains("WHERE STATUS = 'enabled'"));
    assert!(mysql("9.7.4").contains("WHERE STATUS = 'enabled'"));
    let postgresql = |version| asked(load::Protocol::Postgresql, version);
    assert!(!postgresql("15.20").contains("pg_stat_io") && !postgresql("15.20").contains("pg_stat_checkpointer"));
    assert!(
        postgresql("18.6").contains("FROM pg_stat_io d") && postgresql("18.6").contains("FROM pg_stat_checkpointer d")
    );
}

#[test]
fn versions() {
    let of = |version| ServerKind::of(load::Protocol::Mysql, version);
    assert_eq!(of("8.4.3"), ServerKind { flavour: Flavour::Mysql, version: Version::of(&[8, 4, 3]) });
    assert_eq!(of("5.5.5-10.6.2-MariaDB"), ServerKind { flavour: Flavour::Mariadb, version: Version::of(&[10, 6, 2]) });
}

#[test]
fn this_host_has_conditions() {
    let host = observe::conditions::host(Path::new("/tmp"));
    assert!(host.mem_total_bytes > 0 && host.cpus > 0 && host.page_size_bytes >= 4096);
    assert!((100..=1000).contains(&host.hz), "HZ {}", host.hz);
    assert!(!host.kernel.is_empty() && host.storage.contains(" on "), "{host:?}");
}
