// SPDX-License-Identifier: Apache-2.0
//! The body of `wringer internal launch`: enters a namespace, starts one server, and stays its parent.
//!
//! It ends the server (stop signal, grace, SIGKILL) when it is asked to (SIGTERM), or when its lifeline ends because
//! controller and watchdog are dead. The kernel sends the server its stop signal when the launcher itself is killed.

use super::family::own_tokens;
use super::orphans::{Adopted, adopt, signals};
use super::preparation::{Preparation, cpu_set};
use super::stop::{StopRequest, stop_unpermitted};
use super::{
    ChildSpec, Identity, LIFELINE_VARIABLE, Process, READY_VARIABLE, RUN_VARIABLE, SERVER_ENVIRONMENT_VARIABLE,
};
use super::{inherited_descriptor, lifeline, write_report};
use crate::{Error, chain, namespace};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

/// The part of a [`ChildSpec`] that the launcher applies, as its `--settings` argument.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LaunchSettings {
    pub cwd: Option<PathBuf>,
    pub identity: Option<(u32, u32)>,
    pub namespaces_of: Option<u32>,
    pub cgroups: Vec<PathBuf>,
    pub oom_score_adj: Option<i32>,
    pub foreground: bool,
    #[serde(default)]
    pub leave: bool,
    #[serde(default)]
    pub without_thp: bool,
    pub affinity: Option<Vec<u32>>,
    pub stop_signal: i32,
    pub grace_ms: u64,
}

impl LaunchSettings {
    pub(super) fn of(spec: &ChildSpec) -> Self {
        Self {
            cwd: spec.cwd.clone(),
            identity: spec.identity,
            namespaces_of: spec.namespaces_of,
            cgroups: spec.cgroups.clone(),
            oom_score_adj: spec.oom_score_adj,
            foreground: spec.foreground,
            leave: spec.leave,
            without_thp: spec.without_thp,
            affinity: spec.affinity.clone(),
            stop_signal: spec.stop_signal,
            grace_ms: u64::try_from(spec.grace.as_millis()).unwrap_or(u64::MAX),
        }
    }

    pub(super) fn to_argument(&self) -> String {
        serde_json::json!(self).to_string()
    }

    pub fn from_argument(argument: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(argument)
    }

    fn child_spec(&self) -> ChildSpec {
        ChildSpec {
            cgroups: self.cgroups.clone(),
            oom_score_adj: self.oom_score_adj,
            identity: self.identity,
            foreground: self.foreground,
            without_thp: self.without_thp,
            affinity: self.affinity.clone(),
            ..ChildSpec::default()
        }
    }
}

