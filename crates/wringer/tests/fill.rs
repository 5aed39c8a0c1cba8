// SPDX-License-Identifier: Apache-2.0
//! Fills on real servers: the rows asked for are on the pages asked for, whichever way they are counted.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // test code makes its own folders

mod fill_failures;

use evidence::Arrivals;
use host::clock::RunClock;
use host::places::Places;
use load::Target;
use load::admin::Connection;
use load::engine::{self, Hooks, LoadSpec};
use load::fill::{self, Error, FillPlan, FillReport, FillSpec, ServerFacts, Shape, Size};
use run::{Begin, Kind, Resource, Run};
use sandbox::{Flavour, Request, Sandbox, Spec, StartOptions};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use testkit::Lab;
use workload::distribution::{self, Distribution, Options};

/// One server with its folder; gone at the end.
struct Server {
    target: Target,
    data: PathBuf,
    run: Option<Run>,
    places: Places,
    _home: tempfile::TempDir,
}

const NAME: &str = "filled";

impl Server {
    fn start(flavour: Flavour) -> Self {
        static ONCE: Once = Once::new();
        // SAFETY: done once, before any thread of this test program reads the environment.
        ONCE.call_once(|| unsafe { std::env::set_var("WRINGER_PROGRAM", env!("CARGO_BIN_EXE_wringer")) });
        let home = tempfile::Builder::new().prefix("wringer-fill-").tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let places = Places { cache: testkit::shared_cache(testkit::own_uid()), ..Places::below(home.path()) };
        let installation = sandbox::locate(&Request { flavour, version: None }, &places, &mut ()).unwrap();
        let sandbox = Sandbox::deploy(Spec { name: NAME.into(), ..Spec::new(installation) }, &places, &mut ()).unwrap();
        let resources = vec![Resource::Sandbox(NAME.into())];
        let begin = Begin { kind: Kind::Run, command: vec!["test".into()], resources, places: places.clone() };
        let mut run = Run::begin(begin).unwrap();
        let server = sandbox.start(&mut run, &StartOptions::default()).unwrap();
        Self { target: server.target.clone(), data: sandbox.data(), run: Some(run), places, _home: home }
    }

    fn connection(&self) -> Connection {
        Connection::open(&self.target).unwrap()
    }

    fn plan(&self, spec: &FillSpec) -> FillPlan {
        fill::plan(spec, &ServerFacts::read(&self.target).unwrap()).unwrap()
    }

    fn fill(&self, spec: &FillSpec) -> FillReport {
        self.carry_out(&self.plan(spec)).unwrap()
    }

    fn carry_out(&self, plan: &FillPlan) -> Result<FillReport, Error> {
        fill::run(plan, &self.target, &AtomicBool::new(false), &mut |_| {})
    }

    fn number(&self, sql: &str) -> u64 {
        self.connection().query(sql).unwrap().parse(0, 0).unwrap_or_else(|| panic!("no number: {sql}"))
    }

    fn text(&self, sql: &str) -> String {
        self.connection().query(sql).unwrap().text(0, 0).unwrap_or_default()
    }

    fn dsn(&self, database: &str) -> String {
        let load::Endpoint::Socket(socket) = &self.target.endpoint else { panic!("a sandbox has a socket") };
        let scheme = if self.target.protocol == load::Protocol::Mysql { "mysql" } else { "postgresql" };
        let (user, password) = (&self.target.user, self.target.password.reveal());
        format!("{scheme}://{user}:{password}@localhost/{database}?socket={}", socket.display())
    }

    /// Rows of the tables that are there.
    fn rows(&self, tables: u32) -> u64 {
        let mut connection = self.connection();
        let mut count = |table| connection.query(&format!("SELECT COUNT(*) FROM sbtest{table}")).ok()?.parse(0, 0);
        (1..=tables).map(|table| count(table).unwrap_or(0)).sum()
    }

    /// A checksum of each table, over all columns of all rows.
    fn content(&self, tables: u32) -> Vec<String> {
        let of = |table| match self.target.protocol {
            load::Protocol::Mysql => {
                let rows = self.connection().query(&format!("CHECKSUM TABLE sbtest{table}")).unwrap();
                rows.text(0, 1).unwrap()
            }
            load::Protocol::Postgresql => {
                self.text(&format!("SELECT SUM(hashtextextended(sbtest{table}::text, 0)) FROM sbtest{table}"))
            }
        };
        (1..=tables).map(of).collect()
    }

    fn has_column_c(&self) -> bool {
        self.connection().query("SELECT c FROM sbtest1 LIMIT 1").is_ok()
    }

