// SPDX-License-Identifier: Apache-2.0
//! The run's one server: where it stands now, and stopping and starting it between stations.

use crate::error::Error;
use crate::hooks::Sinks;
use crate::layer_reader::LayerReader;
use crate::notes::Notes;
use attach::Group;
use host::process::Identity;
use load::Target;
use load::admin::Connection;
use load::engine::Kept;
use observe::memory::InventoryReader;
use observe::server::{self, ServerKind, witness_counters};
use observe::{Observer, Options, OwnConnections, Reopening};
use run::Run;
use sandbox::{End, RunningServer, Sandbox, StartOptions, Taken, status_text};
use slowfs::control::Client;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A server that runs, and its observers.
pub(crate) struct Serving {
    pub running: RunningServer,
    pub kind: ServerKind,
    /// A library in it that tells how many bytes it has asked its malloc for.
    pub asked: Option<asked::Map>,
    /// The connections of an earlier load that stay open.
    pub staying: Option<Kept>,
    observers: Vec<Observer>,
    /// The lab's connections to this server that are no load.
    pub own: OwnConnections,
    /// Opened with the first question, and kept: at the end of a phase the clients may have taken all connections that the server has.
    connection: RefCell<Reopening>,
}

/// What is observed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch {
    pub interval: Duration,
    pub process: bool,
    pub server: bool,
    /// The time from one inventory of the server's memory to the next; `None`: no inventory is taken.
    pub memory: Option<Duration>,
}

impl Serving {
    pub(crate) fn start(
        sandbox: &Sandbox,
        run: &mut Run,
        start: &StartOptions,
        notes: &Notes<'_>,
    ) -> Result<Self, Error> {
        let began = Instant::now();
        let running =
            sandbox.start(run, start).map_err(|error| not_started(sandbox.manifest.filled.as_ref(), error))?;
        // the login of a Percona Server names it as MySQL does
        let kind =
            ServerKind { flavour: sandbox.flavour(), ..ServerKind::of(running.target.protocol, &running.version) };
        let seconds = began.elapsed().as_secs_f64();
        notes.event("sandbox", format!("{} {} is ready after {seconds:.1} s", sandbox.flavour(), running.version))?;
        let own = OwnConnections::default();
        let connection = RefCell::new(Reopening::waiting(running.target.clone()).named_in(&own));
        Ok(Self { running, kind, asked: None, staying: None, observers: Vec::new(), own, connection })
    }

    pub(crate) fn target(&self) -> &Target {
        &self.running.target
    }

    /// Where the load connects: to pgBouncer, where there is one in front of the server.
    pub(crate) fn load_target(&self) -> &Target {
        self.running.pooled.as_ref().unwrap_or(&self.running.target)
    }

    /// Starts the observers of this server: its process, and its counters over a connection of their own.
    pub(crate) fn watch(
        &mut self,
        watch: Watch,
        layer: Option<Client>,
        notes: &Notes<'_>,
        sinks: &dyn Fn() -> Sinks,
    ) -> Result<(), Error> {
        let process = watch.process.then(|| Group::process(self.running.pid, Some(self.kind.flavour)));
        let server = watch.server.then(|| Group::server(self.reopening(), &self.kind));
        let of_layer = |client| Group {
            name: "layer",
            readers: vec![Box::new(LayerReader(client))],
            refused: Vec::new(),
            interval: None,
        };
        let memory = watch.memory.and_then(|interval| self.memory(interval));
        for group in process.into_iter().chain(server).chain(layer.map(of_layer)).chain(memory) {
            for what in group.refused {
                notes.event("observe", what)?;
            }
            let interval = group.interval.unwrap_or(watch.interval);
            let options = Options { name: group.name, interval, ..Options::default() };
            let (readers, tell) = (group.readers, notes.teller());
            self.observers.push(Observer::start_telling(notes.clock, readers, sinks(), options, tell)?);
        }
        Ok(())
    }

    /// A connection for an observer.
    fn reopening(&self) -> Reopening {
        Reopening::new(self.target().clone()).named_in(&self.own)
    }

    /// `None`: the server has ended.
    fn memory(&self, interval: Duration) -> Option<Group> {
        let first = Identity::of(self.running.pid)?;
        let connection = self.reopening();
        let reader = InventoryReader::new(first, Some(self.kind.flavour), interval);
        Some(Group::memory(reader.asking(connection, self.running.version.clone())))
    }

    /// Asks the server over the one connection that is kept for questions. If the kept connection was lost, the question is asked once more, over a new
    /// one.
    pub(crate) fn ask<T, E>(&self, question: impl Fn(&mut Connection) -> Result<T, E>) -> Result<T, Error>
    where
        Error: From<E>,
    {
        let mut connection = self.connection.borrow_mut();
        let is_kept = connection.is_open();
        let mut ask = || connection.ask(|open| question(open).map_err(Error::from), Error::is_of_the_connection);
        match ask() {
            Err(error) if is_kept && error.is_of_the_connection() => ask(),
            answer => answer,
        }
    }

