// SPDX-License-Identifier: Apache-2.0
//! Takes a reading of a server that runs.

use crate::commands::connection;
use crate::exit::{Exit, Failure};
use crate::terminal;
use advice::{Reading, Snapshot};
use attach::Attached;
use capability::{Capability, Flavour};
use host::places::Places;
use load::admin::Connection;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use units::Span;

/// The time from one look at the status to the next: with several looks, the number of running threads does not depend on one moment.
const EVERY: Duration = Duration::from_millis(500);

pub(super) enum Read {
    Reading(Reading),
    /// Its name and version.
    WithoutInnodb(String, String),
}

pub(super) fn read(connection: &connection::Connection, time: Span) -> Result<Read, Failure> {
    let mut attached = connection.attach_anywhere(&Places::from_environment())?;
    match attached.flavour() {
        Some(Flavour::Mariadb | Flavour::Mysql | Flavour::Percona) => {}
        Some(Flavour::Postgresql) => {
            let version = attached.variables()?.remove("server_version").unwrap_or_default();
            return Ok(Read::WithoutInnodb(format!("postgresql {version}"), version));
        }
        None => {
            return Err(Failure::message(Exit::Usage, "which server? None is named")
                .hint("--sandbox NAME, a connection (--dsn, --mysql-socket, --mysql-host, ...), or --from FILE"));
        }
    }
    let variables = attached.variables()?;
    let mut notes = Vec::new();
    let bar = terminal::spinner(&format!("reading the counters for {time}"));
    let began = Instant::now();
    let mut readings = vec![snapshot(&mut attached, began, Some(&mut notes))?];
    let until = Duration::from_nanos(time.as_ns());
    while began.elapsed() < until {
        std::thread::sleep(EVERY.min(until.saturating_sub(began.elapsed())));
        let is_last = began.elapsed() >= until;
        readings.push(snapshot(&mut attached, began, is_last.then_some(&mut notes))?);
    }
    bar.finish_and_clear();
    notes.dedup();
    let instances = instances(&attached);
    let basis = Some("measured".to_owned());
    Ok(Read::Reading(Reading { basis, variables, instances, readings, notes }.reduced()))
}

/// How many instances the buffer pool has: the variable may only tell how many the server was asked for. `None`: the account may not ask (PROCESS), and
/// the note on INNODB_METRICS says so.
fn instances(attached: &Attached) -> Option<u64> {
    const COUNT: &str = "SELECT count(*) FROM information_schema.INNODB_BUFFER_POOL_STATS";
    let mut connection = Connection::open(&attached.server.as_ref()?.target).ok()?;
    connection.query(COUNT).ok()?.parse(0, 0).filter(|count| *count > 0)
}

/// The server computes hundreds of rows for its metrics: they are asked for only in the first and the last reading; only there `notes` is given.
fn snapshot(attached: &mut Attached, began: Instant, notes: Option<&mut Vec<String>>) -> Result<Snapshot, Failure> {
    let metrics = match notes.map(|notes| (attached.numbers(Capability::InnodbMetrics), notes)) {
        Some((Ok(metrics), _)) => metrics.unwrap_or_default(),
        Some((Err(error), notes)) => {
            notes.push(format!("INNODB_METRICS was not read ({error}): the privilege PROCESS would help"));
            BTreeMap::new()
        }
        None => BTreeMap::new(),
    };
    let at_seconds = began.elapsed().as_secs_f64();
    let status = attached.numbers(Capability::ServerStatus)?.unwrap_or_default();
    Ok(Snapshot { at_seconds, status, metrics })
}
