// SPDX-License-Identifier: Apache-2.0
//! Runs every test, and compares every skip with the allow-list.

use crate::faults::{cases_file, take_cases};
use crate::leftovers;
use crate::programs::{self, Order};
use crate::stopwatch::{Ran, Stopwatch, slowest};
use crate::tally::{Skip, Tally};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of slowest test programs that are listed at the end.
const SHOWN: usize = 10;
const ALLOWED: &str = "tests/skips-allowed.txt";

/// The words for cargo that choose the packages of one part of the suite.
pub(crate) const WORKSPACE: [&str; 5] = ["--workspace", "--exclude", "guest", "--features", "wringer/failpoints"];
const GUEST: [&str; 2] = ["--package", "guest"];

/// True when nothing failed, and every skip is allowed.
pub(crate) fn everything(arguments: &[String]) -> Result<bool> {
    let program = start_building_guest();
    let suite = Suite::begin(arguments)?;
    if arguments.is_empty() {
        in_three_parts(&suite, program)?;
    } else {
        suite.cargo_test("", &[&WORKSPACE])?;
        suite.guest_test("")?;
    }
    suite.end()
}

/// Starts to build the program for the guest. It has a build folder of its own, so it need not wait until the tests are built. `None`: no guest can
/// run here.
fn start_building_guest() -> Option<Child> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_emulator = std::env::split_paths(&path).any(|folder| folder.join("qemu-system-x86_64").is_file());
    let build = has_emulator.then(|| Command::new("tests/guest/build-program.sh").stdout(Stdio::null()).spawn());
    build.and_then(std::io::Result::ok)
}

/// Runs every test of the test guest alone: of the host, the guest needs only the servers in Wringer's cache.
pub(crate) fn guest_alone(arguments: &[String]) -> Result<bool> {
    let suite = Suite::begin(arguments)?;
    build_tests(&["--test", "undo"])?;
    suite.guest_test("")?;
    suite.end()
}

/// The guest waits for its own clock most of the time. Beside it run the programs that compare the host, and the programs that begin no run. When all
/// of these have ended, the programs with servers run in lanes: with two processors, the guest would get too little time beside them. At the end, the
/// programs that measure run alone.
fn in_three_parts(suite: &Suite<'_>, program: Option<Child>) -> Result<()> {
    build_tests(&["--tests"])?;
    leftovers::give_back(&suite.program)?;
    // if this has failed, the guest's tests build it again, and report the failure
    let _ = program.map(|mut program| program.wait());
    let Order { first, then, alone } = programs::order()?;
    std::thread::scope(|scope| {
        let guest = scope.spawn(|| suite.guest_test("guest: "));
        let host = side_by_side(suite, &first, "2");
        guest.join().map_err(|_| anyhow::anyhow!("the thread of the guest panicked"))?.and(host)
    })?;
    // a test with servers waits for the servers and for the disk most of the time
    side_by_side(suite, &then, "2")?;
    suite.cargo_test("", &[&WORKSPACE, &["--lib", "--bins"], &targets(&alone)])
}

/// Runs the lanes at the same time, the programs of each lane one after the other, each with the given number of tests at a time. The lines of each
/// lane except the first begin with the lane's number.
fn side_by_side(suite: &Suite<'_>, lanes: &[Vec<String>], tests_at_a_time: &str) -> Result<()> {
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (number, lane) in lanes.iter().enumerate() {
            let label = if number == 0 { String::new() } else { format!("{}: ", number + 1) };
            running.push(scope.spawn(move || {
                let words: [&[&str]; 2] = [&WORKSPACE, &targets(lane)];
                suite.test(cargo().env("RUST_TEST_THREADS", tests_at_a_time), &label, &words)
            }));
        }
        // all lanes are waited for, even if one has failed
        let ended: Vec<_> = running.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        ended.into_iter().try_for_each(|lane| lane.map_err(|_| anyhow::anyhow!("the thread of a lane panicked"))?)
    })
}

pub(crate) fn targets(programs: &[String]) -> Vec<&str> {
    programs.iter().flat_map(|program| ["--test", program]).collect()
}

