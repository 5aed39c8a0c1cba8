// SPDX-License-Identifier: Apache-2.0
//! One connection of a load: its position in its transaction, and its clocks.

use super::shared::Shared;
use crate::Error;
use crate::protocol::{Code, Discard, Event, Reply};
use crate::transport::{Link, explain};
use std::io;
use workload::{Rng, Transaction};

/// MySQL cannot prepare this kind of statement (`ER_UNSUPPORTED_PS`); it is sent as text then, as in sysbench.
const UNSUPPORTED_PS: &str = "1295";

/// The most reads from a closed connection, in search of the server's reason.
const LAST_READS: usize = 4;

/// A connection that is logged in and has prepared its statements.
pub(super) struct Ready {
    pub(super) link: Link,
    /// For each statement: its number at the server; `None`: it is sent as text.
    handles: Vec<Option<usize>>,
}

impl Ready {
    pub(super) fn open(shared: &Shared<'_>) -> Result<Self, Error> {
        let mut ready = Self { link: Link::open(shared.target)?, handles: vec![None; shared.statements.len()] };
        if shared.spec.prepared {
            ready.prepare(shared)?;
        }
        Ok(ready)
    }

    fn prepare(&mut self, shared: &Shared<'_>) -> Result<(), Error> {
        let link = &mut self.link;
        let mut count = 0;
        for (statement, handle) in shared.spec.workload.statements().iter().zip(&mut self.handles) {
            link.session.prepare(&statement.sql, &mut link.outbox);
            match link.exchange(&mut Discard, "preparing a statement")? {
                Event::Prepared => {
                    *handle = Some(count);
                    count += 1;
                }
                Event::Done(reply) => {
                    let code = reply.error.map_or_else(String::new, |code| code.to_string());
                    if code != UNSUPPORTED_PS {
                        let message = format!("{} (while preparing: {})", link.session.message(), statement.sql);
                        return Err(Error::Server { code, message });
                    }
                }
                _ => return Err(Error::Protocol("an unexpected answer to a prepare".into())),
            }
        }
        Ok(())
    }
}

/// The most draws of values for one transaction, when a drawn row already exists.
pub(super) const DRAWS_MOST: u32 = 10;

/// What follows a failed transaction after its rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    No,
    SameValues,
    NewValues,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    Idle,
    /// A step of the transaction is running.
    Step,
    /// The client waits before the next step of its transaction.
    Pause,
    /// The transaction failed and is being rolled back.
    Rollback {
        retry: Retry,
    },
    /// The connection broke.
    Down,
}

pub(super) struct Client {
    ready: Option<Ready>,
    rng: Rng,
    pub(super) transaction: Transaction,
    pub(super) step: usize,
    /// How often the transaction's values were drawn.
    draws: u32,
    pub(super) activity: Activity,
    /// The transaction's clock.
    pub(super) intended_ns: u64,
    pub(super) started_ns: u64,
    /// The clock of the running statement.
    pub(super) statement_ns: u64,
    /// Transactions completed in this phase, and the sum of their times.
    pub(super) completed: (u64, u64),
}

impl Client {
    pub(super) fn new(ready: Ready, rng: Rng) -> Self {
        Self {
            ready: Some(ready),
            rng,
            transaction: Transaction::default(),
            step: 0,
            draws: 0,
            activity: Activity::Idle,
            intended_ns: 0,
            started_ns: 0,
            statement_ns: 0,
            completed: (0, 0),
        }
    }

    pub(super) fn link(&mut self) -> Option<&mut Link> {
        self.ready.as_mut().map(|ready| &mut ready.link)
    }

    pub(super) fn take_link(&mut self) -> Option<Link> {
        self.ready.take().map(|ready| ready.link)
    }

    pub(super) fn replace(&mut self, ready: Option<Ready>) {
        self.activity = if ready.is_some() { Activity::Idle } else { Activity::Down };
        self.ready = ready;
    }

