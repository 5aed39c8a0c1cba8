// SPDX-License-Identifier: Apache-2.0
//! Statements beside the load at moments of its measured phase. Each connection has a thread of its own, and sends the statements that share it one
//! after the other. Each sending becomes a span.

use crate::cell::Phase;
use crate::error::Error;
use crate::lab::Lab;
use evidence::PLANTED;
use experiment::At;
use host::clock::RunClock;
use load::admin::Connection;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long to wait, after the end of the load, for a statement that was sent. The server's end also ends it.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two checks whether the phase is over.
const LOOK: Duration = Duration::from_millis(20);
/// The most characters of an error, for people.
const WORDS_MOST: usize = 240;

/// The statements of one phase. When this is dropped, no further statement is sent.
pub(crate) struct Moments {
    stop: Arc<AtomicBool>,
    begin: Vec<Sender<Instant>>,
    told: Receiver<Told>,
    /// The threads whose connections close with their last statement.
    senders: Vec<JoinHandle<()>>,
    staying: Staying,
}

/// The connections that stay open, until this is dropped.
#[derive(Default)]
pub(crate) struct Staying(Vec<Sender<()>>);

enum Told {
    Began { key: (usize, u32), at_us: u64, sql: String },
    Ended { key: (usize, u32), at_us: u64, error: Option<String> },
}

/// A statement that was sent, and how it ended.
#[derive(Debug, Clone, PartialEq)]
struct Sending {
    key: (usize, u32),
    from_us: u64,
    sql: String,
    ended: Option<(u64, Option<String>)>,
}

impl Drop for Moments {
    fn drop(&mut self) {
        self.no_more();
    }
}

impl Moments {
    fn nothing_sent(told: Receiver<Told>) -> Self {
        let (begin, senders, staying) = (Vec::new(), Vec::new(), Staying::default());
        Self { stop: Arc::default(), begin, told, senders, staying }
    }

    /// The connections that stay open after their last statement.
    pub(crate) fn staying(&mut self) -> Staying {
        std::mem::take(&mut self.staying)
    }

    /// The measured phase begins now.
    pub(crate) fn begin(&mut self) {
        let now = Instant::now();
        for sender in self.begin.drain(..) {
            let _ = sender.send(now);
        }
    }

    /// The measured phase is over: statements that were sent are still answered.
    pub(crate) fn no_more(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.begin.clear();
    }

    /// All statements that were sent. It does not wait for the threads of statements that did not end: they end with their server.
    fn finish(mut self, is_over: &dyn Fn() -> bool) -> Vec<Sending> {
        self.no_more();
        let (mut sent, began): (Vec<Sending>, _) = (Vec::new(), Instant::now());
        loop {
            match self.told.recv_timeout(LOOK) {
                Ok(Told::Began { key, at_us, sql }) => sent.push(Sending { key, from_us: at_us, sql, ended: None }),
                Ok(Told::Ended { key, at_us, error }) => {
                    if let Some(sending) = sent.iter_mut().find(|sending| sending.key == key) {
                        sending.ended = Some((at_us, error));
                    }
                }
                Err(RecvTimeoutError::Timeout) if began.elapsed() < PATIENCE && !is_over() => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    self.senders.drain(..).for_each(|sender| drop(sender.join()));
                    break;
                }
            }
        }
        sent.sort_by_key(|sending| sending.from_us);
        sent
    }
}

impl Lab<'_> {
    /// Connects for the phase's statements; none is sent before [`Moments::begin`].
    pub(crate) fn await_moments(&self, phase: &Phase) -> Result<Moments, Error> {
        let (tell, told) = channel();
        let mut moments = Moments::nothing_sent(told);
        let Some(serving) = &self.serving else { return Ok(moments) };
        for statements in by_connection(&phase.load.at) {
            let mut connection = Connection::open(serving.target())?;
            let ((begin, begun), (stay, until)) = (channel(), channel::<()>());
            let is_staying = statements.iter().any(|(_, at)| at.stay);
            let (stop, tell, clock) = (moments.stop.clone(), tell.clone(), self.notes.clock);
            let sender = std::thread::spawn(move || {
                send(&statements, &mut connection, &begun, &stop, &tell, clock);
                drop(tell);
                if is_staying {
                    let _ = until.recv();
                }
            });
            if is_staying {
                moments.staying.0.push(stay);
            } else {
                moments.senders.push(sender);
            }
            moments.begin.push(begin);
        }
        Ok(moments)
    }

    /// Waits for the statements that were sent, and records them.
    pub(crate) fn end_moments(&self, phase: &Phase, moments: Moments) -> Result<(), Error> {
        for sending in moments.finish(&|| self.check_stop().is_err()) {
            let mut told = vec![("cause", "statement".to_owned()), ("sql", sending.sql.clone())];
            let (to_us, error) = match sending.ended {
                Some(ended) => ended,
                None => (self.notes.clock.now_us(), Some("no answer when the load was over".to_owned())),
            };
            if let Some(error) = &error {
                self.notes.event("load", format!("{}: {}: {error}", phase.name, sending.sql))?;
            }
            told.extend(error.map(|error| ("error", error)));
            self.keep_span(PLANTED, &phase.name, (sending.from_us, to_us), &told)?;
        }
        Ok(())
    }
}

