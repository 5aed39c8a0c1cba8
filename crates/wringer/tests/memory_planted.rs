// SPDX-License-Identifier: Apache-2.0
//! Memory whose cause is known is planted in real servers, some 64 MiB each: it comes up in the leaf of that cause, and in no other one.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod accounted;

use accounted::{MARIADB, MIB, PATIENCE, Server, changes, expect_near, leaf, paths};
use load::admin::Connection;
use serde_json::{Value, json};
use testkit::wait_until;

/// So many rows of 1,000 bytes; with what an engine adds to each, they take 64 MiB within 10 %.
const ROWS: i64 = 60_000;
const PLANTED: i64 = 64 * MIB;
const MYSQL: [&str; 6] = [
    "innodb_buffer_pool_size=128M",
    "performance_schema=ON",
    "performance_schema_instrument=memory/%=ON",
    "join_buffer_size=64M",
    "tmp_table_size=256M",
    "max_heap_table_size=256M",
];

/// The leaf has grown by what was planted, within 10 %; all others together have moved by less than 10 % of it.
#[track_caller]
fn expect_planted(path: &str, without: &Value, with: &Value, wanted: i64) {
    expect_planted_within(path, without, with, wanted, 10);
}

/// `percent`: of what was planted, by which all others together may move.
#[track_caller]
fn expect_planted_within(path: &str, without: &Value, with: &Value, wanted: i64, percent: i64) {
    let grown = leaf(with, path) - leaf(without, path);
    expect_near(&format!("{path}, of\n{}\n", changes(without, with)), grown, wanted, 0.1);
    let others = moved_beside(path, without, with);
    assert!(
        others < wanted * percent / 100,
        "beside {path} (by {grown}), others have moved by {others}:\n{}",
        changes(without, with)
    );
}

/// By how much all other leaves have grown or shrunk: what one wins and another loses is twice wrong. Two leaves are not among those: what malloc keeps of
/// earlier plants is used again, and the program's pages are shared with the servers of other tests. Of a third one a loss does not count: it has only
/// what all others leave, also where they count memory that nobody has touched.
fn moved_beside(path: &str, without: &Value, with: &Value) -> i64 {
    let is_other = |it: &&str| ![path, "allocator/", "program/"].iter().any(|left_out| it.starts_with(left_out));
    let moved = |path: &str| match resident(with, path) - resident(without, path) {
        lost @ ..0 if path != "server/counted" => -lost,
        won => won.max(0),
    };
    paths(without, with).into_iter().filter(is_other).map(moved).sum()
}

fn resident(account: &Value, path: &str) -> i64 {
    let mut leaves = account["leaves"].as_array().unwrap().iter();
    leaves.find(|leaf| leaf["path"] == path).map_or(0, |leaf| leaf["resident_bytes"].as_i64().unwrap())
}

#[test]
fn what_one_leaf_wins_and_another_loses_is_no_zero() {
    let account = |leaves: [(&str, i64); 5]| {
        let leaf = |(path, bytes)| json!({ "path": path, "resident_bytes": bytes });
        json!({ "leaves": leaves.map(leaf) })
    };
    let of = |sort, join, idle, counted| {
        account([
            ("sessions/sort", sort),
            ("sessions/join", join),
            ("sessions/idle", idle),
            ("server/counted", counted),
            ("allocator/retained", sort),
        ])
    };
    assert_eq!(moved_beside("sessions/sort", &of(0, 30, 5, 9), &of(64, 0, 35, 9)), 60);
    assert_eq!(moved_beside("sessions/", &of(0, 30, 5, 9), &of(64, 0, 35, 2)), 0);
    assert_eq!(moved_beside("sessions/sort", &of(0, 30, 5, 2), &of(64, 30, 5, 9)), 7);
}

fn number(connection: &mut Connection, sql: &str) -> i64 {
    let rows = connection.query(sql).unwrap();
    rows.text(0, 0).unwrap().parse().unwrap_or_else(|_| panic!("{sql}: {rows:?}"))
}

/// MySQL and MariaDB.
struct Sleeper<'a>(&'a Server);

