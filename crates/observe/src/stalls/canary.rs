// SPDX-License-Identifier: Apache-2.0
//! The canary: a query that needs no data and no lock, sent at equal intervals, on a connection and a thread of its own. When even this query waits,
//! the server or its host answers no client.

use crate::server::Query as _;
use crate::{Error, Reopening};
use ::stalls::watch;
use capability::Protocol;
use host::clock::RunClock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// A report of the canary.
#[derive(Debug)]
pub(super) enum Sung {
    /// The server's number of the canary's connection.
    Connection(u64),
    Run(watch::Canary),
    /// The query was not answered. Reported once.
    Failed(String),
}

#[derive(Debug)]
pub(super) struct Canary {
    runs: Receiver<Sung>,
    is_over: Arc<AtomicBool>,
}

impl Canary {
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(
        connection: Reopening,
        protocol: Protocol,
        clock: RunClock,
        every: Duration,
    ) -> Result<Self, Error> {
        let (tell, runs) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let work = move || sing(connection, protocol, clock, every, &tell, &over);
        let thread = std::thread::Builder::new().name("canary".to_owned()).spawn(work);
        thread.map_err(|source| Error::Thread { source })?;
        Ok(Self { runs, is_over })
    }

    /// The reports since the last call.
    pub(super) fn sung(&self) -> Vec<Sung> {
        self.runs.try_iter().collect()
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

fn sing(
    mut connection: Reopening,
    protocol: Protocol,
    clock: RunClock,
    every: Duration,
    tell: &Sender<Sung>,
    is_over: &AtomicBool,
) {
    let own = match protocol {
        Protocol::Mysql => "SELECT CONNECTION_ID()",
        Protocol::Postgresql => "SELECT pg_backend_pid()",
    };
    let (mut is_known, mut has_failed, mut due) = (false, false, Instant::now());
    while !is_over.load(Ordering::SeqCst) {
        let sung = if is_known { run(&mut connection, &clock) } else { number(&mut connection, own) };
        is_known = !matches!(sung, Sung::Failed(_));
        let is_told = !matches!(sung, Sung::Failed(_)) || !std::mem::replace(&mut has_failed, true);
        if is_told && tell.send(sung).is_err() {
            return;
        }
        // runs that were missed are not repeated
        due = (due + every).max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

fn number(connection: &mut Reopening, own: &str) -> Sung {
    match connection.rows(own) {
        Ok(rows) => {
            let number = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
            number.map_or_else(|| Sung::Failed("the server does not say its number".to_owned()), Sung::Connection)
        }
        Err(error) => Sung::Failed(host::chain(&*error)),
    }
}

fn run(connection: &mut Reopening, clock: &RunClock) -> Sung {
    let (from_us, began) = (clock.now_us(), Instant::now());
    match connection.rows("SELECT 1") {
        Ok(_) => {
            let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            Sung::Run(watch::Canary { from_us, took_us })
        }
        Err(error) => Sung::Failed(host::chain(&*error)),
    }
}