    /// The counters that tell physical reads.
    pub(crate) fn counters(&self) -> Result<BTreeMap<String, u64>, Error> {
        self.ask(|connection| witness_counters(connection, self.kind.flavour))
    }

    pub(crate) fn variables(&self) -> Result<BTreeMap<String, String>, Error> {
        self.ask(|connection| server::variables(connection, self.kind.flavour))
    }

    /// What InnoDB says of its status now. `None`: this server has no InnoDB.
    pub(crate) fn innodb_status(&self) -> Result<Option<String>, Error> {
        self.ask(|connection| server::innodb_status(connection, &self.kind))
    }

    /// Whether the end of the server has caused `error`. It waits for the end of the process only where a connection was broken.
    pub(crate) fn ended_before(&self, error: &Error) -> bool {
        let patience = if error.is_of_the_connection() { Duration::from_secs(5) } else { Duration::ZERO };
        self.running.wait(patience)
    }

    /// The error as the end of the server explains it, with the end of the server's log.
    ///
    /// # Errors
    /// Remaining processes of the server could not be ended, or the recording could not be written.
    pub(crate) fn ended(mut self, error: &Error, run: &mut Run, notes: &Notes<'_>) -> Result<Error, Error> {
        self.stop_observers(notes)?;
        let end = Box::new(self.running.ended(run)?);
        Ok(Error::ServerEnded { why: error.to_string(), end })
    }

    pub(crate) fn stop(mut self, run: &mut Run, notes: &Notes<'_>) -> Result<End, Error> {
        self.stop_observers(notes)?;
        let began = Instant::now();
        let end = self.running.stop(run)?;
        notes.event("sandbox", told(end, began.elapsed()))?;
        Ok(end)
    }

    fn stop_observers(&mut self, notes: &Notes<'_>) -> Result<(), Error> {
        self.connection.get_mut().close();
        self.staying.take();
        self.observers.drain(..).try_for_each(|observer| notes.end_observer(observer))
    }
}

fn told(end: End, took: Duration) -> String {
    let took = format!("{:.1} s", took.as_secs_f64());
    match end {
        End::Clean => format!("the server stopped cleanly in {took}"),
        End::Killed => format!("the server did not stop in {took}, and was killed: the next start recovers its data"),
        End::Failed { status } => {
            let how = status_text(Some(status));
            format!("the server did not stop cleanly: it ended{how} after {took}; the next start recovers its data")
        }
        End::Before { status } => {
            let ended = sandbox::Error::Ended { status, log: Vec::new() };
            format!("{ended}, before it was asked to stop")
        }
    }
}

/// A wrong name or password: MySQL's code, PostgreSQL's.
const DENIED: [&str; 3] = ["1045", "28P01", "28000"];

/// The error of a start. `filled`: the server's data are a clone of kept data, and so is its account.
fn not_started(filled: Option<&Taken>, error: sandbox::Error) -> Error {
    let sandbox::Error::Talk { source, .. } = &error else { return error.into() };
    match filled.filter(|_| source.code().is_some_and(|code| DENIED.contains(&code))) {
        Some(taken) => Error::KeptAccount { key: taken.key.clone(), source: error.into() },
        None => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_while_the_server_stops_is_told_as_one() {
        let told = |status| told(End::Failed { status }, Duration::from_secs(2));
        let rest = "after 2.0 s; the next start recovers its data";
        assert_eq!(told(1), format!("the server did not stop cleanly: it ended with exit code 1 {rest}"));
        assert_eq!(told(139), format!("the server did not stop cleanly: it ended, killed by signal 11 {rest}"));
    }

    #[test]
    fn a_server_that_does_not_take_the_kept_account_names_the_kept_data() {
        let refused = |code: &str| {
            let source = load::Error::Server { code: code.into(), message: "denied".into() };
            sandbox::Error::Talk { name: "s".into(), source }
        };
        let taken =
            Taken { key: "k1".into(), made: 0, mechanism: "copy".into(), bytes: 0, copied_bytes: 0, elapsed_us: 0 };
        for code in ["1045", "28P01"] {
            let error = not_started(Some(&taken), refused(code));
            assert!(error.to_string().contains("the kept fill k1"), "{error}");
            assert!(matches!(error, Error::KeptAccount { .. }), "{error:?}");
        }
        for error in [not_started(None, refused("1045")), not_started(Some(&taken), refused("3D000"))] {
            assert!(matches!(error, Error::Sandbox(_)), "{error:?}");
        }
    }
}