    fn has_table(&self, table: &str) -> bool {
        self.connection().query(&format!("SELECT 1 FROM {table} LIMIT 1")).is_ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(run) = self.run.take() {
            let _ = run.release();
        }
        let _ = Sandbox::delete(NAME, &self.places, false);
    }
}

fn spec(tables: u32, size: Size, shape: Shape) -> FillSpec {
    FillSpec { tables, size, shape, replace: true, ..FillSpec::default() }
}

#[track_caller]
fn near(got: u64, wanted: u64, tolerance: f64) {
    assert!(got.abs_diff(wanted) as f64 <= wanted as f64 * tolerance, "{got} is not within {tolerance} of {wanted}");
}

#[test]
fn mariadb_has_the_rows_on_the_pages() {
    let server = Server::start(Flavour::Mariadb);
    assert_eq!(server.plan(&FillSpec::default()).facts.character_bytes_max, 4, "utf8mb4: lengths are stored");
    for rows in [2, 4, 16, 50] {
        let report =
            server.fill(&FillSpec { secondary: false, ..spec(1, Size::Bytes(24 << 20), Shape::RowsPerPage(rows)) });
        assert!(report.as_predicted() && report.unsettled.is_empty(), "{report}");
        assert!((report.got.rows_per_page - f64::from(rows)).abs() < 0.02 * f64::from(rows), "{report}");
        near(report.got.used_bytes, 24 << 20, 0.02);
        let file = fs::metadata(server.data.join("sbtest/sbtest1.ibd")).unwrap().len();
        assert_eq!(report.got.bytes_on_disk, file, "what the server says is what lies in its folder");
        assert_eq!(report.got.rows, server.number("SELECT COUNT(*) FROM sbtest1"));
    }
    common(&server);
    rows_without_bulk_load(&server);
    rows_that_are_lost_are_noticed(&server);
    a_killed_fill_goes_on(&server, FillSpec { tables: 3, threads: 2, ..interrupted() });
}

/// The server's statistics of a table of some pages say one leaf, whatever is in it.
#[test]
fn a_small_table_has_its_pages_too() {
    let server = Server::start(Flavour::Mariadb);
    for rows in [40, 500, 1000, 2000] {
        let got = server.fill(&spec(1, Size::Rows(rows), Shape::Sysbench)).got;
        let least = rows.div_ceil(73);
        assert!((least..=least + 4).contains(&got.row_pages), "{rows} rows on {} pages", got.row_pages);
    }
}

#[test]
fn postgresql_has_the_rows_on_the_pages() {
    let server = Server::start(Flavour::Postgresql);
    tables_of_another_schema_stay(&server);
    for rows in [1, 4, 16, 30] {
        let report =
            server.fill(&FillSpec { secondary: false, ..spec(1, Size::Bytes(24 << 20), Shape::RowsPerPage(rows)) });
        assert!(report.as_predicted() && report.unsettled.is_empty(), "{report}");
        assert_eq!(report.tables[0].rows_on_a_page, Some(rows.into()), "{report}");
        near(report.got.used_bytes, 24 << 20, 0.03);
        let path = server.text("SELECT pg_relation_filepath('sbtest1')");
        let file = fs::metadata(server.data.join(path)).unwrap().len();
        assert_eq!(report.got.row_pages * 8192, file, "what the server says is what lies in its folder");
    }
    common(&server);
    next_keys_come_after_the_rows(&server);
    fill_failures::what_cannot_be_dropped_is_named(&server);
    a_killed_fill_goes_on(&server, FillSpec { tables: 1, threads: 3, ..interrupted() });
}

/// What holds on every server.
fn common(server: &Server) {
    pool_multiples_and_indexes(server);
    rows_do_not_depend_on_the_number_of_connections(server);
    keys_are_as_skewed_as_asked(server);
    text_is_indexed(server);
    tables_in_the_way_stay(server);
    a_stop_leaves_no_table(server);
    rows_keep_their_width(server);
    every_workload_runs(server);
    fill_failures::on_any_server(server);
}

fn pool_multiples_and_indexes(server: &Server) {
    let report = server.fill(&spec(3, Size::TimesPool(0.4), Shape::Sysbench));
    near(report.got.used_bytes, report.pool_bytes * 2 / 5, 0.04);
    assert_eq!((report.tables.len(), report.got.rows), (3, report.rows_per_table * 3));
    assert!(report.as_predicted(), "{report}");
    let measured = report.measured(0);
    assert!(measured.iter().all(|entry| entry.within_tolerance != Some(false)), "{measured:?}");
}