/// The statements of each connection, each with its place in the file.
fn by_connection(all: &[At]) -> Vec<Vec<(usize, At)>> {
    let mut connections: Vec<Vec<(usize, At)>> = Vec::new();
    for (index, at) in all.iter().enumerate() {
        let shares = |it: &&mut Vec<(usize, At)>| it.iter().any(|(_, other)| other.connection == at.connection);
        match connections.iter_mut().find(shares).filter(|_| at.connection.is_some()) {
            Some(shared) => shared.push((index, at.clone())),
            None => connections.push(vec![(index, at.clone())]),
        }
    }
    connections
}

/// When each statement of a connection is due, in the order of these times.
fn dues(statements: &[(usize, At)]) -> impl Iterator<Item = (Duration, (usize, u32), &At)> {
    let mut turns = vec![0; statements.len()];
    std::iter::from_fn(move || {
        let due = |(at, turn): (&(usize, At), &u32)| Some((at.1.due(*turn)?.0, at.0, *turn));
        let (place, (time, index, turn)) = statements
            .iter()
            .zip(&turns)
            .map(due)
            .enumerate()
            .filter_map(|(place, due)| Some((place, due?)))
            .min_by_key(|(_, due)| *due)?;
        *turns.get_mut(place)? += 1;
        Some((time, (index, turn), &statements.get(place)?.1))
    })
}

/// Sends each statement each time that it is due. When it is due while another one still runs, it is sent as soon as that one has ended.
fn send(
    statements: &[(usize, At)],
    connection: &mut Connection,
    begun: &Receiver<Instant>,
    stop: &AtomicBool,
    tell: &Sender<Told>,
    clock: RunClock,
) {
    let Ok(began) = begun.recv() else { return };
    for (due, key, at) in dues(statements) {
        while let Some(left) = due.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            if stop.load(Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(left.min(LOOK));
        }
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let sql = at.statement(key.1);
        let _ = tell.send(Told::Began { key, at_us: clock.now_us(), sql: sql.clone() });
        let answer = connection.execute(&sql);
        let at_us = clock.now_us();
        let is_lost = answer.as_ref().is_err_and(|error| error.code().is_none());
        let _ = tell.send(Told::Ended { key, at_us, error: answer.err().map(|error| words(&error)) });
        if is_lost {
            return;
        }
    }
}

fn words(error: &load::Error) -> String {
    let line = error.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(WORDS_MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::{Moments, Told, by_connection, dues};
    use experiment::At;
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};
    use units::Span;

    fn at(seconds: u64, connection: Option<&str>, every: Option<u64>) -> At {
        let every = every.map(Span::secs);
        At {
            time: Span::secs(seconds),
            sql: "DO 0".into(),
            every,
            connection: connection.map(str::to_owned),
            stay: false,
        }
    }

    #[test]
    fn statements_of_one_connection_are_sent_by_their_times() {
        let all = [at(3, Some("a"), None), at(1, None, None), at(1, Some("a"), Some(4)), at(1, None, None)];
        let shared = by_connection(&all);
        let places: Vec<Vec<usize>> = shared.iter().map(|it| it.iter().map(|(index, _)| *index).collect()).collect();
        assert_eq!(places, [vec![0, 2], vec![1], vec![3]]);
        let first: Vec<_> = dues(&shared[0]).take(4).map(|(due, key, _)| (due.as_secs(), key)).collect();
        assert_eq!(first, [(1, (2, 0)), (3, (0, 0)), (5, (2, 1)), (9, (2, 2))]);
        assert_eq!(dues(&shared[1]).count(), 1);
    }

    fn began(key: (usize, u32), at_us: u64) -> Told {
        Told::Began { key, at_us, sql: format!("DO {}", key.1) }
    }

    #[test]
    fn a_statement_without_an_answer_is_kept_and_holds_nobody_up_who_is_to_stop() {
        let (tell, told) = channel();
        let moments = Moments::nothing_sent(told);
        let stop = moments.stop.clone();
        for told in [
            began((0, 0), 500),
            began((1, 0), 300),
            Told::Ended { key: (1, 0), at_us: 400, error: Some("1146".to_owned()) },
        ] {
            tell.send(told).unwrap();
        }
        let asked = Instant::now();
        let sent = moments.finish(&|| true);
        assert!(asked.elapsed() < Duration::from_secs(5), "its thread is still there, and is not waited for");
        let all: Vec<_> = sent.iter().map(|it| (it.from_us, it.sql.as_str(), it.ended.clone())).collect();
        assert_eq!(all, [(300, "DO 0", Some((400, Some("1146".to_owned())))), (500, "DO 0", None)]);
        assert!(stop.load(Ordering::SeqCst), "none is sent any more");
        drop(tell);
    }
}
