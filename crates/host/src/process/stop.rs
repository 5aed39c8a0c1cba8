// SPDX-License-Identifier: Apache-2.0
use super::dead_layer::is_cut_off;
use super::family::family;
use super::identity::{Identity, Process};
use super::inactivity::Inactivity;
use super::standstill::{Standstill, standstill};
use crate::permit::Permit;
use crate::{Error, Holder, interrupt};
use rustix::io::Errno;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long a process may take to end after SIGKILL: it may be in an uninterruptible wait for a disk that we have slowed.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(20);
/// The grace of a process whose slow layer is dead: time to write to its log.
const CUT_OFF_GRACE: Duration = Duration::from_secs(2);
/// How often the wait checks whether that layer lives.
const HOPE_PAUSE: Duration = Duration::from_secs(1);
/// How often the wait checks whether the user has become impatient.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, Copy)]
pub struct StopRequest {
    /// Number of the signal that asks for a clean end.
    pub signal: i32,
    /// The time until SIGKILL follows, for the processes and for all processes below them that belong to no other run.
    pub grace: Duration,
}

impl StopRequest {
    /// SIGKILL, without asking first.
    pub const KILL: Self = Self { signal: libc::SIGKILL, grace: Duration::ZERO };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    AlreadyGone,
    /// The processes ended by themselves, within the grace.
    Cleanly,
    Killed,
}

/// Ends `leaders`, and waits until they are gone. The caller need not be their parent: a zombie counts as gone.
///
/// A stopped process is continued, so that it acts on the signal. A process whose slow layer is dead cannot end cleanly, and gets a short grace; and one
/// that does nothing at all for 15 seconds has not heard the signal, and gets no more.
///
/// # Errors
/// [`Error::Unstoppable`] when a process is still there after SIGKILL; [`Error::NotPermitted`] when we may not signal a process: all others are ended
/// then.
pub fn stop(_permit: &Permit, leaders: &[Identity], request: StopRequest) -> Result<Stopped, Error> {
    stop_unpermitted(leaders, request)
}

/// As [`stop`], for processes with threads that may hang in the kernel and hold nothing (see [`super::without_descriptors`]): such a process counts
/// as gone when its main thread is gone.
///
/// # Errors
/// As [`stop`].
pub fn stop_main_thread(_permit: &Permit, leaders: &[Identity], request: StopRequest) -> Result<Stopped, Error> {
    stop_until(leaders, request, &|process| !process.identity().is_alive())
}

/// Sends SIGKILL to these processes alone: the processes that they have started live on.
///
/// # Errors
/// As [`stop`].
pub fn kill_alone(_permit: &Permit, processes: &[Identity]) -> Result<(), Error> {
    kill(&processes.iter().copied().collect(), &|_| false)
}

/// As [`stop`], for the launcher, which ends its own child.
pub(super) fn stop_unpermitted(leaders: &[Identity], request: StopRequest) -> Result<Stopped, Error> {
    stop_until(leaders, request, &|_| false)
}

/// `is_gone` may hold before the whole process has ended.
fn stop_until(leaders: &[Identity], request: StopRequest, is_gone: IsGone<'_>) -> Result<Stopped, Error> {
    let processes: Vec<Process> = leaders.iter().copied().filter_map(Process::open).collect();
    if processes.is_empty() {
        return Ok(Stopped::AlreadyGone);
    }
    let below = family(leaders);
    let (asked, refused) = signal_all(processes, request.signal)?;
    wake_stopped(&asked);
    let grace = if request.signal == libc::SIGKILL { Duration::ZERO } else { request.grace };
    let mut hope = Hope::new();
    let mut is_cut = || interrupt::impatient() || hope.is_over(&asked);
    if await_end(&asked, grace, is_gone, &mut is_cut) && refused.is_empty() {
        return Ok(Stopped::Cleanly);
    }
    // The family is looked up again: the processes may have started others during the grace.
    kill(&below.union(&family(leaders)).copied().collect(), is_gone)?;
    Ok(Stopped::Killed)
}

type IsGone<'a> = &'a dyn Fn(&Process) -> bool;

/// Whether it is worth waiting for a clean end: only for a short time when the process has lost the files that the end needs, and no longer when nothing
/// moves.
struct Hope {
    next_look: Instant,
    ends: Option<Instant>,
    inactivity: Inactivity,
}

impl Hope {
    fn new() -> Self {
        Self { next_look: Instant::now(), ends: None, inactivity: Inactivity::new() }
    }

    fn is_over(&mut self, processes: &[Process]) -> bool {
        let now = Instant::now();
        if self.ends.is_none() && now >= self.next_look {
            self.next_look = now + HOPE_PAUSE;
            let leaders: Vec<Identity> = processes.iter().map(Process::identity).collect();
            self.ends = leaders.iter().any(|it| is_cut_off(it.pid)).then(|| now + CUT_OFF_GRACE);
            if self.inactivity.is_lasting(&leaders) {
                self.ends = Some(now);
            }
        }
        self.ends.is_some_and(|ends| now >= ends)
    }
}