fn rows_do_not_depend_on_the_number_of_connections(server: &Server) {
    let content = "SELECT SUM(k) FROM sbtest1 WHERE c LIKE '7%' OR pad LIKE '3%'";
    let contents = [1, 3].map(|threads| {
        server.fill(&FillSpec { threads, seed: 42, ..spec(1, Size::Rows(3000), Shape::Sysbench) });
        server.number(content)
    });
    assert_eq!(contents[0], contents[1]);
    server.fill(&FillSpec { seed: 43, ..spec(1, Size::Rows(3000), Shape::Sysbench) });
    assert_ne!(contents[0], server.number(content), "another seed, other rows");
}

/// Each distribution's own mark, counted by the server over the index on k.
fn keys_are_as_skewed_as_asked(server: &Server) {
    let rows = 10_000;
    let share_of = |kind: distribution::Kind, from: u64, to: u64| {
        let keys = Options { kind, ..Options::default() }.check().unwrap();
        server.fill(&FillSpec { keys, ..spec(1, Size::Rows(rows), Shape::Sysbench) });
        assert_eq!(
            server.number(&format!("SELECT COUNT(*) FROM sbtest1 WHERE k NOT BETWEEN 1 AND {rows}")),
            0,
            "{keys}"
        );
        server.number(&format!("SELECT COUNT(*) FROM sbtest1 WHERE k BETWEEN {from} AND {to}")) as f64 / rows as f64
    };
    let near = |share: f64, wanted: f64| assert!((share - wanted).abs() < 0.02, "{share} for {wanted}");
    near(share_of(distribution::Kind::Uniform, 1, 2000), 0.2);
    near(share_of(distribution::Kind::Pareto, 1, 2000), 0.8);
    // the middle hundredth: three quarters, and what of the gaussian rest falls there
    near(share_of(distribution::Kind::Special, 4951, 5050), 0.762);
    // within one standard deviation: 10000 / sqrt(12 * 12)
    near(share_of(distribution::Kind::Gaussian, 4167, 5833), 0.68);
    // sum of n^-0.8 up to 100, over that up to 10000
    near(share_of(distribution::Kind::Zipfian, 1, 100), 0.300);
}

/// PostgreSQL looks for a name in all schemas of the search path; only tables of the first one are ours to drop.
fn tables_of_another_schema_stay(server: &Server) {
    let mut connection = server.connection();
    for sql in ["CREATE TABLE public.sbtest1 (mine INTEGER)", "INSERT INTO public.sbtest1 VALUES (42)"] {
        connection.execute(sql).unwrap();
    }
    let own = format!("CREATE SCHEMA \"{}\"", server.target.user);
    connection.execute(&own).unwrap();
    let tables = workload::Tables { connections: 1, ..workload::Tables::default() };
    load::prepare::prepare(&server.target, workload::Name::BulkInsert, &tables).unwrap();
    for _ in 0..2 {
        Connection::open(&server.target).unwrap().drop_tables(&["sbtest1"]).unwrap();
    }
    assert_eq!(connection.query("SELECT mine FROM public.sbtest1").unwrap().parse(0, 0), Some(42));
    for sql in ["DROP TABLE public.sbtest1".to_owned(), own.replace("CREATE", "DROP")] {
        connection.execute(&sql).unwrap();
    }
}

fn text_is_indexed(server: &Server) {
    let report = server.fill(&FillSpec { text_indexes: 2, ..spec(1, Size::Bytes(12 << 20), Shape::Sysbench) });
    near(report.got.used_bytes, 12 << 20, 0.05);
    let pad = server.text("SELECT pad FROM sbtest1 WHERE id = 77");
    let hint = if server.target.protocol == load::Protocol::Mysql { "FORCE INDEX (pad_1)" } else { "" };
    assert_eq!(server.number(&format!("SELECT id FROM sbtest1 {hint} WHERE pad = '{pad}'")), 77);
}

fn tables_in_the_way_stay(server: &Server) {
    let facts = ServerFacts::read(&server.target).unwrap();
    assert!(matches!(fill::plan(&FillSpec::default(), &facts), Err(Error::Exists { .. })));
}

fn a_stop_leaves_no_table(server: &Server) {
    let plan = server.plan(&spec(2, Size::Rows(2_000_000), Shape::Sysbench));
    let stop = AtomicBool::new(false);
    let stopped = fill::run(&plan, &server.target, &stop, &mut |progress| {
        stop.store(progress.done > 0, Ordering::Relaxed);
    });
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    assert!(!server.has_table("sbtest1") && !server.has_table("sbtest2"));
}

