// SPDX-License-Identifier: Apache-2.0
//! What goes in comes out, also from a recording whose writer was cut off.

use evidence::*;
use recording::{Error, Recording, SCHEMA, Start};
use std::collections::BTreeMap;
use std::path::Path;

fn start() -> Start {
    let experiment = "[server]\nx = 'ä'\n".into();
    Start {
        run_id: "w-1".into(),
        started: "2026-11-20T20:15:30Z".into(),
        experiment,
        files: vec![("shop.toml".into(), "rows = 5".into())],
        is_private: false,
    }
}

fn latencies(values: &[u64]) -> Latencies {
    let mut latencies = Latencies::default();
    values.iter().for_each(|value| {
        latencies.response.record(*value);
        latencies.service.record(*value / 2);
    });
    latencies
}

fn load() -> LoadResult {
    let measured = Phase {
        started_us: 5,
        elapsed_us: 1_000_000,
        transactions: 3,
        reads: 3,
        errors: BTreeMap::from([("1213".into(), 2)]),
        transaction: latencies(&[120_000, 10_400_000, u64::MAX / 2]),
        unended: Some(latencies(&[2_000_000_000])),
        unconnected_us: 40_000,
        statements: BTreeMap::from([("SELECT c".into(), latencies(&[300]))]),
        timeline: vec![TimelinePoint { at_us: 5, length_us: 100_000, queries: 3, ..TimelinePoint::default() }],
        ..Phase::default()
    };
    LoadResult {
        workload: "oltp_point_select".into(),
        driver: "mysql".into(),
        connections: 16,
        workers: 1,
        arrivals: Arrivals::Poisson { per_second: 0.1 + 0.2 },
        seed: u64::MAX,
        distribution: "uniform".into(),
        prepared_statements: true,
        connect: LatencyHistogram::new(),
        warmup: None,
        measured,
    }
}

fn driven() -> Driven {
    let output = |name: &str, text: &str| Output { name: name.into(), text: text.into(), left_out_bytes: 0 };
    Driven {
        driver: "sysbench".into(),
        command: vec!["/usr/bin/sysbench".into(), "oltp_read_only".into(), "run".into()],
        exit_code: 0,
        elapsed_us: 1_000_100,
        client_user_us: 7,
        client_system_us: 8,
        understood: Some("sysbench 1.0.20".into()),
        figures: BTreeMap::from([("latency_p95_us".into(), 0.1 + 0.2)]),
        outputs: vec![output("sysbench.stdout", "ä\n  total:  3\n"), output("sysbench.stderr", "")],
    }
}

fn layer_reads() -> LatencyHistogram {
    let mut times = LatencyHistogram::new();
    times.record_n(10_100_000, 700);
    times.record(23_000_000);
    times
}

fn arm() -> Arm {
    Arm {
        name: "10 ms #2".into(),
        cell: "10 ms".into(),
        repeat: 2,
        settings: BTreeMap::from([("squeeze.disk.read".into(), "10 ms".into())]),
        delay: Some(Delay { read_us: 10_000, write_us: 0, sync_us: 0, mode: DelayMode::Add, varies: false }),
        load: Some(load()),
        driven: Some(driven()),
        witnesses: vec![Witness { of: "server".into(), counter: "reads".into(), before: 1, after: u64::MAX }],
        layer_reads: Some(layer_reads()),
        verdicts: vec![
            Verdict {
                assertion: "p99<20ms".into(),
                passed: false,
                asked: Quantity::micros(2e4),
                measured: Some(0.1 + 0.2),
                at_least: true,
            },
            Verdict {
                assertion: "errors=0".into(),
                passed: false,
                asked: Quantity::count(0.0),
                measured: None,
                at_least: false,
            },
        ],
        broke_off: Some("the server ended by itself, killed by signal 9".into()),
        outcome: evidence::ArmOutcome::OutOfMemory,
        started_us: 4,
        ended_us: 2_000_000,
    }
}

fn measured() -> Measured {
    Measured {
        at_us: 3,
        arm: None,
        what: "ram.hidden".into(),
        mechanism: "huge-page holder".into(),
        asked: Some(Quantity::bytes(1 << 30)),
        predicted: None,
        got: Some(Quantity::bytes(1 << 30)),
        witness: "MemAvailable".into(),
        within_tolerance: Some(true),
        tolerance: Some("64 MiB".into()),
        looks: None,
        came_on: None,
    }
}

fn series(name: &str, points: &[(u64, f64)]) -> Series {
    Series {
        source: "meminfo".into(),
        entity: String::new(),
        name: name.into(),
        unit: "bytes".into(),
        cumulative: false,
        points: points.iter().map(|(at_us, value)| Point { at_us: *at_us, value: *value }).collect(),
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        at_us: 8,
        arm: Some("10 ms #2".into()),
        source: "server.innodb_status".into(),
        entity: String::new(),
        format: Format::Text,
        content: "=====\nä \0 'quoted'\n".into(),
    }
}

