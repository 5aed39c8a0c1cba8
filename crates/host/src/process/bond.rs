// SPDX-License-Identifier: Apache-2.0
//! The bond of a child to the process that starts it: the kernel sends the child a signal when that process dies (prctl(2), PR_SET_PDEATHSIG).

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[derive(Debug, Clone, Copy)]
pub(super) struct Bond {
    signal: Signal,
    /// The process that forks the child.
    parent: Pid,
}

impl Bond {
    /// A bond to this process, which must be the one that forks the child.
    pub(super) fn to_us(signal: Signal) -> Self {
        Self { signal, parent: getpid() }
    }

    /// To be called by the child, after any change of its identity, which clears the setting. A parent that has died already sends no signal: that is an
    /// error, so that the child does not start. The child notices it, because its parent is another process by now.
    pub(super) fn apply(self) -> io::Result<()> {
        set_parent_process_death_signal(Some(self.signal))?;
        if getppid() == Some(self.parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
    }
}

/// The program gets `signal` when the calling thread ends. If the caller has ended before the program starts, nothing is started.
pub fn end_with_caller(command: &mut Command, signal: Signal) {
    let bond = Bond::to_us(signal);
    // SAFETY: between fork and exec, two system calls, and nothing that allocates or locks. The standard library changes the user before it.
    unsafe { command.pre_exec(move || bond.apply()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::{PipeFlags, pipe_with};
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    /// Ends this process, a copy of the test program, without the exit handlers of the tests.
    fn exit(status: i32) -> ! {
        // SAFETY: it does not return.
        unsafe { libc::_exit(status) }
    }

    /// A parent forks a child. If `parent_dies_first`, the parent dies before the child has called prctl. The child writes to the pipe whether it
    /// could bind itself to its parent.
    fn bound(parent_dies_first: bool) -> u8 {
        let (says, tell) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        // SAFETY: the forked copies only make system calls.
        let parent = unsafe { libc::fork() };
        if parent == 0 {
            let bond = Bond::to_us(Signal::KILL);
            let us = getpid();
            // SAFETY: as above
            if unsafe { libc::fork() } == 0 {
                // a process that dies closes its files first, and its children get a new parent later: so no pipe shows that it is dead
                while parent_dies_first && getppid() == Some(us) {
                    rustix::thread::sched_yield();
                }
                let _ = rustix::io::write(&tell, &[u8::from(bond.apply().is_ok())]);
                exit(0);
            }
            if !parent_dies_first {
                // SAFETY: as above
                unsafe { libc::wait(std::ptr::null_mut()) };
            }
            exit(0);
        }
        drop(tell);
        waitid(WaitId::Pid(Pid::from_raw(parent).expect("forks")), WaitIdOptions::EXITED).expect("ours");
        let mut said = [9];
        assert_eq!(rustix::io::read(&says, &mut said), Ok(1));
        said[0]
    }

    #[test]
    fn a_child_whose_parent_has_died_already_does_not_start() {
        assert_eq!(bound(false), 1, "the parent lives");
        assert_eq!(bound(true), 0, "the signal of its death would never come");
    }
}
