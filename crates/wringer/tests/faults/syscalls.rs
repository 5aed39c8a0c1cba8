// SPDX-License-Identifier: Apache-2.0
//! SIGKILL at system calls, and system calls that fail: by strace, which works on a static binary, too. The controller is run from
//! its beginning to the end of its release; the calls before it touches the journal are left out.

use super::campaign::{Bench, points};
use super::standing::{json, kill_together, process_of};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use testkit::{announce_cases, is_root, takes_every_case, wait_until};

/// A controller that hangs longer than this has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// All calls but those that cannot fail.
pub(crate) const SPARED: &str = "!exit_group,exit,rt_sigreturn,munmap,futex";

pub(crate) fn why_not() -> Option<&'static str> {
    let strace = || Command::new("strace").arg("--version").output().is_ok();
    if !is_root() {
        Some("needs root")
    } else if !strace() {
        Some("needs strace")
    } else {
        None
    }
}

/// `strace` over a supervisor that applies its order and releases at once. Only its main thread is traced: children are on their own.
fn strace(bench: &Bench, order: &str, arguments: &[&str]) -> ExitStatus {
    let file = bench.lab.home().join("order");
    std::fs::write(&file, order).unwrap();
    strace_with(bench, &["internal", "supervise"], arguments, File::open(file).unwrap().into(), || {})
}

/// The same over any command; `meanwhile` is called when it has started.
fn strace_of(bench: &Bench, command: &[&str], arguments: &[&str], meanwhile: impl FnOnce()) -> ExitStatus {
    strace_with(bench, command, arguments, Stdio::null(), meanwhile)
}

fn strace_with(
    bench: &Bench,
    command: &[&str],
    arguments: &[&str],
    input: Stdio,
    meanwhile: impl FnOnce(),
) -> ExitStatus {
    let log = trace_file(bench);
    let _ = std::fs::remove_file(&log);
    let traced = bench.lab.command(command);
    let mut command = Command::new("strace");
    command.arg("-qq").arg("-o").arg(log).args(arguments).arg(traced.get_program()).args(traced.get_args());
    let environment = traced.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    command.envs(environment.collect::<Vec<_>>()).current_dir(bench.lab.home());
    command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    meanwhile();
    let ended = wait_until(PATIENCE, || child.try_wait().unwrap().is_some());
    if !ended {
        let _ = child.kill();
    }
    let status = child.wait().unwrap();
    assert!(ended, "it hangs with {arguments:?}");
    status
}

fn trace_file(bench: &Bench) -> PathBuf {
    bench.lab.home().join("trace")
}

/// Number of the first call that touches the journal, of the first call of the release, and of the last.
fn count(bench: &Bench, order: &str) -> (usize, usize, usize) {
    assert!(strace(bench, order, &["-e", "trace=all"]).success());
    assert_eq!(bench.undone(), Ok(()));
    let trace = std::fs::read_to_string(trace_file(bench)).unwrap();
    let calls: Vec<&str> = trace.lines().filter(|line| line.contains('(')).collect();
    let first = calls.iter().position(|call| call.contains("/journal\"")).unwrap() + 1;
    // the reason of the watchdog is looked for when the release begins
    let release = calls.iter().position(|call| call.contains("/neutralised\"")).unwrap() + 1;
    (first, release, calls.len())
}

/// What to try, and how large a sample of its calls: those of an image's loop device are tried one by one below.
fn orders(bench: &Bench, sample: usize) -> [(String, usize); 3] {
    [(bench.ram_order(0), sample), (bench.disk_order(0), sample), (bench.image_order(0), 1)]
}

fn killed_at(calls: impl Fn((usize, usize, usize)) -> (usize, usize), name: &str) {
    let mut cases = 0;
    let bench = Bench::new();
    for (order, sample) in orders(&bench, 3) {
        let (first, last) = calls(count(&bench, &order));
        for number in points(first, last, sample) {
            let status = strace(&bench, &order, &["-e", &format!("inject=all:signal=KILL:when={number}")]);
            let outcome = bench.given_back_by_itself().and_then(|()| bench.undone());
            assert_eq!(outcome, Ok(()), "{status}: killed at call {number} of {order}");
            cases += 1;
        }
    }
    announce_cases(name, cases);
    assert!(cases >= 8, "only {cases} cases");
}

