// SPDX-License-Identifier: Apache-2.0
//! Writes rows over several connections at once, each in key order.
//!
//! PostgreSQL gets COPY. MySQL and MariaDB get LOAD DATA LOCAL, or multi-row INSERTs where the server forbids LOAD DATA LOCAL (`local_infile`). On
//! MariaDB 10.11, INSERTs write narrow rows at about half the rate. A transaction holds some megabytes of rows, so that there are few syncs and
//! little undo.

use super::plan::BLOCK_ROWS;
use super::resume::Kept;
use super::rows::{Checksum, Form, Rows};
use super::{Error, FillPlan, Lane};
use crate::admin::Connection;
use crate::{Protocol, Target};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Stored bytes in one transaction, roughly.
const TRANSACTION_BYTES: u64 = 16 << 20;
/// The longest INSERT, in bytes of text; shorter when the server's limit is lower.
const STATEMENT_BYTES: u64 = 512 << 10;
/// Every row's text is shorter than this.
const ROW_TEXT_BYTES: u64 = 256;
const PROGRESS_EVERY: Duration = Duration::from_millis(100);

/// Writes the missing rows; returns the checksum of each table, in order. `progress` gets the number of rows that are there.
pub(super) fn write(
    plan: &FillPlan,
    kept: &Kept,
    target: &Target,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Checksum>, Error> {
    let shared = Shared {
        plan,
        lanes: &kept.lanes,
        target,
        stop,
        next_lane: AtomicUsize::new(0),
        done: AtomicU64::new(kept.rows()),
        failed: AtomicBool::new(false),
    };
    let (sender, results) = channel();
    let mut checksums = kept.checksums.clone();
    let mut failure = None;
    std::thread::scope(|scope| {
        for _ in 0..(plan.spec.threads as usize).min(kept.lanes.len()) {
            let (shared, sender) = (&shared, sender.clone());
            scope.spawn(move || shared.work(&sender));
        }
        drop(sender);
        loop {
            match results.recv_timeout(PROGRESS_EVERY) {
                Ok(Ok((table, checksum))) => checksums[table as usize - 1].merge(&checksum),
                Ok(Err(error)) => keep_cause(&mut failure, error),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            progress(shared.done.load(Ordering::Relaxed));
        }
    });
    match failure {
        Some(error) => Err(error),
        None if checksums.iter().map(|sum| sum.rows).sum::<u64>() == plan.rows() => Ok(checksums),
        // A thread that panicked sent nothing. Without a panic all lanes are there.
        None => Err(Error::Panicked),
    }
}

/// The first real failure; other workers stop because of it, and report later.
fn keep_cause(failure: &mut Option<Error>, error: Error) {
    if failure.as_ref().is_none_or(|kept| matches!(kept, Error::Stopped)) {
        *failure = Some(error);
    }
}

struct Shared<'a> {
    plan: &'a FillPlan,
    lanes: &'a [Lane],
    target: &'a Target,
    stop: &'a AtomicBool,
    next_lane: AtomicUsize,
    /// Rows sent, plus the rows that were there before.
    done: AtomicU64,
    failed: AtomicBool,
}

type Sent = Result<(u32, Checksum), Error>;

impl Shared<'_> {
    fn work(&self, results: &Sender<Sent>) {
        if let Err(error) = self.fill_lanes(results) {
            self.failed.store(true, Ordering::Relaxed);
            let _ = results.send(Err(error)); // the receiver outlives all workers
        }
    }

    fn fill_lanes(&self, results: &Sender<Sent>) -> Result<(), Error> {
        let mut connection = Connection::open(self.target).map_err(Error::server("connect to fill tables"))?;
        while let Some(lane) = self.lanes.get(self.next_lane.fetch_add(1, Ordering::Relaxed)) {
            let checksum = self.fill(lane, &mut connection)?;
            let _ = results.send(Ok((lane.table, checksum)));
        }
        Ok(())
    }

    fn fill(&self, lane: &Lane, connection: &mut Connection) -> Result<Checksum, Error> {
        let mut rows =
            Rows::new(self.plan.spec.seed, lane.table, &self.plan.spec.keys, self.plan.rows_per_table, lane.first);
        // Whole blocks: after a kill the rows can be compared block by block.
        let blocks = (TRANSACTION_BYTES / self.plan.predicted.row_bytes / BLOCK_ROWS).max(1);
        let per_transaction = blocks * BLOCK_ROWS;
        let mut left = lane.rows;
        while left > 0 {
            self.go_on()?;
            let count = left.min(per_transaction);
            if self.plan.facts.bulk_load {
                self.copy(lane.table, count, &mut rows, connection)?;
            } else {
                self.insert(lane.table, count, &mut rows, connection)?;
            }
            left -= count;
        }
        Ok(rows.checksum)
    }

    fn go_on(&self) -> Result<(), Error> {
        let over = self.stop.load(Ordering::Relaxed) || self.failed.load(Ordering::Relaxed);
        if over { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Sends one transaction of multi-row INSERTs.
    fn insert(&self, table: u32, count: u64, rows: &mut Rows, connection: &mut Connection) -> Result<(), Error> {
        let name = FillPlan::table_name(table);
        let failed = || Error::server(format!("insert rows into {name}"));
        let statement_bytes = STATEMENT_BYTES.min(self.plan.facts.packet_bytes_max / 2);
        let per_statement = (statement_bytes / ROW_TEXT_BYTES).max(1);
        connection.execute("BEGIN").map_err(failed())?;
        let mut left = count;
        while left > 0 {
            self.go_on()?;
            let now = left.min(per_statement);
            connection.execute(&statement(&name, now, rows)).map_err(failed())?;
            self.done.fetch_add(now, Ordering::Relaxed);
            left -= now;
        }
        connection.execute("COMMIT").map(drop).map_err(failed())
    }

    /// Sends one bulk load in a transaction (PostgreSQL's COPY is its own transaction). For LOAD DATA a broken connection looks
    /// like the end of the data: the COMMIT makes sure that no half row stays.
    fn copy(&self, table: u32, count: u64, rows: &mut Rows, connection: &mut Connection) -> Result<(), Error> {
        let name = FillPlan::table_name(table);
        let sql = match self.plan.facts.protocol {
            // LOCAL skips duplicate keys; the comparison after the fill would notice that.
            Protocol::Mysql => format!("LOAD DATA LOCAL INFILE 'rows' INTO TABLE {name} (id, k, c, pad)"),
            Protocol::Postgresql => format!("COPY {name} (id, k, c, pad) FROM STDIN"),
        };
        let mut left = count;
        let mut more = |out: &mut Vec<u8>| {
            let now = left.min(COPY_ROWS);
            (0..now).for_each(|_| rows.push(Form::Lines, out));
            self.done.fetch_add(now, Ordering::Relaxed);
            left -= now;
            left > 0
        };
        let failed = || Error::server(format!("load rows into {name}"));
        if self.plan.facts.protocol == Protocol::Postgresql {
            return connection.copy_in(&sql, &mut more).map(drop).map_err(failed());
        }
        connection.execute("BEGIN").map_err(failed())?;
        connection.copy_in(&sql, &mut more).map_err(failed())?;
        connection.execute("COMMIT").map(drop).map_err(failed())
    }
}

/// How many rows are handed to a bulk load at once.
const COPY_ROWS: u64 = 64;

fn statement(table: &str, count: u64, rows: &mut Rows) -> String {
    let mut sql = Vec::with_capacity(usize::try_from(count * ROW_TEXT_BYTES).unwrap_or(0));
    sql.extend_from_slice(b"INSERT INTO ");
    sql.extend_from_slice(table.as_bytes());
    sql.extend_from_slice(b" (id,k,c,pad) VALUES ");
    for row in 0..count {
        if row > 0 {
            sql.push(b',');
        }
        rows.push(Form::Values, &mut sql);
    }
    String::from_utf8(sql).expect("digits, commas and quotes are ASCII")
}