impl Sleeper<'_> {
    const ASLEEP: &'static str = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE state = 'User sleep'";

    /// Looks while a statement sleeps in its middle.
    fn while_in(&self, statements: &[&str]) -> (Value, Value) {
        let without = self.0.account();
        let mut watch = self.0.connect();
        let with = std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let mut connection = self.0.connect();
                statements.iter().map(|sql| connection.query(sql)).last()
            });
            let asleep = wait_until(PATIENCE, || number(&mut watch, Self::ASLEEP) == 1);
            let with = self.0.account();
            while !sleeper.is_finished() {
                self.wake(&mut watch);
            }
            let ended = sleeper.join().unwrap();
            assert!(asleep, "it never slept: {ended:?}");
            with
        });
        (without, with)
    }

    fn wake(&self, watch: &mut Connection) {
        let found = watch.query("SELECT id FROM information_schema.PROCESSLIST WHERE state = 'User sleep'").unwrap();
        if let Some(id) = found.text(0, 0) {
            // it may have woken meanwhile
            let _ = watch.query(&format!("KILL {id}"));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn rows_of_mysql(server: &Server) {
    let mut connection = server.connect();
    let numbers = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) SELECT i, REPEAT('x', 1000) FROM n"
    );
    for sql in ["CREATE DATABASE d", "CREATE TABLE d.one (id INT PRIMARY KEY)", "INSERT INTO d.one VALUES (1)"] {
        connection.query(sql).unwrap();
    }
    // the limit has another name in each
    let limits = ["SET cte_max_recursion_depth = 100000", "SET max_recursive_iterations = 100000"];
    assert!(limits.iter().any(|sql| connection.query(sql).is_ok()));
    connection.query("CREATE TABLE d.w (id INT PRIMARY KEY, pad VARCHAR(1000)) CHARACTER SET latin1").unwrap();
    connection.query(&format!("INSERT INTO d.w {numbers}")).unwrap();
    assert_eq!(number(&mut connection, "SELECT COUNT(*) FROM d.w"), ROWS);
    // else the plans depend on whether the server has looked at the tables by then
    connection.query("ANALYZE TABLE d.w, d.one").unwrap();
}

/// Rows that differ, in a table in memory, which the outer query reads.
const TEMPORARY: &str = "SELECT SLEEP(600) FROM (SELECT DISTINCT id, pad FROM d.w) AS t LIMIT 1";
const JOIN: &str =
    "SELECT SUM(SLEEP(IF(a.id = 1, 600, 0))) FROM d.w a JOIN d.w b ON a.id + 0 = b.id + 0 AND a.pad = b.pad";

/// `own`: what the session says of itself.
fn prepared(server: &Server, count: usize, own: &str) {
    let without = server.account();
    let mut connection = server.connect();
    let before = number(&mut connection, own);
    let list: Vec<String> = (0..20_000).map(|it| it.to_string()).collect();
    connection.query(&format!("SET @s = 'SELECT 1 FROM d.w WHERE id IN ({})'", list.join(","))).unwrap();
    for nth in 0..count {
        connection.query(&format!("PREPARE p{nth} FROM @s")).unwrap();
    }
    let planted = number(&mut connection, own) - before;
    assert!(planted > 50 * MIB, "{planted}");
    expect_planted("sessions/prepared", &without, &server.account(), planted);
}

/// Tables of 1,001 columns, each of them opened sixty times by one join. What the server's events say in all is what was planted.
///
/// Returns what was planted, and the accounts without and with it.
fn open_tables(server: &Server, count: usize) -> (i64, Value, Value) {
    const ALL: &str = "SELECT SUM(current_number_of_bytes_used) FROM performance_schema.memory_summary_global_by_event_name \
                       WHERE event_name NOT LIKE 'memory/performance\\_schema/%'";
    let mut connection = server.connect();
    let columns: Vec<String> = (0..1000).map(|it| format!("c{it} INT")).collect();
    for nth in 0..count {
        connection.query(&format!("CREATE TABLE d.wide{nth} (id INT PRIMARY KEY, {})", columns.join(","))).unwrap();
    }
    connection.query("FLUSH TABLES").unwrap();
    let (without, before) = (server.account(), number(&mut connection, ALL));
    for nth in 0..count {
        let aliases: Vec<String> = (0..60).map(|it| format!("d.wide{nth} AS a{it}")).collect();
        connection.query(&format!("SELECT 1 FROM {} LIMIT 1", aliases.join(" CROSS JOIN "))).unwrap();
    }
    let planted = number(&mut connection, ALL) - before;
    assert!(planted > 50 * MIB, "{planted}");
    (planted, without, server.account())
}

