// SPDX-License-Identifier: Apache-2.0
//! System calls that fail in those who give the host back: `wringer undo`, and a watchdog whose controller was killed. All threads are
//! traced, and what they start. Each case says what the program did, and holds it to that: whoever ends with 0 has left nothing, whoever
//! ends otherwise has said why, and what is left is named by `wringer status` until an `undo` that nothing disturbs.

use super::campaign::{Bench, Sample};
use super::stand_in;
use super::standing::{is_alive, json, kill_together, process_of, settles, status};
use super::syscalls::{PATIENCE, SPARED, why_not};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use testkit::{announce_cases, takes_every_case, wait_until};

const ERRNOS: [&str; 5] = ["EMFILE", "ENOMEM", "EPERM", "EINTR", "EIO"];
/// A crash point of the lab at which everything is applied.
const LAB_STANDS: u32 = 40;

#[derive(Debug, Clone, Copy)]
enum Subject {
    Ram,
    Disk,
    /// Private layer, cgroups, servers in them, RAM.
    Lab,
}

impl Subject {
    /// Applies; returns the supervisor and its watchdog.
    fn stand(self, bench: &Bench) -> (u64, u64) {
        let data = bench.data();
        let command = match self {
            Self::Ram => vec!["ram", "hide", "64M", "--yes", "-o", "json"],
            _ => vec!["disk", "delay", data.to_str().unwrap(), "--read", "1ms", "-o", "json"],
        };
        let said = json(&bench.lab.run(command).expect_code(0));
        (said["pid"].as_u64().unwrap(), process_of(&bench.lab, "watchdog"))
    }

    /// Applies, and kills everybody who would give the host back.
    fn strand(self, bench: &Bench) {
        if let Self::Lab = self {
            assert!(stand_in::crashed(bench, "lab", LAB_STANDS, true), "the lab has fewer crash points");
            return;
        }
        let (supervisor, watchdog) = self.stand(bench);
        kill_together(&[watchdog, supervisor]);
    }
}

/// Into the output of the test.
#[allow(clippy::print_stdout)]
fn tell(line: &str) {
    println!("{line}");
}

/// What was injected, and what came of it.
/// All of them; in a sample every second one, and of the next subject the others.
fn errnos(nth_subject: usize) -> impl Iterator<Item = &'static str> {
    let is_drawn = move |at: usize| takes_every_case() || (at + nth_subject).is_multiple_of(2);
    ERRNOS.into_iter().enumerate().filter(move |(at, _)| is_drawn(*at)).map(|(_, errno)| errno)
}

#[derive(Default)]
struct Tally {
    did: BTreeMap<String, usize>,
    failed: Vec<String>,
}

impl Tally {
    fn add(&mut self, case: &str, outcome: Result<String, String>) {
        match outcome {
            Ok(did) => *self.did.entry(did).or_default() += 1,
            Err(why) => {
                tell(&format!("{case}: {why}"));
                self.failed.push(format!("{case}: {why}"));
            }
        }
    }

    fn end(self, name: &str, least: usize) {
        let cases = self.did.values().sum::<usize>() + self.failed.len();
        tell(&format!("{name}: {:?}", self.did));
        announce_cases(name, cases);
        assert!(self.failed.is_empty(), "{} of {cases}: {:#?}", self.failed.len(), self.failed);
        assert!(cases >= least, "only {cases} cases");
    }
}

fn file_of(bench: &Bench, name: &str) -> PathBuf {
    bench.lab.home().join(name)
}

