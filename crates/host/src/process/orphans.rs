// SPDX-License-Identifier: Apache-2.0
//! Processes that a command leaves running when it ends. Its launcher is a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER): when a process below
//! it loses its parent, the kernel makes the launcher its parent, whatever files or environment the process has by then. So a daemon that
//! forks twice stays below the launcher, and is found there.

use super::family::family;
use super::identity::{Identity, Process};
use super::stop::KILL_TIMEOUT;
use crate::Error;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The time between the signal that asks the processes to end and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
/// The pause between two looks at the processes that are left.
const TICK: Duration = Duration::from_millis(50);
/// How often all threads are visited: a thread that is started meanwhile inherits the CPUs of its starter.
const AFFINITY_PASSES: u32 = 10;

/// What was done with the processes that a command left running.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orphans {
    pub ended: usize,
    /// Processes that were allowed to live on.
    pub left: Vec<Identity>,
    /// Live processes that the caller may not end, or whose CPUs it may not restore: they run as another user.
    pub refused: Vec<Identity>,
}

impl Orphans {
    /// The longest time until the result is known.
    pub const TIMEOUT: Duration = Duration::from_secs(GRACE.as_secs() + KILL_TIMEOUT.as_secs() + 10);
}

/// Makes this process the parent of all orphans below it; it must wait for them.
pub(super) fn adopt() -> Result<Adopted, Error> {
    rustix::process::set_child_subreaper(Pid::from_raw(1)).map_err(|errno| Error::call("become a subreaper", errno))?;
    Ok(Adopted { ended: signals(&[libc::SIGCHLD])? })
}

/// Blocks these signals; the descriptor becomes readable when one of them has come.
pub(super) fn signals(wanted: &[i32]) -> Result<OwnedFd, Error> {
    let set = block(wanted);
    // SAFETY: the set is initialised; signalfd's result is checked.
    unsafe {
        let descriptor = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if descriptor < 0 {
            return Err(Error::call("signalfd", std::io::Error::last_os_error()));
        }
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// Blocks these signals for the calling thread. A process that it starts through [`super::preparation`] has no signal blocked.
pub(super) fn block(wanted: &[i32]) -> libc::sigset_t {
    // SAFETY: the set is initialised by sigemptyset before use.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in wanted {
            libc::sigaddset(&mut set, *signal);
        }
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        set
    }
}

/// Reads and drops the signals that have come so far; returns whether there was one.
fn drain(signals: &OwnedFd) -> bool {
    let mut came = false;
    while rustix::io::read(signals, &mut [0; 128]).is_ok_and(|length| length > 0) {
        came = true;
    }
    came
}

/// The children of a subreaper.
#[derive(Debug)]
pub(super) struct Adopted {
    /// Readable when one of the children has ended.
    ended: OwnedFd,
}

impl Adopted {
    pub(super) fn ended(&self) -> &OwnedFd {
        &self.ended
    }

    /// Waits for the children that have ended, so that no zombie stays. `spared` is left alone, because somebody else waits for it.
    pub(super) fn reap(&self, spared: Option<u32>) {
        drain(&self.ended);
        while let Some(ended) = ended_child().filter(|ended| Some(*ended) != spared) {
            let pid = i32::try_from(ended).ok().and_then(Pid::from_raw);
            let waited = pid.map(|pid| waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOHANG));
            if !matches!(waited, Some(Ok(_))) {
                return;
            }
        }
    }

    /// Ends all processes below us: SIGTERM, the grace, SIGKILL. A signal from `hurry` ends the grace.
    pub(super) fn end(&self, hurry: &OwnedFd) -> Orphans {
        // the signal that ended the command may have reached this process, too
        drain(hurry);
        let (mut asked, mut refused) = (BTreeSet::new(), BTreeSet::new());
        let (mut grace_until, kill_within) = (Instant::now() + GRACE, GRACE + KILL_TIMEOUT);
        let late = Instant::now() + kill_within;
        loop {
            self.reap(None);
            let left: Vec<Identity> = below_us().into_iter().filter(|it| !refused.contains(it)).collect();
            if left.is_empty() || Instant::now() >= late {
                refused.extend(left);
                break;
            }
            let kills = Instant::now() >= grace_until;
            for process in left.into_iter().filter_map(Process::open) {
                let identity = process.identity();
                if !kills && !asked.insert(identity) {
                    continue;
                }
                asked.insert(identity);
                match process.signal(if kills { Signal::KILL } else { Signal::TERM }) {
                    Err(rustix::io::Errno::PERM) => drop(refused.insert(identity)),
                    // a stopped process does not act on a signal
                    _ => drop(process.signal(Signal::CONT)),
                }
            }
            await_either(&self.ended, hurry);
            if drain(hurry) {
                grace_until = Instant::now();
            }
        }
        let refused: Vec<Identity> = refused.into_iter().filter(Identity::is_alive).collect();
        let ended = asked.iter().filter(|process| !process.is_alive()).count();
        Orphans { ended, left: Vec::new(), refused }
    }

    /// Lets all processes below us live on. A thread that still has the CPUs of `affinity` gets the CPUs on which we may run ourselves.
    pub(super) fn let_go(&self, affinity: Option<&CpuSet>) -> Orphans {
        self.reap(None);
        let refused = affinity.map(widen).unwrap_or_default();
        Orphans { ended: 0, left: below_us().into_iter().collect(), refused: refused.into_iter().collect() }
    }
}

/// A child of ours that has ended, and for which nobody has waited yet.
fn ended_child() -> Option<u32> {
    // SAFETY: the kernel fills the structure, which is plain numbers; if no child has ended, its pid stays 0 (waitid(2)).
    let pid = unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        if libc::waitid(libc::P_ALL, 0, &mut info, options) == 0 { info.si_pid() } else { 0 }
    };
    u32::try_from(pid).ok().filter(|pid| *pid != 0)
}

fn below_us() -> BTreeSet<Identity> {
    let own = Identity::own();
    family(own.as_slice()).into_iter().filter(|it| Some(*it) != own).collect()
}

fn await_either(ended: &OwnedFd, hurry: &OwnedFd) {
    let tick = Timespec::try_from(TICK).ok();
    let _ = poll(&mut [ended, hurry].map(|end| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::IN)), tick.as_ref());
}

/// Gives threads with the CPUs `narrow` our own CPUs; returns the processes whose CPUs could not be set.
fn widen(narrow: &CpuSet) -> BTreeSet<Identity> {
    let Ok(own) = sched_getaffinity(None) else { return below_us() };
    let mut refused = BTreeSet::new();
    for _ in 0..AFFINITY_PASSES {
        let narrowed: Vec<(Identity, Pid)> = below_us()
            .into_iter()
            .flat_map(|process| threads_of(process.pid).map(move |thread| (process, thread)))
            .filter(|(process, thread)| {
                !refused.contains(process) && sched_getaffinity(Some(*thread)).is_ok_and(|cpus| cpus == *narrow)
            })
            .collect();
        if narrowed.is_empty() || own == *narrow {
            break;
        }
        for (process, thread) in narrowed {
            if sched_setaffinity(Some(thread), &own) == Err(rustix::io::Errno::PERM) {
                refused.insert(process);
            }
        }
    }
    refused
}

fn threads_of(pid: u32) -> impl Iterator<Item = Pid> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}
