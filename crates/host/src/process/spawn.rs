// SPDX-License-Identifier: Apache-2.0
use super::launch::{LaunchSettings, server_environment};
use super::{ChildSpec, Identity, LIFELINE_VARIABLE, Orphans, Process, READY_VARIABLE, RUN_VARIABLE, own_program};
use crate::permit::Permit;
use crate::{Error, files, interrupt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::CpuSet;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What ties a child to its run.
#[derive(Debug, Clone, Copy)]
pub struct Marks<'a> {
    pub run_id: &'a str,
    /// Where a child without a log of its own gets one.
    pub default_log: &'a Path,
    pub token: BorrowedFd<'a>,
    pub lifeline: Option<BorrowedFd<'a>>,
    /// Inherited as they are, for as long as the child lives: locks, another pipe's write end.
    pub keep: &'a [BorrowedFd<'a>],
}

/// A child that was forked and has executed its program; it may not be ready yet.
#[derive(Debug)]
pub struct Spawned {
    process: Process,
    child: Child,
    ready: Option<ReadyPipe>,
    program: String,
    log: PathBuf,
    /// Where its own part of the log begins.
    log_start_bytes: u64,
    /// A second line follows the first, when it has ended.
    tells_orphans: bool,
}

/// Starts `spec` in a session of its own, with stdin from `/dev/null`, unless it is one in the foreground.
///
/// # Errors
/// The program is missing or cannot be executed; a log or a cgroup cannot be opened; the identity cannot be taken.
pub fn spawn(_permit: &Permit, marks: Marks<'_>, spec: &ChildSpec) -> Result<Spawned, Error> {
    let mut command = if spec.launcher { launcher_command(spec) } else { direct_command(spec) };
    command.env(RUN_VARIABLE, marks.run_id);
    let marks_of_run = std::iter::once(&marks.token).chain(marks.keep).map(AsRawFd::as_raw_fd);
    let inherited = marks_of_run.chain(spec.inherit.iter().map(AsRawFd::as_raw_fd)).collect();
    start(command, marks.default_log, marks.lifeline.filter(|_| spec.lifeline), inherited, spec)
}

/// Starts a daemon that will be the controller of a run of its own: it belongs to no run yet, and changes nothing before it has
/// begun one.
pub fn spawn_supervisor(log: &Path, spec: &ChildSpec) -> Result<Spawned, Error> {
    let mut command = direct_command(spec);
    command.env_remove(RUN_VARIABLE);
    start(command, log, None, spec.inherit.iter().map(AsRawFd::as_raw_fd).collect(), spec)
}

fn start(
    mut command: Command,
    default_log: &Path,
    lifeline: Option<BorrowedFd<'_>>,
    mut inherited: Vec<RawFd>,
    spec: &ChildSpec,
) -> Result<Spawned, Error> {
    // A test that kills us at a crash point does not mean our children.
    command.env_remove("WRINGER_CRASH");
    if spec.launcher {
        command.envs([server_environment(spec)]);
    } else {
        command.envs(spec.env.iter().cloned());
    }
    let (ready, report) = ready_pipe(spec)?;
    let log = if spec.foreground { default_log.to_owned() } else { attach_logs(&mut command, default_log, spec)? };
    let log_start_bytes = log.metadata().map_or(0, |metadata| metadata.len());
    for (variable, descriptor) in [(READY_VARIABLE, report.as_ref().map(AsFd::as_fd)), (LIFELINE_VARIABLE, lifeline)] {
        command.env_remove(variable);
        if let Some(descriptor) = descriptor {
            command.env(variable, descriptor.as_raw_fd().to_string());
            inherited.push(descriptor.as_raw_fd());
        }
    }
    let launcher = Preparation { foreground: spec.foreground, ..Preparation::default() };
    let preparation = if spec.launcher { launcher } else { Preparation::of(spec)? };
    Preparation { inherited, sheds: !spec.foreground, ..preparation }.install(&mut command);
    let child = command.spawn().map_err(|source| Error::path("start", &spec.program, source))?;
    let process = Process::of_child(child.id()).ok_or_else(|| {
        Error::call(format!("look at process {}", child.id()), io::Error::from(io::ErrorKind::NotFound))
    })?;
    let (program, tells_orphans) = (spec.program.display().to_string(), spec.launcher && spec.foreground);
    let ready = ready.map(|descriptor| ReadyPipe { descriptor, rest: Vec::new() });
    Ok(Spawned { process, child, ready, program, log, log_start_bytes, tells_orphans })
}

impl Spawned {
    pub fn identity(&self) -> Identity {
        self.process.identity()
    }

