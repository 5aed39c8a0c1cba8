// SPDX-License-Identifier: Apache-2.0
//! Fills that do not come to their end: what was there before stays, what was made goes, and what stays of that is named.

use super::{Server, spec};
use load::fill::{self, Error, FillSpec, Shape, Size, Stage};
use load::{Password, Target};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) fn on_any_server(server: &Server) {
    an_idle_connection_may_be_closed(server);
    a_table_that_came_in_between_stays(server);
    pgbench_tables_of_others_stay(server);
    of_two_fills_one_goes_on(server);
}

fn mysql(server: &Server) -> bool {
    server.target.protocol == load::Protocol::Mysql
}

fn sql(server: &Server, statements: &[&str]) {
    let mut connection = server.connection();
    statements.iter().for_each(|sql| assert!(connection.execute(sql).is_ok(), "{sql}"));
}

/// While rows are written over the others, the connection that makes tables and indexes has nothing to do. A server's limit for idle
/// connections would close others, too, when this machine is busy: here it is closed by its number.
fn an_idle_connection_may_be_closed(server: &Server) {
    let plan = server.plan(&spec(1, Size::Rows(1000), Shape::Sysbench));
    let find = if mysql(server) {
        // those of the fill come after this one: the one that makes tables, and the one that holds the lock
        let own = server.number("SELECT connection_id()");
        let of_fill = format!("user = 'wringer' AND id > {own} ORDER BY id LIMIT 2");
        format!("SELECT id FROM information_schema.processlist WHERE {of_fill}")
    } else {
        "SELECT pid FROM pg_stat_activity WHERE state = 'idle' AND query LIKE 'CREATE TABLE sbtest1 %'".to_owned()
    };
    let mut closed = 0;
    let filled = fill::run(&plan, &server.target, &AtomicBool::new(false), &mut |progress| {
        if progress.stage == Stage::Rows && closed == 0 {
            closed = close(server, &find);
        }
    });
    assert!(closed > 0, "no connection was idle");
    assert_eq!(filled.unwrap().got.rows, 1000);
}

/// Has the server close the connections that are found, and waits until they are gone; how many there were.
fn close(server: &Server, find: &str) -> usize {
    let mut connection = server.connection();
    let found = connection.query(find).unwrap();
    for row in 0..found.len() {
        let number: u64 = found.parse(row, 0).unwrap();
        let (end, look) = match mysql(server) {
            true => (format!("KILL {number}"), "SELECT id FROM information_schema.processlist WHERE id"),
            false => (format!("SELECT pg_terminate_backend({number})"), "SELECT pid FROM pg_stat_activity WHERE pid"),
        };
        connection.execute(&end).unwrap();
        let is_gone = || connection.query(&format!("{look} = {number}")).unwrap().is_empty();
        assert!(testkit::wait_until(Duration::from_secs(60), is_gone), "connection {number} stays");
    }
    found.len()
}

fn a_table_that_came_in_between_stays(server: &Server) {
    sql(server, &["DROP TABLE IF EXISTS sbtest1", "DROP TABLE IF EXISTS sbtest2"]);
    let plan = server.plan(&FillSpec { replace: false, ..spec(2, Size::Rows(1000), Shape::Sysbench) });
    sql(server, &["CREATE TABLE sbtest2 (precious INTEGER)"]);
    let error = server.carry_out(&plan).unwrap_err();
    assert!(error.to_string().contains("make the table sbtest2"), "{error}");
    assert!(!server.has_table("sbtest1") && server.has_table("sbtest2"), "its own goes, the other's stays");
    sql(server, &["DROP TABLE sbtest2"]);
}

/// An account that may not read them may still drop them.
fn pgbench_tables_of_others_stay(server: &Server) {
    sql(server, &["DROP TABLE IF EXISTS pgbench_history, pgbench_tellers, pgbench_accounts, pgbench_branches"]);
    sql(server, &["CREATE TABLE pgbench_tellers (precious INTEGER)"]);
    let target = if mysql(server) {
        let rights = "GRANT CREATE, DROP, INSERT ON sbtest.* TO blind@localhost";
        sql(server, &["CREATE USER blind@localhost IDENTIFIED BY 'blind'", rights]);
        Target { user: "blind".into(), password: Password::new("blind"), ..server.target.clone() }
    } else {
        sql(server, &["CREATE ROLE blind LOGIN PASSWORD 'blind'", "ALTER TABLE pgbench_tellers OWNER TO blind"]);
        sql(server, &["GRANT ALL ON SCHEMA public TO blind", "REVOKE ALL ON pgbench_tellers FROM blind"]);
        Target { user: "blind".into(), password: Password::new("blind"), ..server.target.clone() }
    };
    let fill = |replace| load::prepare::pgbench::fill(&target, 1, replace, &AtomicBool::new(false), &mut |_, _| {});
    let refused = fill(false).unwrap_err();
    assert!(matches!(&refused, Error::Exists { table } if table == "pgbench_tellers"), "{refused:?}");
    assert!(server.has_table("pgbench_tellers"));
    sql(server, &["DROP TABLE pgbench_tellers"]);
}

/// PostgreSQL drops no table that a view needs.
pub(crate) fn what_cannot_be_dropped_is_named(server: &Server) {
    let plan = server.plan(&spec(1, Size::Rows(2_000_000), Shape::Sysbench));
    let stop = AtomicBool::new(false);
    let error = fill::run(&plan, &server.target, &stop, &mut |_| {
        if !stop.swap(true, Ordering::Relaxed) {
            sql(server, &["CREATE VIEW needs_it AS SELECT id FROM sbtest1"]);
        }
    });
    let Err(Error::Left { tables, why, error }) = error else { panic!("{error:?}") };
    assert_eq!((tables, matches!(*error, Error::Stopped)), (vec!["sbtest1".to_owned()], true));
    assert!(why.contains("other objects depend on it"), "{why}");
    sql(server, &["DROP VIEW needs_it", "DROP TABLE sbtest1"]);
}

/// With `--replace`, each would drop what the other writes.
fn of_two_fills_one_goes_on(server: &Server) {
    let plan = server.plan(&spec(1, Size::Rows(1000), Shape::Sysbench));
    let mut second = None;
    let first = fill::run(&plan, &server.target, &AtomicBool::new(false), &mut |progress| {
        if progress.stage == Stage::Settle {
            second = Some(server.carry_out(&plan).unwrap_err());
        }
    });
    assert!(matches!(second, Some(Error::Busy)), "{second:?}");
    assert_eq!(first.unwrap().got.rows, 1000);
    assert_eq!(server.fill(&plan.spec).got.rows, 1000, "the lock goes with its fill");
}
