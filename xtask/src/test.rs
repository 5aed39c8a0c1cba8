// SPDX-License-Identifier: Apache-2.0
//! Runs every test, and compares every skip with the allow-list.

use crate::failures::{failed_test, paragraphs};
use crate::faults::{cases_file, take_cases};
use crate::leftovers;
use crate::programs::{self, Order};
use crate::stopwatch::{Ran, Stopwatch, slowest};
use crate::tally::{Skip, Tally};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The number of slowest test programs that are listed at the end.
const SHOWN: usize = 10;
const ALLOWED: &str = "tests/skips-allowed.txt";

/// The words for cargo that choose the packages of one part of the suite.
pub(crate) const WORKSPACE: [&str; 5] = ["--workspace", "--exclude", "guest", "--features", "wringer/failpoints"];
/// The programs of tests that run in the guest beside `wringer`: `BESIDE` in `tests/guest/src/image.rs`.
const BESIDE_IN_GUEST: [&str; 3] = ["squeeze-test-server-ram", "squeeze-test-dmsetup", "sandbox-test-commits"];
const GUEST: [&str; 2] = ["--package", "guest"];

/// True when nothing failed, and every skip is allowed.
pub(crate) fn everything(arguments: &[String]) -> Result<bool> {
    let suite = Suite::begin(arguments)?;
    let mut parts = Parts::default();
    if arguments.is_empty() {
        in_three_parts(&suite, &mut parts)?;
    } else {
        suite.cargo_test("", &[&WORKSPACE])?;
        suite.guest_test("")?;
    }
    suite.end(&parts)
}

/// Runs every test of the test guest alone: of the host, the guest needs only the servers in Wringer's cache.
pub(crate) fn guest_alone(arguments: &[String]) -> Result<bool> {
    let suite = Suite::begin(arguments)?;
    build_tests(&["--test", "undo"])?;
    suite.guest_test("")?;
    suite.end(&Parts::default())
}

/// The guest waits for its own clock most of the time. Beside it run the programs that compare the host, and the programs that begin no run. When all
/// of these have ended, the programs with servers run in lanes: with two processors, the guest would get too little time beside them. At the end, the
/// programs that measure run alone.
fn in_three_parts(suite: &Suite<'_>, parts: &mut Parts) -> Result<()> {
    parts.begin("build");
    build_tests(&["--tests"])?;
    parts.begin("guest");
    leftovers::give_back(&suite.program)?;
    let Order { first, then, alone } = programs::order()?;
    std::thread::scope(|scope| {
        let guest = scope.spawn(|| suite.guest_test("guest: "));
        let host = side_by_side(suite, &first, &[]);
        guest.join().map_err(|_| anyhow::anyhow!("the thread of the guest panicked"))?.and(host)
    })?;
    parts.begin("lanes with servers");
    side_by_side(suite, &then, &["--lib", "--bins"])?;
    parts.begin("one by one");
    suite.cargo_test("", &[&WORKSPACE, &targets(&alone)])?;
    parts.end();
    Ok(())
}

