// SPDX-License-Identifier: Apache-2.0
use super::identity::{Identity, Process};
use super::scan::descendants;
use super::standstill::{Standstill, standstill};
use crate::permit::Permit;
use crate::{Error, interrupt};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long a process may take to go after SIGKILL: it may be in an uninterruptible wait for a disk, which we may have slowed.
const KILL_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a wait looks whether the user has become impatient.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy)]
pub struct StopRequest {
    /// Number of the signal that asks for a clean end.
    pub signal: i32,
    /// Then SIGKILL follows, for the processes and everything below them.
    pub grace: Duration,
}

impl StopRequest {
    /// SIGKILL, without asking first.
    pub const KILL: Self = Self { signal: libc::SIGKILL, grace: Duration::ZERO };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    AlreadyGone,
    /// By itself, within the grace.
    Cleanly,
    Killed,
}

/// Ends `leaders`, and waits until they are gone. Need not be their parent: a zombie counts as gone.
///
/// One that was stopped goes on, to hear it.
///
/// # Errors
/// [`Error::Unstoppable`] when one is still there after SIGKILL; the kernel's error when it is not ours to signal.
pub fn stop(_permit: &Permit, leaders: &[Identity], request: StopRequest) -> Result<Stopped, Error> {
    stop_unpermitted(leaders, request)
}

/// As [`stop`], of processes with threads that may hang in the kernel and hold nothing (see [`super::without_descriptors`]): such a
/// process is gone when its main thread is.
///
/// # Errors
/// As [`stop`].
pub fn stop_main_thread(_permit: &Permit, leaders: &[Identity], request: StopRequest) -> Result<Stopped, Error> {
    stop_until(leaders, request, &|process| !process.identity().is_alive())
}

/// SIGKILL for these processes alone: what they have started lives on.
///
/// # Errors
/// As [`stop`].
pub fn kill_alone(_permit: &Permit, processes: &[Identity]) -> Result<(), Error> {
    kill(&processes.iter().copied().collect(), &|_| false)
}

/// For the launcher, which ends its own child.
pub(super) fn stop_unpermitted(leaders: &[Identity], request: StopRequest) -> Result<Stopped, Error> {
    stop_until(leaders, request, &|_| false)
}

/// `is_gone` holds earlier than the end of the whole process.
fn stop_until(leaders: &[Identity], request: StopRequest, is_gone: IsGone<'_>) -> Result<Stopped, Error> {
    let processes: Vec<Process> = leaders.iter().copied().filter_map(Process::open).collect();
    if processes.is_empty() {
        return Ok(Stopped::AlreadyGone);
    }
    let family = descendants(leaders);
    signal_all(&processes, request.signal)?;
    wake_stopped(&processes);
    let grace = if request.signal == libc::SIGKILL { Duration::ZERO } else { request.grace };
    if await_end(&processes, grace, is_gone, &interrupt::impatient) {
        return Ok(Stopped::Cleanly);
    }
    // Once more: while it was given its grace, it may have started others.
    kill(&family.union(&descendants(leaders)).copied().collect(), is_gone)?;
    Ok(Stopped::Killed)
}

type IsGone<'a> = &'a dyn Fn(&Process) -> bool;

fn kill(family: &BTreeSet<Identity>, is_gone: IsGone<'_>) -> Result<(), Error> {
    let processes: Vec<Process> = family.iter().copied().filter_map(Process::open).collect();
    signal_all(&processes, libc::SIGKILL)?;
    if await_end(&processes, KILL_TIMEOUT, is_gone, &|| false) {
        return Ok(());
    }
    let pids = processes.iter().filter(|process| process.is_alive()).map(|process| process.identity().pid).collect();
    Err(Error::Unstoppable { pids })
}

fn signal_all(processes: &[Process], signal: i32) -> Result<(), Error> {
    let signal = Signal::from_named_raw(signal).unwrap_or(Signal::TERM);
    for process in processes {
        match process.signal(signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => {}
            Err(errno) => return Err(Error::call(format!("signal process {}", process.identity().pid), errno)),
        }
    }
    Ok(())
}

fn wake_stopped(processes: &[Process]) {
    let stopped = |process: &&Process| standstill(process.identity().pid) == Some(Standstill::Stopped);
    for process in processes.iter().filter(stopped) {
        let _ = process.signal(Signal::CONT);
    }
}

/// Whether all ended within `timeout`, which `is_cut` may end earlier.
fn await_end(processes: &[Process], timeout: Duration, is_gone: IsGone<'_>, is_cut: &dyn Fn() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    processes.iter().all(|process| {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if process.wait(left.min(TICK)) || is_gone(process) {
                return true;
            }
            if left.is_zero() || is_cut() {
                return false;
            }
        }
    })
}
