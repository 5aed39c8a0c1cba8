// SPDX-License-Identifier: Apache-2.0
//! Long-lived children of a run: how they are prepared before exec, how they are found again, how they are stopped.
//!
//! Every child inherits the run's *token*: an open file description of `<run folder>/token`. `/proc/*/fd` therefore shows
//! every process of a run, also one whose starter died before it could write the pid down, and also the children of a server.
//! The variable `WRINGER_RUN` is a second mark (a server may overwrite its environment, PostgreSQL does).
//!
//! A child has one of two shapes. A *direct* child is our own program in another role. A *launched* child is a server below
//! `wringer internal launch`, which stays its parent. A pid alone never proves an identity: [`Identity`] carries the start time, and signals go
//! through a pidfd.

mod bond;
mod census;
mod dead_layer;
mod descriptors;
mod family;
mod fork;
mod found_processes;
mod identity;
mod inactivity;
mod launch;
mod namespaces;
mod order;
mod orphans;
mod preparation;
mod proc_files;
mod scan;
mod server;
mod spawn;
mod standstill;
mod stop;
mod survey;

pub use bond::end_with_caller;
pub use census::{Census, Mark, is_fork_of_caller};
pub use descriptors::without_descriptors;
pub use family::{family, is_of_another_run};
pub use fork::{Forked, fork};
pub use found_processes::{Sight, Unlisted, Unseen};
pub use identity::{Identity, Process, ThreadLook};
pub use launch::{LaunchSettings, Launched, block_stop_signals, launch};
pub use namespaces::{Namespaces, numbers_in_namespaces};
pub use order::{Order, order, report_not_ready, report_ready};
pub use orphans::Orphans;
pub(crate) use proc_files::look_at;
pub use proc_files::{links, pids};
pub(crate) use scan::look_into;
pub use scan::{
    carries_mark, children_of, descendants, holders_of, is_helper, mapped_by, oldest_below, open_below, open_device,
    with_mark,
};
pub use server::{Server, server_program, servers};
pub use spawn::{Ended, Marks, Spawned, spawn, spawn_supervisor};
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
/// The number of the descriptor whose end of file means that all processes that could release this child are dead.
pub const LIFELINE_VARIABLE: &str = "WRINGER_LIFELINE_FD";
/// The path of the program to execute instead of `/proc/self/exe`: for tests, where our own program is the test.
pub const PROGRAM_VARIABLE: &str = "WRINGER_PROGRAM";

/// The program to start, and how to start it. `ChildSpec::default()` is our own program without arguments.
#[derive(Debug, Clone)]
pub struct ChildSpec {
    pub program: PathBuf,
    pub args: Vec<OsString>,
    /// Added to the inherited environment.
    pub env: Vec<(OsString, OsString)>,
    /// Variables of the inherited environment that the child does not get. Only with `launcher`.
    pub without_env: Vec<OsString>,
    pub cwd: Option<PathBuf>,
    /// For a command that the user works with: standard input, output and error, the session and the process group stay the caller's. Its launcher
    /// does not act on signals: the terminal sends its signals to the command directly, and the controller passes other signals on.
    ///
    /// Processes that the command leaves running when it ends become children of the launcher, whatever files they have closed, whatever environment
    /// they have cleared, and whatever program they execute by then. They are ended: [`Spawned::await_orphans`].
    pub foreground: bool,
    /// With `foreground`: processes that the command leaves running live on. The command gets no mark of the run, and `affinity` holds only while the
    /// command itself runs.
    pub leave: bool,
    /// No transparent huge pages for the child and for the processes that it starts (prctl(2), PR_SET_THP_DISABLE).
    pub without_thp: bool,
    /// The CPUs on which the child and the processes that it starts may run (sched_setaffinity(2)). `None`: as inherited.
    pub affinity: Option<Vec<u32>>,
    /// The file to which standard output is appended, mode 0600. `None`: a log in the run's folder.
    pub stdout: Option<PathBuf>,
    /// The same for standard error; if both have the same path, the file is opened once.
    pub stderr: Option<PathBuf>,
    /// (uid, gid) to become; supplementary groups are dropped. Needs root.
    pub identity: Option<(u32, u32)>,
    /// Enter the mount namespace (and user namespace, when it is another) of this process. Only with `launcher`.
    pub namespaces_of: Option<u32>,
    /// Descriptors to inherit under the same numbers, also by the program that a launcher starts.
    pub inherit: Vec<Arc<OwnedFd>>,
    /// Folders of the cgroups to join before exec.
    pub cgroups: Vec<PathBuf>,
    /// -1000 to 1000, `/proc/self/oom_score_adj`; lowering needs root.
    pub oom_score_adj: Option<i32>,
    /// The signal that asks for a clean end: SIGTERM; for PostgreSQL SIGINT, its fast shutdown.
    pub stop_signal: i32,
    /// Time between that signal and SIGKILL.
    pub grace: Duration,
    /// Start through `wringer internal launch`: for servers. `Child::pid` is then the server's.
    pub launcher: bool,
    /// Files that the child leaves behind when it is killed; its launcher removes them when the child has ended.
    pub leftovers: Option<Leftovers>,
    /// The order that our own program in a role reads from its standard input: [`ChildSpec::internal`].
    pub order: Option<String>,
    /// The child writes one line of JSON to `WRINGER_READY_FD`, which `spawn` waits for. Implied by `launcher`.
    pub ready: bool,
    /// How long to wait for that line.
    pub ready_timeout: Duration,
    /// Give the child the lifeline. `false` for a server that outlives the command that started it.
    pub lifeline: bool,
}

/// Files of one folder, by the beginning of their names.
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

    /// A program that is not ours.
    pub fn program<A: Into<OsString>>(program: impl Into<PathBuf>, args: impl IntoIterator<Item = A>) -> Self {
        Self { program: program.into(), args: args.into_iter().map(Into::into).collect(), ..Self::default() }
    }
}

/// Our own program file: a child in another role executes it.
pub fn own_program() -> PathBuf {
    std::env::var_os(PROGRAM_VARIABLE)
        .map(PathBuf::from)
        .or_else(|| std::env::current_exe().ok())
        .unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}

/// For a child: the descriptor that `variable` names. The caller owns it now, and it is closed on exec. `None` when this process was not given one.
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

/// For a child: the lifeline. Its end of file (`poll` reports POLLHUP, `read` returns 0) means that controller and watchdog are dead: the child must
/// release what it holds.
pub fn lifeline() -> Option<OwnedFd> {
    inherited_descriptor(LIFELINE_VARIABLE)
}
