// SPDX-License-Identifier: Apache-2.0
//! A copy of this process that does its work: for a process that must be replaced at once, also when no program can be read.

use crate::Error;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, pidfd_send_signal, waitid,
};
use std::io;

/// The caller waits for it. It carries the marks of this process: the run's token, its id.
#[derive(Debug)]
pub struct Forked {
    pid: Pid,
    pidfd: OwnedFd,
}

/// Runs `body` in a child, which ends with what it returns.
///
/// # Errors
/// This process has more than one thread: the child has the calling one alone, and could wait for ever for a lock that another one
/// held, the allocator's above all (fork(2)). Or the kernel cannot make a process.
pub fn fork(body: impl FnOnce() -> i32) -> Result<Forked, Error> {
    let failed = |source: io::Error| Error::call("fork", source);
    let threads = threads()?;
    if threads != 1 {
        return Err(failed(io::Error::other(format!(
            "this process has {threads} threads, and the copy would have one"
        ))));
    }
    // SAFETY: this thread is the only one, as was just seen, and nobody but itself could start another one: so nobody holds a lock that
    // the child lacks, and `body` may do whatever a program with one thread may.
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

/// Of this process.
fn threads() -> Result<usize, Error> {
    let path = "/proc/self/task";
    let entries = std::fs::read_dir(path).map_err(|source| Error::path("read", path, source))?;
    Ok(entries.count())
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

    /// In a copy of this program that has one thread, as the tests have several.
    fn alone(check: fn() -> bool) {
        // SAFETY: the child runs `check`, which allocates: glibc's allocator is usable in it (fork handlers), and nothing else is shared.
        match unsafe { libc::fork() } {
            0 => {
                let passed = std::panic::catch_unwind(check).unwrap_or(false);
                // SAFETY: ends the child without the end of the tests.
                unsafe { libc::_exit(i32::from(!passed)) }
            }
            pid => {
                let status = waitid(WaitId::Pid(Pid::from_raw(pid).expect("forks")), WaitIdOptions::EXITED);
                assert_eq!(status.expect("ours").and_then(|status| status.exit_status()), Some(0));
            }
        }
    }

    #[test]
    fn a_fork_ends_with_what_its_body_returns() {
        alone(|| {
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
            stopped.reap().expect("ours").terminating_signal() == Some(libc::SIGKILL)
        });
    }

    #[test]
    fn a_process_with_several_threads_is_not_forked() {
        let (until_here, end) = std::sync::mpsc::channel::<()>();
        let second = std::thread::spawn(move || end.recv());
        let refused = fork(|| 0).expect_err("there are at least two threads");
        assert!(crate::chain(&refused).contains("threads"), "{}", crate::chain(&refused));
        drop(until_here);
        let _ = second.join();
    }
}
