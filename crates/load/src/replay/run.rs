// SPDX-License-Identifier: Apache-2.0
//! Sends a plan. This program has one connection for each connection of the log, with its own thread: it opens shortly before its first statement is
//! due, and closes after its last. A statement waits for the one before it on its connection, and for its own time.

use super::count::{Counted, Done, nanos};
use super::plan::{Plan, Work};
use super::sessions::{OpenSessions, Session};
use crate::Error;
use crate::admin::Connection;
use crate::engine::Usage;
use crate::target::{Protocol, Target};
use evidence::{LatencyHistogram, Phase};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pace {
    /// This many times as fast as recorded.
    Times(f64),
    /// Each statement as soon as the one before it on its connection is done.
    Max,
}

#[derive(Debug, Clone, Copy)]
pub struct Options {
    pub pace: Pace,
    /// Allow writes; without it each session is made read-only at the server, too.
    pub writes: bool,
    /// Length of a timeline slot.
    pub timeline: Duration,
}

#[derive(Debug, Clone)]
pub struct Replayed {
    /// The beginning of the log.
    pub started: Instant,
    /// The most connections that were open at once.
    pub connections: u32,
    /// A value for each connection.
    pub connect: LatencyHistogram,
    /// Statements that were not sent, because the server refused their database: they would have run in another one.
    pub without_database: u64,
    /// Each statement counts as one transaction. Its times count from the beginning of the log.
    pub measured: Phase,
}

/// A connection opens this long before its first statement is due.
const LEAD: Duration = Duration::from_millis(500);
/// The pause between two checks whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A lost connection is made again for this long, with pauses of [`LOOK_EVERY`]: a server that starts again needs some seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time for a login and the first statement.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// When the replay should end, statements that were sent have this long to be answered.
const DRAIN: Duration = Duration::from_secs(5);
/// The stack of a session's thread, which only reads and counts.
const STACK_BYTES: usize = 512 << 10;

struct Shared<'a> {
    plan: &'a Plan,
    target: &'a Target,
    options: Options,
    stop: &'a AtomicBool,
    start: Instant,
    open: AtomicUsize,
    most: AtomicUsize,
    /// Statements that were sent when the replay should have ended get no answer any more.
    is_cut: AtomicBool,
    sessions: OpenSessions,
    counted: Mutex<Counted>,
}

/// # Errors
/// The first connection cannot be made; or threads cannot be started. Errors that the server answers to statements are counted.
pub fn run(plan: &Plan, target: &Target, options: Options, stop: &AtomicBool) -> Result<Replayed, Error> {
    // A refused login ends the replay before anything is sent. Otherwise it would be counted once for each connection.
    open(target, options)?;
    let before = Usage::of_this_thread();
    let shared = Shared {
        plan,
        target,
        options,
        stop,
        start: Instant::now() + LEAD,
        open: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        is_cut: AtomicBool::new(false),
        sessions: OpenSessions::default(),
        counted: Mutex::new(Counted::new(plan.classes.len(), options.timeline)),
    };
    let over = AtomicBool::new(false);
    let elapsed = std::thread::scope(|scope| {
        let cutter = scope.spawn(|| shared.cut_when_stopped(&over));
        // dropped also when a thread of a session has panicked
        let _end = EndOf { over: &over, waits: cutter.thread().clone() };
        match options.pace {
            Pace::Max => at_most(&shared)?,
            Pace::Times(_) => as_recorded(&shared)?,
        }
        Ok(Instant::now().saturating_duration_since(shared.start))
    })?;
    let (started, connections) = (shared.start, u32::try_from(shared.most.load(Ordering::Relaxed)).unwrap_or(u32::MAX));
    let mut counted = shared.counted.into_inner().unwrap_or_else(PoisonError::into_inner);
    counted.used(Usage::of_this_thread() - before);
    let without_database = counted.without_database;
    let (connect, measured) = counted.finish(plan, elapsed);
    Ok(Replayed { started, connections, connect, without_database, measured })
}