/// How long each part of the suite took.
#[derive(Default)]
struct Parts {
    running: Option<(&'static str, Instant)>,
    ended: Vec<(&'static str, Duration)>,
}

impl Parts {
    fn begin(&mut self, name: &'static str) {
        self.end();
        self.running = Some((name, Instant::now()));
    }

    fn end(&mut self) {
        self.ended.extend(self.running.take().map(|(name, start)| (name, start.elapsed())));
    }
}

/// One line, or none when the suite did not run in parts.
impl Display for Parts {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(total) = self.ended.iter().map(|(_, lasted)| *lasted).reduce(|sum, next| sum + next) else {
            return Ok(());
        };
        write!(f, "The parts:")?;
        for (name, lasted) in &self.ended {
            write!(f, " {name} {:.0} s,", lasted.as_secs_f64())?;
        }
        writeln!(f, " together {:.0} s", total.as_secs_f64())
    }
}

/// Runs the lanes at the same time, the programs of each lane one after the other, each with two tests at a time: a test waits for servers, for the
/// kernel or for the disk most of the time. `also` names further targets for the first lane. The lines of each lane but the first begin with its number.
fn side_by_side(suite: &Suite<'_>, lanes: &[Vec<String>], also: &[&str]) -> Result<()> {
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for (number, lane) in lanes.iter().enumerate() {
            let label = if number == 0 { String::new() } else { format!("{}: ", number + 1) };
            let also = if number == 0 { also } else { &[] };
            running.push(scope.spawn(move || {
                let words: [&[&str]; 3] = [&WORKSPACE, also, &targets(lane)];
                suite.test(cargo().env("RUST_TEST_THREADS", "2"), &label, &words)
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
    /// A paragraph for each test that failed.
    failures: Mutex<String>,
}

impl<'a> Suite<'a> {
    fn begin(arguments: &'a [String]) -> Result<Self> {
        let skips_file = std::env::temp_dir().join(format!("wringer-skips-{}", std::process::id()));
        let _ = fs::remove_file(&skips_file);
        let tally = Mutex::new(Tally { succeeded: true, ..Tally::default() });
        Ok(Self {
            arguments,
            skips_file,
            program: program()?,
            tally,
            ran: Mutex::default(),
            failures: Mutex::default(),
        })
    }

    /// Prints the results, the counts last.
    fn end(self, parts: &Parts) -> Result<bool> {
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
        print!("{}", self.failures.into_inner().unwrap_or_else(PoisonError::into_inner));
        print!("The {SHOWN} test programs that took longest:\n{}", slowest(ran, SHOWN));
        print!("{parts}");
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

    /// Runs cargo, prints its output at once, each line after `label`, counts the results, and keeps the failures.
    fn test(&self, command: &mut Command, label: &str, words: &[&[&str]]) -> Result<()> {
        command.args(["test", "--no-fail-fast"]).args(words.concat()).args(self.arguments);
        command.env("WRINGER_SKIPS", &self.skips_file).env("WRINGER_CASES", cases_file());
        command.env("WRINGER_WITH_FAILPOINTS", &self.program);
        // the reason of a failure is printed beside the test's line, not an hour later
        command.env("RUST_TEST_NOCAPTURE", "1");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("start cargo test")?;
        let stopwatch = Stopwatch::listen(child.stderr.take().context("take the errors of cargo test")?, label);
        let output = child.stdout.take().context("take the output of cargo test")?;
        let mut failed = Vec::new();
        for line in BufReader::new(output).lines() {
            let line = line.context("read the output of cargo test")?;
            self.tally().count(&line);
            failed.extend(failed_test(&line).map(str::to_owned));
            println!("{label}{line}");
        }
        let succeeded = child.wait().context("wait for cargo test")?.success();
        self.tally().succeeded &= succeeded;
        let (ran, panics) = stopwatch.stop();
        self.ran.lock().unwrap_or_else(PoisonError::into_inner).extend(ran);
        *self.failures.lock().unwrap_or_else(PoisonError::into_inner) += &paragraphs(label, &failed, &panics);
        Ok(())
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds all tests at once, with both processors, and the program with them; the parts of the suite find them built. Then what the guest has beside
/// the program.
fn build_tests(which: &[&str]) -> Result<()> {
    let status = cargo().args(["test", "--no-run"]).args(which).args(WORKSPACE).status().context("start cargo test")?;
    anyhow::ensure!(status.success(), "the tests do not build");
    let bins = BESIDE_IN_GUEST.iter().flat_map(|name| ["--bin", name]);
    let status = cargo().arg("build").args(WORKSPACE).args(bins).status().context("start cargo build")?;
    anyhow::ensure!(status.success(), "the programs for the guest do not build");
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