    pub(super) fn is_busy(&self) -> bool {
        matches!(self.activity, Activity::Step | Activity::Pause | Activity::Rollback { .. })
    }

    /// Draws the next transaction, which starts now.
    #[inline]
    pub(super) fn draw(&mut self, shared: &Shared<'_>, intended_ns: u64, now_ns: u64) {
        self.draws = 0;
        self.draw_values(shared);
        self.intended_ns = intended_ns;
        self.started_ns = now_ns;
    }

    /// For how long its transaction has lasted, from the intended and from the actual start.
    pub(super) fn lasted_ns(&self, now_ns: u64) -> (u64, u64) {
        (now_ns.saturating_sub(self.intended_ns), now_ns.saturating_sub(self.started_ns))
    }

    /// Draws other values for the same intended start.
    pub(super) fn draw_values(&mut self, shared: &Shared<'_>) {
        self.transaction.clear();
        shared.spec.workload.next(&mut self.rng, &mut self.transaction);
        self.step = 0;
        self.draws += 1;
    }

    /// Whether and how the workload repeats the transaction after this error.
    pub(super) fn retry(&self, code: Code) -> Retry {
        match code.is_duplicate_key() {
            false => Retry::SameValues,
            true if self.draws < DRAWS_MOST => Retry::NewValues,
            true => Retry::No,
        }
    }

    #[inline]
    pub(super) fn send_step(&mut self, shared: &Shared<'_>, now_ns: u64) -> io::Result<()> {
        self.activity = Activity::Step;
        self.statement_ns = now_ns;
        let Some(Ready { link, handles }) = &mut self.ready else { return Err(io::ErrorKind::NotConnected.into()) };
        let (statement, params) = self.transaction.get(self.step);
        let texts = self.transaction.texts();
        match handles[statement] {
            Some(index) => link.session.execute(index, params, texts, &mut link.outbox),
            None => {
                let template = &shared.statements[statement].template;
                link.session.query(&mut link.outbox, |out| template.render(params, texts, out));
            }
        }
        link.flush()
    }

    pub(super) fn send_rollback(&mut self, retry: Retry) -> io::Result<()> {
        self.activity = Activity::Rollback { retry };
        let Some(Ready { link, .. }) = &mut self.ready else { return Err(io::ErrorKind::NotConnected.into()) };
        link.session.query(&mut link.outbox, |out| out.extend_from_slice(b"ROLLBACK"));
        link.flush()
    }

    pub(super) fn message(&self) -> &str {
        self.ready.as_ref().map_or("", |ready| ready.link.session.message())
    }

    /// The server's reason for closing the connection, if the server sent one.
    #[cold]
    pub(super) fn last_word(&mut self, shared: &Shared<'_>, scratch: &mut [u8]) -> Option<(Code, String)> {
        let mut heard = self.ready.as_mut()?.link.feed(&[], &mut Discard).ok()?;
        for _ in 0..LAST_READS {
            if let Some(Event::Done(Reply { error: Some(code), hangs_up: true, .. })) = heard {
                return Some((code, self.message().to_owned()));
            }
            heard = self.receive(shared, scratch).ok()?.0;
        }
        None
    }

    /// Reads once. `None`: no answer is complete yet. The flag says that there may be more to read.
    #[inline]
    pub(super) fn receive(&mut self, shared: &Shared<'_>, scratch: &mut [u8]) -> Result<(Option<Event>, bool), Error> {
        let Some(Ready { link, .. }) = &mut self.ready else { return Ok((None, false)) };
        let count = match link.transport.receive(scratch) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok((None, false)),
            Err(source) => return Err(Error::Lost { during: "running a statement", source }),
        };
        let event =
            link.feed(&scratch[..count], &mut Discard).map_err(|broken| explain(broken, &shared.target.endpoint))?;
        // TLS takes the socket's bytes in smaller pieces.
        Ok((event, count == scratch.len() || link.transport.is_encrypted()))
    }
}
