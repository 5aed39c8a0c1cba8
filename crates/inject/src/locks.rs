// SPDX-License-Identifier: Apache-2.0
//! `row_lock` and `metadata_lock`: a connection of its own holds rows, or a table. The server frees the lock when that connection ends,
//! for whatever reason. The witness is a second connection that asks for the same lock, and must wait.

use crate::injected::{Bite, Witness, has_bitten};
use crate::numbered::Numbered;
use crate::stop_request::{Stop, us};
use crate::table::{Rows, Table};
use crate::{Error, Injection};
use load::{Protocol, Target};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long this code waits for a lock that another connection holds, in seconds: a statement that asks for the table meanwhile waits behind it.
const PATIENCE_S: u64 = 10;

/// Two connections that are ready for one lock.
pub(crate) struct Lock {
    holder: Numbered,
    prober: Numbered,
    words: Words,
}

/// The statements of one lock, for one server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Words {
    begin: Vec<String>,
    release: &'static str,
    probe: String,
}

impl Words {
    /// # Errors
    /// [`Error::Refused`]: the table has no primary key, so that the witness could not ask for the same row.
    fn of_rows(table: &Table, rows: Rows) -> Result<Self, Error> {
        let (name, key) = (&table.quoted, table.key.as_ref());
        let key = key.ok_or_else(|| {
            Error::refused(
                format!("table {} has no primary key, and its rows cannot be named", table.name),
                "`--table` with a table that has one; or the cause metadata_lock, which holds the whole table",
            )
        })?;
        let (first, all) = match rows {
            Rows::First(count) => (format!("ORDER BY {key} LIMIT 1"), format!("ORDER BY {key} LIMIT {count}")),
            Rows::Key(value) => (format!("WHERE {key} = {value}"), format!("WHERE {key} = {value}")),
        };
        let select = |which: &str| format!("SELECT {key} FROM {name} {which} FOR UPDATE");
        Ok(Self { begin: vec!["BEGIN".to_owned(), select(&all)], release: "ROLLBACK", probe: select(&first) })
    }

    fn of_table(protocol: Protocol, table: &Table) -> Self {
        let name = &table.quoted;
        let probe = format!("SELECT 1 FROM {name} LIMIT 1");
        match protocol {
            Protocol::Mysql => {
                Self { begin: vec![format!("LOCK TABLES {name} WRITE")], release: "UNLOCK TABLES", probe }
            }
            Protocol::Postgresql => {
                let begin = vec!["BEGIN".to_owned(), format!("LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE")];
                Self { begin, release: "ROLLBACK", probe }
            }
        }
    }
}

/// How long the session waits for a lock, and nothing that ends it before: the server's own timeouts of sessions, transactions and statements would free the
/// lock, or end the witness.
fn for_patience(protocol: Protocol, patience_s: u64, idle_s: u64) -> Vec<String> {
    match protocol {
        // a comment with a version is run by servers from that version on, `M!` by MariaDB alone; MariaDB leaves out those of 5.7
        Protocol::Mysql => vec![format!(
            "SET SESSION lock_wait_timeout = {patience_s}, innodb_lock_wait_timeout = {patience_s}, wait_timeout = {idle_s} \
             /*M!100101 , max_statement_time = 0 */ /*M!100300 , idle_transaction_timeout = 0, idle_write_transaction_timeout = 0 */ \
             /*!50708 , max_execution_time = 0 */"
        )],
        Protocol::Postgresql => vec![
            format!("SET lock_timeout = '{patience_s}s'"),
            "SELECT set_config(name, '0', false) FROM pg_settings WHERE name IN ('statement_timeout', \
             'idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')"
                .to_owned(),
        ],
    }
}

impl Lock {
    pub(crate) fn rows(target: &Target, table: &Table, rows: Rows, length: Duration) -> Result<Self, Error> {
        Self::ready(target, Words::of_rows(table, rows)?, length)
    }

    pub(crate) fn table(target: &Target, table: &Table, length: Duration) -> Result<Self, Error> {
        Self::ready(target, Words::of_table(target.protocol, table), length)
    }

    fn ready(target: &Target, words: Words, length: Duration) -> Result<Self, Error> {
        let open = |patience_s: u64| -> Result<Numbered, Error> {
            let mut opened = Numbered::open(target)?;
            for sql in for_patience(target.protocol, patience_s, length.as_secs() + PATIENCE_S) {
                opened.connection.execute(&sql)?;
            }
            Ok(opened)
        };
        Ok(Self { holder: open(PATIENCE_S)?, prober: open(length.as_secs() + PATIENCE_S)?, words })
    }