/// Exit code, and what stood on standard error.
fn traced_undo(bench: &Bench, arguments: &[&str]) -> Result<(ExitStatus, String), String> {
    let undo = bench.lab.command(["undo"]);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(file_of(bench, "trace")).args(arguments);
    command.arg(undo.get_program()).args(undo.get_args()).current_dir(bench.lab.home());
    command.envs(undo.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let (out, err) = (file_of(bench, "undo.out"), file_of(bench, "undo.err"));
    command.stdin(Stdio::null()).stdout(File::create(out).unwrap()).stderr(File::create(&err).unwrap());
    let mut child = command.spawn().unwrap();
    if !wait_until(PATIENCE, || child.try_wait().unwrap().is_some()) {
        let _ = child.kill();
        let _ = child.wait();
        return Err("the undo hangs".into());
    }
    Ok((child.wait().unwrap(), fs::read_to_string(err).unwrap_or_default()))
}

/// What the busiest thread called, from the first call on that touches a journal: name, and the numbers of its first and last call among
/// those of that name. Reads of `/proc` are nine tenths of all: who draws from all calls alike hardly meets another one.
fn calls(bench: &Bench) -> Vec<(String, usize, usize)> {
    let trace = fs::read_to_string(file_of(bench, "trace")).unwrap();
    let mut threads: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in trace.lines().filter(|line| !line.contains("resumed>")) {
        if let Some((thread, call)) = line.split_once(' ').filter(|(_, call)| call.contains('(')) {
            threads.entry(thread).or_default().push(call.trim_start());
        }
    }
    let busiest = threads.into_values().max_by_key(Vec::len).unwrap();
    let first = busiest.iter().position(|call| call.contains("/journal")).unwrap_or(0);
    let mut found: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (number, call) in busiest.iter().enumerate() {
        let name = call.split('(').next().unwrap_or_default();
        let (before, all) = found.entry(name.to_owned()).or_default();
        *before += usize::from(number < first);
        *all += 1;
    }
    let cannot_fail = |name: &str| SPARED.split(['!', ',']).any(|spared| spared == name);
    let found = found.into_iter().filter(|(name, (before, all))| before < all && !cannot_fail(name));
    found.map(|(name, (before, all))| (name, before + 1, all)).collect()
}

/// An injected undo may do all, or less and say so.
fn held_to_its_word(bench: &Bench, status: ExitStatus, said: &str) -> Result<String, String> {
    let did = match (status.code(), status.signal()) {
        (Some(0), _) => {
            settles(&bench.before);
            bench.is_as_before("after an undo that ended with 0")?;
            "gave everything back".to_owned()
        }
        (Some(code @ (3..=5)), _) if !said.trim().is_empty() => format!("ended with {code}"),
        // a thread that the system lets nobody start, memory that it does not give
        (_, Some(libc::SIGABRT)) => "aborted".to_owned(),
        _ => return Err(format!("{status}, and it said: {said}")),
    };
    Ok(did)
}

#[test]
fn an_undo_whose_calls_fail_does_what_it_says() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    let (bench, mut tally, mut sample) = (Bench::new(), Tally::default(), Sample::new());
    for (nth, subject) in [Subject::Ram, Subject::Disk, Subject::Lab].into_iter().enumerate() {
        subject.strand(&bench);
        let (status, said) = traced_undo(&bench, &["-e", "trace=all"]).unwrap();
        assert!(status.success(), "{status}: {said}");
        let calls = calls(&bench);
        assert_eq!(bench.undone(), Ok(()));
        for errno in errnos(nth) {
            for (name, number) in sample.of_calls(&calls) {
                subject.strand(&bench);
                let inject = format!("inject={name}:error={errno}:when={number}");
                let outcome = traced_undo(&bench, &["-e", &inject])
                    .and_then(|(status, said)| held_to_its_word(&bench, status, &said))
                    .and_then(|did| bench.undone().map(|()| did));
                tally.add(&format!("{inject}, {subject:?}, {sample}"), outcome);
            }
        }
    }
    tally.end("errno::an_undo_whose_calls_fail_does_what_it_says", 8);
}

/// From when it is traced: its controller is killed, and it comes to its end.
fn bereaved_watchdog(bench: &Bench, subject: Subject, arguments: &[&str]) -> Result<(), String> {
    let (supervisor, watchdog) = subject.stand(bench);
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(file_of(bench, "trace")).args(arguments).args(["-p", &watchdog.to_string()]);
    let mut strace = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_traced = || {
        let status = fs::read_to_string(format!("/proc/{watchdog}/status")).unwrap_or_default();
        !status.contains("TracerPid:\t0\n")
    };
    // it may have died of the first call already, and the supervisor with it; whoever is dead is not traced any more
    assert!(wait_until(PATIENCE, || is_traced() || !is_alive(watchdog)), "strace does not come to it");
    if is_alive(supervisor) {
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_raw(i32::try_from(supervisor).unwrap()).unwrap(),
            Signal::KILL,
        );
    }
    let ended = wait_until(PATIENCE, || !is_alive(watchdog));
    if !ended {
        let _ = strace.kill();
    }
    strace.wait().unwrap();
    if ended { Ok(()) } else { Err("the watchdog does not end".into()) }
}

/// A watchdog has nobody to tell: what it leaves must be in its journal.
fn left_in_the_open(bench: &Bench) -> Result<String, String> {
    if settles(&bench.before) {
        return Ok("gave everything back".into());
    }
    if status(&bench.lab)["runs"].as_array().is_some_and(|runs| !runs.is_empty()) {
        return Ok("left it to undo".into());
    }
    bench.is_as_before("with nothing in any journal").map(|()| "gave everything back late".into())
}

#[test]
fn a_watchdog_whose_calls_fail_leaves_nothing_in_silence() {
    if let Some(why) = why_not() {
        testkit::skip!("{why}");
    }
    let (bench, mut tally, mut sample) = (Bench::new(), Tally::default(), Sample::new());
    for (nth, subject) in [Subject::Ram, Subject::Disk].into_iter().enumerate() {
        bereaved_watchdog(&bench, subject, &["-e", "trace=all"]).unwrap();
        let calls = calls(&bench);
        assert_eq!(bench.given_back_by_itself().and_then(|()| bench.undone()), Ok(()));
        for errno in errnos(nth) {
            for (name, number) in sample.of_calls(&calls) {
                let inject = format!("inject={name}:error={errno}:when={number}");
                let outcome = bereaved_watchdog(&bench, subject, &["-e", &inject])
                    .and_then(|()| left_in_the_open(&bench))
                    .and_then(|did| bench.undone().map(|()| did));
                tally.add(&format!("{inject}, {subject:?}, {sample}"), outcome);
            }
        }
    }
    tally.end("errno::a_watchdog_whose_calls_fail_leaves_nothing_in_silence", 5);
}
