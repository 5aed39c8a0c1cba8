// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::{Format, Log, Recorded};

fn read(format: Format, text: &str) -> Recorded {
    Recorded::of(Log::of(format, text.as_bytes())).expect("reads")
}

fn shown(recorded: &Recorded) -> Vec<(usize, u64, u64, &str, Option<&str>)> {
    let sessions = recorded.sessions.iter().enumerate();
    sessions
        .flat_map(|(session, it)| {
            it.statements.iter().map(move |it| (session, it.line, it.at_us, it.sql.as_str(), it.database.as_deref()))
        })
        .collect()
}

#[test]
fn stderr() {
    let text = "2026-11-21 22:51:56.629 UTC [28490] LOG:  connection authorized: user=me database=shop application_name=x\n\
        2026-11-21 22:51:57.002 UTC [28490] me@shopLOG:  duration: 2.000 ms  statement: SELECT c\n\t FROM t\n\
        2026-11-21 22:51:57.100 UTC [28491] LOG:  duration: 0.006 ms  parse s1: SELECT $1\n\
        2026-11-21 22:51:57.110 UTC [28491] LOG:  duration: 0.006 ms  bind s1: SELECT $1\n\
        2026-11-21 22:51:57.110 UTC [28491] DETAIL:  parameters: $1 = '1'\n\
        2026-11-21 22:51:57.120 UTC [28491] LOG:  duration: 20.000 ms  execute s1: SELECT $1, '$1', $2\n\
        2026-11-21 22:51:57.120 UTC [28491] DETAIL:  parameters: $1 = 'it''s, $2', $2 = NULL\n\
        2026-11-21 22:51:57.130 UTC [28491] ERROR:  no\n2026-11-21 22:51:57.130 UTC [28491] STATEMENT:  SELECT no\n\
        what is this\n";
    let found = read(Format::PostgresqlStderr, text);
    let expected =
        [(0, 2, 0, "SELECT c\n FROM t", Some("shop")), (1, 7, 100_000, "SELECT 'it''s, $2', '$1', NULL", None)];
    assert_eq!(shown(&found), expected);
    assert_eq!(found.skipped.lines, [(11, "a line without a severity (LOG, ERROR, ...)".to_owned())]);
}

#[test]
fn csv_and_json() {
    let rest = ",,,,,,,,\"psql\",\"client backend\",,0";
    let text = format!(
        "2026-11-21 22:51:56.000 UTC,\"me\",\"shop\",7,\"[local]\",6a.7,1,\"idle\",2026-11-21 22:51:55 UTC,3/1,0,LOG,00000,\
         \"duration: 1000.000 ms  statement: SELECT \"\"a\"\",\n 1\",{rest}\nshort,line\n"
    );
    let found = read(Format::PostgresqlCsv, &text);
    assert_eq!(shown(&found), [(0, 1, 0, "SELECT \"a\",\n 1", Some("shop"))]);
    assert_eq!(found.skipped.lines[0].0, 3);
    assert!(crate::csv::is_record(text.lines().next().expect("a line")));
    let text = "{\"timestamp\":\"2026-11-21 22:51:56.000 UTC\",\"dbname\":\"shop\",\"pid\":7,\"error_severity\":\"LOG\",\
                \"message\":\"statement: SELECT 1\"}\n{bad\n";
    let found = read(Format::PostgresqlJson, text);
    assert_eq!((shown(&found), found.skipped.lines[0].0), (vec![(0, 1, 0, "SELECT 1", Some("shop"))], 2));
}

#[test]
fn parameters_are_found_behind_comments_and_quotes_of_all_kinds() {
    let sql = "SELECT $1 -- it's\n , $x$ $2 ' $x$, /* ' */ $2";
    let with = with_values(sql, "parameters: $1 = '1', $2 = NULL");
    assert_eq!(with.as_deref(), Ok("SELECT '1' -- it's\n , $x$ $2 ' $x$, /* ' */ NULL"));
}

/// Each entry's line, duration, and waits for rows, in microseconds, in the order in which they are given.
fn timed(format: Format, text: &str) -> Vec<(u64, Option<u64>, Option<u64>)> {
    entries(format, text).iter().map(|it| (it.line, it.figures.took_us, it.figures.row_lock_us)).collect()
}

/// As a reader that needs durations gets them.
fn entries(format: Format, text: &str) -> Vec<Entry> {
    let mut log = Log::of(format, text.as_bytes());
    log.gathered.cuts = true;
    log.map(|entry| entry.expect("reads")).collect()
}

