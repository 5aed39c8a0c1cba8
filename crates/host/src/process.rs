// SPDX-License-Identifier: Apache-2.0
//! Long-lived children of a run: what they are given before they exec, how they are found again, how they are stopped.
//!
//! Every child inherits the run's *token*: an open file description of `<run folder>/token`. `/proc/*/fd` therefore shows
//! every process of a run, also one whose starter died before it could write the pid down, and also the children of a server.
//! The variable `WRINGER_RUN` is a second mark (a server may overwrite its environment, PostgreSQL does).
//!
//! A child is one of two shapes: *direct*, our own program in another role, or *launched*, a server below `wringer internal launch`, which stays its
//! parent. A pid alone never proves an identity: [`Identity`] carries the start time, and signals go through a pidfd.

mod census;
mod dead_layer;
mod descriptors;
mod family;
mod fork;
mod identity;
mod launch;
mod namespaces;
mod order;
mod orphans;
mod preparation;
mod proc_files;
mod scan;
mod server;
mod sight;
mod spawn;
mod standstill;
mod stop;
mod survey;

pub use census::{Census, Mark, is_fork_of_caller};
pub use descriptors::without_descriptors;
pub use family::{family, is_of_another_run};
pub use fork::{Forked, fork};
pub use identity::{Identity, Process, ThreadLook};
pub use launch::{LaunchSettings, Launched, block_stop_signals, launch};
pub use namespaces::Namespaces;
pub use order::{Order, order, report_not_ready, report_ready};
pub use orphans::Orphans;
pub(crate) use proc_files::look_at;
pub use proc_files::pids;
pub(crate) use scan::look_into;
pub use scan::{carries_mark, descendants, holders_of, is_helper, mapped_by, open_below, open_device, with_mark};
pub use server::{Server, server_program, servers};
pub use sight::{Sight, Unlisted, Unseen};
pub use spawn::{Marks, Spawned, spawn, spawn_supervisor};
pub use standstill::{Standstill, standstill};
pub use stop::{StopRequest, Stopped, kill_alone, stop, stop_main_thread};
pub use survey::{HeldFile, Marked, run_of};

use crate::Error;
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::fd::{FromRawFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The run id, in every child's environment.
pub const RUN_VARIABLE: &str = "WRINGER_RUN";
/// The number of the descriptor on which a child says, in one line of JSON, that it is ready.
pub const READY_VARIABLE: &str = "WRINGER_READY_FD";
/// The number of the descriptor whose end of file says that everybody who could release this child is dead.
pub const LIFELINE_VARIABLE: &str = "WRINGER_LIFELINE_FD";
/// Names the program to re-execute in place of `/proc/self/exe`: for tests, whose own program is the test.
pub const PROGRAM_VARIABLE: &str = "WRINGER_PROGRAM";

/// What to start, and how. `ChildSpec::default()` is our own program without arguments.
#[derive(Debug, Clone)]
pub struct ChildSpec {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Added to the inherited environment.
    pub env: Vec<(OsString, OsString)>,
    /// Variables of the inherited environment that it does not get. Only with `launcher`.
    pub without_env: Vec<OsString>,
    pub cwd: Option<PathBuf>,
    /// Standard input, output and error, session and process group stay the caller's: for a command that the user works with. Its
    /// launcher leaves signals alone: those of a terminal reach the command by themselves, others the controller passes on.
    ///
    /// What it leaves running when it ends is the launcher's, whatever that has closed, cleared or become, and is ended: [`Spawned::await_orphans`].
    pub foreground: bool,
    /// With `foreground`: what it leaves running lives on. The command is given no mark of the run, and the CPUs of `affinity` only for
    /// as long as it runs itself.
    pub leave: bool,
    /// No transparent huge pages for it and for what it starts (prctl(2), PR_SET_THP_DISABLE).
    pub without_thp: bool,
    /// The CPUs it may run on, and what it starts (sched_setaffinity(2)). `None`: as inherited.
    pub affinity: Option<Vec<u32>>,
    /// Appended to, mode 0600. `None`: a log in the run's folder.
    pub stdout: Option<PathBuf>,
    /// As `stdout`; the same path is opened once.
    pub stderr: Option<PathBuf>,
    /// (uid, gid) to become; supplementary groups are dropped. Needs root.
    pub identity: Option<(u32, u32)>,
    /// Enter the mount namespace (and user namespace, when it is another) of this process. Only with `launcher`.
    pub namespaces_of: Option<u32>,
    /// Inherited under the same number, also by what a launcher starts.
    pub inherit: Vec<Arc<OwnedFd>>,
    /// Folders of the cgroups to join before exec.
    pub cgroups: Vec<PathBuf>,
    /// -1000 to 1000, `/proc/self/oom_score_adj`; lowering needs root.
    pub oom_score_adj: Option<i32>,
    /// The signal that asks for a clean end: SIGTERM; for PostgreSQL SIGINT, its fast shutdown.
    pub stop_signal: i32,
    /// Time between that signal and SIGKILL.
    pub grace: Duration,
    /// Wrap in `wringer internal launch`: for servers. `Child::pid` is then the server's.
    pub launcher: bool,
    /// What it leaves behind where it is killed; its launcher removes that when it has ended.
    pub leftovers: Option<Leftovers>,
    /// What one of ours reads from its standard input: [`ChildSpec::internal`].
    pub order: Option<String>,
    /// The child writes one line of JSON to `WRINGER_READY_FD`, which `spawn` waits for. Implied by `launcher`.
    pub ready: bool,
    /// How long to wait for that line.
    pub ready_timeout: Duration,
    /// Give the child the lifeline. `false` for a server that outlives the command that started it.
    pub lifeline: bool,
}

/// Files of one folder, by how their names begin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Leftovers {
    pub folder: PathBuf,
    pub beginning: String,
}