/// So large that it is packed.
fn inventory() -> Snapshot {
    let content = format!("[\"ä \0\"{}]", ", 4711".repeat(20_000));
    Snapshot { at_us: 7, source: evidence::INVENTORY.into(), format: Format::Json, content, ..snapshot() }
}

fn span() -> Span {
    let attributes = BTreeMap::from([("transactions".into(), "3".into())]);
    Span { from_us: 5, to_us: 1_000_005, kind: "load.measured".into(), entity: "10 ms #2".into(), attributes }
}

fn conditions() -> Conditions {
    Conditions {
        tool: Tool { version: "0.1.0".into(), command: vec!["wringer".into()], as_root: true },
        host: Host { hz: 1000, ..Host::default() },
        server: Server::default(),
        mechanisms: BTreeMap::from([("ram".into(), "none".into())]),
        traits: BTreeMap::from([("ram".into(), BTreeMap::from([("whole_host".into(), true)]))]),
        data: Some(evidence::Data { how: evidence::DataHow::Cloned, ..evidence::Data::default() }),
        caveats: vec!["a".into()],
    }
}

/// Everything but the end.
fn write(path: &Path) -> Recording {
    let recording = Recording::create(path, &start()).expect("creates");
    recording.conditions(&conditions()).expect("conditions");
    recording.measured(&measured()).expect("measured");
    recording.arm(0, &Arm { load: None, witnesses: vec![], ended_us: 0, ..arm() }).expect("arm starts");
    recording.samples(&[series("MemFree", &[(1, 0.1)]), series("MemAvailable", &[(1, 2.5)])]).expect("samples");
    let mut clone = recording.clone();
    let number = clone.declare(&series("MemFree", &[])).expect("is known");
    clone.points(&[(number, Point { at_us: 2, value: 1e300 })]).expect("points");
    SampleSink::snapshot(&mut clone, &snapshot()).expect("a snapshot");
    SampleSink::snapshot(&mut clone, &inventory()).expect("a large one");
    SampleSink::span(&mut clone, &span()).expect("a span");
    recording.event(&Event { at_us: 9, station: "load".into(), text: "ended".into() }).expect("event");
    recording.arm(0, &arm()).expect("arm ends");
    recording
}

fn expected(elapsed_us: u64) -> Evidence {
    Evidence {
        run_id: "w-1".into(),
        started: start().started,
        elapsed_us,
        is_cut_off: false,
        experiment: start().experiment,
        files: start().files.into_iter().collect(),
        conditions: conditions(),
        arms: vec![arm()],
        measured: vec![measured()],
        samples: vec![series("MemFree", &[(1, 0.1), (2, 1e300)]), series("MemAvailable", &[(1, 2.5)])],
        snapshots: vec![inventory(), snapshot()],
        spans: vec![span()],
        events: vec![Event { at_us: 9, station: "load".into(), text: "ended".into() }],
    }
}

#[test]
fn lossless_and_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recording.sqlite");
    let recording = write(&path);
    recording.finish(7_000_000).expect("finishes");
    assert_eq!(Recording::read(&path).expect("reads"), expected(7_000_000));
    assert!(Recording::is_finished(&path).expect("reads"));
    assert_eq!(std::fs::read_dir(folder.path()).expect("lists").count(), 1, "one file is left");
    assert!(matches!(recording.finish(1), Err(Error::Finished { .. })));
}

/// All else is read, and a recording that was cut off is as long as with all series.
#[test]
fn series_that_are_not_needed_stay_on_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("recording.sqlite");
    write(&path).finish(7_000_000).expect("finishes");
    let mut without = expected(7_000_000);
    without.samples.retain(|series| series.name == "MemFree");
    assert_eq!(Recording::read_for(&path, |series| series.name == "MemFree").expect("reads"), without);
    let cut = folder.path().join("cut.sqlite");
    let recording = write(&cut);
    recording.samples(&[series("Cached", &[(90_000_000, 1.0)])]).expect("samples");
    drop(recording);
    let [all, none] = [true, false].map(|all| Recording::read_for(&cut, |_| all).expect("reads"));
    assert_eq!((all.elapsed_us, none.elapsed_us, none.samples.len()), (90_000_000, 90_000_000, 0));
}

