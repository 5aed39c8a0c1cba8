// SPDX-License-Identifier: Apache-2.0
use super::launch::LaunchSettings;
use super::order::{Answer, ORDER_VARIABLE, in_memory, written};
use super::preparation::Preparation;
use super::{
    ChildSpec, Identity, LIFELINE_VARIABLE, Order as _, Orphans, Process, READY_VARIABLE, RUN_VARIABLE, own_program,
};
use crate::permit::Permit;
use crate::{Error, files, interrupt};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The things by which a child belongs to its run.
#[derive(Debug, Clone, Copy)]
pub struct Marks<'a> {
    pub run_id: &'a str,
    /// The log of a child without a log of its own.
    pub default_log: &'a Path,
    pub token: BorrowedFd<'a>,
    pub lifeline: Option<BorrowedFd<'a>>,
    /// Descriptors that the child inherits unchanged, and holds as long as it lives: locks, another pipe's write end.
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
    /// The place in the log where the child's own part begins.
    log_start_bytes: u64,
    /// The child writes a second line when its command has ended.
    tells_orphans: bool,
}

/// Starts `spec` in a session of its own, with stdin from `/dev/null`, unless the child is in the foreground.
///
/// # Errors
/// The program is missing or cannot be executed; a log or a cgroup cannot be opened; the identity cannot be taken.
pub fn spawn(_permit: &Permit, marks: Marks<'_>, spec: &ChildSpec) -> Result<Spawned, Error> {
    let mut command = if spec.launcher { launcher_command(spec)? } else { direct_command(spec)? };
    command.env(RUN_VARIABLE, marks.run_id);
    let marks_of_run = std::iter::once(&marks.token).chain(marks.keep).map(AsRawFd::as_raw_fd);
    let inherited = marks_of_run.chain(spec.inherit.iter().map(AsRawFd::as_raw_fd)).collect();
    start(command, marks.default_log, marks.lifeline.filter(|_| spec.lifeline), inherited, spec)
}