#[test]
fn a_duration_without_a_text_is_that_of_the_sessions_last_statement() {
    let at = |session: u32, text: &str| format!("2026-11-21 22:51:57.500 UTC [{session}] {text}\n");
    let lock = "LOG:  process 1 acquired ShareLock on transaction 740 after 1500.400 ms";
    let text = [
        at(1, "LOG:  statement: UPDATE t SET a = 1"),
        at(2, "LOG:  execute s1: SELECT $1"),
        at(2, "DETAIL:  parameters: $1 = '5'"),
        at(1, lock),
        at(1, "LOG:  duration: 1510.200 ms  plan:"),
        at(1, "LOG:  duration: 1510.200 ms"),
        at(2, "LOG:  duration: 20.000 ms"),
        at(1, "LOG:  duration: 9.000 ms"),
    ];
    let expected = [(1, Some(1_510_200), Some(1_500_400)), (2, Some(20_000), None), (8, Some(9000), None)];
    assert_eq!(timed(Format::PostgresqlStderr, &text.concat()), expected);
    let found = read(Format::PostgresqlStderr, &text.concat());
    assert_eq!(shown(&found), [(0, 1, 0, "UPDATE t SET a = 1", None), (1, 2, 0, "SELECT '5'", None)]);
    assert_eq!(found.skipped.no_statement["a duration without a statement"].first_line, 8);
    let text = "{\"timestamp\":\"2026-11-21 22:51:56.001 UTC\",\"pid\":7,\"error_severity\":\"LOG\",\"message\":\"statement: SELECT 1\"}\n\
                {\"timestamp\":\"2026-11-21 22:51:56.003 UTC\",\"pid\":7,\"error_severity\":\"LOG\",\"message\":\"duration: 2.000 ms\"}\n";
    assert_eq!(timed(Format::PostgresqlJson, text), [(1, Some(2000), None)]);
}

#[test]
fn a_statement_has_no_duration_once_its_session_has_gone_on() {
    for next in [
        "LOG:  statement: COMMIT",
        "LOG:  duration: 3.000 ms  statement: COMMIT",
        "LOG:  duration: 3.000 ms  parse s1: SELECT 1",
        "LOG:  execute fetch from s1: SELECT 1",
        "LOG:  fastpath function call: \"lo_open\" (OID 952)",
        "LOG:  disconnection: session time: 0:00:01.000 user=me database=shop host=[local]",
        "LOG:  connection authorized: user=me database=shop",
        "ERROR:  deadlock detected",
    ] {
        let text = format!(
            "2026-11-21 22:51:57.001 UTC [1] LOG:  statement: SELECT 1\n2026-11-21 22:51:57.002 UTC [1] {next}\n\
             2026-11-21 22:51:57.003 UTC [1] LOG:  duration: 9.000 ms\n"
        );
        assert_eq!(timed(Format::PostgresqlStderr, &text)[0], (1, None, None), "{next}");
    }
    let last = "2026-11-21 22:51:57.001 UTC [1] LOG:  statement: SELECT 1\n";
    assert_eq!(timed(Format::PostgresqlStderr, last), [(1, None, None)], "the log ends");
}

/// Line, text, and time in milliseconds.
fn texts(format: Format, text: &str) -> Vec<(u64, String, u64)> {
    let ms = |it: &Entry| it.figures.took_us.unwrap_or(0) / 1000;
    entries(format, text).into_iter().map(|it| (it.line, it.sql.clone(), ms(&it))).collect()
}

/// A message of process 1 with the statement that ran, in the three formats.
fn in_all_formats(messages: &[(&str, &str, &str, &str)]) -> [(Format, String); 3] {
    let mut texts = [String::new(), String::new(), String::new()];
    for (clock, severity, message, statement) in messages {
        let time = format!("2026-11-21 22:{clock} UTC");
        texts[0] += &format!("{time} [1] {severity}:  00000: {message}\n");
        let more = [
            ("CONTEXT", "while updating tuple (5,26)"),
            ("LOCATION", "ProcSleep, proc.c:1"),
            ("STATEMENT", *statement),
        ];
        for (part, text) in more.into_iter().filter(|_| !statement.is_empty()) {
            texts[0] += &format!("{time} [1] {part}:  {text}\n");
        }
        texts[1] += &format!(
            "{time},\"me\",\"shop\",1,\"[local]\",6a.7,1,\"idle\",{time},3/1,0,{severity},00000,\"{message}\",,,,,,\"{statement}\",,,\"psql\",\"client backend\",,0\n"
        );
        texts[2] += &format!(
            "{{\"timestamp\":\"{time}\",\"pid\":1,\"error_severity\":\"{severity}\",\"message\":\"{message}\",\"statement\":\"{statement}\"}}\n"
        );
    }
    let [stderr, csv, json] = texts;
    [(Format::PostgresqlStderr, stderr), (Format::PostgresqlCsv, csv), (Format::PostgresqlJson, json)]
}

const UPDATE: &str = "update t set c = 1";

#[test]
fn a_message_with_its_sqlstate_is_read() {
    for (format, text) in in_all_formats(&[("51:57.500", "LOG", "duration: 807.433 ms  statement: SELECT 1", "")]) {
        assert_eq!(texts(format, &text), [(1, "SELECT 1".to_owned(), 807)], "{text}");
    }
    assert_eq!(without_sqlstate("ERROR: a"), "ERROR: a");
    assert_eq!(without_sqlstate("40P01: deadlock detected"), "deadlock detected");
}