/// The files as they are while the writer still runs are what a killed writer leaves behind.
#[test]
#[allow(clippy::disallowed_methods)] // a copy in a folder of its own
fn readable_when_the_writer_was_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let live = folder.path().join("live.sqlite");
    let recording = write(&live);
    let left = folder.path().join("left.sqlite");
    for suffix in ["", "-wal"] {
        let name = |path: &Path| format!("{}{suffix}", path.display());
        std::fs::copy(name(&live), name(&left)).expect("copies");
    }
    let cut = Evidence { is_cut_off: true, ..expected(arm().ended_us) };
    assert_eq!(Recording::read(&left).expect("reads"), cut);
    assert!(!Recording::is_finished(&left).expect("reads"));
    drop(recording);
}

#[test]
fn a_reader_at_the_end_does_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.sqlite");
    let recording = write(&path);
    let reader = rusqlite::Connection::open(&path).expect("opens");
    reader.execute_batch("BEGIN; SELECT count(*) FROM sample").expect("reads");
    recording.finish(7_000_000).expect("finishes");
    assert_eq!(Recording::read(&path).expect("reads"), expected(7_000_000));
    drop(reader);
    assert_eq!(Recording::read(&path).expect("reads"), expected(7_000_000));
}

#[test]
fn an_early_cut_is_readable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.sqlite");
    drop(Recording::create(&path, &start()).expect("creates"));
    let evidence = Recording::read(&path).expect("reads");
    assert_eq!((evidence.run_id.as_str(), evidence.arms.len()), ("w-1", 0));
    assert_eq!(evidence.conditions.caveats.len(), 1);
}

/// A recording from before an arm's load could be another program, or be held to assertions, has no tables of them.
#[test]
fn an_older_recording_without_drivers_and_assertions_is_readable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.sqlite");
    write(&path).finish(7_000_000).expect("finishes");
    let connection = rusqlite::Connection::open(&path).expect("opens");
    connection
        .execute_batch("DROP TABLE output; DROP TABLE driver; DROP TABLE assertion; DROP TABLE broken")
        .expect("drops");
    drop(connection);
    let evidence = Recording::read(&path).expect("reads");
    assert_eq!(
        evidence.arms,
        [Arm { driven: None, verdicts: Vec::new(), broke_off: None, outcome: evidence::ArmOutcome::Measured, ..arm() }]
    );
}

#[test]
fn large_json_is_packed_and_read_one_by_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.sqlite");
    let recording = write(&path);
    let later = Snapshot { at_us: 9_000, content: "{}".into(), ..inventory() };
    recording.snapshot(&later).expect("a small one");
    recording.finish(7_000_000).expect("finishes");
    let length = std::fs::metadata(&path).expect("is there").len();
    assert!(length < 110_000, "{length} bytes with {} of JSON", inventory().content.len());
    let seen = recording::Snapshots::of(&path, evidence::INVENTORY).expect("reads");
    assert_eq!(seen.moments().iter().copied().collect::<Vec<_>>(), [7, later.at_us]);
    assert_eq!((seen.started(), seen.elapsed_us()), (start().started.as_str(), Some(7_000_000)));
    assert_eq!(seen.at(7).expect("reads"), Some(inventory()));
    assert_eq!(seen.at(later.at_us).expect("reads"), Some(later));
    assert_eq!(seen.at(8).expect("reads"), None, "of another source");
    let connection = rusqlite::Connection::open(&path).expect("opens");
    connection.execute("UPDATE packed_snapshot SET content = x'00'", []).expect("damages");
    drop(connection);
    assert!(matches!(seen.at(7), Err(Error::Sqlite { .. })));
}

#[test]
fn what_is_kept_of_a_snapshot_takes_its_place() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.sqlite");
    write(&path).finish(7_000_000).expect("finishes");
    let kept = |snapshot: Snapshot| match snapshot.source == evidence::INVENTORY {
        true => Snapshot { content: "short".into(), ..snapshot },
        false => snapshot,
    };
    let seen = Recording::read_reduced(&path, |_| true, kept).expect("reads");
    let snapshots = expected(7_000_000).snapshots.into_iter().map(kept).collect();
    assert_eq!(seen, Evidence { snapshots, ..expected(7_000_000) });
    assert!(seen.snapshots.iter().any(|it| it.content == "short"));
}

#[test]
fn of_very_many_large_ones_some_are_read_with_all_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.sqlite");
    let recording = write(&path);
    let content = format!("[{}4711]", "4711, ".repeat(1000));
    for at_us in 1_001..=2_200 {
        let one = Snapshot { at_us, content: content.clone(), ..inventory() };
        recording.snapshot(&one).expect("one more");
    }
    recording.finish(7_000_000).expect("finishes");
    let read = Recording::read(&path).expect("reads").snapshots;
    let moments: Vec<u64> = read.iter().filter(|it| it.source == evidence::INVENTORY).map(|it| it.at_us).collect();
    assert_eq!((moments[0], moments[1], moments[2]), (7, 1_003, 1_006), "each third of 1201");
    assert_eq!((moments.len(), moments.last()), (401, Some(&2_200)));
    assert_eq!(read.len(), 402, "and the other source's");
    assert_eq!(recording::Snapshots::of(&path, evidence::INVENTORY).expect("reads").moments().len(), 1_201);
}

