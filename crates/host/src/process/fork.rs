// SPDX-License-Identifier: Apache-2.0
//! A copy of this process that does its work: for a process that must be replaced at once, also when no program can be read.

use crate::Error;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, pidfd_send_signal, waitid,
};
use std::io;

/// Ours to wait for. It carries the marks of this process: the run's token, its id.
#[derive(Debug)]
pub struct Forked {
    pid: Pid,
    pidfd: OwnedFd,
}

/// Runs `body` in a child, which ends with what it returns. The caller must have one thread.
///
/// # Errors
/// The kernel cannot make a process.
pub fn fork(body: impl FnOnce() -> i32) -> Result<Forked, Error> {
    let failed = |source: io::Error| Error::call("fork", source);
    // SAFETY: one thread, so that no lock of the allocator's is held by another one that the child lacks.
    let pid = match unsafe { libc::fork() } {
        0 => {
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(101);
            // SAFETY: ends the child without what the parent registered for its own end.
            unsafe { libc::_exit(status) }
        }
        pid => Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(|| failed(io::Error::last_os_error()))?,
    };
    // not waited for yet: the pid cannot be another one's
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| failed(errno.into()))?;
    Ok(Forked { pid, pidfd })
}

impl Forked {
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Readable when it has ended, with all its threads.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    pub fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.pidfd, signal);
    }

    pub fn has_ended(&self) -> bool {
        waitid(WaitId::PidFd(self.pidfd()), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)
            .is_ok_and(|status| status.is_some())
    }

    /// How it ended; waits for the end.
    pub fn reap(&self) -> Option<WaitIdStatus> {
        loop {
            match waitid(WaitId::PidFd(self.pidfd()), WaitIdOptions::EXITED) {
                Err(rustix::io::Errno::INTR) => {}
                other => return other.ok().flatten(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_ends_with_what_its_body_returns() {
        let forked = fork(|| 7).expect("forks");
        assert_eq!(forked.reap().expect("ours").exit_status(), Some(7));
        let stopped = fork(|| {
            loop {
                std::thread::park()
            }
        })
        .expect("forks");
        assert!(!stopped.has_ended());
        stopped.signal(Signal::KILL);
        assert_eq!(stopped.reap().expect("ours").terminating_signal(), Some(libc::SIGKILL));
    }
}