    /// The line that the child wrote when it was ready; `None` when it was not asked for one.
    ///
    /// # Errors
    /// [`Error::Child`] with the end of its log when it ends, complains, or takes longer than `timeout`;
    /// [`Error::Interrupted`] when the user asks us to stop.
    pub fn await_ready(&mut self, timeout: Duration) -> Result<Option<serde_json::Value>, Error> {
        let Some(mut ready) = self.ready.take() else { return Ok(None) };
        let line = ready
            .read_line(Instant::now() + timeout, &interrupt::requested)
            .map_err(|trouble| self.explain(trouble, timeout))?;
        let value: serde_json::Value =
            serde_json::from_str(&line).map_err(|_| self.failed(format!("it said '{}'", line.trim())))?;
        match value.get("error").and_then(serde_json::Value::as_str) {
            Some(why) => Err(self.failed(why.to_owned())),
            None => {
                self.ready = Some(ready).filter(|_| self.tells_orphans);
                Ok(Some(value))
            }
        }
    }

    /// Of a command in the foreground that has ended: what became of what it had left running. `None` when its launcher was killed.
    ///
    /// # Errors
    /// The launcher does not come to an end.
    pub fn await_orphans(&mut self) -> Result<Option<Orphans>, Error> {
        let Some(mut ready) = self.ready.take() else { return Ok(None) };
        let deadline = Instant::now() + Orphans::TIMEOUT;
        match ready.read_line(deadline, &|| false) {
            Ok(line) => Ok(serde_json::from_str(&line).ok()),
            Err(NotReady::Late) => Err(self.failed("its launcher does not end what it has left running".into())),
            Err(NotReady::Closed | NotReady::Interrupted) => Ok(None),
        }
    }

    /// Collects the exit status when it has ended, so that no zombie stays.
    pub fn reap(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn explain(&mut self, trouble: NotReady, timeout: Duration) -> Error {
        match trouble {
            NotReady::Interrupted => Error::Interrupted,
            NotReady::Late => self.failed(format!("it was not ready after {} s", timeout.as_secs())),
            NotReady::Closed => {
                self.process.wait(Duration::from_secs(1));
                let status = self.reap();
                self.failed(
                    status.map_or("it closed its ready pipe".into(), |status| format!("it ended with {status}")),
                )
            }
        }
    }

    fn failed(&self, why: String) -> Error {
        Error::Child { program: self.program.clone(), why, log: files::tail_from(&self.log, self.log_start_bytes, 20) }
    }
}

enum NotReady {
    Interrupted,
    Late,
    Closed,
}

/// What a child says, a line at a time.
#[derive(Debug)]
struct ReadyPipe {
    descriptor: OwnedFd,
    /// Came with the line before: a command may end before we have read that it was started.
    rest: Vec<u8>,
}

impl ReadyPipe {
    fn read_line(&mut self, deadline: Instant, interrupted: &dyn Fn() -> bool) -> Result<String, NotReady> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            await_readable(&self.descriptor, deadline, interrupted)?;
            match rustix::io::read(&self.descriptor, &mut buffer) {
                Ok(0) | Err(_) => return Err(NotReady::Closed),
                Ok(length) => self.rest.extend_from_slice(&buffer[..length]),
            }
        }
    }
}

/// In slices of 100 ms, to notice the user's wish to stop.
fn await_readable(descriptor: &OwnedFd, deadline: Instant, interrupted: &dyn Fn() -> bool) -> Result<(), NotReady> {
    loop {
        let slice = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        let mut set = [PollFd::new(descriptor, PollFlags::IN)];
        if poll(&mut set, Some(&slice)).is_ok_and(|ready| ready > 0) {
            return Ok(());
        }
        if interrupted() {
            return Err(NotReady::Interrupted);
        }
        if Instant::now() >= deadline {
            return Err(NotReady::Late);
        }
    }
}

#[allow(clippy::disallowed_methods)] // the one place of `host` that starts long-lived children
fn direct_command(spec: &ChildSpec) -> Command {
    let mut command = Command::new(&spec.program);
    command.args(&spec.args);
    if !spec.foreground {
        command.stdin(Stdio::null());
    }
    if let Some(folder) = &spec.cwd {
        command.current_dir(folder);
    }
    command
}

#[allow(clippy::disallowed_methods)] // as above
fn launcher_command(spec: &ChildSpec) -> Command {
    let settings = LaunchSettings::of(spec).to_argument();
    let mut command = Command::new(own_program());
    command.args(["internal", "launch", "--settings", &settings, "--"]).arg(&spec.program).args(&spec.args);
    if !spec.foreground {
        command.stdin(Stdio::null());
    }
    command
}

fn ready_pipe(spec: &ChildSpec) -> Result<(Option<OwnedFd>, Option<OwnedFd>), Error> {
    if !spec.ready && !spec.launcher {
        return Ok((None, None));
    }
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| Error::call("make a pipe", errno))?;
    Ok((Some(read), Some(write)))
}