/// A load that deletes rows and inserts them again, with the columns that it knows, leaves them as wide as they were.
fn rows_keep_their_width(server: &Server) {
    server.fill(&spec(2, Size::Rows(1000), Shape::RowsPerPage(4)));
    let width = "SELECT MIN(OCTET_LENGTH(filler1)) FROM sbtest1";
    let before = server.number(width);
    let mut connection = server.connection();
    connection.execute("DELETE FROM sbtest1 WHERE id = 7").unwrap();
    connection.execute("INSERT INTO sbtest1 (id, k, c, pad) VALUES (7, 7, 'c', 'pad')").unwrap();
    assert_eq!(server.number(width), before);
}

fn every_workload_runs(server: &Server) {
    load::prepare::pgbench::fill(&server.target, 1, false, &AtomicBool::new(false), &mut |_, _| {}).unwrap();
    for name in workload::Name::ALL {
        // bulk_insert leaves tables of its own under the same names
        if !server.has_column_c() {
            server.fill(&spec(2, Size::Rows(1000), Shape::Sysbench));
        }
        let tables = workload::Tables { tables: 2, table_size: 1000, connections: 2, ..workload::Tables::default() };
        let mut connection = server.connection();
        connection.drop_tables(&workload::setup_tables(name, &tables)).unwrap();
        for sql in workload::setup(name, &tables) {
            connection.execute(&sql).unwrap();
        }
        let built = workload::build(
            name,
            server.target.protocol,
            &tables,
            &workload::Options::default(),
            &Distribution::Uniform,
        )
        .unwrap();
        let load = LoadSpec {
            connections: 1,
            arrivals: Arrivals::Closed,
            events: Some(30),
            time: None,
            ..LoadSpec::new(name.as_str(), Arc::from(built))
        };
        let mut hooks = Hooks {
            on_phase: &mut |_| {},
            on_progress: &mut |_| {},
            progress_interval: None,
            stop: Arc::new(AtomicBool::new(false)),
        };
        let result = engine::run(&load, &server.target, &RunClock::start(), &mut hooks).unwrap();
        assert!(result.measured.errors.is_empty(), "{name}: {:?}", result.measured.errors);
        assert_eq!(result.measured.transactions, 30, "{name}");
        assert_eq!(result.measured.writes > 0, name.writes(), "{name}");
    }
}

/// Where the server forbids LOAD DATA LOCAL.
fn rows_without_bulk_load(server: &Server) {
    let mut plan =
        server.plan(&FillSpec { secondary: false, ..spec(2, Size::Bytes(16 << 20), Shape::RowsPerPage(16)) });
    plan.facts.bulk_load = false;
    let report = server.carry_out(&plan).unwrap();
    assert!(report.as_predicted(), "{report}");
}

/// LOAD DATA LOCAL passes over rows whose key is there already, and says nothing.
fn rows_that_are_lost_are_noticed(server: &Server) {
    let mut plan = server.plan(&spec(1, Size::Rows(512), Shape::Sysbench));
    let half = fill::Lane { rows: 256, ..plan.lanes[0] };
    plan.lanes = vec![half, half];
    let error = server.carry_out(&plan).unwrap_err();
    assert!(matches!(&error, Error::Differs { what: "the number of rows", .. }), "{error}");
}

fn next_keys_come_after_the_rows(server: &Server) {
    server.fill(&spec(1, Size::Rows(700), Shape::Sysbench));
    server.connection().execute("INSERT INTO sbtest1 (k) VALUES (1)").unwrap();
    assert_eq!(server.number("SELECT MAX(id) FROM sbtest1"), 701);
}

fn interrupted() -> FillSpec {
    spec(1, Size::Bytes(96 << 20), Shape::RowsPerPage(4))
}