/// Runs at most as many sessions at once as the log had.
fn at_most(shared: &Shared<'_>) -> Result<(), Error> {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(session) = shared.plan.sessions.get(next.fetch_add(1, Ordering::Relaxed)) {
            shared.session(session);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..shared.plan.most_at_once().max(1) {
            spawn(scope, shared, work)?;
        }
        Ok(())
    })
}

fn as_recorded(shared: &Shared<'_>) -> Result<(), Error> {
    std::thread::scope(|scope| {
        for session in &shared.plan.sessions {
            let due = session.first().map_or(shared.start, |work| shared.due(work));
            if !shared.wait_until(due.checked_sub(LEAD).unwrap_or(due)) {
                break;
            }
            spawn(scope, shared, move || shared.session(session))?;
        }
        Ok(())
    })
}

/// Counts the thread's CPU time, too.
fn spawn<'scope, 'env>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    shared: &'scope Shared<'_>,
    work: impl FnOnce() + Send + 'scope,
) -> Result<(), Error> {
    let counted = move || {
        let before = Usage::of_this_thread();
        work();
        shared.count(|counted| counted.used(Usage::of_this_thread() - before));
    };
    let builder = std::thread::Builder::new().name("replay".into()).stack_size(STACK_BYTES);
    let started = builder.spawn_scoped(scope, counted);
    started.map(|_| ()).map_err(|source| Error::System { operation: "start a thread for a connection", source })
}

/// Ends the wait of [`Shared::cut_when_stopped`].
struct EndOf<'a> {
    over: &'a AtomicBool,
    waits: std::thread::Thread,
}

impl Drop for EndOf<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.waits.unpark();
    }
}

/// Opens a connection; it is read-only unless writes are allowed. A server that stands still is not waited for, here.
fn open(target: &Target, options: Options) -> Result<Connection, Error> {
    let mut connection = Connection::open_within(target, OPEN_WITHIN)?;
    if !options.writes {
        connection.execute(match target.protocol {
            Protocol::Mysql => "SET SESSION TRANSACTION READ ONLY",
            Protocol::Postgresql => "SET default_transaction_read_only = on",
        })?;
    }
    connection.set_read_limit(None)?;
    Ok(connection)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Answered,
    /// The server answered with an error, and closed the connection.
    HungUp,
    Lost,
}

enum Entered {
    Yes,
    No(Sent),
}

