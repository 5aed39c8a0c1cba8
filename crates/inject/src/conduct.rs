// SPDX-License-Identifier: Apache-2.0
//! Carries a plan out: one thread for each injection, which makes itself ready a moment before.

use crate::cpu::Cpu;
use crate::disk::Disk;
use crate::injected::{Bite, Injected};
use crate::locks::Lock;
use crate::means::{Way, way};
use crate::scan::Scan;
use crate::stop_request::Stop;
use crate::table::Rows;
use crate::{Error, Ground, Injection};
use host::process::{Identity, Process};
use load::admin::Connection;
use run::{Run, Step};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// How long before its moment an injection connects, and asks what it needs.
const AHEAD: Duration = Duration::from_secs(1);
/// The same for the first injection, when it begins at once.
const AT_ONCE: Duration = Duration::from_millis(300);

/// The time between two checks whether the server lives.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The result of a plan.
#[derive(Debug)]
pub struct Conducted {
    /// In the order of the plan; injections that were not tried are missing.
    pub injections: Vec<Injected>,
    /// The moment from which the plan's moments are counted, in microseconds since 1970.
    pub zero_us: u64,
    pub server_ended: bool,
    pub was_interrupted: bool,
}

/// Carries out `plan`, which is sorted by moment. `told` is called with each injection when it is over.
///
/// # Errors
/// Something that the plan needs cannot be made ready, or the journal cannot be written. All injections have ended then.
pub fn conduct(
    run: Run,
    ground: &Ground,
    plan: &[Injection],
    rows: Rows,
    told: &(dyn Fn(&Injected) + Sync),
) -> Result<(Conducted, Run), Error> {
    let mut admin = Connection::open(&ground.target)?;
    ground.table.make(&mut admin)?;
    let (run, cpu_turn) = (Mutex::new(run), Mutex::new(()));
    let stop = Stop::default();
    let zero = Instant::now() + AT_ONCE;
    let zero_us = host::clock::unix_us() + crate::stop_request::us(AT_ONCE);
    let server = ground.sandbox.server_process().and_then(Identity::of).and_then(Process::open);
    let has_ended = || server.as_ref().is_some_and(|server| !server.is_alive());
    let is_over = AtomicBool::new(false);
    let stage = Stage { ground, run: &run, cpu_turn: &cpu_turn, stop: &stop, rows, zero };
    let injections = thread::scope(|scope| {
        // an injection that holds something of a server that has ended need not wait
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                if has_ended() {
                    stop.ask();
                }
                thread::sleep(LOOK_EVERY);
            }
        });
        let _over = Over(&is_over);
        stage.play_all(scope, plan, told)
    })?;
    // a connection is lost a moment before the process is gone
    let is_lost = |it: &Injected| it.started_us.is_none() || it.bit.is_none();
    let server_ended = has_ended() || (injections.iter().any(is_lost) && ground.sandbox.server_process().is_none());
    if !server_ended {
        ground.table.drop(&mut admin)?;
    }
    let run = run.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok((Conducted { injections, zero_us, server_ended, was_interrupted: host::interrupt::requested() }, run))
}

/// Ends the check of the server, also when an injection panics: otherwise the scope would wait for that thread without end.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What all injections share.
struct Stage<'a> {
    ground: &'a Ground,
    run: &'a Mutex<Run>,
    /// Held by the injection that stalls the CPU cgroup: one at a time.
    cpu_turn: &'a Mutex<()>,
    stop: &'a Stop,
    rows: Rows,
    zero: Instant,
}

impl<'a> Stage<'a> {
    fn play_all<'scope>(
        &'a self,
        scope: &'scope Scope<'scope, '_>,
        plan: &'a [Injection],
        told: &'a (dyn Fn(&Injected) + Sync),
    ) -> Result<Vec<Injected>, Error>
    where
        'a: 'scope,
    {
        let mut playing = Vec::new();
        for asked in plan {
            let at = self.zero + Duration::from_micros(asked.at_us);
            if at.checked_sub(AHEAD).is_some_and(|ahead| self.stop.or_at(ahead)) {
                break;
            }
            let play = move || {
                let injected = self.play(asked, at);
                injected.iter().for_each(told);
                injected
            };
            let named = thread::Builder::new().name("injection".into());
            match named.spawn_scoped(scope, play) {
                Ok(one) => playing.push(one),
                Err(error) => {
                    self.stop.ask();
                    return Err(Error::Thread(error));
                }
            }
        }
        let played = playing.into_iter().map(ScopedJoinHandle::join);
        Ok(played.filter_map(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect())
    }

    /// Carries out one injection. `None`: the end was asked for before it began.
    fn play(&self, asked: &Injection, at: Instant) -> Option<Injected> {
        match self.bite(asked, at) {
            Ok(None) => None,
            Ok(Some((table, mut bite))) => {
                if self.stop.is_asked() && bite.length_us < asked.length_us {
                    bite.why.get_or_insert_with(|| "it was cut short: everything was to end".to_owned());
                }
                Some(Injected::of(asked, table, bite))
            }
            Err(error) => Some(Injected::not(asked, host::chain(&error))),
        }
    }

    fn bite(&self, asked: &Injection, at: Instant) -> Result<Option<(Option<String>, Bite)>, Error> {
        let Ground { target, table, layer, cpu, sandbox } = self.ground;
        let length = Duration::from_micros(asked.length_us);
        let name = Some(table.name.clone());
        let missing = || Error::refused("the sandbox has not what it needs", "`wringer stalls inject --list`");
        let way = way(asked.cause).map_err(|why| Error::refused(why, "`wringer stalls inject --list`"))?;
        let note = |on: &str| {
            self.note(&format!(
                "{} for {} us on {on} of sandbox {}",
                asked.cause.name(),
                asked.length_us,
                sandbox.name()
            ))
        };
        let (table, bite) = match way {
            Way::Rows => {
                let lock = Lock::rows(target, table, self.rows, length)?;
                note(&format!("rows of {}, by a connection that ends with this process", table.name))?;
                (name, lock.inject(asked, at, self.stop)?)
            }
            Way::Table => {
                let lock = Lock::table(target, table, length)?;
                note(&format!("{}, by a connection that ends with this process", table.name))?;
                (name, lock.inject(asked, at, self.stop)?)
            }
            Way::Disk(class) => {
                let disk = Disk::ready(layer.as_deref().ok_or_else(missing)?, class)?;
                note("the slow layer, by a connection that ends with this process")?;
                (None, disk.inject(asked, at, self.stop)?)
            }
            Way::CpuQuota => {
                let group = cpu.clone().ok_or_else(missing)?;
                (None, Cpu::ready(target, group, self.run, self.cpu_turn)?.inject(asked, at, self.stop)?)
            }
            Way::Scan => {
                let scan = Scan::ready(target, table)?;
                note(&format!("{}, which is only read", table.name))?;
                (name, scan.inject(asked, at, self.stop)?)
            }
        };
        Ok(bite.map(|bite| (table, bite)))
    }

    /// Writes into the journal what is about to happen; it needs no undo.
    fn note(&self, text: &str) -> Result<(), Error> {
        let step = Step::Note { text: text.to_owned() };
        self.run.lock().unwrap_or_else(PoisonError::into_inner).step(step, |_| Ok(()))?;
        Ok(())
    }
}
