// SPDX-License-Identifier: Apache-2.0
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A process, distinguished from a later process with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Identity {
    pub pid: u32,
    /// Clock ticks since boot: field 22 of `/proc/PID/stat` (proc_pid_stat(5)).
    pub start_time: u64,
}

impl Identity {
    /// `None` when there is no such process, or it is a zombie: it is dead, and only waits for its parent.
    pub fn of(pid: u32) -> Option<Self> {
        Stat::read(pid)?.identity_of(pid)
    }

    pub fn own() -> Option<Self> {
        Self::of(std::process::id())
    }

    /// The time since the process was started; suspend counts, and nobody can set that clock.
    pub fn age(&self) -> Duration {
        crate::clock::boot_time().saturating_sub(time_of(self.start_time))
    }

    pub fn is_alive(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    /// Whether the kernel shows us its open files. In a user namespace it does not show those of a process outside of that namespace.
    pub fn may_be_looked_into(&self) -> bool {
        fs::read_dir(format!("/proc/{}/fd", self.pid)).is_ok()
    }
}

/// A live process that we can wait for and signal without hitting a later owner of its pid.
#[derive(Debug)]
pub struct Process {
    identity: Identity,
    pidfd: OwnedFd,
}

impl Process {
    /// `None` when that process is gone. The start time is compared after the pidfd is open, so that a reused pid is noticed.
    pub fn open(identity: Identity) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(identity.pid).ok()?)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        identity.is_alive().then_some(Self { identity, pidfd })
    }

    /// For a child that the caller has not waited for yet: its pid cannot be reused, and the child may have ended already.
    pub(super) fn of_child(pid: u32) -> Option<Self> {
        let identity = Identity { pid, start_time: Stat::read(pid)?.start_time };
        let pidfd = pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()?;
        Some(Self { identity, pidfd })
    }

    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// `false` also for a zombie.
    pub fn is_alive(&self) -> bool {
        !self.wait(Duration::ZERO)
    }

    /// Returns whether the process ended within `timeout`. Any process may wait, not just the parent (pidfd_open(2)).
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut set = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let timeout = Timespec::try_from(timeout).ok();
        poll(&mut set, timeout.as_ref()).is_ok_and(|ready| ready > 0)
    }

    /// An error means that the process is gone, or that we may not signal it.
    pub fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        pidfd_send_signal(&self.pidfd, signal)
    }

    pub fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }
}

/// Clock ticks of the kernel as a time.
pub(super) fn time_of(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second().max(1))
}

/// The needed fields of `/proc/PID/stat`.
pub(super) struct Stat {
    pub(super) state: u8,
    pub(super) parent: u32,
    flags: u32,
    /// User and system time so far.
    pub(super) cpu_ticks: u64,
    pub(super) start_time: u64,
}

/// The flag from include/linux/sched.h.
const PF_KTHREAD: u32 = 0x0020_0000;

impl Stat {
    pub(super) fn is_kernel_thread(&self) -> bool {
        self.flags & PF_KTHREAD != 0
    }

    /// `None`: see [`Identity::of`].
    pub(super) fn identity_of(&self, pid: u32) -> Option<Identity> {
        (self.state != b'Z' && self.state != b'X').then_some(Identity { pid, start_time: self.start_time })
    }

    pub(super) fn read(pid: u32) -> Option<Self> {
        Self::at(Path::new(&format!("/proc/{pid}")))
    }

    /// Of each thread of this process; none when it is gone.
    pub(super) fn of_threads(pid: u32) -> impl Iterator<Item = Self> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        threads.filter_map(|thread| Self::at(&thread.path()))
    }

    /// Reads the state of a process or a thread from its folder below `/proc`.
    pub(super) fn at(folder: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(folder.join("stat")).ok()?)
    }

    /// The name (field 2) may hold spaces and parentheses: fields count from the last `)`.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.get(text.rfind(')')? + 2..)?.split(' ').collect();
        Some(Self {
            state: *fields.first()?.as_bytes().first()?,
            parent: fields.get(1)?.parse().ok()?,
            flags: fields.get(6)?.parse().ok()?,
            cpu_ticks: fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?,
            start_time: fields.get(19)?.parse().ok()?,
        })
    }
}

/// The state of one of our own threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadLook {
    /// The letter as in `/proc/PID/stat`: `D` is an uninterruptible wait.
    pub state: u8,
    /// User and system time so far.
    pub cpu_ticks: u64,
}

impl ThreadLook {
    /// `None` when there is no such thread.
    pub fn at(tid: Pid) -> Option<Self> {
        let Stat { state, cpu_ticks, .. } = Stat::at(Path::new(&format!("/proc/self/task/{}", tid.as_raw_nonzero())))?;
        Some(Self { state, cpu_ticks })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_with_a_name_that_looks_like_fields() {
        let stat = Stat::parse("7 (a) Z (b) S 1 7 7 0 -1 4194560 1 0 0 0 30 4 0 0 20 0 1 0 4711 0 0").expect("parses");
        assert_eq!((stat.state, stat.parent, stat.cpu_ticks, stat.start_time), (b'S', 1, 34, 4711));
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let own = Identity::own().expect("we run");
        assert!(own.is_alive());
        let earlier = Identity { start_time: own.start_time - 1, ..own };
        assert!(!earlier.is_alive());
        assert!(Process::open(earlier).is_none());
    }
}