#[test]
fn killed_while_applying() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    killed_at(|(first, release, _)| (first, release - 1), "syscalls::killed_while_applying");
}

#[test]
fn killed_while_releasing() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    killed_at(|(_, release, last)| (release, last - 1), "syscalls::killed_while_releasing");
}

/// A controller that ends with 0 has squeezed, and has given everything back; one that refuses or fails has left nothing either, for its
/// watchdog is there. 5 says that something is left.
fn squeezed_or_refused(bench: &Bench, status: ExitStatus) -> Result<String, String> {
    let did = match (status.code(), status.signal()) {
        (Some(0), _) => {
            let trace = std::fs::read_to_string(trace_file(bench)).unwrap_or_default();
            if !trace.contains("/neutralised\"") {
                return Err("it ended with 0, and never came to its release".into());
            }
            "squeezed and released".to_owned()
        }
        (Some(5), _) => return Ok("said that something is left".into()),
        (Some(code @ (3 | 4)), _) => format!("refused or undone with {code}"),
        (_, Some(libc::SIGABRT)) => "aborted".to_owned(),
        _ => return Err(format!("it ended with {status}")),
    };
    bench.given_back_by_itself().map(|()| did)
}

/// Whatever fails, and however: the controller refuses or undoes, and nothing is left when it and `wringer undo` are through.
#[test]
fn calls_that_fail() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    let (mut cases, mut failed, mut all) = (0, Vec::new(), BTreeMap::<String, usize>::new());
    let bench = Bench::new();
    for (nth, ((order, sample), squeeze)) in orders(&bench, 1).into_iter().zip(["ram", "disk", "image"]).enumerate() {
        let (first, _, last) = count(&bench, &order);
        // a sample takes every second errno, and of the next squeeze the others
        let errnos = ["EMFILE", "ENOMEM", "EPERM", "EINTR"].iter().enumerate();
        for (index, errno) in errnos.filter(|(index, _)| takes_every_case() || (index + nth).is_multiple_of(2)) {
            for number in points(first + index, last, sample) {
                let inject = format!("inject={SPARED}:error={errno}:when={number}");
                let status = strace(&bench, &order, &["-e", &inject]);
                let did = squeezed_or_refused(&bench, status);
                if let Err(why) = did.and_then(|did| bench.undone().map(|()| *all.entry(did).or_default() += 1)) {
                    failed.push(format!("{status}: {errno} at call {number} of {first} to {last}, {squeeze}: {why}"));
                    eprintln!("{}", failed[failed.len() - 1]);
                }
                cases += 1;
            }
        }
    }
    println!("syscalls::calls_that_fail: {all:?}");
    announce_cases("syscalls::calls_that_fail", cases);
    assert!(failed.is_empty(), "{} of {cases}: {failed:#?}", failed.len());
    assert!(cases >= 12, "only {cases} cases");
}

/// The calls at a loop device in the last trace, each with its number among all of its kind.
fn loop_calls(bench: &Bench, expected: [&str; 2]) -> Vec<(usize, String)> {
    let trace = std::fs::read_to_string(trace_file(bench)).unwrap();
    let calls = (1..).zip(trace.lines().filter(|line| line.starts_with("ioctl(")));
    let first = |name: &str| calls.clone().find(|(_, call)| call.contains(name)).map(|(n, call)| (n, call.to_owned()));
    expected.iter().map(|name| first(name).unwrap_or_else(|| panic!("{name} is nowhere in {trace}"))).collect()
}