fn kill(family: &BTreeSet<Identity>, is_gone: IsGone<'_>) -> Result<(), Error> {
    let processes: Vec<Process> = family.iter().copied().filter_map(Process::open).collect();
    let (asked, refused) = signal_all(processes, libc::SIGKILL)?;
    if !await_end(&asked, KILL_TIMEOUT, is_gone, &mut || false) {
        let pids = asked.iter().filter(|process| process.is_alive()).map(|process| process.identity().pid).collect();
        return Err(Error::Unstoppable { pids });
    }
    let processes: Vec<Holder> =
        refused.iter().filter(|it| it.is_alive()).map(|it| Holder::of(it.identity().pid)).collect();
    if processes.is_empty() { Ok(()) } else { Err(Error::NotPermitted { processes }) }
}

/// The signal of a number that was stored. A number without a name asks for a clean end.
pub(super) fn named(number: i32) -> Signal {
    Signal::from_named_raw(number).unwrap_or(Signal::TERM)
}

/// Signals all of these processes; returns those that were signalled, and those that we may not signal. One that we may not signal does not prevent
/// the signal to the others.
fn signal_all(processes: Vec<Process>, signal: i32) -> Result<(Vec<Process>, Vec<Process>), Error> {
    let signal = named(signal);
    let (mut asked, mut refused, mut failed) = (Vec::new(), Vec::new(), None);
    for process in processes {
        match process.signal(signal) {
            Ok(()) | Err(Errno::SRCH) => asked.push(process),
            Err(Errno::PERM) => refused.push(process),
            Err(errno) => failed = Some(Error::call(format!("signal process {}", process.identity().pid), errno)),
        }
    }
    failed.map_or(Ok((asked, refused)), Err)
}

fn wake_stopped(processes: &[Process]) {
    let stopped = |process: &&Process| standstill(process.identity().pid) == Some(Standstill::Stopped);
    for process in processes.iter().filter(stopped) {
        let _ = process.signal(Signal::CONT);
    }
}

/// Whether all ended within `timeout`, which `is_cut` may end earlier.
fn await_end(processes: &[Process], timeout: Duration, is_gone: IsGone<'_>, is_cut: &mut dyn FnMut() -> bool) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Child, Command};

    #[allow(clippy::disallowed_methods)] // processes for the test
    fn sleeper(uid: u32) -> Child {
        Command::new("sleep").arg("1000").uid(uid).spawn().expect("starts")
    }

    /// As MariaDB does when it is asked while it starts: it sleeps on, and would use up the whole grace.
    #[test]
    #[allow(clippy::disallowed_methods)] // a process for the test
    fn who_does_nothing_after_the_signal_does_not_get_the_whole_grace() {
        let mut deaf = Command::new("sh").args(["-c", "trap '' TERM; exec sleep 1000"]).spawn().expect("starts");
        let leader = Identity::of(deaf.id()).expect("lives");
        std::thread::sleep(Duration::from_millis(300));
        let begun = Instant::now();
        let stopped = stop_unpermitted(&[leader], StopRequest { signal: libc::SIGTERM, grace: Duration::from_mins(5) });
        assert_eq!(stopped.expect("ends"), Stopped::Killed);
        assert!((15..120).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
        deaf.wait().expect("is waited for");
    }

    /// Runs as an ordinary user whose processes are among those of other users: in a thread that alone becomes that user.
    #[test]
    fn one_that_is_not_ours_to_end_keeps_nobody_else_alive() {
        if !rustix::process::geteuid().is_root() {
            testkit::skip!("only root can start a process as another user");
        }
        let nobody = 65534;
        let mut children = [sleeper(0), sleeper(nobody), sleeper(0), sleeper(nobody)];
        let leaders: Vec<Identity> = children.iter().filter_map(|child| Identity::of(child.id())).collect();
        let stopped = std::thread::spawn({
            let leaders = leaders.clone();
            move || {
                // SAFETY: the raw call changes this thread alone, which ends here.
                assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, nobody, nobody, nobody) }, 0);
                stop_unpermitted(&leaders, StopRequest { signal: libc::SIGTERM, grace: Duration::from_secs(20) })
            }
        });
        let stopped = stopped.join().expect("returns");
        let alive: Vec<bool> = leaders.iter().map(Identity::is_alive).collect();
        children.iter_mut().for_each(|child| drop((child.kill(), child.wait())));
        assert_eq!(alive, [true, false, true, false]);
        let Err(Error::NotPermitted { processes }) = stopped else { panic!("{stopped:?}") };
        // compared without an order: the numbers of pids may have started again from the beginning between two of them
        let pids: BTreeSet<u32> = processes.iter().map(|it| it.pid).collect();
        assert_eq!(pids, BTreeSet::from([leaders[0].pid, leaders[2].pid]));
    }
}