    /// Takes the lock at that moment, and releases it when its time is over, or when the end is asked for.
    ///
    /// # Errors
    /// The lock was not granted, or a connection was lost. Both connections are closed then.
    pub(crate) fn inject(self, asked: &Injection, at: Instant, stop: &Stop) -> Result<Option<Bite>, Error> {
        let Self { holder, prober, words } = self;
        let (held_by, asked_by) = (holder.number, prober.number);
        let (mut holder, mut prober) = (holder.connection, prober.connection);
        let (granted, begin) = mpsc::channel::<()>();
        let probe = words.probe.clone();
        // when the holder fails, its end of the channel is closed, and no probe is sent
        let probing = move || {
            begin.recv().ok()?;
            let asked_at = Instant::now();
            Some(prober.execute(&probe).map(|_| (asked_at, us(asked_at.elapsed()))))
        };
        let prober = thread::Builder::new().name("witness".into()).spawn(probing).map_err(Error::Thread)?;
        if stop.or_at(at) {
            return Ok(None);
        }
        for sql in &words.begin {
            holder.execute(sql)?;
        }
        let (began, started_us) = (Instant::now(), host::clock::unix_us());
        let _ = granted.send(());
        stop.or_at(began + Duration::from_micros(asked.length_us));
        let released_at = Instant::now();
        let released = holder.execute(words.release);
        let length_us = us(began.elapsed());
        // a release that failed must not keep the witness waiting
        drop(holder);
        let waited = prober.join().ok().flatten();
        let bite = Bite { started_us, length_us, bit: None, witness: None, held_by, why: None };
        if let Err(error) = released {
            // the witness knows how long it was held
            let length_us = waited.and_then(Result::ok).map_or(length_us, |(_, waited_us)| waited_us.min(length_us));
            let bite = Bite { length_us, bit: Some(false), ..bite };
            return Ok(Some(Bite { why: Some(format!("the lock was lost: {}", host::chain(&error))), ..bite }));
        }
        Ok(Some(match waited {
            Some(Ok((asked_at, waited_us))) => {
                let bit = waited_for(us(released_at.saturating_duration_since(asked_at)), waited_us, length_us);
                let what = "microseconds that another connection waited for the same".to_owned();
                let why = match bit {
                    Some(true) => None,
                    Some(false) => Some("another connection got the same without waiting for it".to_owned()),
                    None => Some("the other connection had no CPU until the lock was nearly over".to_owned()),
                };
                let witness = Some(Witness { what, value: waited_us, connection: asked_by });
                Bite { bit, witness, why, ..bite }
            }
            Some(Err(error)) => Bite { why: Some(format!("the witness failed: {}", host::chain(&error))), ..bite },
            None => Bite { why: Some("the witness did not ask".to_owned()), ..bite },
        }))
    }
}

/// Whether a witness waited for the lock. `left_us`: how long the lock was still held when the witness asked, of `length_us` in all; on a busy host it asks late. `None`: too late
/// to show anything.
fn waited_for(left_us: u64, waited_us: u64, length_us: u64) -> Option<bool> {
    (left_us.saturating_mul(5) >= length_us).then(|| has_bitten(waited_us, left_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_that_asks_late_has_less_to_wait_for() {
        assert_eq!(waited_for(50_000, 50_200, 50_000), Some(true));
        assert_eq!(waited_for(30_000, 30_100, 50_000), Some(true), "it had no CPU for 20 ms");
        assert_eq!(waited_for(30_000, 400, 50_000), Some(false));
        assert_eq!(waited_for(3_000, 400, 50_000), None, "too late");
    }

    fn table(key: Option<&str>) -> Table {
        Table { name: "t".into(), quoted: "`t`".into(), key: key.map(str::to_owned), is_own: false }
    }

    #[test]
    fn the_witness_asks_for_a_row_that_is_held() {
        let words = Words::of_rows(&table(Some("`id`")), Rows::First(5)).expect("has a key");
        assert_eq!(words.begin[1], "SELECT `id` FROM `t` ORDER BY `id` LIMIT 5 FOR UPDATE");
        assert_eq!(words.probe, "SELECT `id` FROM `t` ORDER BY `id` LIMIT 1 FOR UPDATE");
        let words = Words::of_rows(&table(Some("`id`")), Rows::Key(-3)).expect("has a key");
        assert_eq!(words.begin[1], "SELECT `id` FROM `t` WHERE `id` = -3 FOR UPDATE");
        assert!(matches!(Words::of_rows(&table(None), Rows::First(1)), Err(Error::Refused { .. })));
    }
}
