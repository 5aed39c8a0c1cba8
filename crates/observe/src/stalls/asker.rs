// SPDX-License-Identifier: Apache-2.0
//! Asks the server during the sampling, on a thread of its own: a server that stalls must not stall its watcher.

use super::asking::{Asking, Memory, SOME, keep_few_holders};
use super::{account_rights, mysql, postgresql, waits};
use crate::server::Query as _;
use crate::{Error, Reopening, reopening};
use ::stalls::watch::{Answer, Missing};
use capability::Protocol;
use host::clock::{RunClock, thread_cpu_time};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Questions in addition to those that each server is asked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scope {
    /// Ask for wait events, and for the free pages of each instance of the buffer pool.
    pub(super) is_deep: bool,
    /// Whether the server has `innodb_empty_free_list_algorithm`, which may be set while the server runs.
    pub(super) has_algorithm: bool,
}

/// The data to ask for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Question {
    pub(super) sessions: bool,
    pub(super) locks: bool,
    pub(super) counters: bool,
}

#[derive(Debug)]
pub(super) struct Answered {
    /// Each answer with the times between which it was read.
    pub(super) answers: Vec<Answer>,
    /// How long the server took for all answers.
    pub(super) took_us: u64,
    /// Everything that has been found missing so far.
    pub(super) missing: Vec<Missing>,
    pub(super) statements: u64,
    /// The CPU time of this thread so far.
    pub(super) cpu: Duration,
    /// The server's number of this connection.
    pub(super) own: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Asker {
    questions: Sender<Question>,
    answers: Receiver<Answered>,
    /// Whether a question is not answered yet; there is only one question at a time.
    is_asking: bool,
}

impl Asker {
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(
        connection: Reopening,
        protocol: Protocol,
        clock: RunClock,
        scope: Scope,
    ) -> Result<Self, Error> {
        let (questions, asked) = channel();
        let (answer, answers) = channel();
        let work = move || work(connection, protocol, (clock, scope), &asked, &answer);
        let thread = std::thread::Builder::new().name("asker".to_owned()).spawn(work);
        thread.map_err(|source| Error::Thread { source })?;
        Ok(Self { questions, answers, is_asking: false })
    }

    /// `false`: the last question is not answered yet, and the new one is not sent.
    pub(super) fn ask(&mut self, question: Question) -> bool {
        if self.is_asking {
            return false;
        }
        self.is_asking = self.questions.send(question).is_ok();
        self.is_asking
    }

    /// `patience`: how long to wait for an answer that is outstanding.
    pub(super) fn answered(&mut self, patience: Duration) -> Option<Answered> {
        if !self.is_asking {
            return None;
        }
        let answered =
            if patience.is_zero() { self.answers.try_recv().ok() } else { self.answers.recv_timeout(patience).ok() };
        self.is_asking = answered.is_none();
        answered
    }
}

fn work(
    mut connection: Reopening,
    protocol: Protocol,
    (clock, scope): (RunClock, Scope),
    asked: &Receiver<Question>,
    answer: &Sender<Answered>,
) {
    let mut memory = Memory::default();
    let mut own = None;
    let mut are_rights_known = protocol != Protocol::Mysql;
    while let Ok(question) = asked.recv() {
        let asked_us = clock.now_us();
        if own.is_none() {
            connection.renew();
        }
        let mut asking = Asking::new(&mut connection, &mut memory);
        let mut answers = Vec::new();
        own = own.or_else(|| {
            // without the limit it is asked, too
            let _ = asking.ask(limit(protocol));
            own_number(&mut asking, protocol)
        });
        if !are_rights_known {
            are_rights_known = true;
            account_rights::look(&mut asking);
        }
        if question.counters && protocol == Protocol::Mysql {
            let counters = mysql::counters(&mut asking);
            let backoff = scope.has_algorithm.then(|| mysql::backoff(&mut asking)).flatten();
            answers.push(Answer { asked_us, answered_us: clock.now_us(), counters, backoff, ..Answer::default() });
            if scope.is_deep {
                let asked_us = clock.now_us();
                let free_by_instance = mysql::free_by_instance(&mut asking);
                answers.push(Answer { asked_us, answered_us: clock.now_us(), free_by_instance, ..Answer::default() });
            }
        }
        if question.sessions {
            let asked_us = clock.now_us();
            let mut sessions = match protocol {
                Protocol::Mysql => mysql::sessions(&mut asking, question.locks).map(|mut sessions| {
                    if scope.is_deep {
                        waits::add(&mut asking, &mut sessions);
                    }
                    sessions
                }),
                Protocol::Postgresql => postgresql::sessions(&mut asking),
            };
            sessions.iter_mut().for_each(|sessions| keep_few_holders(sessions));
            answers.push(Answer { asked_us, answered_us: clock.now_us(), sessions, ..Answer::default() });
        }
        if let Some(why) = asking.lost.take() {
            own = None;
            asking.missing(SOME, why, None);
        }
        let took_us = clock.now_us().saturating_sub(asked_us);
        let (missing, statements) = (memory.missing.clone(), memory.statements);
        let answered = Answered { answers, took_us, missing, statements, cpu: thread_cpu_time(), own };
        if answer.send(answered).is_err() {
            return;
        }
    }
}

/// The server ends a statement of this session that takes longer than 4 s: nobody waits for its answer after 5 s, and it may hold others up.
fn limit(protocol: Protocol) -> &'static str {
    match protocol {
        // a comment with a version is run by servers from that version on, `M!` by MariaDB alone; MariaDB leaves out those of 5.7
        Protocol::Mysql => {
            "SET @wringer = NULL /*M!100101 , SESSION max_statement_time = 4 */ /*!50708 , SESSION max_execution_time = 4000 */"
        }
        Protocol::Postgresql => "SET statement_timeout = '4s'",
    }
}

/// The server's number of our connection; it changes after each loss of the connection.
fn own_number(asking: &mut Asking<'_>, protocol: Protocol) -> Option<u64> {
    asking.rows("the number of our own connection", reopening::own_number(protocol))?.first()?.number(0)
}
