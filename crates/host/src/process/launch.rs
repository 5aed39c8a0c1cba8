// SPDX-License-Identifier: Apache-2.0
//! The body of `wringer internal launch`: enters a namespace, starts one server, and stays its parent.
//!
//! It ends the server (stop signal, grace, SIGKILL) when a signal asks for that (SIGTERM), or when its lifeline ends because controller and watchdog
//! are dead. When the launcher itself is killed, the kernel sends the server its stop signal.

use super::family::own_tokens;
use super::order::{Answer, ORDER_VARIABLE, Order, write_line};
use super::orphans::{Adopted, adopt, block, signals};
use super::preparation::{Preparation, cpu_set};
use super::stop::{self, StopRequest, stop_unpermitted};
use super::{ChildSpec, Identity, LIFELINE_VARIABLE, Leftovers, Process, READY_VARIABLE, RUN_VARIABLE};
use super::{inherited_descriptor, lifeline};
use crate::{Error, chain, files, namespace};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

/// The part of a [`ChildSpec`] that the launcher applies: the launcher's order.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LaunchSettings {
    pub program: OsString,
    pub args: Vec<OsString>,
    /// Variables for the server only: a library path for the server would make the launcher load other libraries.
    pub env: Vec<(OsString, OsString)>,
    /// Variables of the inherited environment to remove; `env` may set them again.
    pub without_env: Vec<OsString>,
    pub cwd: Option<PathBuf>,
    pub identity: Option<(u32, u32)>,
    pub namespaces_of: Option<u32>,
    pub cgroups: Vec<PathBuf>,
    pub oom_score_adj: Option<i32>,
    pub foreground: bool,
    pub leave: bool,
    pub without_thp: bool,
    pub affinity: Option<Vec<u32>>,
    pub stop_signal: i32,
    pub grace_ms: u64,
    pub leftovers: Option<Leftovers>,
}

/// The server that a launcher has started.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Launched {
    pub pid: u32,
    /// `None`: the server had ended before its start time could be read.
    pub start_time: Option<u64>,
}

impl Order for LaunchSettings {
    const ROLE: &'static str = "launch";
    type Ready = Launched;
}

impl LaunchSettings {
    pub(super) fn of(spec: &ChildSpec) -> Self {
        Self {
            program: spec.program.clone().into(),
            args: spec.args.clone(),
            env: spec.env.clone(),
            without_env: spec.without_env.clone(),
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
            leftovers: spec.leftovers.clone(),
        }
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

/// Runs until the server has ended. Returns the server's exit status, or 128 + n when signal n ended it. Processes that a command in the foreground
/// left running are ended then, or live on, as the settings say.
///
/// # Errors
/// The namespace cannot be entered, or the server cannot be started. The ready pipe reports these errors, too.
pub fn launch(settings: &LaunchSettings) -> Result<i32, Error> {
    let (lifeline, mut ready) = (lifeline(), inherited_descriptor(READY_VARIABLE));
    let stop_signals = block_stop_signals()?;
    let adopted = if settings.foreground { Some(adopt_in_the_foreground()?) } else { None };
    let mut server =
        start(settings).inspect_err(|error| write_line(ready.as_ref(), &Answer::<()>::Error(chain(error))))?;
    // the launcher may outlive its command, and must not keep the command's working directory busy
    let _ = std::env::set_current_dir("/");
    let identity = Identity::of(server.id());
    let launched = Launched { pid: server.id(), start_time: identity.map(|identity| identity.start_time) };
    write_line(ready.as_ref(), &Answer::Ready(launched));
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
    let status = server.wait().map_err(|source| Error::path("wait for", &settings.program, source))?;
    if let Some(Leftovers { folder, beginning }) = &settings.leftovers {
        let _ = files::remove_beginning(folder, beginning); // files that stay do no harm, and are removed with the folder
    }
    if let Some(adopted) = adopted {
        let orphans = if settings.leave {
            adopted.let_go(settings.affinity.as_deref().map(cpu_set).as_ref())
        } else {
            adopted.end(&stop_signals)
        };
        write_line(ready.as_ref(), &orphans);
    }
    Ok(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)))
}

/// In the foreground the launcher is in the process group of its command. The terminal, and timeout(1), send signals to the whole group: they are for the
/// command, and must not end the launcher.
fn adopt_in_the_foreground() -> Result<Adopted, Error> {
    block(&[libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2]);
    adopt()
}

#[allow(clippy::disallowed_methods)] // host starts processes
fn start(settings: &LaunchSettings) -> Result<Child, Error> {
    let preparation = Preparation::of(&settings.child_spec())?.bound_to_us(stop::named(settings.stop_signal));
    if let Some(pid) = settings.namespaces_of {
        namespace::join_private(pid)?;
    }
    let mut command = Command::new(&settings.program);
    command.args(&settings.args);
    settings.without_env.iter().for_each(|name| _ = command.env_remove(name));
    command.envs(settings.env.iter().cloned());
    for ours in [ORDER_VARIABLE, READY_VARIABLE, LIFELINE_VARIABLE] {
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
    command.spawn().map_err(|source| Error::path("start", &settings.program, source))
}

/// Marks descriptors that a command must not inherit.
fn keep_to_ourselves(descriptors: &[i32]) {
    for number in descriptors {
        // SAFETY: the descriptor is open: this process inherited it and keeps it open until its own end.
        let descriptor = unsafe { BorrowedFd::borrow_raw(*number) };
        let _ = rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC);
    }
}

/// The events for which a launcher waits, besides the end of its server.
struct Ends<'a> {
    /// A signal asks for the end.
    stop: Option<&'a OwnedFd>,
    /// Controller and watchdog are dead.
    lifeline: Option<&'a OwnedFd>,
    adopted: Option<&'a Adopted>,
}

/// Returns `true` when the server ended by itself, and `false` when the launcher must end it.
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

/// Blocks SIGTERM, SIGINT and SIGHUP; the descriptor becomes readable when one of them has come. To be called before threads start.
pub fn block_stop_signals() -> Result<OwnedFd, Error> {
    signals(&[libc::SIGTERM, libc::SIGINT, libc::SIGHUP])
}
