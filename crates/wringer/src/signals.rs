// SPDX-License-Identifier: Apache-2.0
//! Ctrl-C and `kill`: the first ends the work, the second cuts the waits of the undo, none skips the undo.

use host::interrupt;
use host::process::Process;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// From here on the signals that end a program are noted instead; the flag is true after the first.
///
/// # Errors
/// The kernel refuses the handler.
pub fn install() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
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

/// Signals while a command of the user's runs: they are the command's.
#[derive(Debug)]
pub struct Relay {
    /// The command's pidfd; -1: there is none, and a signal is the user's wish to stop.
    command: Arc<AtomicI32>,
}

impl Relay {
    /// From here on the signals that end a program go to the command; while there is none, they are noted.
    ///
    /// # Errors
    /// The kernel refuses the handler.
    pub fn install() -> io::Result<Self> {
        let relay = Self { command: Arc::new(AtomicI32::new(-1)) };
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2] {
            let command = Arc::clone(&relay.command);
            let ends = [SIGINT, SIGTERM, SIGHUP, SIGQUIT].contains(&signal);
            let pass = move |info: &libc::siginfo_t| match command.load(Ordering::SeqCst) {
                -1 if ends => interrupt::note(),
                -1 => {}
                // a terminal's signal has come from the kernel, to the whole process group: to the command as well
                _ if info.si_code > 0 => {}
                // SAFETY: a system call; at worst the process is gone, or the descriptor closed.
                pidfd => drop(unsafe { libc::syscall(libc::SYS_pidfd_send_signal, pidfd, signal, 0, 0) }),
            };
            // SAFETY: the handler touches atomics and makes one system call, which is async-signal-safe.
            unsafe { signal_hook_registry::register_sigaction(signal, pass) }?;
        }
        Ok(relay)
    }

    /// To this process, for as long as what is returned lives.
    pub fn to<'a>(&'a self, command: &'a Process) -> Relaying<'a> {
        self.command.store(command.pidfd().as_raw_fd(), Ordering::SeqCst);
        Relaying(self)
    }
}

/// See [`Relay::to`].
#[derive(Debug)]
pub struct Relaying<'a>(&'a Relay);

impl Drop for Relaying<'_> {
    fn drop(&mut self) {
        self.0.command.store(-1, Ordering::SeqCst);
    }
}
