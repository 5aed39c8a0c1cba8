// SPDX-License-Identifier: Apache-2.0
//! Ctrl-C and `kill`: the first signal ends the work, the second ends the waits of the undo; no signal skips the undo.

use host::interrupt;
use host::process::Process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

/// From this call on, signals that would end the program only set a flag. The flag is true after the first signal. A SIGHUP that our caller ignores stays
/// ignored: see nohup(1).
///
/// # Errors
/// The kernel refuses the handler.
pub fn install() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM].into_iter().chain(heeded_hang_up()) {
        let flag = Arc::clone(&stop);
        let note = move || {
            interrupt::note();
            flag.store(true, Ordering::SeqCst);
        };
        // SAFETY: the handler only touches atomics, which is async-signal-safe.
        unsafe { signal_hook::low_level::register(signal, note) }?;
    }
    Ok(stop)
}

/// Handles signals while a command of the user's runs: they are passed to the command.
#[derive(Debug, Clone)]
pub struct Relay {
    /// The command's pidfd, [`NONE`] or [`STARTING`].
    command: Arc<AtomicI32>,
    /// Signals that arrived while the command was starting, one bit each.
    kept: Arc<AtomicU64>,
    /// This process leads its session, as behind `ssh -t HOST wringer ...`. When the terminal hangs up, the kernel sends SIGHUP to the leader only.
    leads_session: bool,
}

/// There is no command: a signal means that the user wants to stop.
const NONE: i32 = -1;
/// The command may run already, but its pidfd is not known yet: signals are kept for it.
const STARTING: i32 = -2;

impl Relay {
    /// From this call on, signals that would end the program go to the command; while there is none, they only set a flag. A SIGHUP that our caller
    /// ignores stays ignored, by the command as well: see nohup(1).
    ///
    /// # Errors
    /// The kernel refuses the handler.
    pub fn install() -> io::Result<Self> {
        // SAFETY: two system calls without memory of ours.
        let leads_session = unsafe { libc::getsid(0) == libc::getpid() };
        let relay = Self { command: Arc::new(AtomicI32::new(NONE)), kept: Arc::default(), leads_session };
        for signal in [SIGINT, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2].into_iter().chain(heeded_hang_up()) {
            let relay = relay.clone();
            let take = move |info: &libc::siginfo_t| relay.take(signal, info.si_code > 0);
            // SAFETY: the handler touches atomics and makes one system call, which is async-signal-safe.
            unsafe { signal_hook_registry::register_sigaction(signal, take) }?;
        }
        Ok(relay)
    }

    fn take(&self, signal: i32, of_the_terminal: bool) {
        match self.command.load(Ordering::SeqCst) {
            NONE if [SIGUSR1, SIGUSR2].contains(&signal) => {}
            NONE => interrupt::note(),
            STARTING => drop(self.kept.fetch_or(1 << signal, Ordering::SeqCst)),
            pidfd if signal == SIGHUP && self.leads_session => send(pidfd, signal),
            // the kernel has sent the signal to the whole process group, and so to the command as well
            _ if of_the_terminal => {}
            pidfd => send(pidfd, signal),
        }
    }

    /// Call it before the command starts: until the returned value is dropped, signals are the command's.
    pub fn starting(&self) -> Relaying<'_> {
        self.command.store(STARTING, Ordering::SeqCst);
        Relaying(self)
    }
}

/// The value that [`Relay::starting`] returns.
#[derive(Debug)]
pub struct Relaying<'a>(&'a Relay);

impl Relaying<'_> {
    /// Passes signals to this process, which must live longer than the relay; signals that were kept are passed first.
    pub fn to(&self, command: &Process) {
        let pidfd = command.pidfd().as_raw_fd();
        self.0.command.store(pidfd, Ordering::SeqCst);
        let kept = self.0.kept.swap(0, Ordering::SeqCst);
        (1..64).filter(|signal| kept & (1 << signal) != 0).for_each(|signal| send(pidfd, signal));
    }
}

impl Drop for Relaying<'_> {
    fn drop(&mut self) {
        self.0.command.store(NONE, Ordering::SeqCst);
        // The command was never started.
        if self.0.kept.swap(0, Ordering::SeqCst) != 0 {
            interrupt::note();
        }
    }
}

/// Whether the program that started us has the signal ignored.
/// SIGHUP, unless our caller ignores it.
fn heeded_hang_up() -> Option<i32> {
    Some(SIGHUP).filter(|signal| !is_ignored(*signal))
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: the kernel fills the structure, which consists of plain numbers.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

fn send(pidfd: i32, signal: i32) {
    // SAFETY: a system call without memory of ours; at worst the process has ended.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd, signal, 0, 0) };
}
