// SPDX-License-Identifier: Apache-2.0
//! Standing squeezes: a daemon that is the controller of a run, for a stated time.
//!
//! The command calls [`start`], which executes `wringer internal supervise` in a session of its own and waits until the daemon reports that it is
//! ready. The daemon calls [`daemon`] with a closure that applies the squeezes; it releases the run when the time is over, on SIGTERM or SIGINT, or
//! when a holder, slow layer or server dies.

use crate::folder;
use crate::watchdog::last_words;
use crate::{Begin, Error, FoundRun, Released, Run, Step, StepState, find_runs};
use host::clock::{boot_time, rfc3339, unix_seconds};
use host::places::Places;
use host::process::{ChildSpec, Identity, Order, Process, Spawned, report_not_ready, report_ready, spawn_supervisor};
use host::{chain, interrupt};
use journal::{CRASH_VARIABLE, Role, RunId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::Signal;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// For tests: the value of [`CRASH_VARIABLE`] for the supervisor.
pub const CRASH_SUPERVISOR_VARIABLE: &str = "WRINGER_CRASH_SUPERVISOR";

/// Why a standing run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    TimeOver,
    /// SIGTERM or SIGINT.
    Asked,
    /// A holder, a slow layer, a server or the watchdog died by itself.
    ChildDied(Role),
}

/// The report of a supervisor; `T` is the return value of its closure, for the command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said<T> {
    /// `until`: a time in the form of [`host::clock::rfc3339`].
    Applied { run: RunId, until: String, told: T },
    /// There is an obstacle; any other problem is a failure.
    Refused { what: String, hint: Option<String> },
    /// The run has failed, and could not be released.
    NotRestored { run: RunId, failure: String },
}

/// A daemon that has applied all squeezes and keeps them in force.
#[derive(Debug)]
pub struct Standing<T> {
    pub run: RunId,
    /// The pid of the daemon.
    pub pid: u32,
    /// The time at which it ends by itself, by the clock as it was set when the daemon began.
    pub until: String,
    pub told: T,
}

/// Starts the daemon and waits until it has applied everything.
///
/// # Errors
/// The daemon's reason for not applying; its run is released then. [`Error::Refused`]: there was an obstacle. [`Error::NotRestored`]: it is not released, or not seen to
/// be.
pub fn start<O: Order<Ready = Said<T>>, T: DeserializeOwned>(
    places: &Places,
    order: &O,
    ready_timeout: Duration,
) -> Result<Standing<T>, Error> {
    folder::make(places)?;
    let mut spec = ChildSpec { ready: true, ready_timeout, ..ChildSpec::internal(order)? };
    spec.env.extend(std::env::var_os(CRASH_SUPERVISOR_VARIABLE).map(|point| (CRASH_VARIABLE.into(), point)));
    let mut spawned = spawn_supervisor(&places.journal.join("supervisor.log"), &spec)?;
    let said = match spawned.await_ready(ready_timeout) {
        Ok(said) => said.unwrap_or_default(),
        Err(error) => return Err(end(places, &mut spawned, error.into())),
    };
    let said = serde_json::from_value(said).map_err(|error| host::Error::call("understand the supervisor", error))?;
    match said {
        Said::Applied { run, until, told } => Ok(Standing { run, pid: spawned.identity().pid, until, told }),
        Said::Refused { what, hint } => Err(Error::Refused { what, hint }),
        Said::NotRestored { run, failure } => Err(Error::NotRestored { id: run, failures: vec![failure] }),
    }
}

/// The exit code of a supervisor, as of each command, that has not restored the host.
const NOT_RESTORED: i32 = 5;
/// How long a supervisor may take to undo what it has applied so far.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
/// How long the watchdog of a supervisor that was killed may take for the same.
const UNDONE_WITHIN: Duration = Duration::from_secs(30);

/// Ends a daemon for which nobody waits any more: it undoes what it has applied so far. Returns `error`; or, where something is not undone, that.
fn end(places: &Places, supervisor: &mut Spawned, error: Error) -> Error {
    let identity = supervisor.identity();
    if let Some(process) = Process::open(identity) {
        let _ = process.signal(Signal::TERM);
    }
    let ended = supervisor.await_end(ENDS_WITHIN);
    let not_restored = |id: RunId, why: String| Error::NotRestored { id, failures: vec![why] };
    let applied = match ended.said.and_then(|said| serde_json::from_value::<Said<IgnoredAny>>(said).ok()) {
        Some(Said::NotRestored { run, failure }) => return not_restored(run, failure),
        Some(Said::Refused { what, hint }) if !error.is_interrupted() => return Error::Refused { what, hint },
        Some(Said::Applied { run, .. }) => Some(run),
        _ => None,
    };
    let left = || find_runs(places).ok()?.into_iter().find(|it| it.controller == Some(identity) && (it.live || it.hot));
    let pid = identity.pid;
    match ended.status.map(|status| status.code()) {
        Some(Some(NOT_RESTORED)) => match applied.or_else(|| left().map(|run| run.id)) {
            Some(run) => not_restored(run, format!("its supervisor, process {pid}, says so in its log")),
            None => error,
        },
        Some(Some(_)) => error,
        Some(None) => match left() {
            Some(run) => undone_by_watchdog(places, &run.id, &left).unwrap_or(error),
            None => error,
        },
        None => {
            let why = format!("its supervisor, process {pid}, has not ended yet");
            left().map_or(error, |run| not_restored(run.id, why))
        }
    }
}