impl Default for ChildSpec {
    fn default() -> Self {
        Self {
            program: own_program(),
            args: Vec::new(),
            env: Vec::new(),
            without_env: Vec::new(),
            cwd: None,
            foreground: false,
            leave: false,
            without_thp: false,
            affinity: None,
            stdout: None,
            stderr: None,
            identity: None,
            namespaces_of: None,
            inherit: Vec::new(),
            cgroups: Vec::new(),
            oom_score_adj: None,
            stop_signal: libc::SIGTERM,
            grace: Duration::from_secs(10),
            launcher: false,
            leftovers: None,
            order: None,
            ready: false,
            ready_timeout: Duration::from_secs(30),
            lifeline: true,
        }
    }
}

impl ChildSpec {
    /// `wringer internal ROLE`, with this order.
    ///
    /// # Errors
    /// A path in the order is not UTF-8.
    pub fn internal<O: Order>(order: &O) -> Result<Self, Error> {
        let args = ["internal", O::ROLE].map(OsString::from).to_vec();
        Ok(Self { args, order: Some(order::written(order)?), ..Self::default() })
    }

    /// Somebody else's program.
    pub fn program<A: Into<OsString>>(program: impl Into<PathBuf>, args: impl IntoIterator<Item = A>) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

/// Our own program file: what a child in another role executes.
pub fn own_program() -> PathBuf {
    std::env::var_os(PROGRAM_VARIABLE)
        .map(PathBuf::from)
        .or_else(|| std::env::current_exe().ok())
        .unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}

/// For a child: the descriptor that `variable` names, now ours, closed on exec. `None` when we were not given one.
/// To be called once for each variable.
pub fn inherited_descriptor(variable: &str) -> Option<OwnedFd> {
    let number: RawFd = std::env::var(variable).ok()?.parse().ok()?;
    // SAFETY: F_GETFD has no effect but its result, and fails for a number that is not an open descriptor.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if number <= 2 || flags < 0 {
        return None;
    }
    // SAFETY: the descriptor is open (checked above), and was inherited for this one use.
    let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
    rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::CLOEXEC).ok()?;
    Some(descriptor)
}

/// For a child: the lifeline. Its end of file (`poll` reports POLLHUP, `read` returns 0) means: controller and watchdog are
/// dead, give back what you hold.
pub fn lifeline() -> Option<OwnedFd> {
    inherited_descriptor(LIFELINE_VARIABLE)
}