/// What the meters of these leaves say, also of what is not resident.
fn said(account: &Value, path: &str) -> i64 {
    let leaves = account["leaves"].as_array().unwrap().iter();
    let of_path = leaves.filter(|leaf| leaf["path"].as_str().unwrap().starts_with(path));
    of_path.filter_map(|leaf| leaf["allocated_bytes"].as_i64()).sum()
}

#[test]
fn mysql_knows_what_its_sessions_do() {
    let server = Server::start("mysql@9", &[&MYSQL[..], &["sort_buffer_size=128M"]].concat(), &[]);
    rows_of_mysql(&server);
    server.settle();
    let sleeper = Sleeper(&server);
    for (path, sql) in [
        ("sessions/sort", "SELECT pad, SLEEP(600) FROM d.w ORDER BY id * -1"),
        ("sessions/join", JOIN),
        ("sessions/temporary_tables", TEMPORARY),
    ] {
        let (without, with) = sleeper.while_in(&[sql]);
        expect_planted(path, &without, &with, PLANTED);
    }
    prepared(&server, 14, "SELECT total_memory FROM performance_schema.threads WHERE processlist_id = CONNECTION_ID()");
    let (planted, without, with) = open_tables(&server, 2);
    expect_planted("metadata/", &without, &with, planted);
    key_cache_with_a_name(&server);
}

/// Of a cache that nobody uses the server has said that it is there; its descriptors are written when it is made.
fn key_cache_with_a_name(server: &Server) {
    let allocated = |account: &Value| {
        let leaves = account["leaves"].as_array().unwrap().iter();
        let of_caches = leaves.filter(|leaf| leaf["path"].as_str().unwrap().starts_with("data_cache/key_cache"));
        of_caches.filter_map(|leaf| leaf["allocated_bytes"].as_i64()).sum::<i64>()
    };
    let before = allocated(&server.account());
    server.connect().query(&format!("SET GLOBAL hot.key_buffer_size = {PLANTED}")).unwrap();
    expect_near("key caches", allocated(&server.account()) - before, PLANTED, 0.01);
}

/// MariaDB has no memory event for the buffer of a sort: only the list of sessions counts it.
#[test]
fn mariadb_knows_what_its_sessions_do() {
    let server =
        Server::start(MARIADB, &[&MYSQL[..], &["sort_buffer_size=66M", "join_buffer_space_limit=256M"]].concat(), &[]);
    rows_of_mysql(&server);
    server.settle();
    let sleeper = Sleeper(&server);
    // Twice as many rows as the buffer holds: it is full however many the optimizer expects, and stays until they are merged. Where all fit, it is
    // given back before the rows are read, or not, by what a sample of pages lets expect.
    let mut connection = server.connect();
    for sql in [
        "CREATE TABLE d.twice LIKE d.w",
        "INSERT INTO d.twice SELECT id, pad FROM d.w",
        "INSERT INTO d.twice SELECT -id, pad FROM d.w",
    ] {
        connection.query(sql).unwrap();
    }
    connection.query("ANALYZE TABLE d.twice").unwrap();
    drop(connection);
    server.settle();
    // the condition is looked at when the sorted rows are read
    let sort = "SELECT STRAIGHT_JOIN t.pad FROM d.twice t JOIN d.one o ON SLEEP(600) = 0 ORDER BY t.id * -1";
    for (path, statements, wanted) in [
        ("sessions/active", &["SET join_cache_level = 0", sort][..], Some(PLANTED)),
        // as large a buffer as it expects to need
        ("sessions/join", &[JOIN], None),
        ("sessions/temporary_tables", &[TEMPORARY], Some(PLANTED)),
    ] {
        let (without, with) = sleeper.while_in(statements);
        // the program's pages are shared with the servers of other tests; the tables that are joined are read into the pool again
        let total = |account: &Value| {
            account["kernel_total_bytes"].as_i64().unwrap() - leaf(account, "program/") - leaf(account, "data_cache/")
        };
        let wanted = wanted.unwrap_or_else(|| total(&with) - total(&without));
        assert!(wanted > 45 * MIB, "{path}: {wanted}");
        expect_planted(path, &without, &with, wanted);
    }
    prepared(&server, 17, "SELECT memory_used FROM information_schema.PROCESSLIST WHERE id = CONNECTION_ID()");
    // Of 64 MiB that the meters say, the process may have only 45 more resident. Then all meters are scaled down together, while that of these leaves grows
    // in full. Where malloc had kept as much of earlier plants, all of it is resident.
    let (planted, without, with) = open_tables(&server, 3);
    let meters = said(&with, "metadata/") - said(&without, "metadata/");
    expect_near("what is said of metadata/", meters, planted, 0.1);
    let grown = leaf(&with, "metadata/") - leaf(&without, "metadata/");
    assert!(grown * 100 > planted * 80 && grown <= meters, "{grown} of {planted}:\n{}", changes(&without, &with));
    expect_planted_within("metadata/", &without, &with, grown, 25);
}

