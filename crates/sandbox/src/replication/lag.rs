// SPDX-License-Identifier: Apache-2.0
//! How far a replica is behind its primary: in time as its server reports it, and in the transactions or log that it lacks.

use super::dialect::{self, Dialect};
use super::mysql;
use crate::{Error, Flavour, Sandbox};
use load::admin::{Connection, Rows};
use std::time::Duration;

/// `status` waits no longer than this for a server that does not answer.
const READ_LIMIT: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq)]
pub struct Lag {
    /// The replica receives and applies.
    pub is_replicating: bool,
    /// The lag in seconds. `None`: the server does not report it, because it does not replicate.
    pub time_s: Option<f64>,
    /// The missing part. `None`: the primary does not answer.
    pub behind: Option<Behind>,
    /// How the time was measured.
    pub time_source: String,
    /// Why the server does not replicate, in its own words.
    pub trouble: Option<String>,
}

/// The part of the primary's data that a replica lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behind {
    /// Transactions that are committed on the primary and not applied on the replica, by their GTIDs.
    Transactions(u64),
    /// Bytes of write-ahead log that are written on the primary and not replayed on the replica.
    WalBytes(u64),
}

impl Sandbox {
    /// The lag of a replica whose server runs.
    ///
    /// # Errors
    /// The server does not answer.
    pub fn lag(&self) -> Result<Lag, Error> {
        let primary = self.primary().filter(|primary| primary.server_process().is_some());
        match (self.flavour(), dialect::of(&self.manifest.installation)) {
            (Flavour::Mariadb | Flavour::Mysql | Flavour::Percona, Some(dialect)) => {
                let lag = self.ask(|connection| of_mysql(connection, &dialect))?;
                let behind = primary.and_then(|primary| self.lacks_transactions(&primary).ok());
                Ok(Lag { behind: behind.map(Behind::Transactions), ..lag })
            }
            _ => self.of_postgresql(primary.as_ref()),
        }
    }

    fn ask<T>(&self, body: impl FnOnce(&mut Connection) -> Result<T, load::Error>) -> Result<T, Error> {
        self.talk(|connection| {
            connection.set_read_limit(Some(READ_LIMIT))?;
            body(connection)
        })
    }

    /// The primary is asked first: transactions that come meanwhile then do not add to the replica's lag.
    fn lacks_transactions(&self, primary: &Self) -> Result<u64, Error> {
        let value = |rows: Rows| rows.text(0, 0).unwrap_or_default();
        if self.flavour() == Flavour::Mariadb {
            let there = primary.ask(|connection| connection.query("SELECT @@gtid_binlog_pos").map(value))?;
            let here = self.ask(|connection| connection.query("SELECT @@gtid_slave_pos").map(value))?;
            return Ok(mysql::mariadb_lacks(&there, &here));
        }
        let there = primary.ask(|connection| connection.query("SELECT @@gtid_executed").map(value))?;
        let sql = format!("SELECT GTID_SUBTRACT('{there}', @@gtid_executed)");
        Ok(mysql::mysql_count(&self.ask(|connection| connection.query(&sql).map(value))?))
    }

    fn of_postgresql(&self, primary: Option<&Self>) -> Result<Lag, Error> {
        let there = primary.and_then(|primary| {
            let now = "SELECT pg_current_wal_lsn()";
            primary.ask(|connection| connection.query(now).map(|rows| rows.text(0, 0))).ok().flatten()
        });
        let behind = there
            .map_or("NULL".into(), |lsn| format!("greatest(pg_wal_lsn_diff('{lsn}', pg_last_wal_replay_lsn()), 0)"));
        let sql = format!(
            "SELECT (SELECT status FROM pg_stat_wal_receiver), \
             CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0 \
             ELSE extract(epoch FROM now() - pg_last_xact_replay_timestamp()) END, \
             {behind}, \
             CASE WHEN pg_is_in_recovery() THEN pg_is_wal_replay_paused() ELSE false END"
        );
        let rows = self.ask(|connection| connection.query(&sql))?;
        let receives = rows.text(0, 0).as_deref() == Some("streaming");
        let is_paused = rows.text(0, 3).as_deref() == Some("t");
        let is_replicating = receives && !is_paused;
        let trouble = match receives {
            true => "what it receives is not applied: SELECT pg_wal_replay_resume() ends the pause".to_owned(),
            false => "no stream from the primary; the end of the log says why".to_owned(),
        };
        Ok(Lag {
            is_replicating,
            time_s: rows.parse(0, 1).filter(|_| is_replicating),
            behind: rows.parse(0, 2).map(Behind::WalBytes),
            time_source: "age of the last transaction replayed, 0 when all that was received is".into(),
            trouble: (!is_replicating).then_some(trouble),
        })
    }
}

fn of_mysql(connection: &mut Connection, dialect: &Dialect) -> Result<Lag, load::Error> {
    let rows = mysql::status(connection, dialect)?;
    let column = |name: &str| {
        let column = rows.columns.iter().position(|known| known == name)?;
        rows.text(0, column).filter(|value| !value.is_empty())
    };
    let Dialect { source, replica, .. } = dialect;
    let time_source = format!("Seconds_Behind_{source}");
    let is_on = |thread: &str| column(&format!("{replica}_{thread}_Running")).as_deref() == Some("Yes");
    let (receives, applies) = (is_on("IO"), is_on("SQL"));
    let trouble = || {
        let which = match (receives, applies) {
            (false, false) => "neither receives nor applies",
            (false, true) => "does not receive",
            _ => "does not apply",
        };
        let words = column("Last_SQL_Error").or_else(|| column("Last_IO_Error"));
        words.map_or_else(|| which.to_owned(), |words| format!("{which}: {words}"))
    };
    Ok(Lag {
        is_replicating: receives && applies,
        time_s: column(&time_source).and_then(|value| value.parse().ok()),
        behind: None,
        time_source,
        trouble: (!(receives && applies)).then(trouble),
    })
}
