// SPDX-License-Identifier: Apache-2.0
//! The canary: a query that needs no data and no lock, sent at equal intervals, on a connection and a thread of its own. When even this query waits,
//! the server or its host answers no client.

use crate::reopening::{PATIENCE, own_number};
use crate::server::Query as _;
use crate::{Error, Reopening};
use ::stalls::watch;
use capability::Protocol;
use host::clock::RunClock;
use load::Error as Refused;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Since when no answer has come, on the watch's clock; [`ANSWERED`]: nothing is asked now.
    asked_us: Arc<AtomicU64>,
}

const ANSWERED: u64 = u64::MAX;

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
        let asked_us = Arc::new(AtomicU64::new(ANSWERED));
        let (over, asked) = (is_over.clone(), asked_us.clone());
        let work = move || sing(connection, protocol, clock, every, &tell, (&over, &asked));
        let thread = std::thread::Builder::new().name("canary".to_owned()).spawn(work);
        thread.map_err(|source| Error::Thread { source })?;
        Ok(Self { runs, is_over, asked_us })
    }

    /// The reports since the last call.
    pub(super) fn sung(&self) -> Vec<Sung> {
        self.runs.try_iter().collect()
    }

    /// The run that has no answer at this moment.
    pub(super) fn open(&self, now_us: u64) -> Option<watch::Canary> {
        let from_us = Some(self.asked_us.load(Ordering::SeqCst)).filter(|us| *us != ANSWERED)?;
        Some(watch::Canary { from_us, took_us: now_us.saturating_sub(from_us), is_lost: false })
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
    (is_over, asked_us): (&AtomicBool, &AtomicU64),
) {
    let own = own_number(protocol);
    let (mut is_known, mut has_failed, mut due) = (false, false, Instant::now());
    let mut unanswered = Unanswered::default();
    while !is_over.load(Ordering::SeqCst) {
        let from_us = clock.now_us();
        asked_us.store(unanswered.since_us.unwrap_or(from_us), Ordering::SeqCst);
        let (sung, heard) = if is_known { run(&mut connection, &clock) } else { number(&mut connection, own) };
        is_known = !matches!(sung, Sung::Failed(_));
        let is_told = is_known || !std::mem::replace(&mut has_failed, true);
        let waited = unanswered.heard(heard, from_us, clock.now_us());
        asked_us.store(unanswered.since_us.unwrap_or(ANSWERED), Ordering::SeqCst);
        let told = Some(sung).filter(|_| is_told).into_iter().chain(waited.map(Sung::Run));
        if told.map(|sung| tell.send(sung)).any(|sent| sent.is_err()) {
            return;
        }
        // runs that were missed are not repeated
        due = (due + every).max(Instant::now());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

/// Whether the server has answered a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heard {
    /// It has, perhaps with a refusal.
    Answered,
    /// It was waited for as long as is ever waited for.
    Late,
    /// The connection was lost: the server may have ended.
    Lost,
    /// No connection could be opened: there is nobody, or this account is refused.
    NotConnected,
}

fn waited(from_us: u64, now_us: u64, is_lost: bool) -> watch::Canary {
    watch::Canary { from_us, took_us: now_us.saturating_sub(from_us), is_lost }
}

/// The time for which no question was answered, over all questions: none of them waits for longer than [`PATIENCE`].
#[derive(Debug, Default)]
struct Unanswered {
    since_us: Option<u64>,
}

impl Unanswered {
    /// Returns the whole wait when it is over: it was answered, or the connection was lost.
    fn heard(&mut self, heard: Heard, from_us: u64, now_us: u64) -> Option<watch::Canary> {
        match heard {
            Heard::Late => {
                self.since_us.get_or_insert(from_us);
                None
            }
            Heard::Lost => self.since_us.take().or(Some(from_us)).map(|from_us| waited(from_us, now_us, true)),
            Heard::NotConnected => self.since_us.take().map(|from_us| waited(from_us, now_us, true)),
            Heard::Answered => self.since_us.take().map(|from_us| waited(from_us, now_us, false)),
        }
    }
}

type Rows = Vec<Vec<Option<String>>>;

fn ask(connection: &mut Reopening, sql: &str) -> (Result<Rows, String>, Heard) {
    let (began, was_open) = (Instant::now(), connection.is_open());
    match connection.rows(sql) {
        Ok(rows) => (Ok(rows), Heard::Answered),
        Err(error) => {
            let heard = match error.downcast_ref() {
                Some(Refused::Server { .. }) => Heard::Answered,
                // a timeout may be some milliseconds early
                _ if began.elapsed() >= PATIENCE * 9 / 10 => Heard::Late,
                _ if was_open => Heard::Lost,
                _ => Heard::NotConnected,
            };
            (Err(host::chain(&*error)), heard)
        }
    }
}

fn number(connection: &mut Reopening, own: &str) -> (Sung, Heard) {
    let (answer, heard) = ask(connection, own);
    let sung = match answer {
        Ok(rows) => {
            let number = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
            number.map_or_else(|| Sung::Failed("the server does not say its number".to_owned()), Sung::Connection)
        }
        Err(why) => Sung::Failed(why),
    };
    (sung, heard)
}

fn run(connection: &mut Reopening, clock: &RunClock) -> (Sung, Heard) {
    let (from_us, began) = (clock.now_us(), Instant::now());
    let (answer, heard) = ask(connection, "SELECT 1");
    let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    (answer.map_or_else(Sung::Failed, |_| Sung::Run(watch::Canary { from_us, took_us, is_lost: false })), heard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_over_several_questions_is_one_from_the_first_to_the_answer() {
        let mut it = Unanswered::default();
        let mut heard = |heard, from_s: u64, now_s: u64| {
            let waited = it.heard(heard, from_s * 1_000_000, now_s * 1_000_000);
            waited.map(|it| (it.from_us / 1_000_000, it.took_us / 1_000_000, it.is_lost))
        };
        assert_eq!(heard(Heard::Answered, 1, 2), None, "it is told as a run of its own");
        assert_eq!((heard(Heard::Late, 10, 15), heard(Heard::Late, 15, 20)), (None, None));
        assert_eq!(heard(Heard::Answered, 20, 22), Some((10, 12, false)));
        assert_eq!(heard(Heard::Answered, 23, 24), None);
        let ended = (heard(Heard::Late, 30, 35), heard(Heard::Lost, 35, 36));
        assert_eq!(ended, (None, Some((30, 6, true))), "the server has ended");
        assert_eq!(heard(Heard::NotConnected, 40, 43), None, "nobody is there");
        assert_eq!(heard(Heard::Answered, 60, 61), None);
        assert_eq!(heard(Heard::Lost, 70, 73), Some((70, 3, true)), "a hang that ended with the server");
        let ended = (heard(Heard::Late, 80, 85), heard(Heard::NotConnected, 85, 86));
        assert_eq!(ended, (None, Some((80, 6, true))), "it ended before the next connection");
    }
}
