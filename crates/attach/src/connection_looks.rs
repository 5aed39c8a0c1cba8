// SPDX-License-Identifier: Apache-2.0
//! Looks at a server's connections, once or for a time.

use crate::{Attached, Server};
use capability::Flavour;
use connections::ServerReading;
use ledger::Missing;
use load::Target;
use observe::connections::{Lost, Pooler};
use std::time::Instant;

/// A server whose connections are looked at.
pub struct ConnectionLooks<'a> {
    server: &'a mut Server,
    pid: Option<u32>,
    seen: ServerReading,
    pooler: Option<Pooler>,
    began: Instant,
    is_silent: bool,
}

impl Attached {
    /// Begins to look at its connections, and looks once. `pooler`: the console of a pgBouncer in front of it. `None`: there is no server.
    ///
    /// # Errors
    /// [`Lost`]: the server does not answer.
    pub fn connections(&mut self, pooler: Option<&Target>) -> Option<Result<ConnectionLooks<'_>, Lost>> {
        let pid = self.pid();
        let server = self.server.as_mut()?;
        Some(ConnectionLooks::begin(server, pid, pooler))
    }
}

impl<'a> ConnectionLooks<'a> {
    fn begin(server: &'a mut Server, pid: Option<u32>, pooler: Option<&Target>) -> Result<Self, Lost> {
        let seen = observe::connections::begin(&mut server.connection, &server.kind)?;
        let mut looks = Self { server, pid, seen, pooler: None, began: Instant::now(), is_silent: false };
        match pooler.map(Pooler::open) {
            Some(Ok(pooler)) => looks.pooler = Some(pooler),
            Some(Err(error)) => looks.pooler_is_missing(&error),
            None => {}
        }
        looks.look()?;
        Ok(looks)
    }

    /// Looks once more.
    ///
    /// # Errors
    /// [`Lost`]: the server does not answer; what was seen before is kept.
    pub fn look(&mut self) -> Result<(), Lost> {
        let at_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        observe::connections::look(&mut self.server.connection, &mut self.seen, at_us)?;
        if let Some(Err(error)) = self.pooler.as_mut().map(Pooler::look) {
            self.keep_pooler();
            self.pooler_is_missing(&error);
        }
        Ok(())
    }

    /// Reads the counters; with `memory` also the private memory of PostgreSQL's backends. They are left out when the server has stopped answering meanwhile.
    pub fn end(mut self, memory: bool) -> ServerReading {
        if self.is_silent {
            self.missing("the server's counters", "the server stopped answering before they were read".into(), None);
        } else if let Err(error) = observe::connections::end(&mut self.server.connection, &mut self.seen) {
            self.missing("the server's counters", error.to_string(), None);
        }
        self.keep_pooler();
        match (memory && self.seen.flavour == Flavour::Postgresql, self.pid) {
            (true, Some(pid)) => observe::connections::backends(pid, &mut self.seen),
            (true, None) => {
                let why = "the server's processes are not on this host, or not to be found".to_owned();
                self.missing("memory of backends", why, Some("run it on the server's host, over its socket"));
            }
            (false, _) => {}
        }
        self.seen
    }

    /// Notes that the server stopped answering: it is not asked any more.
    pub fn fell_silent(&mut self, error: &Lost) {
        self.is_silent = true;
        self.missing("later looks", host::chain(&**error), None);
    }

    fn keep_pooler(&mut self) {
        if let Some(pooler) = self.pooler.take() {
            self.seen.pooler = Some(pooler.seen().clone());
        }
    }

    fn pooler_is_missing(&mut self, error: &load::Error) {
        self.missing("pgBouncer", host::chain(error), Some("an account of its admin_users or stats_users"));
    }

    fn missing(&mut self, what: &str, why: String, remedy: Option<&str>) {
        self.seen.missing.push(Missing { what: what.into(), why, remedy: remedy.map(str::to_owned) });
    }
}