fn attach_logs(command: &mut Command, default_log: &Path, spec: &ChildSpec) -> Result<PathBuf, Error> {
    let stdout_path = spec.stdout.as_deref().unwrap_or(default_log);
    let stderr_path = spec.stderr.as_deref().unwrap_or(default_log);
    command.stdout(files::open_log(stdout_path)?).stderr(files::open_log(stderr_path)?);
    Ok(stderr_path.to_owned())
}

/// What the forked child does to itself before exec. All memory is allocated before the fork.
#[derive(Debug, Default)]
pub(super) struct Preparation {
    inherited: Vec<RawFd>,
    /// Of all other descriptors, those that our caller had left open for us: a server that stands would keep its locks and pipes.
    sheds: bool,
    /// `cgroup.procs` files, open for writing.
    cgroups: Vec<File>,
    oom_score_adj: Option<CString>,
    affinity: Option<CpuSet>,
    /// Stay in the session and process group of the caller.
    foreground: bool,
    identity: Option<(u32, u32)>,
    /// Kept over exec and fork.
    without_thp: bool,
    bond: Option<Bond>,
}

/// The signal that a child gets when its parent dies (prctl(2), PR_SET_PDEATHSIG).
#[derive(Debug, Clone, Copy)]
struct Bond {
    signal: i32,
    /// Who forks it.
    parent: libc::pid_t,
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

    /// From this process, which must be the one that forks, the child gets `signal` when we die.
    pub(super) fn bound_to_us(self, signal: i32) -> Self {
        let parent = rustix::process::getpid().as_raw_nonzero().get();
        Self { bond: Some(Bond { signal, parent }), ..self }
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
        if self.sheds {
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
        // after the cgroups: one of CPUs sets the affinity anew
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
        self.bind_to_parent()
    }

    fn change_identity(&self) -> io::Result<()> {
        let Some((uid, gid)) = self.identity else { return Ok(()) };
        // SAFETY: raw calls, because libc's would signal the other threads, which do not exist after fork.
        unsafe {
            check_long(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
            check_long(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
            check_long(libc::syscall(libc::SYS_setresuid, uid, uid, uid))
        }
    }

    /// Last, because a change of identity clears it. A parent that died before sends no signal any more: then we are another one's
    /// child, and there is nobody whom we should outlive.
    fn bind_to_parent(&self) -> io::Result<()> {
        let Some(Bond { signal, parent }) = self.bond else { return Ok(()) };
        // SAFETY: sets an attribute of our own process; then a call that cannot fail.
        check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) })?;
        // SAFETY: as above
        if unsafe { libc::getppid() } == parent { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    }
}

pub(super) fn cpu_set(cpus: &[u32]) -> CpuSet {
    let mut set = CpuSet::new();
    let numbers = cpus.iter().filter_map(|cpu| usize::try_from(*cpu).ok());
    numbers.filter(|cpu| *cpu < CpuSet::MAX_CPU).for_each(|cpu| set.set(cpu));
    set
}

/// The launcher blocks some; its server shall not.
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    /// Ends this process, a copy of the test, without the end of the tests.
    fn exit(status: i32) -> ! {
        // SAFETY: it does not return.
        unsafe { libc::_exit(status) }
    }

    /// A parent forks a child and dies before the child has come to its prctl: no signal would ever come. What the child makes of that
    /// it says through the pipe.
    fn bound(parent_dies_first: bool) -> u8 {
        let (says, tell) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        // SAFETY: the copies make system calls alone.
        let parent = unsafe { libc::fork() };
        if parent == 0 {
            let preparation = Preparation::default().bound_to_us(libc::SIGKILL);
            let us = rustix::process::getpid();
            // SAFETY: as above
            if unsafe { libc::fork() } == 0 {
                // a process that dies closes its files first and hands its children on later: no pipe says that it is dead
                while parent_dies_first && rustix::process::getppid() == Some(us) {
                    rustix::thread::sched_yield();
                }
                let _ = rustix::io::write(&tell, &[u8::from(preparation.bind_to_parent().is_ok())]);
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

    #[test]
    fn two_lines_that_come_at_once_are_two() {
        let (descriptor, tell) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        rustix::io::write(&tell, b"{\"pid\":7}\n{\"ended\":0}\n{").expect("writes");
        drop(tell);
        let mut ready = ReadyPipe { descriptor, rest: Vec::new() };
        let mut line = || ready.read_line(Instant::now() + Duration::from_secs(10), &|| false).ok();
        assert_eq!(line().as_deref(), Some("{\"pid\":7}\n"));
        assert_eq!(line().as_deref(), Some("{\"ended\":0}\n"));
        assert_eq!(line(), None, "a line that does not end is none");
    }
}