/// Its blocks are malloc's, which `Memory_used` counts. The kernel merges them with what lies beside them, so that a mapping of any size comes of it: also of about
/// that of a cache.
#[test]
fn a_memory_table_is_the_servers_and_no_cache_of_arias() {
    let options = ["innodb_buffer_pool_size=128M", "performance_schema=OFF", "max_heap_table_size=256M"];
    let server = Server::start(MARIADB, &options, &[]);
    rows_of_mysql(&server);
    server.settle();
    let mut connection = server.connect();
    let without = server.account();
    // rows go from one table to the other without a temporary one
    let columns: Vec<String> = (0..4).map(|nth| format!("c{nth} CHAR(250)")).collect();
    let sql = format!("CREATE TABLE d.m (id INT, {}) ENGINE=MEMORY CHARACTER SET latin1", columns.join(", "));
    connection.query(&sql).unwrap();
    let quarters = ["LEFT(pad, 250)"; 4].join(", ");
    connection.query(&format!("INSERT INTO d.m SELECT id, {quarters} FROM d.w")).unwrap();
    assert_eq!(number(&mut connection, "SELECT COUNT(*) FROM d.m"), ROWS);
    let with = server.account();
    expect_planted("server/counted", &without, &with, PLANTED);
    let aria = leaf(&with, "data_cache/aria_cache") - leaf(&without, "data_cache/aria_cache");
    assert!(aria.abs() < MIB, "{aria}:\n{}", changes(&without, &with));
}

/// Each in a session of its own, which ends with its memory. `own`: the contexts that it is in, as the session itself sees them.
fn in_session(server: &Server, path: &str, statements: &[String], own: &str) {
    let without = server.account();
    let mut connection = server.connect();
    for sql in statements {
        connection.query(sql).unwrap();
    }
    let with = server.account();
    let sql = format!("SELECT sum(total_bytes)::bigint FROM pg_backend_memory_contexts WHERE {own}");
    let planted = number(&mut connection, &sql);
    assert!(planted > 57 * MIB, "{path}: {planted}");
    let pid = number(&mut connection, "SELECT pg_backend_pid()");
    drop(connection);
    // it holds its memory until its temporary tables are removed
    let is_gone = || !server.processes().contains(&u32::try_from(pid).unwrap());
    assert!(wait_until(PATIENCE, is_gone), "backend {pid} does not end");
    expect_planted(path, &without, &with, planted);
}

fn texts(statements: &[&str]) -> Vec<String> {
    statements.iter().map(|sql| (*sql).to_owned()).collect()
}

/// Functions with long bodies: each entry of the cache holds the whole row.
const FUNCTIONS: &str = "DO $$ DECLARE body text; BEGIN \
    SELECT string_agg(md5(random()::text), '') INTO body FROM generate_series(1, 3200); \
    FOR i IN 1..640 LOOP EXECUTE format('CREATE FUNCTION big%s() RETURNS text LANGUAGE sql AS %L', i, 'SELECT ''' || body || '''::text'); END LOOP; \
    END $$";
