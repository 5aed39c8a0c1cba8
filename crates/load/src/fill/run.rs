// SPDX-License-Identifier: Apache-2.0
//! Executes a plan: tables, rows, indexes, and a read-back.

use super::guard::Guard;
use super::readback::{look, settle, verify};
use super::resume::{Kept, survey};
use super::write::write;
use super::{Error, FillPlan, FillReport, go_on};
use crate::admin::Connection;
use crate::{Protocol, Target};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    pub stage: Stage,
    /// Rows during the stage of rows, else tables.
    pub done: u64,
    pub total: u64,
}

/// The stages in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Rows,
    /// The index on `k`, and PostgreSQL's primary key.
    Indexes,
    /// Every row is read again.
    Verify,
    /// Refreshes statistics, and has pages written.
    Settle,
}

impl Stage {
    /// For a progress bar.
    pub fn describe(self) -> &'static str {
        match self {
            Stage::Rows => "writing rows",
            Stage::Indexes => "making indexes",
            Stage::Verify => "reading rows back",
            Stage::Settle => "bringing tables to rest",
        }
    }
}

/// Executes the plan. `progress` is called from this thread, about ten times a second while rows are written.
///
/// # Errors
/// The server refuses or is lost; `stop` was set; the read-back differs. Tables that this fill made are dropped; [`Error::Left`]
/// when the server does not answer any more. Tables that a resumed fill found stay, with the added rows.
pub fn run(
    plan: &FillPlan,
    target: &Target,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<FillReport, Error> {
    let started = Instant::now();
    let mut connection = Connection::open(target).map_err(Error::server("connect to make tables"))?;
    let _guard = Guard::take(target)?;
    let kept = match plan.spec.resume {
        true => survey(plan, stop, &mut connection).map_err(paused)?,
        false => Kept::nothing(plan),
    };
    let mut made = Vec::new();
    let filled = make_tables(plan, &mut connection, &mut made)
        .and_then(|()| fill(plan, &kept, target, &mut connection, stop, progress));
    let rows_seconds = match filled {
        Ok(rows_seconds) => rows_seconds,
        Err(error) if plan.spec.resume => return Err(paused(error)),
        Err(error) => return Err(without(&made, target, error)),
    };
    progress(Progress { stage: Stage::Settle, done: 0, total: plan.spec.tables.into() });
    let unsettled = settle(plan, &mut connection)?;
    let tables: Result<Vec<_>, Error> =
        (1..=plan.spec.tables).map(|table| look(plan, table, &mut connection)).collect();
    let report = FillReport::new(plan, tables?, unsettled, started.elapsed().as_secs_f64(), rows_seconds);
    Ok(FillReport { rows_kept: kept.rows(), ..report })
}

/// A resumed fill drops nothing.
fn paused(error: Error) -> Error {
    if matches!(error, Error::Stopped) { Error::Paused } else { error }
}

/// Makes the target's database if it does not exist; true when it was made.
///
/// # Errors
/// The server refuses for another reason, or the account may not make databases.
pub fn ensure_database(target: &Target) -> Result<bool, Error> {
    let Some(database) = &target.database else { return Ok(false) };
    match Connection::open(target) {
        Ok(_) => return Ok(false),
        Err(error) if error.is_unknown_database() => {}
        Err(source) => return Err(Error::Server { operation: format!("connect to the database {database}"), source }),
    }
    let quote = match target.protocol {
        Protocol::Mysql => '`',
        Protocol::Postgresql => '"',
    };
    let mut connection =
        Connection::open(&target.elsewhere()).map_err(Error::server("connect to make the database"))?;
    let doubled = database.replace(quote, &format!("{quote}{quote}"));
    let sql = format!("CREATE DATABASE {quote}{doubled}{quote}");
    connection.execute(&sql).map_err(Error::server(format!("make the database {database}")))?;
    Ok(true)
}

/// Makes the missing tables, and adds their names to `made`.
fn make_tables(plan: &FillPlan, connection: &mut Connection, made: &mut Vec<String>) -> Result<(), Error> {
    for table in 1..=plan.spec.tables {
        let name = FillPlan::table_name(table);
        if plan.spec.resume && plan.facts.existing.contains(&name) {
            continue;
        }
        if plan.spec.replace {
            connection.drop_tables(&[&name]).map_err(Error::server(format!("drop the old table {name}")))?;
        }
        connection.execute(&plan.create_table(table)).map_err(Error::server(format!("make the table {name}")))?;
        made.push(name);
    }
    Ok(())
}

/// Writes rows and indexes, and verifies them; returns the seconds for the rows.
fn fill(
    plan: &FillPlan,
    kept: &Kept,
    target: &Target,
    connection: &mut Connection,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<f64, Error> {
    let started = Instant::now();
    let total = plan.rows();
    let checksums =
        write(plan, kept, target, stop, &mut |done| progress(Progress { stage: Stage::Rows, done, total }))?;
    let rows_seconds = started.elapsed().as_secs_f64();
    // This connection was idle while rows were written, and the server may have closed it (wait_timeout, idle_session_timeout).
    *connection = Connection::open(target).map_err(Error::server("connect to index the tables"))?;
    let total = u64::from(plan.spec.tables);
    for table in 1..=plan.spec.tables {
        progress(Progress { stage: Stage::Indexes, done: u64::from(table) - 1, total });
        go_on(stop)?;
        finish_table(plan, table, &kept.indexes[table as usize - 1], connection)?;
    }
    for (table, written) in (1..=plan.spec.tables).zip(&checksums) {
        progress(Progress { stage: Stage::Verify, done: u64::from(table) - 1, total });
        go_on(stop)?;
        verify(plan, table, written, connection)?;
    }
    Ok(rows_seconds)
}

/// Makes the missing indexes of a table after its rows.
fn finish_table(plan: &FillPlan, table: u32, has: &[String], connection: &mut Connection) -> Result<(), Error> {
    let name = FillPlan::table_name(table);
    for (_, sql) in plan.indexes(table).into_iter().filter(|(index, _)| !has.contains(index)) {
        connection.execute(&sql).map_err(Error::server(format!("index the table {name}")))?;
    }
    if plan.spec.auto_inc && plan.facts.protocol == Protocol::Postgresql {
        // The keys were written, not drawn from the sequence, so it must continue after them.
        let sql = format!("SELECT setval(pg_get_serial_sequence('{name}', 'id'), {})", plan.rows_per_table);
        connection.query(&sql).map_err(Error::server(format!("set the sequence of {name}")))?;
    }
    Ok(())
}

/// How long to wait for a server that went down during a fill: it recovers before it answers.
const SERVER_BACK: Duration = Duration::from_secs(15);

/// Drops the tables in `made` because of `error`, and returns `error`. If that fails, the returned error names the remaining tables.
pub(crate) fn without(made: &[String], target: &Target, error: Error) -> Error {
    if made.is_empty() {
        return error;
    }
    // Over a new connection: the old one may be lost with the error, or in a failed transaction.
    match open_again(target).and_then(|mut connection| connection.drop_tables(made)) {
        Ok(()) => error,
        Err(source) => Error::Left { tables: made.to_vec(), why: in_full(&source), error: Box::new(error) },
    }
}

/// The error with its causes.
fn in_full(error: &crate::Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

fn open_again(target: &Target) -> Result<Connection, crate::Error> {
    let until = Instant::now() + SERVER_BACK;
    loop {
        match Connection::open(target) {
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(200)),
            opened => return opened,
        }
    }
}