/// No loop device is free, or they are all taken before they are attached; attaching fails; the controller is killed at it.
#[test]
fn a_loop_device_that_cannot_be_attached() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    let bench = Bench::new();
    let order = bench.image_order(0);
    assert!(strace(&bench, &order, &["-e", "trace=ioctl"]).success());
    let calls = loop_calls(&bench, ["LOOP_CTL_GET_FREE", "LOOP_CONFIGURE"]);
    assert_eq!(bench.undone(), Ok(()));
    let mut cases = 0;
    for (number, call) in &calls {
        for fault in [format!("error=EBUSY:when={number}"), format!("error=EIO:when={number}+")] {
            let status = strace(&bench, &order, &["-e", &format!("inject=ioctl:{fault}")]);
            assert_eq!(bench.undone(), Ok(()), "{status}: {fault}, which is {call}");
            cases += 1;
        }
        let status = strace(&bench, &order, &["-e", &format!("inject=ioctl:signal=KILL:when={number}")]);
        let outcome = bench.given_back_by_itself().and_then(|()| bench.undone());
        assert_eq!(outcome, Ok(()), "{status}: killed at {call}");
        cases += 1;
    }
    announce_cases("syscalls::a_loop_device_that_cannot_be_attached", cases);
}

/// The calls that ask a loop device for its name, and detach it, in an undo that finds it in use for a moment.
#[test]
fn a_loop_device_that_cannot_be_detached() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    let bench = Bench::new();
    let image = bench.image();
    let undo = |arguments: &[&str]| {
        let delay = ["disk", "delay", image.to_str().unwrap(), "--write", "1ms", "-o", "json"];
        let said = json(&bench.lab.run(delay).expect_code(0));
        let user = File::open(said["device"].as_str().unwrap()).unwrap();
        kill_together(&[process_of(&bench.lab, "watchdog"), said["pid"].as_u64().unwrap()]);
        // when the undo has come to it; it tries again for seconds
        let is_at_it = || std::fs::read_to_string(trace_file(&bench)).is_ok_and(|trace| trace.contains("LOOP_"));
        let status = strace_of(&bench, &["undo"], arguments, || {
            wait_until(PATIENCE, is_at_it);
            drop(user);
        });
        (status, bench.undone())
    };
    let (status, outcome) = undo(&["-e", "trace=ioctl"]);
    let calls = loop_calls(&bench, ["LOOP_GET_STATUS64", "LOOP_CLR_FD"]);
    assert!(status.success() && outcome.is_ok(), "{status}: {outcome:?}");
    let mut cases = 0;
    for (number, call) in &calls {
        for fault in ["error=EIO", "error=ENXIO", "signal=KILL"] {
            let inject = format!("inject=ioctl:{fault}:when={number}");
            let (status, outcome) = undo(&["-e", "trace=ioctl", "-e", &inject]);
            assert_eq!(outcome, Ok(()), "{status}: {inject}, which is {call}");
            cases += 1;
        }
    }
    announce_cases("syscalls::a_loop_device_that_cannot_be_detached", cases);
}

/// The journal's disk is full, broken or read-only at each of its records: nothing is applied without its intent, and what was
/// applied is undone without a record.
#[test]
fn a_journal_that_cannot_be_written() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    let mut cases = 0;
    let bench = Bench::new();
    for (order, sample) in orders(&bench, 1) {
        for call in ["pwrite64", "fdatasync"] {
            assert!(strace(&bench, &order, &["-e", &format!("trace={call}")]).success());
            let writes = std::fs::read_to_string(trace_file(&bench)).unwrap().lines().count();
            assert!(writes > 10, "{writes} times {call}");
            for (number, errno) in points(1, writes, sample).into_iter().zip(["ENOSPC", "EIO", "EROFS"].iter().cycle())
            {
                // this one and every later one
                let inject = format!("inject={call}:error={errno}:when={number}+");
                let status = strace(&bench, &order, &["-e", &inject]);
                assert_eq!(bench.undone(), Ok(()), "{status}: {errno} from {call} {number} on, of {order}");
                cases += 1;
            }
        }
    }
    announce_cases("syscalls::a_journal_that_cannot_be_written", cases);
    assert!(cases >= 12, "only {cases} cases");
}
