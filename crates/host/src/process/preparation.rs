// SPDX-License-Identifier: Apache-2.0
//! The changes that a forked child makes to itself before it executes its program.

use super::ChildSpec;
use super::bond::Bond;
use crate::Error;
use rustix::process::Signal;
use rustix::thread::CpuSet;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Everything that these changes need; all memory is allocated before the fork.
#[derive(Debug, Default)]
pub(super) struct Preparation {
    inherited: Vec<RawFd>,
    /// Close all other descriptors on exec: a server that outlives us would keep the locks and pipes of our caller.
    closes_others: bool,
    /// `cgroup.procs` files, open for writing.
    cgroups: Vec<File>,
    oom_score_adj: Option<CString>,
    affinity: Option<CpuSet>,
    /// Stay in the session and process group of the caller.
    foreground: bool,
    identity: Option<(u32, u32)>,
    /// The setting survives exec and fork.
    without_thp: bool,
    bond: Option<Bond>,
}

impl Preparation {
    #[allow(clippy::disallowed_methods)] // `host` writes to cgroup.procs
    pub(super) fn of(spec: &ChildSpec) -> Result<Self, Error> {
        let open = |folder: &PathBuf| {
            let path = folder.join("cgroup.procs");
            OpenOptions::new().write(true).open(&path).map_err(|source| Error::path("open", path, source))
        };
        Ok(Self {
            cgroups: spec.cgroups.iter().map(open).collect::<Result<_, _>>()?,
            oom_score_adj: spec.oom_score_adj.and_then(|score| CString::new(score.to_string()).ok()),
            affinity: spec.affinity.as_deref().map(cpu_set),
            foreground: spec.foreground,
            identity: spec.identity,
            without_thp: spec.without_thp,
            ..Self::default()
        })
    }

    /// The preparation of a launcher: the other settings of the spec are for its server.
    pub(super) fn of_launcher(spec: &ChildSpec) -> Self {
        Self { foreground: spec.foreground, ..Self::default() }
    }

    /// These descriptors stay open; all others are closed, unless the child is in the foreground.
    pub(super) fn with_descriptors(self, inherited: Vec<RawFd>) -> Self {
        Self { inherited, closes_others: !self.foreground, ..self }
    }

    /// When this process dies, the child gets `signal`. This process must be the one that forks the child.
    pub(super) fn bound_to_us(self, signal: Signal) -> Self {
        Self { bond: Some(Bond::to_us(signal)), ..self }
    }

    pub(super) fn install(self, command: &mut Command) {
        // SAFETY: `apply` calls only async-signal-safe functions and allocates nothing.
        unsafe { command.pre_exec(move || self.apply()) };
    }

    fn apply(&self) -> io::Result<()> {
        unblock_signals();
        if !self.foreground {
            // SAFETY: a system call on our own, just forked process; a failure (already a leader) does no harm.
            unsafe { libc::setsid() };
        }
        if self.closes_others {
            // SAFETY: changes a flag of our own copies of the descriptors. Before Linux 5.11 it fails, and they are kept.
            unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        }
        for descriptor in &self.inherited {
            // SAFETY: changes a flag of our own copy of the descriptor.
            check(unsafe { libc::fcntl(*descriptor, libc::F_SETFD, 0) })?;
        }
        for procs in &self.cgroups {
            // "0" means the writer (kernel, cgroup-v2.rst, cgroup.procs).
            rustix::io::write(procs, b"0")?;
        }
        // after the cgroups, because joining a cgroup of CPUs sets the affinity anew
        if let Some(cpus) = &self.affinity {
            rustix::thread::sched_setaffinity(None, cpus)?;
        }
        if let Some(score) = &self.oom_score_adj {
            write_own_oom_score(score)?;
        }
        if self.without_thp {
            // SAFETY: sets an attribute of our own process; the unused arguments must be zero (prctl(2)).
            check(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1 as libc::c_ulong, 0, 0, 0) })?;
        }
        self.change_identity()?;
        // done last, because a change of identity clears it
        self.bond.map_or(Ok(()), Bond::apply)
    }

    fn change_identity(&self) -> io::Result<()> {
        let Some((uid, gid)) = self.identity else { return Ok(()) };
        // SAFETY: raw system calls, because libc's functions would signal the other threads, which do not exist after fork.
        unsafe {
            check_long(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
            check_long(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
            check_long(libc::syscall(libc::SYS_setresuid, uid, uid, uid))
        }
    }
}

pub(super) fn cpu_set(cpus: &[u32]) -> CpuSet {
    let mut set = CpuSet::new();
    let numbers = cpus.iter().filter_map(|cpu| usize::try_from(*cpu).ok());
    numbers.filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    set
}

/// Unblocks all signals: the launcher blocks some, and its server must not inherit that.
fn unblock_signals() {
    // SAFETY: the set is initialised by sigemptyset before use.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

fn write_own_oom_score(score: &CString) -> io::Result<()> {
    // SAFETY: the paths and the buffer are NUL-terminated and live; the descriptor is closed by exec or here.
    unsafe {
        let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        check(file)?;
        let bytes = score.as_bytes();
        let written = libc::write(file, bytes.as_ptr().cast(), bytes.len());
        let outcome = if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) };
        libc::close(file);
        outcome
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    check_long(result.into())
}

fn check_long(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
