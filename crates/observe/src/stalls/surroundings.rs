// SPDX-License-Identifier: Apache-2.0
//! Sources beside samples and answers: the canary and the slow log, each on a thread of its own; and which connections are this program's own.

use super::canary::{Canary, Sung};
use super::slow_log::{self, Read, SlowLog};
use super::{Asked, Options};
use crate::{Error, OwnConnections};
use ::stalls::SkippedPart;
use ::stalls::watch::{Missing, Watching};
use capability::Protocol;
use evidence::{CANARY, LOGGED, Span};
use host::clock::RunClock;
use std::collections::BTreeMap;

/// An answer to the canary that takes at least this long becomes a span.
const SLOW_US: u64 = 10_000;
/// The most spans that are kept until they are fetched; a log of all statements has more.
const MOST_SPANS: usize = 2000;
/// The most skipped places of the log that are kept.
const MOST_SKIPPED: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Surroundings {
    canary: Option<Canary>,
    slow_log: Option<SlowLog>,
    missing: Vec<Missing>,
    skipped: Vec<SkippedPart>,
    statements: u64,
    spans: Vec<Span>,
    own: OwnConnections,
    /// How many of them `watching` knows.
    known: usize,
}

impl Surroundings {
    /// Also returns the sources that cannot be read.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(
        asked: Option<&mut Asked>,
        pid: u32,
        protocol: Protocol,
        clock: RunClock,
        options: &Options,
    ) -> Result<(Self, Vec<Missing>), Error> {
        let mut missing = Vec::new();
        let mut surroundings = Self::default();
        let Some(asked) = asked else { return Ok((surroundings, missing)) };
        surroundings.own = asked.own.clone();
        if let Some((connection, every)) = asked.canary.take().zip(options.canary) {
            surroundings.canary = Some(Canary::start(connection, protocol, clock, every)?);
        }
        // PostgreSQL's log is not a slow log
        if options.slow_log && protocol == Protocol::Mysql {
            match SlowLog::start(&asked.variables, pid, clock) {
                Ok(log) => {
                    surroundings.slow_log = Some(log);
                    missing.extend(slow_log::leaves_out(&asked.variables));
                }
                Err(why) => missing.push(why),
            }
        }
        Ok((surroundings, missing))
    }

    pub(super) fn begin(&self, watching: &mut Watching) {
        if self.slow_log.is_some() {
            watching.follows_log();
        }
    }

    /// Passes the reports since the last call to `watching`.
    pub(super) fn told(&mut self, watching: &mut Watching) {
        for number in self.own.after(self.known) {
            self.known += 1;
            watching.own_connection(number);
        }
        let sung: Vec<Sung> = self.canary.iter().flat_map(Canary::sung).collect();
        for sung in sung {
            self.statements += 1;
            match sung {
                Sung::Connection(number) => watching.own_connection(number),
                Sung::Run(run) => {
                    watching.canary(run);
                    if run.took_us >= SLOW_US {
                        let lost = run.is_lost.then(|| ("lost".to_owned(), "yes".to_owned()));
                        self.span(CANARY, run.from_us, run.took_us, lost.into_iter().collect());
                    }
                }
                Sung::Failed(why) => {
                    let what = "some answers to the query that needs nothing (--canary)".to_owned();
                    self.missing.push(Missing { what, why, remedy: None });
                }
            }
        }
        let reads: Vec<Read> = self.slow_log.iter().flat_map(SlowLog::reads).collect();
        self.read(reads, watching);
    }

    /// Takes the last readings. No canary is sent after this.
    pub(super) fn end(&mut self, watching: &mut Watching, now_us: u64) {
        self.told(watching);
        let open = self.canary.take().and_then(|canary| canary.open(now_us)).filter(|run| run.took_us >= SLOW_US);
        if let Some(run) = open {
            watching.canary_waits(run);
            self.span(CANARY, run.from_us, run.took_us, BTreeMap::new());
        }
        let rest = self.slow_log.as_mut().map(SlowLog::end).unwrap_or_default();
        self.read(rest, watching);
    }

    fn read(&mut self, reads: Vec<Read>, watching: &mut Watching) {
        for Read { entries, skipped, lost } in reads {
            for entry in entries {
                let took_us = entry.figures.took_us.unwrap_or(0);
                let attributes = entry.attributes();
                self.span(LOGGED, entry.began_us.1, took_us, attributes);
                watching.logged(entry);
            }
            let room = MOST_SKIPPED.saturating_sub(self.skipped.len());
            self.skipped.extend(skipped.into_iter().filter(|part| part.bytes > 0).take(room));
            let what = "the rest of the server's slow log".to_owned();
            self.missing.extend(lost.map(|why| Missing { what, why, remedy: None }));
        }
    }

    fn span(&mut self, kind: &str, from_us: u64, took_us: u64, attributes: BTreeMap<String, String>) {
        let (kind, to_us) = (kind.to_owned(), from_us.saturating_add(took_us));
        if self.spans.len() < MOST_SPANS {
            self.spans.push(Span { from_us, to_us, kind, entity: String::new(), attributes });
        }
    }

    /// The spans since the last call, for a recording: slow answers to the canary, entries of the log.
    pub(super) fn spans(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.spans)
    }

    pub(super) fn statements(&self) -> u64 {
        self.statements
    }

    pub(super) fn missing(self) -> (Vec<Missing>, Vec<SkippedPart>) {
        (self.missing, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::stalls::watch::{Answer, Doing, Sample, Says, Session, Watch};

    /// Connection 7 waits for a lock of a row for 400 ms. Returns how many stalls are told.
    fn told(own: &OwnConnections) -> usize {
        let mut watching = Watching::new(Watch {
            least_us: 50_000,
            backoff: None,
            free_list: None,
            probe: None,
            is_deep: false,
            with_values: false,
            dialect: sql::Dialect::Mysql,
            server: None,
            started_unix_us: 0,
        });
        let mut surroundings = Surroundings { own: own.clone(), ..Surroundings::default() };
        let mut stalls = 0;
        for at_us in (0..2_000_000).step_by(10_000) {
            let waits = (500_000..900_000).contains(&at_us);
            let (doing, says) = if waits { (Doing::Blocked, Says::RowLock) } else { (Doing::Idle, Says::Idle) };
            watching.sample(at_us, &[Sample { thread: 1, doing, sched: None, stop: None }]);
            let (words, blocked_by) = (String::new(), Vec::new());
            let (statement, age_us, perhaps_blocked_by) = (None, None, Vec::new());
            let thread = Some(1);
            let of = Session { connection: 7, thread, says, words, statement, age_us, blocked_by, perhaps_blocked_by };
            let sessions = Some(vec![of]);
            watching.answer(Answer { asked_us: at_us, answered_us: at_us + 500, sessions, ..Answer::default() });
            surroundings.told(&mut watching);
            stalls += watching.settled(at_us).len();
        }
        stalls
    }

    #[test]
    fn a_connection_that_this_program_has_for_other_work_is_no_client() {
        let own = OwnConnections::default();
        own.add(8);
        assert_eq!(told(&own), 1);
        own.add(7);
        assert_eq!(told(&own), 0);
    }
}