#[test]
fn a_wait_whose_statement_has_no_duration_is_an_entry() {
    let still = "process 1 still waiting for ShareLock on transaction 1124 after 101.039 ms";
    let acquired = "process 1 acquired ShareLock on transaction 1124 after 2014.998 ms";
    let messages = [
        ("51:50.000", "LOG", still, UPDATE),
        ("51:52.000", "LOG", acquired, UPDATE),
        ("52:50.000", "LOG", acquired, UPDATE),
        ("52:51.000", "LOG", "statement: COMMIT", ""),
    ];
    for (format, text) in in_all_formats(&messages) {
        let found = texts(format, &text);
        let waits: Vec<_> = found.iter().filter(|(_, sql, _)| sql == UPDATE).map(|(_, _, ms)| *ms).collect();
        assert_eq!((waits, found.len()), (vec![2014, 2014], 3), "{text}");
        let row_lock_us = entries(format, &text)[0].figures.row_lock_us;
        assert_eq!(row_lock_us, Some(2_014_998));
        // it is no statement that could be run again
        assert_eq!(shown(&read(format, &text)).len(), 1);
    }
}

#[test]
fn a_wait_whose_statement_is_logged_with_its_duration_counts_once() {
    let acquired = "process 1 acquired ShareLock on transaction 1124 after 2014.998 ms";
    let duration = format!("duration: 2015.900 ms  statement: {UPDATE}");
    for said in [duration.as_str(), "duration: 2015.900 ms"] {
        for (format, text) in in_all_formats(&[("51:52.000", "LOG", acquired, UPDATE), ("51:52.001", "LOG", said, "")])
        {
            let found = texts(format, &text);
            assert_eq!(
                found.iter().map(|(_, sql, ms)| (sql.as_str(), *ms)).collect::<Vec<_>>(),
                [(UPDATE, 2015)],
                "{text}"
            );
            assert_eq!(entries(format, &text)[0].figures.row_lock_us, Some(2_014_998));
        }
    }
}

#[test]
fn a_wait_that_ends_with_an_error_lasts_until_the_error() {
    let still = "process 1 still waiting for AccessShareLock on relation 16384 of database 5 after 1000.100 ms";
    let error = "canceling statement due to lock timeout";
    for (format, text) in in_all_formats(&[("51:51.000", "LOG", still, UPDATE), ("51:53.000", "ERROR", error, UPDATE)])
    {
        assert_eq!(texts(format, &text), [(1, UPDATE.to_owned(), 3000)], "{text}");
        let figures = entries(format, &text)[0].figures;
        assert_eq!((figures.row_lock_us, figures.lock_us), (Some(0), Some(3_000_100)));
    }
}

#[test]
fn a_duration_without_a_text_is_an_entry_for_who_needs_durations() {
    for (format, text) in in_all_formats(&[("51:51.000", "LOG", "duration: 807.433 ms", "")]) {
        assert_eq!(texts(format, &text), [(1, String::new(), 807)], "{text}");
        assert_eq!(shown(&read(format, &text)), []);
    }
}

#[test]
fn the_clock_has_milliseconds_also_at_a_full_second() {
    let step = |time: &str| {
        let text = format!("2026-11-21 22:51:57{time} UTC [1] LOG:  duration: 1.000 ms  statement: SELECT 1\n");
        entries(Format::PostgresqlStderr, &text)[0].figures.step_us
    };
    assert_eq!((step(".000"), step(".120"), step("")), (1000, 1000, 1_000_000));
}

#[test]
fn a_wait_for_a_lock_ends_with_its_own_statement() {
    let text = "2026-11-21 22:51:57.001 UTC [1] LOG:  process 1 acquired ShareLock on transaction 740 after 1500.400 ms\n\
        2026-11-21 22:51:57.002 UTC [1] LOG:  duration: 1510.200 ms\n\
        2026-11-21 22:52:57.003 UTC [1] LOG:  duration: 2000.000 ms  statement: SELECT 1\n\
        2026-11-21 22:52:58.000 UTC [1] LOG:  process 1 acquired ShareLock on transaction 741 after 1500.400 ms\n\
        2026-11-21 22:52:58.001 UTC [1] LOG:  statement: SELECT 2\n\
        2026-11-21 22:53:00.001 UTC [1] LOG:  duration: 2000.000 ms\n";
    let (its_own, none) = (Some(1_500_400), None);
    let expected = [
        (2, Some(1_510_200), its_own),
        (3, Some(2_000_000), none),
        (4, Some(1_500_400), its_own),
        (5, Some(2_000_000), none),
    ];
    assert_eq!(timed(Format::PostgresqlStderr, text), expected);
}
