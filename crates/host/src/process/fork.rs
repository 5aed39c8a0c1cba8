// SPDX-License-Identifier: Apache-2.0
//! A copy of this process that does its work: for a process that must be replaceable at once, even when no program file can be read.

use crate::Error;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_open, pidfd_send_signal, waitid,
};
use std::io;

/// A forked child. The caller must wait for its end. It carries the marks of this process: the run's token, its id.
#[derive(Debug)]
pub struct Forked {
    pid: Pid,
    pidfd: OwnedFd,
}

/// Runs `body` in a child, which ends with the status that `body` returns.
///
/// # Errors
/// This process has more than one thread: the child has only the calling thread, and could wait for ever for a lock that another thread held, above
/// all the allocator's lock (fork(2)). Or the kernel cannot make a process.
pub fn fork(body: impl FnOnce() -> i32) -> Result<Forked, Error> {
    let failed = |source: io::Error| Error::call("fork", source);
    let threads = threads()?;
    if threads != 1 {
        return Err(failed(io::Error::other(format!(
            "this process has {threads} threads, and the copy would have one"
        ))));
    }
    // SAFETY: this thread is the only one, as was checked above, and no other thread could start a new one: so nobody holds a lock that the child
    // would miss, and `body` may do whatever a program with one thread may do.
    let pid = match unsafe { libc::fork() } {
        0 => {
            let status = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(101);
            // SAFETY: ends the child without the exit handlers that the parent has registered for its own end.
            unsafe { libc::_exit(status) }
        }
        pid => Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(|| failed(io::Error::last_os_error()))?,
    };
    // nobody has waited for the child yet, so no other process can have its pid
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|errno| failed(errno.into()))?;
    Ok(Forked { pid, pidfd })
}

/// The number of threads of this process.
fn threads() -> Result<usize, Error> {
    let path = "/proc/self/task";
    let entries = std::fs::read_dir(path).map_err(|source| Error::path("read", path, source))?;
    Ok(entries.count())
}

impl Forked {
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    /// Readable when the child has ended, with all its threads.
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

    /// Waits for the end of the child, and returns how it ended.
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

    /// Runs `check` in a copy of this program that has one thread, because the test program has several.
    fn alone(check: fn() -> bool) {
        // SAFETY: the child runs `check`, which allocates: glibc's allocator is usable in it (fork handlers), and nothing else is shared.
        match unsafe { libc::fork() } {
            0 => {
                let passed = std::panic::catch_unwind(check).unwrap_or(false);
                // SAFETY: ends the child without the exit handlers of the test program.
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