const READ_FUNCTIONS: &str = "SELECT sum(length(pg_get_functiondef(oid))) FROM pg_proc WHERE proname LIKE 'big%'";

#[test]
fn postgresql_knows_what_its_backends_do() {
    // The functions are larger than the buffers, and so this session has touched all of those. It stays: a page of shared memory is in nobody's Pss
    // once who touched it has ended, and would be in that of the next session that reads it.
    let server = Server::start("postgresql", &["shared_buffers=24MB", "autovacuum=off"], &[]);
    let mut reader = server.connect();
    for sql in [FUNCTIONS, READ_FUNCTIONS, "CHECKPOINT"] {
        reader.query(sql).unwrap();
    }
    let sort = texts(&[
        "SET work_mem = '256MB'",
        "BEGIN",
        "DECLARE c CURSOR FOR SELECT generate_series(1, 62000) AS i, repeat('x', 950) AS pad ORDER BY i DESC",
        "FETCH 1 FROM c",
    ]);
    in_session(&server, "backends/sort", &sort, "name LIKE 'TupleSort%' OR name LIKE 'Caller tuples'");
    let rows = "SELECT generate_series(1, 100000) AS i, repeat('x', 1000) AS pad";
    let temporary = texts(&["SET temp_buffers = '64MB'", &format!("CREATE TEMP TABLE t AS {rows}")]);
    in_session(&server, "backends/temporary_tables", &temporary, "name LIKE 'LocalBuffer%'");
    let list: Vec<String> = (0..3000).map(|it| it.to_string()).collect();
    let list = list.join(",");
    let plans: Vec<String> = (0..111).map(|nth| format!("PREPARE p{nth} AS SELECT 1 WHERE 1 IN ({list})")).collect();
    in_session(&server, "backends/plans", &plans, "name LIKE 'CachedPlan%' OR name = 'Prepared Queries'");
    in_session(&server, "backends/catalogue_cache", &texts(&[READ_FUNCTIONS]), "name = 'CacheMemoryContext'");
    parallel_hash(&server);
    drop(reader);
}

/// Its table lies in dynamic segments, which all that take part have mapped. All of them sleep in its middle: what only a process had touched that has
/// ended is in nobody's Pss. What is planted is what the server says of the same join.
fn parallel_hash(server: &Server) {
    const JOIN: &str = "SELECT count(i.pad), count(o.pad), count(pg_sleep(CASE WHEN o.id % 1000 = 1 THEN %s ELSE 0 END)) \
                        FROM outer_side o JOIN inner_side i USING (id)";
    let settings = "SET work_mem = '256MB'; SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; \
                    SET min_parallel_table_scan_size = 0; SET enable_mergejoin = off; SET enable_nestloop = off";
    let mut connection = server.connect();
    for (table, rows) in [("inner_side", 430_000), ("outer_side", 640_000)] {
        connection
            .query(&format!("CREATE TABLE {table} AS SELECT generate_series(1, {rows}) AS id, repeat('y', 100) AS pad"))
            .unwrap();
    }
    connection.query(&format!("ANALYZE; {settings}")).unwrap();
    let explained = connection.query(&format!("EXPLAIN (ANALYZE) {}", JOIN.replace("%s", "0"))).unwrap();
    let lines: Vec<String> = (0..explained.len()).filter_map(|row| explained.text(row, 0)).collect();
    assert!(lines.iter().any(|line| line.contains("Parallel Hash")), "{lines:#?}");
    let said =
        lines.iter().find_map(|line| line.split_once("Memory Usage: ")?.1.strip_suffix("kB")?.parse::<i64>().ok());
    let planted = said.unwrap() * 1024;
    let without = server.account();
    let mut watch = server.connect();
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| connection.query(&JOIN.replace("%s", "600")));
        let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        let asleep = wait_until(PATIENCE, || number(&mut watch, asleep) > 0);
        let with = server.account();
        while !sleeper.is_finished() {
            watch.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'").unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let ended = sleeper.join().unwrap();
        assert!(asleep, "it never slept: {ended:?}");
        expect_planted("shared_memory/dynamic", &without, &with, planted);
    });
}