/// Starts a daemon that will be the controller of its own run: it belongs to no run yet, and changes nothing before it has begun its run.
pub fn spawn_supervisor(log: &Path, spec: &ChildSpec) -> Result<Spawned, Error> {
    let mut command = direct_command(spec)?;
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
    // A test that kills us at a crash point must not kill our children.
    command.env_remove("WRINGER_CRASH");
    let order = if spec.launcher { Some(in_memory(&written(&LaunchSettings::of(spec))?)?) } else { None };
    if !spec.launcher {
        command.envs(spec.env.iter().cloned());
    }
    let (ready, report) = ready_pipe(spec)?;
    let log = if spec.foreground { default_log.to_owned() } else { attach_logs(&mut command, default_log, spec)? };
    let log_start_bytes = log.metadata().map_or(0, |metadata| metadata.len());
    let (report, order) = (report.as_ref().map(AsFd::as_fd), order.as_ref().map(AsFd::as_fd));
    for (variable, descriptor) in [(READY_VARIABLE, report), (LIFELINE_VARIABLE, lifeline), (ORDER_VARIABLE, order)] {
        command.env_remove(variable);
        if let Some(descriptor) = descriptor {
            command.env(variable, descriptor.as_raw_fd().to_string());
            inherited.push(descriptor.as_raw_fd());
        }
    }
    let preparation = if spec.launcher { Preparation::of_launcher(spec) } else { Preparation::of(spec)? };
    preparation.with_descriptors(inherited).install(&mut command);
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

    /// The child's report when it was ready, the [`super::Order::Ready`] of its role; `None` when the child was not asked for a report.
    ///
    /// # Errors
    /// [`Error::Child`] with the end of its log when the child ends, reports an error, or takes longer than `timeout`;
    /// [`Error::Interrupted`] when the user asks us to stop.
    pub fn await_ready(&mut self, timeout: Duration) -> Result<Option<serde_json::Value>, Error> {
        let Some(mut ready) = self.ready.take() else { return Ok(None) };
        let line = match ready.read_line(Instant::now() + timeout, &interrupt::requested) {
            Ok(line) => line,
            Err(trouble) => {
                // whoever tells it to end may hear what it says then
                self.ready = Some(ready);
                return Err(self.explain(trouble, timeout));
            }
        };
        match serde_json::from_str(&line) {
            Ok(Answer::Ready(value)) => {
                self.ready = Some(ready).filter(|_| self.tells_orphans);
                Ok(Some(value))
            }
            Ok(Answer::Error(why)) => Err(self.failed(why)),
            Err(_) => Err(self.failed(format!("it said '{}'", line.trim()))),
        }
    }

    /// For a child that was told to end before it was ready: what it reported last, and how it ended. A second Ctrl-C ends the wait.
    pub fn await_end(&mut self, timeout: Duration) -> Ended {
        let deadline = Instant::now() + timeout;
        let mut said = None;
        if let Some(mut ready) = self.ready.take() {
            while let Ok(line) = ready.read_line(deadline, &interrupt::impatient) {
                if let Ok(Answer::Ready(value)) = serde_json::from_str(&line) {
                    said = Some(value);
                }
            }
        }
        let slice = Duration::from_millis(200);
        while !self.process.wait(slice) && Instant::now() < deadline && !interrupt::impatient() {}
        Ended { said, status: self.reap() }
    }

    /// For a command in the foreground that has ended: what was done with the processes that it left running. `None`: its launcher was killed.
    ///
    /// # Errors
    /// The launcher does not end.
    pub fn await_orphans(&mut self) -> Result<Option<Orphans>, Error> {
        let Some(mut ready) = self.ready.take() else { return Ok(None) };
        let deadline = Instant::now() + Orphans::TIMEOUT;
        match ready.read_line(deadline, &|| false) {
            Ok(line) => Ok(serde_json::from_str(&line).ok()),
            Err(NotReady::Late) => Err(self.failed("its launcher does not end what it has left running".into())),
            Err(NotReady::Closed | NotReady::Interrupted) => Ok(None),
        }
    }

    /// Collects the exit status when the child has ended, so that no zombie stays.
    pub fn reap(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    fn explain(&mut self, trouble: NotReady, timeout: Duration) -> Error {
        match trouble {
            NotReady::Interrupted => Error::Interrupted,
            NotReady::Late => self.failed(format!("it was not ready after {} s", timeout.as_secs())),
            NotReady::Closed => {
                self.process.wait(Duration::from_secs(10));
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

/// The end of a child that was not waited for any more.
#[derive(Debug)]
pub struct Ended {
    /// Its last report, the [`super::Order::Ready`] of its role.
    pub said: Option<serde_json::Value>,
    /// `None`: it has not ended in time.
    pub status: Option<ExitStatus>,
}

enum NotReady {
    Interrupted,
    Late,
    Closed,
}

/// The lines that a child writes, one at a time.
#[derive(Debug)]
struct ReadyPipe {
    descriptor: OwnedFd,
    /// Bytes that came together with the line before: a command may end before its first line was read.
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

/// Waits in slices of 100 ms, to notice the user's request to stop.
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
fn direct_command(spec: &ChildSpec) -> Result<Command, Error> {
    let mut command = Command::new(&spec.program);
    command.args(&spec.args);
    give_input(&mut command, spec)?;
    if let Some(folder) = &spec.cwd {
        command.current_dir(folder);
    }
    Ok(command)
}

#[allow(clippy::disallowed_methods)] // as above
fn launcher_command(spec: &ChildSpec) -> Result<Command, Error> {
    let mut command = Command::new(own_program());
    command.args(["internal", LaunchSettings::ROLE]);
    give_input(&mut command, spec)?;
    Ok(command)
}

/// A launcher passes its standard input on to its command.
fn give_input(command: &mut Command, spec: &ChildSpec) -> Result<(), Error> {
    match &spec.order {
        Some(order) => command.stdin(in_memory(order)?),
        None if spec.foreground => command,
        None => command.stdin(Stdio::null()),
    };
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

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