/// A recording from before snapshots and spans has no tables of them, an arm's turn stands in its name alone, and the layer's reads are counted only.
#[test]
fn an_older_recording_without_snapshots_spans_and_turns_is_readable() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.sqlite");
    let recording = write(&path);
    recording.arm(1, &Arm { name: "issue #".into(), cell: "issue #".into(), repeat: 1, ..arm() }).expect("an arm");
    recording.finish(7_000_000).expect("finishes");
    let connection = rusqlite::Connection::open(&path).expect("opens");
    let columns =
        ["cell", "repeat", "layer_reads"].map(|column| format!("ALTER TABLE arm DROP COLUMN {column}; ")).concat();
    connection
        .execute_batch(&format!("DROP TABLE snapshot; DROP TABLE packed_snapshot; DROP TABLE span; {columns}"))
        .expect("drops");
    drop(connection);
    let evidence = Recording::read(&path).expect("reads");
    assert_eq!((evidence.snapshots.len(), evidence.spans.len()), (0, 0));
    let turns: Vec<_> = evidence.arms.iter().map(|arm| (arm.cell.as_str(), arm.repeat)).collect();
    assert_eq!(turns, [("10 ms", 2), ("issue #", 1)]);
    assert!(evidence.arms.iter().all(|arm| arm.layer_reads.is_none()));
}

/// As root in a folder of another user: what a link leads to is not written, and a private recording is nobody else's, with its log.
#[test]
#[allow(clippy::disallowed_methods)]
fn a_recording_is_a_new_file_and_private_where_asked() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let folder = tempfile::tempdir().expect("a folder");
    let [victim, link, real, path] = ["victim", "link", "real", "recording.sqlite"].map(|it| folder.path().join(it));
    symlink(&victim, &link).expect("links");
    assert!(matches!(Recording::create(&link, &start()), Err(Error::Exists { .. })));
    assert!(!victim.exists(), "made behind a link");
    std::fs::create_dir(&real).expect("makes");
    symlink(&real, folder.path().join("folder")).expect("links");
    Recording::create(&folder.path().join("folder/r"), &start())
        .expect("a folder may be a link")
        .finish(1)
        .expect("ends");
    assert!(real.join("r").exists());
    let recording = Recording::create(&path, &Start { is_private: true, ..start() }).expect("creates");
    let mode = |path: &Path| std::fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    assert_eq!([mode(&path), mode(&folder.path().join("recording.sqlite-wal"))], [0o600, 0o600]);
    recording.finish(1).expect("finishes");
}

#[test]
#[allow(clippy::disallowed_methods)]
fn strangers_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("text");
    std::fs::write(&path, "x".repeat(5000)).expect("writes");
    assert!(matches!(Recording::read(&path), Err(Error::NotARecording { .. })));
    assert!(matches!(Recording::create(&path, &start()), Err(Error::Exists { .. })));
    let other = folder.path().join("other");
    rusqlite::Connection::open(&other).expect("opens").execute_batch("CREATE TABLE t (a)").expect("another's table");
    let refused = Recording::read(&other).map(drop).expect_err("of another program").to_string();
    assert!(refused.ends_with("other is not a recording: it is the database of another program"), "{refused}");

    let newer = folder.path().join("newer.sqlite");
    Recording::create(&newer, &start()).expect("creates").finish(1).expect("finishes");
    let connection = rusqlite::Connection::open(&newer).expect("opens");
    connection.execute("UPDATE meta SET value = ?1 WHERE key = 'schema'", [SCHEMA + 1]).expect("updates");
    drop(connection);
    assert!(matches!(Recording::read(&newer), Err(Error::Newer { found, .. }) if found == SCHEMA + 1));
}

/// `docs/recording.md` names every table and column that a recording has.
#[test]
fn the_page_documents_the_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.sqlite");
    Recording::create(&path, &start()).expect("creates").finish(1).expect("finishes");
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/recording.md")).expect("reads");
    let connection = rusqlite::Connection::open(&path).expect("opens");
    let sql = "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'";
    let mut statement = connection.prepare(sql).expect("prepares");
    let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("queries");
    for column in columns {
        let (table, column): (String, String) = column.expect("reads");
        assert!(page.contains(&format!("| `{table}` | `{column}` |")), "docs/recording.md lacks {table}.{column}");
    }
    assert!(page.contains(&format!("Schema {SCHEMA}")), "docs/recording.md names another schema");
}
