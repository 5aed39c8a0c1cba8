// SPDX-License-Identifier: Apache-2.0
//! The same statements again and again, in blocks with rests between: first natively, with the ledger after each block; then under Massif, with a
//! mark after each block. Statements go over one connection, which stays open: so memory that the connection keeps is seen as a leak, too.

use crate::{Error, Pace, Session};
use attach::{Attached, Surroundings, Wanted};
use explain::leak::{Holding, Leak, Profiled};
use host::clock::RunClock;
use host::interrupt;
use host::places::Places;
use load::Target;
use load::admin::Connection;
use load::engine::{Hooks, LoadSpec};
use observe::memory::Options;
use run::Run;
use sandbox::{Sandbox, ServerOption, StartOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use workload::Tables;
use workload::distribution::Distribution;

/// The repetition, and how often it is done.
#[derive(Debug, Clone)]
pub struct Repeat {
    pub what: What,
    /// Repetitions in a block. `None`: as many as are done in [`BLOCK`] without Valgrind.
    pub repetitions: Option<u64>,
    /// Blocks without Valgrind, after the warm-up.
    pub blocks: usize,
    /// The time between the end of a block and the reading of the memory.
    pub rest: Duration,
}

/// One repetition.
#[derive(Debug, Clone)]
pub enum What {
    /// These statements, in this order, over a connection that stays open. `{i}` in a statement is the number of the repetition, from 1.
    Statements(Vec<String>),
    /// A transaction of this workload, on the tables sbtest1 and on. Each block has a connection of its own.
    Workload(workload::Name),
}

/// The number of warm-up blocks, which do not count; without Valgrind and under Massif.
pub const WARM_UP: usize = 4;
/// Blocks under Massif, after its warm-up. A profile counts bytes, and needs fewer blocks than the ledger, which counts pages.
pub const PROFILED: usize = 10;
const BLOCK: Duration = Duration::from_millis(250);
/// Servers limit what a connection may hold: MySQL and MariaDB 16,382 prepared statements, which 40 such blocks do not reach.
const MOST: u64 = 300;
const FEWEST: u64 = 10;

/// The result of the server's life without Valgrind.
#[derive(Debug)]
pub struct Native {
    pub pace: Pace,
    /// The number of repetitions in each block.
    pub repetitions: u64,
    /// `None`: too few of its inventories could be read.
    pub leak: Option<Leak>,
}

impl Repeat {
    /// One life of the server without Valgrind. After each block `say` is called with the number of done blocks and the number of all.
    ///
    /// # Errors
    /// The server does not start, a statement fails, or the caller asks for the end.
    pub fn natively(
        &self,
        sandbox: &Sandbox,
        run: &mut Run,
        options: &[ServerOption],
        places: &Places,
        say: &mut dyn FnMut(usize, usize),
    ) -> Result<Native, Error> {
        let start = StartOptions { extra_options: options.to_vec(), ..StartOptions::default() };
        let began = Instant::now();
        let started = sandbox.start(run, &start);
        let server = started.map_err(Error::natively)?;
        let started = began.elapsed();
        let seen = Pace::measure(&server.target, started)
            .map_err(Error::Connect)
            .and_then(|pace| self.inventories(sandbox, &server.target, pace, places, say));
        server.stop(run).map_err(Error::stop)?;
        seen
    }

    fn inventories(
        &self,
        sandbox: &Sandbox,
        target: &Target,
        pace: Pace,
        places: &Places,
        say: &mut dyn FnMut(usize, usize),
    ) -> Result<Native, Error> {
        let mut sender = Sender::open(&self.what, target)?;
        let wanted = Wanted { sandbox: Some(sandbox.name().to_owned()), ..Wanted::default() };
        let around = Surroundings { places, variable: &|_| None, say: &|_| {} };
        let mut attached = Attached::find(&wanted, around)
            .and_then(Attached::require_process)
            .map_err(|error| Error::Attach(error.into()))?;
        let mut readings = vec![(0, attached.inventory(Options::default()))];
        let blocks = WARM_UP + self.blocks;
        let (mut done, mut repetitions) = (0, self.repetitions.unwrap_or(FEWEST));
        for block in 1..=blocks {
            let began = Instant::now();
            done = sender.block(done, repetitions)?;
            if block == 1 && self.repetitions.is_none() {
                repetitions = as_many(began.elapsed(), repetitions);
            }
            self.rest()?;
            readings.push((done, attached.inventory(Options::default())));
            say(block, blocks);
        }
        Ok(Native { pace, repetitions, leak: Leak::of(readings, WARM_UP) })
    }

    /// The same under the profiler. The session goes on. Returns the numbers of the marks, each with the number of repetitions that were done at this mark; [`held`] tells which
    /// functions held the heap at them.
    ///
    /// # Errors
    /// As [`Self::natively`]; a snapshot cannot be taken or read.
    pub fn profiled(
        &self,
        session: &mut Session,
        repetitions: u64,
        say: &mut dyn FnMut(usize, usize),
    ) -> Result<Vec<(u64, u32)>, Error> {
        let mut sender = Sender::open(&self.what, &session.server.target)?;
        let blocks = WARM_UP + PROFILED;
        let (mut done, mut numbers) = (0, Vec::new());
        for block in 1..=blocks {
            done = sender.block(done, repetitions)?;
            if block >= WARM_UP {
                self.rest()?;
                let mark = session.mark(&format!("after {done} repetitions"))?;
                numbers.push((done, mark.number));
            }
            say(block, blocks);
        }
        Ok(numbers)
    }

    fn rest(&self) -> Result<(), Error> {
        let until = Instant::now() + self.rest;
        while Instant::now() < until {
            if interrupt::requested() {
                return Err(Error::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(20).min(self.rest));
        }
        Ok(())
    }
}

/// The part that sends the repetitions.
enum Sender {
    Statements { connection: Box<Connection>, statements: Vec<String> },
    Workload { name: workload::Name, tables: Tables, target: Target },
}

impl Sender {
    fn open(what: &What, target: &Target) -> Result<Self, Error> {
        let connection = Connection::open(target).map_err(Error::Connect)?;
        match what {
            What::Statements(statements) => {
                Ok(Self::Statements { connection: Box::new(connection), statements: statements.clone() })
            }
            What::Workload(name) => {
                let tables = tables(connection, lab::rows(target), *name)?;
                Ok(Self::Workload { name: *name, tables, target: target.clone() })
            }
        }
    }

    /// Sends one block. Returns how many repetitions are done after it.
    fn block(&mut self, done: u64, repetitions: u64) -> Result<u64, Error> {
        match self {
            Self::Statements { connection, statements } => {
                for repetition in done + 1..=done + repetitions {
                    for statement in statements.iter() {
                        let statement = statement.replace("{i}", &repetition.to_string());
                        connection.query(&statement).map_err(|source| Error::Statement { statement, source })?;
                    }
                    if interrupt::requested() {
                        return Err(Error::Interrupted);
                    }
                }
            }
            Self::Workload { name, tables, target } => {
                let (options, keys) = (workload::Options::default(), Distribution::default());
                let built = workload::build(*name, target.protocol, tables, &options, &keys)
                    .map_err(|error| Error::Words(Box::new(error)))?;
                let spec = LoadSpec {
                    events: Some(repetitions),
                    time: None,
                    // other rows in each block
                    seed: done + 1,
                    ..LoadSpec::new(name.as_str(), Arc::from(built))
                };
                let (mut on_phase, mut on_progress) = (|_| {}, |_: &_| {});
                let mut hooks = Hooks {
                    on_phase: &mut on_phase,
                    on_progress: &mut on_progress,
                    progress_interval: None,
                    stop: Arc::new(AtomicBool::new(false)),
                };
                load::engine::run(&spec, target, &RunClock::start(), &mut hooks).map_err(Error::Load)?;
                if interrupt::requested() {
                    return Err(Error::Interrupted);
                }
            }
        }
        Ok(done + repetitions)
    }
}

/// The tables of the workload that are there.
fn tables(mut connection: Connection, table_size: u64, name: workload::Name) -> Result<Tables, Error> {
    const MOST: u32 = 64;
    let is_there = |number: &u32| connection.query(&format!("SELECT id FROM sbtest{number} LIMIT 1")).is_ok();
    let tables = u32::try_from((1..=MOST).take_while(is_there).count()).unwrap_or(MOST);
    if tables == 0 || table_size == 0 {
        return Err(Error::NoTables { name: name.as_str() });
    }
    Ok(Tables { tables, table_size, scale: 1, connections: 1 })
}

/// How many repetitions fill the time of a block, computed from a first block. The statements of the first block are the slowest, so the number is
/// somewhat too small.
fn as_many(took: Duration, repetitions: u64) -> u64 {
    let one = took.as_secs_f64() / repetitions.max(1) as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // `as` stays within the range of u64
    let many = (BLOCK.as_secs_f64() / one) as u64;
    many.clamp(FEWEST, MOST)
}

/// Which functions held how much of the heap, at the marks that [`Repeat::profiled`] returned. Call this when the session has ended.
///
/// # Errors
/// The file cannot be read.
pub fn held(profile: &Path, numbers: &[(u64, u32)]) -> Result<Vec<Profiled>, Error> {
    let places: Vec<usize> = numbers.iter().map(|(_, number)| *number as usize).collect();
    let at_marks = crate::holdings(profile, &places)?;
    let plain = |it: heap::Held| Holding { function: it.function, path: it.path, bytes: it.bytes };
    let of_mark = |repetitions: u64, at: heap::Holdings| Profiled {
        repetitions,
        holdings: at.functions.into_iter().map(plain).collect(),
        hidden_bytes: at.hidden_bytes,
    };
    Ok(numbers.iter().zip(at_marks).map(|((done, _), holdings)| of_mark(*done, holdings)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_as_many_repetitions_as_its_time_takes() {
        assert_eq!(as_many(Duration::from_millis(10), 10), 250);
        assert_eq!(as_many(Duration::from_nanos(1), 10), MOST);
        assert_eq!(as_many(Duration::from_secs(60), 10), FEWEST);
    }
}