/// Runs until the server has ended; returns its exit status, 128 + n when signal n ended it. The processes that a command in the foreground
/// left running are ended then, or let go.
///
/// # Errors
/// The namespace cannot be entered or the server not started. They are also reported on the ready pipe.
pub fn launch(settings: &LaunchSettings, program: &OsString, args: &[OsString]) -> Result<i32, Error> {
    let (lifeline, mut ready) = (lifeline(), inherited_descriptor(READY_VARIABLE));
    let stop_signals = block_stop_signals()?;
    let adopted = if settings.foreground { Some(adopt()?) } else { None };
    let mut server = start(settings, program, args)
        .inspect_err(|error| write_report(ready.as_ref(), &serde_json::json!({ "error": chain(error) })))?;
    // the launcher may outlive its command, and must not keep that command's folder busy
    let _ = std::env::set_current_dir("/");
    let identity = Identity::of(server.id());
    let started = serde_json::json!({ "pid": server.id(), "start_time": identity.map(|identity| identity.start_time) });
    write_report(ready.as_ref(), &started);
    ready = ready.filter(|_| settings.foreground);
    let ends = Ends {
        stop: Some(&stop_signals).filter(|_| !settings.foreground),
        lifeline: lifeline.as_ref(),
        adopted: adopted.as_ref(),
    };
    if let Some(process) = identity.and_then(Process::open)
        && !await_server(&process, &ends)
    {
        let grace = Duration::from_millis(settings.grace_ms);
        stop_unpermitted(&[process.identity()], StopRequest { signal: settings.stop_signal, grace })?;
    }
    let status = server.wait().map_err(|source| Error::path("wait for", program, source))?;
    if let Some(adopted) = adopted {
        let orphans = if settings.leave {
            adopted.let_go(settings.affinity.as_deref().map(cpu_set).as_ref())
        } else {
            adopted.end(&stop_signals)
        };
        write_report(ready.as_ref(), &serde_json::json!(orphans));
    }
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

/// [`ChildSpec::env`] is for the server only: its library path would make the launcher load other libraries.
pub(super) fn server_environment(spec: &ChildSpec) -> (&'static str, String) {
    (SERVER_ENVIRONMENT_VARIABLE, serde_json::json!(spec.env).to_string())
}

fn given_environment() -> Vec<(OsString, OsString)> {
    let given = std::env::var(SERVER_ENVIRONMENT_VARIABLE).unwrap_or_default();
    serde_json::from_str(&given).unwrap_or_default()
}

#[allow(clippy::disallowed_methods)] // host starts processes
fn start(settings: &LaunchSettings, program: &OsString, args: &[OsString]) -> Result<Child, Error> {
    let preparation = Preparation::of(&settings.child_spec())?.bound_to_us(settings.stop_signal);
    if let Some(pid) = settings.namespaces_of {
        namespace::join_private(pid)?;
    }
    let mut command = Command::new(program);
    command.args(args).envs(given_environment());
    for ours in [SERVER_ENVIRONMENT_VARIABLE, READY_VARIABLE, LIFELINE_VARIABLE] {
        command.env_remove(ours);
    }
    if settings.leave {
        command.env_remove(RUN_VARIABLE);
        keep_to_ourselves(&own_tokens());
    }
    if let Some(folder) = &settings.cwd {
        command.current_dir(folder);
    }
    preparation.install(&mut command);
    command.spawn().map_err(|source| Error::path("start", program, source))
}

/// Descriptors that a command is not to inherit.
fn keep_to_ourselves(descriptors: &[i32]) {
    for number in descriptors {
        // SAFETY: it is open: it was inherited for as long as this process lives.
        let descriptor = unsafe { BorrowedFd::borrow_raw(*number) };
        let _ = rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC);
    }
}

/// What a launcher waits for, besides the end of its server.
struct Ends<'a> {
    /// A signal asks for the end.
    stop: Option<&'a OwnedFd>,
    /// Controller and watchdog are dead.
    lifeline: Option<&'a OwnedFd>,
    adopted: Option<&'a Adopted>,
}

/// `true` when the server ended by itself, `false` when it is to be ended.
fn await_server(server: &Process, ends: &Ends<'_>) -> bool {
    loop {
        let orphans = ends.adopted.map(Adopted::ended);
        let mut set = vec![PollFd::new(server.pidfd(), PollFlags::IN)];
        set.extend([ends.stop, ends.lifeline].into_iter().flatten().map(|end| PollFd::new(end, PollFlags::IN)));
        let decides = set.len();
        set.extend(orphans.map(|end| PollFd::new(end, PollFlags::IN)));
        if poll(&mut set, None).is_err() {
            continue;
        }
        let happened: Vec<bool> = set.iter().map(|entry| !entry.revents().is_empty()).collect();
        if happened[..decides].iter().any(|it| *it) {
            return happened[0];
        }
        ends.adopted.iter().for_each(|adopted| adopted.reap(Some(server.identity().pid)));
    }
}

/// Blocks SIGTERM, SIGINT and SIGHUP; the descriptor is readable once one has come. To be called before threads start.
pub fn block_stop_signals() -> Result<OwnedFd, Error> {
    signals(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
}
