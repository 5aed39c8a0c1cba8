// SPDX-License-Identifier: Apache-2.0
//! The result of a look at the processes: those found, and those at which the look was refused. A process that was not seen never counts as absent.

use super::identity::{Identity, Stat};
use super::proc_files::pids;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;
use units::counted;

/// The pause before the second look at processes that refused the first.
pub(super) const MOMENT: Duration = Duration::from_millis(10);

/// The processes that a look has found, and those that it could not examine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    pub found: Vec<Identity>,
    pub unseen: Unseen,
}

/// The processes that a look could not examine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unseen {
    /// Processes of our own user outside of the user namespace that we are in: the kernel does not let us look into them.
    pub own: usize,
    /// Processes of other users; also own processes that the kernel protects (set-user-id programs, PR_SET_DUMPABLE), or that have more rights
    /// than we have (the first process of a machine).
    pub others: usize,
    /// Why there may be processes that are not even listed.
    pub unlisted: Option<Unlisted>,
}

/// Why `/proc` does not list all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unlisted {
    /// `/proc` is not mounted, or cannot be read.
    NoProc,
    /// `/proc` shows another pid namespace than ours: its pids are not valid for signals.
    OtherProc,
    /// Mounted with `hidepid`: processes of other users are left out.
    Hidden,
    /// We are in a pid namespace of our own, as in a container: processes outside are left out.
    Outside,
}

/// The answer of one process to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Wanted,
    Other,
    /// The kernel refuses to answer.
    Refused,
}

impl Look {
    /// A process that has ended meanwhile counts as `Other`.
    pub(super) fn of(answer: io::Result<bool>) -> Self {
        match answer {
            Ok(true) => Self::Wanted,
            Ok(false) => Self::Other,
            Err(error) => Self::refusal(&error),
        }
    }

    pub(super) fn refusal(error: &io::Error) -> Self {
        let is_gone = error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH);
        if is_gone { Self::Other } else { Self::Refused }
    }

    /// The process is wanted if one of two questions says so, and unknown if one of them could not be asked.
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Wanted, _) | (_, Self::Wanted) => Self::Wanted,
            (Self::Refused, _) | (_, Self::Refused) => Self::Refused,
            (Self::Other, Self::Other) => Self::Other,
        }
    }
}

impl Sight {
    /// One pass over all processes.
    pub(super) fn of(look: impl Fn(u32) -> Look) -> Self {
        let mut sight = Self { unseen: Unseen { unlisted: Unlisted::now(), ..Unseen::default() }, ..Self::default() };
        let mut refused = Vec::new();
        for pid in pids() {
            match look(pid) {
                Look::Wanted => sight.found.extend(Identity::of(pid)),
                Look::Other => {}
                Look::Refused => refused.push(pid),
            }
        }
        // a process that ends, or executes another program, refuses the look for a moment
        if !refused.is_empty() {
            std::thread::sleep(MOMENT);
        }
        for pid in refused {
            match look(pid) {
                Look::Wanted => sight.found.extend(Identity::of(pid)),
                Look::Other => {}
                Look::Refused => sight.unseen.add(pid),
            }
        }
        sight
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }
}

impl Unseen {
    /// A process that the kernel does not let us look into.
    pub(super) fn add(&mut self, pid: u32) {
        // a kernel thread has no files, nor has a process that has ended meanwhile
        if Identity::of(pid).is_none() || Stat::read(pid).is_none_or(|stat| stat.is_kernel_thread()) {
            return;
        }
        // `/proc/PID` of an ordinary process belongs to its user, that of a protected one to root.
        let own = rustix::process::geteuid().as_raw();
        match fs::metadata(format!("/proc/{pid}")) {
            Ok(entry) if entry.uid() == own && is_in_user_namespace() => self.own += 1,
            _ => self.others += 1,
        }
    }

    /// Whether a process of this user may be among the unseen. Unseen processes of other users alone are no reason to refuse: an ordinary user can
    /// never examine them.
    pub fn may_hide_ours(&self) -> bool {
        self.own > 0 || matches!(self.unlisted, Some(Unlisted::NoProc | Unlisted::OtherProc))
    }

    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// `12 processes of other users could not be looked into`.
impl fmt::Display for Unseen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outside = |count| format!("{} of this user, outside of this user namespace,", counted(count, "process"));
        let own = (self.own > 0).then(|| outside(self.own as u64));
        let others = (self.others > 0).then(|| format!("{} of others", counted(self.others as u64, "process")));
        let counts: Vec<String> = own.into_iter().chain(others).collect();
        let counted = (!counts.is_empty()).then(|| format!("{} could not be looked into", counts.join(" and ")));
        let unlisted = self.unlisted.map(|why| why.to_string());
        let words: Vec<String> = counted.into_iter().chain(unlisted).collect();
        if words.is_empty() {
            formatter.write_str("all processes were looked into")
        } else {
            formatter.write_str(&words.join("; "))
        }
    }
}

impl fmt::Display for Unlisted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoProc => "no process can be seen: /proc is not mounted, or cannot be read",
            Self::OtherProc => "no process can be told: /proc shows another pid namespace than the one we are in",
            Self::Hidden => "/proc is mounted with hidepid, and does not list processes of other users",
            Self::Outside => "processes outside of this pid namespace cannot be seen",
        })
    }
}

/// The first pid namespace of a machine: PROC_PID_INIT_INO, include/linux/proc_ns.h.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// The first user namespace: PROC_USER_INIT_INO, in the same file.
const FIRST_USER_NAMESPACE: &str = "user:[4026531837]";

fn is_in_user_namespace() -> bool {
    fs::read_link("/proc/self/ns/user").is_ok_and(|it| it != Path::new(FIRST_USER_NAMESPACE))
}

impl Unlisted {
    /// `None`: all processes of the machine are listed.
    pub fn now() -> Option<Self> {
        let own = fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse::<u32>().ok());
        match own {
            None => return Some(Self::NoProc),
            Some(pid) if pid != std::process::id() => return Some(Self::OtherProc),
            Some(_) => {}
        }
        if hides_others() {
            return Some(Self::Hidden);
        }
        let namespace = fs::read_link("/proc/self/ns/pid").ok();
        namespace.is_some_and(|it| it != Path::new(FIRST_PID_NAMESPACE)).then_some(Self::Outside)
    }
}

/// Whether `/proc` leaves out processes of other users: pid 1 always exists, and always belongs to root. A user who sees it sees all.
fn hides_others() -> bool {
    !Path::new("/proc/1/stat").exists()
}
