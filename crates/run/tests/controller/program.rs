// SPDX-License-Identifier: Apache-2.0
//! For tests: a program that begins a small run and plays all its children, as `wringer` does. It is a program of its own because
//! the tests kill it.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used, unreachable_pub)]

use host::permit::Permit;
use host::places::Places;
use host::process::{Order, Process, launch, lifeline, order, report_ready};
use run::{
    Begin, CgroupVersion, ChildSpec, Error, Kind, Members, OomVictim, Resource, Role, Run, Scope, Step, find_runs,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use supervise::Supervise;

#[path = "../home/supervise.rs"]
mod supervise;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["internal", "watchdog"] => run::watchdog::main(order().unwrap(), |_| true).map(|()| 0),
        ["internal", "launch"] => Ok(u8::try_from(launch(&order().unwrap()).unwrap()).unwrap_or(1)),
        ["internal", "holder"] => hold(),
        ["internal", "layer"] => layer(&order().unwrap()),
        ["internal", "supervise"] => supervise(&order().unwrap()),
        ["run", home, value, cgroup] => small_run(Path::new(home), value, cgroup).and_then(release),
        ["wait", home, value, cgroup] => small_run(Path::new(home), value, cgroup).and_then(await_stdin),
        ["deaf", home, value, cgroup] => deaf(Path::new(home), value, cgroup),
        ["asked", home, value, cgroup] => release_when_asked(|| small_run(Path::new(home), value, cgroup)),
        ["victim", home, value, cgroup] => release_when_asked(|| for_a_victim(Path::new(home), value, cgroup)),
        ["leave", home] => leave(Path::new(home)),
        ["undo", home] => undo(Path::new(home)),
        ref other => panic!("unknown role {other:?}"),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            println!("{error:?}");
            ExitCode::from(if error.is_in_the_way() { 3 } else { 4 })
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Holder;

impl Order for Holder {
    const ROLE: &'static str = "holder";
    type Ready = ();
}

#[derive(Serialize, Deserialize)]
struct Layer {
    home: PathBuf,
}

impl Order for Layer {
    const ROLE: &'static str = "layer";
    type Ready = ();
}

#[derive(Clone, Copy, PartialEq)]
enum Hides {
    ByHolder,
    /// To see the server killed, and no process holds it.
    ForAVictim,
}

fn small_run(home: &Path, value: &str, cgroup: &str) -> Result<Run, Error> {
    begin(home, value, cgroup, Hides::ByHolder)
}

fn for_a_victim(home: &Path, value: &str, cgroup: &str) -> Result<Run, Error> {
    begin(home, value, cgroup, Hides::ForAVictim)
}

fn begin(home: &Path, value: &str, cgroup: &str, hides: Hides) -> Result<Run, Error> {
    let begin = Begin {
        kind: Kind::Run,
        command: vec!["test".into()],
        resources: vec![Resource::Directory(home.into()), Resource::Sandbox("guarded".into())],
        places: Places::below(home),
    };
    let mut run = Run::begin(begin)?;
    let _still = StillWatchdog::of(home);
    run.step(Step::Note { text: "page cache dropped".into() }, |_| Ok(()))?;
    set(&mut run, value)?;
    let cgroups = make_cgroup(&mut run, cgroup)?;
    let grace = Duration::from_secs(1);
    if hides == Hides::ByHolder {
        run.spawn(Role::Holder, ChildSpec { ready: true, grace, ..ChildSpec::internal(&Holder)? })?;
    } else {
        // no block at all: what the journal says is what counts
        let step = Step::MemoryBlocks { kernel: String::new(), movable: String::new(), values: vec![] };
        run.with_oom_victim(OomVictim::Server, |run| run.step(step, |_| Ok(())))?;
    }
    let layer = ChildSpec::internal(&Layer { home: home.to_owned() })?;
    run.spawn(Role::SlowLayer, ChildSpec { ready: true, grace, ..layer })?;
    let arguments: [OsString; 3] = ["-c".into(), "sleep 1000 & wait".into(), home.into()];
    run.spawn(Role::Server, ChildSpec { launcher: true, cgroups, grace, ..ChildSpec::program("/bin/sh", arguments) })?;
    Ok(run)
}

/// A watchdog with limits of a test's own stands still until its run is in its middle. A look at a holder or a layer that is still starting
/// would end it, and the controller with it.
struct StillWatchdog(Process);

impl StillWatchdog {
    /// `None`: it has the usual limits.
    fn of(home: &Path) -> Option<Self> {
        std::env::var_os(run::watchdog::LIMITS_VARIABLE)?;
        let found = find_runs(&Places::below(home)).unwrap();
        let watchdog = Process::open(found[0].steps[0].processes[0]).unwrap();
        watchdog.signal(Signal::STOP).unwrap();
        Some(Self(watchdog))
    }
}

impl Drop for StillWatchdog {
    fn drop(&mut self) {
        let _ = self.0.signal(Signal::CONT);
    }
}

fn set(run: &mut Run, value: &str) -> Result<(), Error> {
    let path = PathBuf::from(value);
    let step = Step::Value { path: path.clone(), before: "before".into(), after: "after".into() };
    run.step(step, |permit: &Permit| host::change::set_value(permit, &path, "before", "after"))?;
    Ok(())
}

/// `cgroup` is a parent, or `none`.
fn make_cgroup(run: &mut Run, cgroup: &str) -> Result<Vec<PathBuf>, Error> {
    if cgroup == "none" {
        return Ok(Vec::new());
    }
    let path = Path::new(cgroup).join(format!("wringer-{}", run.id()));
    let step = Step::Cgroup { path: path.clone(), version: CgroupVersion::V1, home: None, members: Members::Marked };
    run.step(step, |permit| host::change::make_cgroup(permit, &path))?;
    Ok(vec![path])
}

fn release(run: Run) -> Result<u8, Error> {
    let released = run.release()?;
    Ok(if released.conflicts.is_empty() { 0 } else { 5 })
}

fn await_stdin(run: Run) -> Result<u8, Error> {
    println!("{}", run.id());
    let _ = std::io::stdin().read(&mut [0]);
    release(run)
}

/// Says its id, and releases on SIGTERM; prints the watchdog's reason.
fn release_when_asked(begin: impl FnOnce() -> Result<Run, Error>) -> Result<u8, Error> {
    let asked = host::process::block_stop_signals()?;
    let run = begin()?;
    println!("{}", run.id());
    wait_for(&asked);
    let reason = run.neutralised();
    let released = run.release()?;
    assert_eq!(released.neutralised, reason);
    println!("{}", reason.unwrap_or_default());
    Ok(0)
}

/// Until one of the signals has come: a stop and its end interrupt a wait, too.
fn wait_for(asked: &impl AsFd) {
    while poll(&mut [PollFd::new(asked, PollFlags::IN)], None).is_err() {}
}

/// Hears no signal, and does not end.
fn deaf(home: &Path, value: &str, cgroup: &str) -> Result<u8, Error> {
    let _asked = host::process::block_stop_signals()?;
    let run = small_run(home, value, cgroup)?;
    println!("{}", run.id());
    loop {
        std::thread::park();
    }
}

fn leave(home: &Path) -> Result<u8, Error> {
    let resources = vec![Resource::Sandbox("one".into())];
    let begin = Begin { kind: Kind::Standing, command: vec!["start".into()], resources, places: Places::below(home) };
    let mut run = Run::begin(begin)?;
    let arguments: [OsString; 3] = ["-c".into(), "sleep 1000 & wait".into(), home.into()];
    let server = ChildSpec { launcher: true, lifeline: false, ..ChildSpec::program("/bin/sh", arguments) };
    run.spawn(Role::Server, server)?;
    println!("{}", run.leave()?);
    Ok(0)
}

fn undo(home: &Path) -> Result<u8, Error> {
    let report = run::undo(&Places::below(home), Scope::All, &mut |_| {})?;
    if !report.is_whole() {
        println!("{report:?}");
    }
    Ok(if report.is_whole() { 0 } else { 5 })
}

/// Gives back what it holds, which is nothing, when its lifeline ends.
fn hold() -> Result<u8, Error> {
    let lifeline = lifeline().expect("a lifeline");
    report_ready::<Holder>(&());
    while rustix::io::read(&lifeline, &mut [0; 1]) != Ok(0) {}
    Ok(0)
}

/// Serves on when its lifeline ends, notes each SIGUSR1 in `<home>/neutralised`, and ends at SIGTERM. When it is late, and both have come, the
/// kernel tells it of SIGUSR1 first: of several signals that wait, the one with the lowest number.
fn layer(Layer { home }: &Layer) -> Result<u8, Error> {
    let signals = layer_signals();
    report_ready::<Layer>(&());
    loop {
        let mut info = [0_u8; 128];
        if rustix::io::read(&signals, &mut info).is_err() {
            continue;
        }
        // `ssi_signo`, signalfd(2)
        if info[..4] == libc::SIGTERM.to_ne_bytes() {
            return Ok(0);
        }
        std::fs::write(home.join("neutralised"), "1").unwrap();
    }
}

fn layer_signals() -> std::os::fd::OwnedFd {
    use std::os::fd::FromRawFd as _;
    // SAFETY: the set is initialised before use; the descriptor is new.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::sigaddset(&mut set, libc::SIGTERM);
        libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        std::os::fd::OwnedFd::from_raw_fd(libc::signalfd(-1, &set, libc::SFD_CLOEXEC))
    }
}

fn supervise(Supervise { home, value, seconds }: &Supervise) -> Result<u8, Error> {
    let begin = Begin {
        kind: Kind::Standing,
        command: vec!["ram".into(), "hide".into()],
        resources: vec![Resource::Directory(home.into())],
        places: Places::below(home),
    };
    let refuses = seconds == "refuse";
    let lasts = Duration::from_secs(if refuses { 3600 } else { seconds.parse().unwrap() });
    let (_cause, _released) = run::supervise::daemon::<Supervise, _, _>(begin, lasts, |run| {
        set(run, value)?;
        if refuses {
            return Err(Error::Refused { what: "somebody came first".into(), hint: Some("make room".into()) });
        }
        run.spawn(Role::Holder, ChildSpec { ready: true, ..ChildSpec::internal(&Holder)? })?;
        Ok::<_, Error>(1)
    })?;
    Ok(0)
}