/// Waits for the watchdog of a supervisor that was killed, unless that is dead, too. `None`: it has restored everything.
fn undone_by_watchdog(places: &Places, id: &RunId, left: &dyn Fn() -> Option<FoundRun>) -> Option<Error> {
    let began = boot_time();
    let is_over = || boot_time() >= began + UNDONE_WITHIN || interrupt::impatient();
    while left().is_some_and(|run| is_watched(&run)) && !is_over() {
        std::thread::sleep(Duration::from_millis(200));
    }
    let why = match left() {
        Some(run) if is_watched(&run) => "its supervisor was killed, and its watchdog has not undone it yet".to_owned(),
        Some(_) => "its supervisor was killed, and its watchdog is gone, too".to_owned(),
        // a value that somebody else had set meanwhile
        None => {
            let said = last_words(places, (boot_time() - began).as_secs() + UNDONE_WITHIN.as_secs());
            said.into_iter().find(|line| line.contains(id.as_str()) && line.contains(", repair: "))?
        }
    };
    Some(Error::NotRestored { id: id.clone(), failures: vec![why] })
}

/// Whether somebody undoes the run, or will: who undoes it holds its lock.
fn is_watched(run: &FoundRun) -> bool {
    let is_watchdog = |step: &&StepState| matches!(step.change, Step::Process { role: Role::Watchdog, .. });
    run.live || run.steps.iter().filter(is_watchdog).any(|step| step.processes.iter().any(Identity::is_alive))
}

fn refused<T>(error: &Error) -> Said<T> {
    let hint = if let Error::Refused { hint, .. } = error { hint.clone() } else { None };
    Said::Refused { what: chain(error), hint }
}

/// The daemon: begins the run, applies, reports that it is ready, waits for the time `lasts` (on the clock that also counts suspend) or for a reason
/// to end earlier, and releases.
///
/// # Errors
/// The run cannot begin, or `apply` failed (the starter gets a report of both), or the release failed. If `apply` returns an [`Error`] that is an
/// obstacle, the starter gets it as an obstacle, too.
pub fn daemon<O: Order<Ready = Said<T>>, T: Serialize, E>(
    begin: Begin,
    lasts: Duration,
    apply: impl FnOnce(&mut Run) -> Result<T, E>,
) -> Result<(Cause, Released), Error>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let asked = stop_signals()?;
    note_when_asked(&asked)?;
    let mut run = Run::begin(begin).inspect_err(|error| {
        if error.is_in_the_way() { report_ready::<O>(&refused(error)) } else { report_not_ready(&chain(error)) }
    })?;
    match apply(&mut run) {
        Ok(told) => {
            let until = rfc3339(unix_seconds() + lasts.as_secs());
            report_ready::<O>(&Said::Applied { run: run.id().clone(), until, told });
        }
        Err(error) => return Err(give_up::<O, T>(run, error.into().as_ref())),
    }
    let cause = wait(&run, &asked, lasts);
    Ok((cause, run.release()?))
}

/// Releases the run before it reports, so that the starter finds the host restored.
fn give_up<O: Order<Ready = Said<T>>, T>(run: Run, error: &(dyn std::error::Error + 'static)) -> Error {
    let id = run.id().clone();
    let released = run.release();
    let refused = error.downcast_ref::<Error>().filter(|error| error.is_in_the_way());
    if let (Some(refused), true) = (refused, released.as_ref().is_ok_and(|it| it.conflicts.is_empty())) {
        report_ready::<O>(&self::refused(refused));
        return Error::Apply { message: chain(error) };
    }
    // a change that was to be undone already may have met somebody else's value
    let already = error.downcast_ref::<Error>().is_some_and(Error::is_not_restored);
    let mut found = vec![chain(error)];
    match &released {
        Err(not_released) => found.push(chain(not_released)),
        Ok(released) => found.extend(released.conflicts.iter().map(ToString::to_string)),
    }
    let (is_restored, message) = (!already && released.is_ok() && found.len() == 1, found.join("; "));
    if is_restored {
        report_not_ready(&message);
    } else {
        report_ready::<O>(&Said::NotRestored { run: id, failure: message.clone() });
    }
    Error::Apply { message }
}

fn wait(run: &Run, asked: &OwnedFd, lasts: Duration) -> Cause {
    let end = boot_time() + lasts;
    loop {
        let left = end.saturating_sub(boot_time());
        if left.is_zero() {
            return Cause::TimeOver;
        }
        let slice = Timespec::try_from(left.min(Duration::from_millis(500))).ok();
        let mut set = [PollFd::new(asked, PollFlags::IN)];
        if poll(&mut set, slice.as_ref()).is_ok_and(|ready| ready > 0) {
            return Cause::Asked;
        }
        if let Some(role) = [Role::Holder, Role::SlowLayer, Role::Server, Role::Watchdog]
            .into_iter()
            .find(|role| run.dead_child(*role).is_some())
        {
            return Cause::ChildDied(role);
        }
    }
}

/// Notes a request to stop while the run begins and the squeezes are applied. That may take long: a wait for another run, and the probe of a slow disk, end
/// when they see the note.
fn note_when_asked(asked: &OwnedFd) -> Result<(), Error> {
    let asked = asked.try_clone().map_err(|error| host::Error::call("duplicate a descriptor", error))?;
    let wait = move || {
        // an interrupting signal does not end the wait
        while poll(&mut [PollFd::new(&asked, PollFlags::IN)], None).is_err() {}
        interrupt::note();
    };
    let started = std::thread::Builder::new().name("asked".into()).spawn(wait);
    started.map(drop).map_err(|error| host::Error::call("start a thread", error).into())
}

/// Readable once SIGTERM, SIGINT or SIGHUP has come.
fn stop_signals() -> Result<OwnedFd, Error> {
    Ok(host::process::block_stop_signals()?)
}
