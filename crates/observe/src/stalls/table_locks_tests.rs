// SPDX-License-Identifier: Apache-2.0
use super::super::asking::Memory;
use super::*;
use ::stalls::watch::Missing;

const INSTRUMENT_IS: &str = "performance_schema's instrument wait/lock/metadata/sql/mdl is off";

fn session(connection: u64, words: &str, statement: &str, age_ms: u64) -> Session {
    let says = if words.starts_with("Waiting") { Says::MetadataLock } else { Says::Busy };
    Session {
        connection,
        thread: None,
        says,
        words: words.to_owned(),
        statement: Some(statement.to_owned()),
        age_us: Some(age_ms * 1000),
        blocked_by: Vec::new(),
        perhaps_blocked_by: Vec::new(),
    }
}

/// A long statement, a `FLUSH` behind it, and a statement behind the `FLUSH`.
fn queue() -> Vec<Session> {
    vec![
        session(12, "User sleep", "SELECT SLEEP(4) FROM t", 3000),
        session(13, FLUSH, "flush tables with read lock", 2000),
        session(14, FLUSH, "SELECT a FROM t", 1000),
        session(15, "Waiting for global read lock", "UPDATE t SET a = 1", 900),
        session(16, "", "SELECT 1", 100),
    ]
}

/// A connection, for whom it waits, and for whom perhaps.
type Waits = (u64, Vec<u64>, Vec<u64>);

/// A server whose table of locks has these rows; `instrument`: performance_schema and the instrument, as it says.
struct Server {
    locks: &'static [[&'static str; 2]],
    open: &'static [[&'static str; 2]],
    instrument: [&'static str; 2],
}

impl Server {
    /// Asks three times. Returns for whom each session waits by the last answer, and everything that was missing.
    fn told(self, sessions: &[Session]) -> (Vec<Waits>, Vec<Missing>, u64) {
        let mut memory = Memory::default();
        let mut last = Vec::new();
        let mut server = move |sql: &str| {
            let rows = match sql {
                INSTRUMENT => vec![self.instrument],
                _ if sql == METADATA_LOCKS[0].sql => self.locks.to_vec(),
                _ if sql == OPEN_TABLES[0].sql => self.open.to_vec(),
                _ => return Err(format!("1064: {sql}")),
            };
            Ok(rows.into_iter().map(|row| row.map(|it| Some(it.to_owned())).to_vec()).collect::<Vec<_>>())
        };
        for _ in 0..3 {
            last = sessions.to_vec();
            let mut asking = Asking::new(&mut server, &mut memory);
            tell(&mut asking, &mut last);
        }
        let waits = last.iter().filter(|it| it.says == Says::MetadataLock);
        let waits = waits.map(|it| (it.connection, it.blocked_by.clone(), it.perhaps_blocked_by.clone()));
        (waits.collect(), memory.missing, memory.statements)
    }
}

#[test]
fn a_flush_waits_for_the_statement_that_has_the_table_open() {
    let server = Server { locks: &[["15", "13"]], open: &[["13", "12"], ["14", "12"]], instrument: ["ON", "YES"] };
    let (waits, missing, statements) = server.told(&queue());
    let named = |connection, holder| (connection, vec![holder], Vec::new());
    assert_eq!(waits, [named(13, 12), named(14, 12), named(15, 13)]);
    assert_eq!((missing, statements), (Vec::new(), 6));
}

#[test]
fn a_server_that_names_nobody_is_asked_once_why_and_whom_a_flush_waits_for_is_a_guess() {
    for (instrument, why, remedy) in [
        (["1", "NO"], INSTRUMENT_IS, "UPDATE performance_schema.setup_instruments SET ENABLED = 'YES'"),
        (["0", ""], "performance_schema is off", "performance_schema=ON and performance-schema-instrument="),
    ] {
        let (waits, missing, statements) = Server { locks: &[], open: &[], instrument }.told(&queue());
        let nobody = |connection| (connection, Vec::new(), Vec::new());
        assert_eq!(waits, [(13, Vec::new(), vec![12]), nobody(14), nobody(15)]);
        let [missing] = missing.as_slice() else { panic!("{missing:?}") };
        assert!(missing.what == WHAT && missing.why.starts_with(why), "{missing:?}");
        assert!(missing.remedy.as_ref().is_some_and(|it| it.starts_with(remedy)), "{missing:?}");
        assert_eq!(statements, 7);
    }
    // who only waits behind another one has no row where all is on
    let (_, missing, _) = Server { locks: &[], open: &[], instrument: ["ON", "YES"] }.told(&queue());
    assert_eq!(missing, Vec::new());
}

#[test]
fn a_statement_that_began_after_the_flush_is_no_guess() {
    let mut sessions = queue();
    sessions[0].age_us = Some(500_000);
    let (waits, ..) = Server { locks: &[], open: &[], instrument: ["ON", "YES"] }.told(&sessions);
    assert!(waits.iter().all(|(_, _, perhaps)| perhaps.is_empty()), "{waits:?}");
}