impl Shared<'_> {
    fn due(&self, work: &Work) -> Instant {
        match self.options.pace {
            Pace::Max => self.start,
            Pace::Times(times) => self.start + Duration::from_secs_f64(work.at_us as f64 / 1e6 / times),
        }
    }

    /// Returns false when the replay should end.
    fn wait_until(&self, moment: Instant) -> bool {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return false;
            }
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    /// Waits for the end of the replay. Once it should stop, answers are waited for no longer than [`DRAIN`].
    fn cut_when_stopped(&self, over: &AtomicBool) {
        let mut stopped = None;
        while !over.load(Ordering::Relaxed) {
            std::thread::park_timeout(LOOK_EVERY);
            if stopped.is_none() && self.stop.load(Ordering::Relaxed) {
                stopped = Some(Instant::now());
            }
            if stopped.is_some_and(|since| since.elapsed() > DRAIN) {
                self.is_cut.store(true, Ordering::Relaxed);
                self.sessions.shut();
            }
        }
    }

    fn count(&self, count: impl FnOnce(&mut Counted)) {
        count(&mut self.counted.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn error(&self, code: &str) {
        let now_ns = self.since_start(Instant::now());
        self.count(|counted| counted.error(code, now_ns));
    }

    /// Tries for as long as `patience`; then all failed attempts together count as one error.
    fn connect(&self, patience: Duration) -> Option<Session<'_>> {
        let until = Instant::now() + patience;
        loop {
            let began = Instant::now();
            match open(self.target, self.options) {
                Ok(connection) => {
                    self.count(|counted| counted.connected(nanos(began.elapsed())));
                    return Some(self.sessions.hold(connection));
                }
                Err(error) if Instant::now() >= until => {
                    self.error(error.code().unwrap_or("no connection"));
                    return None;
                }
                Err(_) if !self.wait_until(Instant::now() + LOOK_EVERY) => return None,
                Err(_) => {}
            }
        }
    }

    fn session(&self, works: &[Work]) {
        // a server that is started anew meanwhile costs the session a moment, not all its statements
        let Some(mut connection) = self.connect(PATIENCE) else { return self.leave(works) };
        let now = self.open.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        let mut database = self.target.database.clone();
        let mut rest = works;
        while let Some((work, later)) = rest.split_first() {
            let due = self.due(work);
            if !self.wait_until(due) {
                break;
            }
            rest = later;
            let sent = match self.enter(&mut connection, work, &mut database) {
                Entered::Yes => self.send(&mut connection, work, due),
                Entered::No(sent) => sent,
            };
            match sent {
                Sent::Answered => continue,
                // The server's own error is counted already.
                Sent::HungUp => {}
                Sent::Lost if self.is_cut.load(Ordering::Relaxed) => self.error("no reply"),
                Sent::Lost => self.error("connection lost"),
            }
            if rest.is_empty() || self.stop.load(Ordering::Relaxed) {
                break;
            }
            match self.connect(PATIENCE) {
                Some(again) => connection = again,
                None => break,
            }
            database.clone_from(&self.target.database);
            self.count(Counted::reconnected);
        }
        self.open.fetch_sub(1, Ordering::Relaxed);
        self.leave(rest);
    }

    /// Counts statements that are not sent. Without moments of a log, none of them was due.
    fn leave(&self, works: &[Work]) {
        if let Pace::Times(_) = self.options.pace {
            let due_ns: Vec<u64> = works.iter().map(|work| self.since_start(self.due(work))).collect();
            self.count(|counted| counted.left(&due_ns));
        }
    }

    /// Makes the statement's database the connection's one; `current` is the present one.
    fn enter(&self, connection: &mut Connection, work: &Work, current: &mut Option<String>) -> Entered {
        let Some(wanted) = work.database.as_deref().filter(|_| self.target.protocol == Protocol::Mysql) else {
            return Entered::Yes;
        };
        if current.as_deref() == Some(wanted) {
            return Entered::Yes;
        }
        match connection.execute(&format!("USE `{}`", wanted.replace('`', "``"))) {
            Ok(_) => {
                *current = Some(wanted.to_owned());
                Entered::Yes
            }
            Err(error) => {
                self.count(Counted::without_database);
                // When the connection lives on, it is still in the database of the statement before.
                Entered::No(self.failed(connection, &error))
            }
        }
    }

    fn send(&self, connection: &mut Connection, work: &Work, due: Instant) -> Sent {
        let began = Instant::now();
        let intended = if self.options.pace == Pace::Max { began } else { due };
        self.count(Counted::sent);
        match connection.execute_bytes(work.sql.as_bytes()) {
            Ok(_) => {
                self.done(work, intended, began);
                Sent::Answered
            }
            Err(error) => self.failed(connection, &error),
        }
    }

    /// Counts the server's error, if there is one.
    fn failed(&self, connection: &Connection, error: &Error) -> Sent {
        let Some(code) = error.code() else { return Sent::Lost };
        self.error(code);
        if connection.is_hung_up() { Sent::HungUp } else { Sent::Answered }
    }

    fn done(&self, work: &Work, intended: Instant, began: Instant) {
        let ended_ns = self.since_start(Instant::now());
        let (intended_ns, began_ns) = (self.since_start(intended), self.since_start(began));
        let done = Done { class: work.class, kind: work.kind, intended_ns, began_ns, ended_ns };
        self.count(|counted| counted.done(&done));
    }

    /// 0 for a time before the start.
    fn since_start(&self, moment: Instant) -> u64 {
        nanos(moment.saturating_duration_since(self.start))
    }
}

#[cfg(test)]
mod tests;