/// The parts of one run share this.
struct Suite<'a> {
    arguments: &'a [String],
    skips_file: PathBuf,
    program: PathBuf,
    tally: Mutex<Tally>,
    ran: Mutex<Vec<Ran>>,
}

impl<'a> Suite<'a> {
    fn begin(arguments: &'a [String]) -> Result<Self> {
        let skips_file = std::env::temp_dir().join(format!("wringer-skips-{}", std::process::id()));
        let _ = fs::remove_file(&skips_file);
        let tally = Mutex::new(Tally { succeeded: true, ..Tally::default() });
        Ok(Self { arguments, skips_file, program: program()?, tally, ran: Mutex::default() })
    }

    /// Prints the results, the counts last.
    fn end(self) -> Result<bool> {
        let mut tally = self.tally.into_inner().unwrap_or_else(PoisonError::into_inner);
        let skips = fs::read_to_string(&self.skips_file).unwrap_or_default();
        tally.skips = skips.lines().filter_map(Skip::parse).collect();
        let _ = fs::remove_file(&self.skips_file);

        let allowed = fs::read_to_string(ALLOWED).with_context(|| format!("read {ALLOWED}"))?;
        let refused = report_skips(&tally.skips, &allowed);
        if refused > 0 {
            println!("{refused} skipped for a reason that {ALLOWED} does not allow: counted as failed");
        }
        let ran = self.ran.into_inner().unwrap_or_else(PoisonError::into_inner);
        print!("The {SHOWN} test programs that took longest:\n{}", slowest(ran, SHOWN));
        println!("{} fault cases", take_cases(&cases_file()));
        println!("{}", tally.closing_line(refused));
        Ok(tally.succeeded && tally.failed == 0 && refused == 0 && tally.passed > 0)
    }

    /// All tests of one boot wait for it at the same time, and each of them needs a thread for that.
    fn guest_test(&self, label: &str) -> Result<()> {
        self.test(cargo().env("RUST_TEST_THREADS", "64"), label, &[&GUEST])
    }

    fn cargo_test(&self, label: &str, words: &[&[&str]]) -> Result<()> {
        self.test(&mut cargo(), label, words)
    }

    /// Runs cargo, prints its output at once, each line after `label`, and counts the results.
    fn test(&self, command: &mut Command, label: &str, words: &[&[&str]]) -> Result<()> {
        command.args(["test", "--no-fail-fast"]).args(words.concat()).args(self.arguments);
        command.env("WRINGER_SKIPS", &self.skips_file).env("WRINGER_CASES", cases_file());
        command.env("WRINGER_WITH_FAILPOINTS", &self.program);
        // the reason of a failure is printed beside the test's line, not an hour later
        command.env("RUST_TEST_NOCAPTURE", "1");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("start cargo test")?;
        let stopwatch = Stopwatch::listen(child.stderr.take().context("take the errors of cargo test")?, label);
        let output = child.stdout.take().context("take the output of cargo test")?;
        for line in BufReader::new(output).lines() {
            let line = line.context("read the output of cargo test")?;
            self.tally().count(&line);
            println!("{label}{line}");
        }
        let succeeded = child.wait().context("wait for cargo test")?.success();
        self.tally().succeeded &= succeeded;
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).extend(stopwatch.stop());
        Ok(())
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds all tests at once, with both processors, and the program with them; the parts of the suite find them built.
fn build_tests(which: &[&str]) -> Result<()> {
    let status = cargo().args(["test", "--no-run"]).args(which).args(WORKSPACE).status().context("start cargo test")?;
    anyhow::ensure!(status.success(), "the tests do not build");
    Ok(())
}

/// The program with the feature `failpoints`: the tests of the host run it, and in the guest, the test of a layer with false answers runs it.
fn program() -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    Ok(std::env::current_dir()?.join(target).join("debug/wringer"))
}

pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Prints each skip once; returns the number of skips that the allow-list does not cover.
fn report_skips(skips: &BTreeSet<Skip>, allowed: &str) -> usize {
    let mut refused = 0;
    for skip in skips {
        let verdict = if skip.is_allowed(allowed) { "allowed" } else { "NOT ALLOWED" };
        refused += usize::from(verdict != "allowed");
        println!("SKIPPED {} ({verdict}): {}", skip.place, skip.why);
    }
    refused
}