/// Killed in the middle and resumed, a fill leaves the same rows on as many pages as one that nobody disturbed. What another fill would have
/// written is refused.
fn a_killed_fill_goes_on(server: &Server, spec: FillSpec) {
    let (lab, tables) = (Lab::new(env!("CARGO_BIN_EXE_wringer")), spec.tables);
    let [of, by] = [format!("--tables={tables}"), format!("--threads={}", spec.threads)];
    let command = |flags: &[&str]| {
        let mut command = lab.command([&["fill", "--size=96M", "--rows-per-page=4", &of, &by], flags].concat());
        command.env("WRINGER_DSN", server.dsn(server.target.database.as_ref().unwrap()));
        command
    };
    let total = server.fill(&spec).got.rows;
    let undisturbed = server.content(tables);

    let found = || {
        for table in 1..=tables {
            server.connection().execute(&format!("DROP TABLE IF EXISTS sbtest{table}")).unwrap();
        }
        let mut filling = command(&[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let seen = testkit::wait_until(Duration::from_secs(60), || server.rows(tables) > 0);
        filling.kill().unwrap();
        filling.wait().unwrap();
        assert!(seen, "no transaction was completed in a minute");
        server.rows(tables)
    };
    // a machine that is busy may not look before the last row is in
    let found = (0..5).map(|_| found()).find(|rows| *rows < total).expect("a fill that is cut off in the middle");

    command_refuses(&mut command(&["--resume", "--rand-seed=9"]), "the sum of k is");
    command_refuses(&mut command(&["--resume", "--auto-inc=off"]), "its columns are");
    let plan = server.plan(&FillSpec { resume: true, replace: false, ..spec });
    let stopped = fill::run(&plan, &server.target, &AtomicBool::new(true), &mut |_| {});
    assert!(matches!(stopped, Err(Error::Paused)), "{stopped:?}");
    assert!(server.rows(tables) >= found, "a fill that is resumed, refused or stopped drops nothing");

    let resumed = testkit::Ran::of(&mut command(&["--resume", "-o", "json"])).expect_code(0);
    let json: serde_json::Value = serde_json::from_str(&resumed.stdout).unwrap();
    let kept = json["fill"]["rows_kept"].as_u64().unwrap();
    assert!((found..total).contains(&kept), "{kept} of {total} rows were kept, {found} were seen");
    assert_eq!(json["fill"]["got"]["rows"], total);
    assert!(!resumed.stderr.contains("warning"), "as many pages as predicted: {}", resumed.stderr);
    assert_eq!(server.content(tables), undisturbed);

    // with nothing missing it is only read
    let report = server.carry_out(&server.plan(&plan.spec)).unwrap();
    assert_eq!((report.rows_kept, report.got.rows), (total, total));
}

#[track_caller]
fn command_refuses(command: &mut Command, what: &str) {
    testkit::Ran::of(command).expect_code(3).expect_said(&["sbtest", what, "--replace"]);
}

#[test]
fn the_command_fills_and_refuses() {
    let server = Server::start(Flavour::Postgresql);
    let lab = Lab::new(env!("CARGO_BIN_EXE_wringer"));
    let dsn = server.dsn("elsewhere");
    let wringer = |flags: &[&str]| {
        let mut command = lab.command([&["fill"], flags].concat());
        testkit::Ran::of(command.env("WRINGER_DSN", &dsn))
    };
    for amount in ["--size=1000T", "--pgbench=200000000"] {
        let mut command = lab.command(["fill", amount]);
        let ran = testkit::Ran::of(command.env("WRINGER_DSN", server.dsn("sbtest"))).expect_code(3);
        ran.expect_said(&["the tables need about", "are free on the disk of", "--no-space-check"]);
    }
    assert!(!server.has_table("sbtest1") && !server.has_table("pgbench_branches"));
    let filled = wringer(&["--tables=2", "--table_size=3000", "--rows-per-page=8", "-o", "json"]).expect_code(0);
    assert!(filled.stderr.contains("made the database elsewhere"), "{}", filled.stderr);
    let json: serde_json::Value = serde_json::from_str(&filled.stdout).unwrap();
    assert_eq!((&json["fill"]["got"]["rows"], &json["schema"]), (&6000.into(), &1.into()));
    assert_eq!(json["fill"]["tables"][1]["rows_on_a_page"], 8);

    wringer(&["--size=0", "--replace"]).expect_code(2).expect_said(&["size is 0"]);
    let other = wringer(&["--pgsql-host=127.0.0.1", "--pgsql-port=1"]).expect_code(3);
    other.expect_said(&["--pgsql-host names the server", "WRINGER_DSN", "is left out", "127.0.0.1:1"]);
    wringer(&["--table-size=10"]).expect_code(3).expect_said(&["sbtest1 is there already", "--replace"]);
    let text = wringer(&["--table-size=10", "--replace"]).expect_code(0).stdout;
    assert!(text.contains("rows a page"), "{text}");
    wringer(&["--replace", "--rows-per-page=36"]).expect_code(2).expect_said(&["35 or 37"]);
    let dry = wringer(&["--replace", "--dry-run"]).expect_code(0).stdout;
    assert!(dry.contains("CREATE TABLE sbtest1"), "{dry}");
}
