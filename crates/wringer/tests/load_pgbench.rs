// SPDX-License-Identifier: Apache-2.0
//! pgbench's scripts beside the real pgbench, each statement counted by the server itself.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use standing::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{Lab, Ran};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A server that stands, with `options`; its connection string.
fn serving(lab: &Lab, flavour: &str, options: &[&str]) -> Option<String> {
    let deployed = lab.run([&["sandbox", "deploy", flavour, "--name", flavour, "--start"], options].concat());
    if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
        return None;
    }
    deployed.expect_code(0);
    Some(lab.run(["sandbox", "export", flavour, "dsn"]).expect_code(0).stdout.trim().to_owned())
}

fn sql(lab: &Lab, flavour: &str, text: &str) -> String {
    lab.run(["sandbox", "use", flavour, text]).expect_code(0).stdout
}

fn wringer(lab: &Lab, dsn: &str, words: &[&str]) -> Ran {
    Ran::of(lab.command(words).env("WRINGER_DSN", dsn))
}

/// It comes with PostgreSQL's server: an installed one, or the one that is under test, with its libraries.
fn pgbench() -> Option<(PathBuf, PathBuf)> {
    let cache = testkit::shared_cache(testkit::own_uid());
    let fetched = folders(&cache.join("servers")).into_iter().map(|server| server.join("tree"));
    let roots = std::iter::once(PathBuf::from("/")).chain(fetched);
    let programs = roots.flat_map(|root| {
        let versions = folders(&root.join("usr/lib/postgresql")).into_iter();
        let libraries = root.join("usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
        versions.map(move |version| (version.join("bin/pgbench"), libraries.clone()))
    });
    programs.into_iter().find(|(program, _)| program.exists())
}

fn folders(of: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(of).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Runs it against the sandbox; libpq takes the connection string as it is.
fn run_pgbench((program, libraries): &(PathBuf, PathBuf), dsn: &str, words: &[&str]) -> String {
    let output = Command::new(program).env("LD_LIBRARY_PATH", libraries).args(words).arg(dsn).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{words:?}: {out}{err}");
    out.into_owned()
}

/// What the server counted since the last look: text of each statement, and how often it ran.
fn counted(lab: &Lab) -> BTreeMap<String, u64> {
    let wanted = "'BEGIN%', 'END%', 'SELECT abalance%', 'UPDATE pgbench%', 'INSERT INTO pgbench%'";
    let rows = sql(
        lab,
        "postgresql",
        &format!(
            "SELECT '=' || calls || '=' || rtrim(query, ';') FROM pg_stat_statements WHERE query ILIKE ANY (ARRAY[{wanted}])"
        ),
    );
    sql(lab, "postgresql", "SELECT pg_stat_statements_reset()");
    let mut found = BTreeMap::new();
    for line in rows.lines() {
        let mut parts = line.splitn(3, '=').skip(1);
        if let (Some(calls), Some(text)) = (parts.next(), parts.next()) {
            *found.entry(text.trim().to_owned()).or_default() += calls.parse::<u64>().unwrap();
        }
    }
    found
}

#[test]
fn the_server_counts_the_same_statements_from_pgbench() {
    let lab = Lab::new(WRINGER);
    let Some(dsn) = serving(&lab, "postgresql", &["-c", "shared_preload_libraries=pg_stat_statements"]) else {
        testkit::skip!("no postgresql to be had")
    };
    let Some(program) = pgbench() else { testkit::skip!("needs pgbench") };
    sql(&lab, "postgresql", "CREATE EXTENSION pg_stat_statements");
    // the tables: pgbench's own, then ours in their place
    let shape = "SELECT '=' || string_agg(format('%s.%s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull), ', ' \
                 ORDER BY c.relname, a.attnum) || ' ' || (SELECT string_agg(indexdef, ', ' ORDER BY indexdef) FROM pg_indexes WHERE tablename LIKE 'pgbench%') \
                 || ' ' || (SELECT string_agg(relname || reloptions::text || pg_relation_size(oid), ', ' ORDER BY relname) FROM pg_class WHERE \
                 relname LIKE 'pgbench%' AND relkind = 'r') \
                 || (SELECT md5(string_agg(t::text, '|' ORDER BY aid)) FROM pgbench_accounts t) \
                 || (SELECT md5(string_agg(t::text, '|' ORDER BY tid)) FROM pgbench_tellers t) \
                 || (SELECT md5(string_agg(t::text, '|' ORDER BY bid)) FROM pgbench_branches t) \
                 FROM pg_attribute a JOIN pg_class c ON a.attrelid = c.oid WHERE c.relname LIKE 'pgbench%' AND c.relkind = 'r' AND a.attnum > 0";
    run_pgbench(&program, &dsn, &["-i", "-q", "-s", "2"]);
    let theirs = sql(&lab, "postgresql", shape);
    wringer(&lab, &dsn, &["fill", "--pgbench", "2"]).expect_code(3).expect_said(&["pgbench_accounts", "--replace"]);
    let made = json(&wringer(&lab, &dsn, &["fill", "--pgbench", "2", "--replace", "-o", "json"]).expect_code(0));
    assert_eq!(made["fill"]["accounts"], 200_000, "{made:#}");
    assert!(theirs.contains("pgbench_accounts.aid integer t"), "{theirs}");
    assert_eq!(sql(&lab, "postgresql", shape), theirs);
    // each script, from pgbench and from us, counted by the server
    counted(&lab);
    for (name, script) in [
        ("pgbench_tpcb_like", "tpcb-like"),
        ("pgbench_simple_update", "simple-update"),
        ("pgbench_select_only", "select-only"),
    ] {
        run_pgbench(&program, &dsn, &["-n", "-M", "prepared", "-b", script, "-c", "2", "-t", "100"]);
        let theirs = counted(&lab);
        let flags = ["load", name, "--threads=2", "--events=200", "--time=0", "-o", "json"];
        let said = json(&wringer(&lab, &dsn, &flags).expect_code(0));
        let ours = counted(&lab);
        assert_eq!(said["load"]["measured"]["transactions"], 200, "{said:#}");
        assert!(said["load"]["measured"]["errors"].as_object().unwrap().is_empty(), "{said:#}");
        assert_eq!(ours, theirs, "{name}");
        // the server counts a prepared BEGIN and END once a connection
        let mut rows = ours.iter().filter(|(text, _)| !["BEGIN", "END"].contains(&text.as_str())).peekable();
        assert!(rows.peek().is_some() && rows.all(|(_, calls)| *calls == 200), "{name}: {ours:?}");
    }
    // the transfers add up, as the benchmark's own rule has it
    let sums =
        "SELECT '=' || (SELECT sum(abalance) FROM pgbench_accounts) = '=' || (SELECT sum(delta) FROM pgbench_history)";
    assert!(sql(&lab, "postgresql", sums).contains('t'));
    lab.run(["sandbox", "stop", "postgresql"]).expect_code(0);
}

#[test]
fn the_mysql_family_runs_the_same_scripts() {
    let lab = Lab::new(WRINGER);
    let Some(dsn) = serving(&lab, "mariadb", &[]) else { testkit::skip!("no mariadb to be had") };
    wringer(&lab, &dsn, &["load", "pgbench_select_only", "--time=1"])
        .expect_code(3)
        .expect_said(&["pgbench_branches", "wringer fill --pgbench"]);
    wringer(&lab, &dsn, &["load", "oltp_point_select", "--scale=2"]).expect_code(2).expect_said(&["--table-size"]);
    wringer(&lab, &dsn, &["fill", "--pgbench", "1"]).expect_code(0);
    let flags = ["load", "pgbench_tpcb_like", "--threads=4", "--events=300", "--time=0", "-o", "json"];
    let said = json(&wringer(&lab, &dsn, &flags).expect_code(0));
    let measured = &said["load"]["measured"];
    assert_eq!((&measured["transactions"], &measured["reads"]), (&300.into(), &300.into()), "{said:#}");
    let history =
        sql(&lab, "mariadb", "SELECT CONCAT('rows ', COUNT(*), ' of ', COUNT(DISTINCT aid)) FROM pgbench_history");
    assert!(history.contains("rows 300 of"), "{history}");
    let balanced = "SELECT CONCAT('balanced ', (SELECT SUM(abalance) FROM pgbench_accounts) = (SELECT SUM(delta) FROM pgbench_history)
        AND (SELECT SUM(bbalance) FROM pgbench_branches) = (SELECT SUM(tbalance) FROM pgbench_tellers)) AS x";
    assert!(sql(&lab, "mariadb", balanced).contains("balanced 1"));
    lab.run(["sandbox", "stop", "mariadb"]).expect_code(0);
}
