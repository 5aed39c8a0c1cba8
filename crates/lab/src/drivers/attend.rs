// SPDX-License-Identifier: Apache-2.0
//! Watches a driver from its start to its end. It is ended when a squeeze breaks, or when the user asks for the end.

use crate::error::Error;
use crate::lab::Lab;
use experiment::{Driver, DriverProgram};
use host::process::Process;
use run::Child;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The time between two checks whether everything is still in force.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long to wait for processes that the driver has left running.
const STRAY_GRACE: Duration = Duration::from_secs(5);

/// How the driver ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    ByItself,
    /// `load.time` of a command was over.
    TimeOver,
}

/// Returns when the driver has ended, or must be ended. `time`: how long it will probably run; a command is ended after this time.
///
/// # Errors
/// The user or the watchdog asks for the end; a process that holds a squeeze, or the server, has ended: a program that tries again would try for ever.
pub(super) fn until_it_ends(
    lab: &mut Lab<'_>,
    driver: &Driver,
    time: Option<Duration>,
    child: &Child,
    name: &str,
) -> Result<Ended, Error> {
    let began = Instant::now();
    let limit = time.filter(|_| driver.program == DriverProgram::Command);
    let length = time.map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    let bar = lab.notes.progress.bar(name, Some(length).filter(|length| *length > 0));
    loop {
        if child.wait(LOOK_EVERY) {
            break Ok(Ended::ByItself);
        }
        if let Err(error) = lab.check_stop().and_then(|()| lab.squeezes.check()).and_then(|()| lab.serves()) {
            break Err(error);
        }
        if limit.is_some_and(|limit| began.elapsed() >= limit) {
            break Ok(Ended::TimeOver);
        }
        bar.set_position(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
    }
}

/// Ends the driver and the processes that it has started; returns its exit code.
///
/// # Errors
/// A process could not be ended.
pub(super) fn end(lab: &mut Lab<'_>, child: &Child) -> Result<i32, Error> {
    if child.is_alive()
        && let Some(process) = Process::open(child.identity())
    {
        let _ = process.signal(Signal::TERM);
        process.wait(super::GRACE);
    }
    let exit_code = exit_code(lab, child);
    lab.run.undo_step(child.step)?;
    lab.run.end_strays(STRAY_GRACE)?;
    exit_code
}

/// Waits for the exit code, which the launcher returns a moment after the driver's end.
fn exit_code(lab: &mut Lab<'_>, child: &Child) -> Result<i32, Error> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !child.is_alive() && Instant::now() < deadline {
        if let Some(status) = lab.run.exit_status(child) {
            return status.code().ok_or(Error::LauncherKilled);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // it did not end when it was asked to
    Ok(128 + libc::SIGKILL)
}

/// CPU time of the children that have ended and were waited for, and of their children.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cpu {
    pub user_us: u64,
    pub system_us: u64,
}

impl Cpu {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            user_us: self.user_us.saturating_sub(before.user_us),
            system_us: self.system_us.saturating_sub(before.system_us),
        }
    }
}

pub(super) fn children_cpu() -> Cpu {
    // SAFETY: the kernel fills the structure, which is plain numbers.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let micros = |time: libc::timeval| u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).unwrap_or(0);
    Cpu { user_us: micros(usage.ru_utime), system_us: micros(usage.ru_stime) }
}
