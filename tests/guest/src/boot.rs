// SPDX-License-Identifier: Apache-2.0
//! One boot that runs several cases. The machine is booted when the outcome of one of its cases is needed for the first time.

use crate::disk::Disk;
use crate::image::initramfs;
use crate::machine::Machine;
use crate::parts::{Parts, parts};
use crate::servers::servers;
use crate::turns::turn;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A boot and its cases. The outcomes are kept until the process ends.
#[derive(Debug)]
pub struct Boot {
    pub name: &'static str,
    pub cases: &'static [&'static str],
    pub memory_mib: u32,
    /// The time limit for all of its cases together.
    pub limit: Duration,
    /// Words for the kernel's command line. If [`SERVERS`] is among them, the guest has real servers.
    pub words: &'static str,
    outcomes: OnceLock<Outcomes>,
}

/// With this word, `/dev/vdb` is the disk of sandboxes, and `/dev/vdc` is the disk with the programs.
const SERVERS: &str = "servers=yes";

#[derive(Debug)]
struct Outcomes {
    of: BTreeMap<String, Outcome>,
    last_words: String,
    kept: PathBuf,
    emulator_failed: bool,
}

/// Without KVM, a processor of the guest may run into a breakpoint that the kernel has set to patch its own code, at a time when the kernel no longer
/// knows it (an "int3" without a handler, anywhere in patched code). The emulator causes this, not the tested program.
pub const EMULATOR_FAILED: &str = "Oops: int3";

#[derive(Debug)]
struct Outcome {
    /// The text after the case's name.
    verdict: String,
    /// The lines of the console since the end of the case before.
    said: String,
}

impl Outcome {
    fn is_good(&self) -> bool {
        self.verdict.starts_with("ok")
    }
}

impl Boot {
    pub const fn new(
        name: &'static str,
        cases: &'static [&'static str],
        memory_mib: u32,
        limit: Duration,
        words: &'static str,
    ) -> Self {
        Self { name, cases, memory_mib, limit, words, outcomes: OnceLock::new() }
    }

    fn outcomes(&self, parts: &Parts) -> &Outcomes {
        self.outcomes.get_or_init(|| {
            let _turn = turn(self.limit);
            let first = self.run(parts);
            if !first.emulator_failed {
                return first;
            }
            println!(
                "BOOT {} again: \"{EMULATOR_FAILED}\" is the emulator's; kept in {}",
                self.name,
                first.kept.display()
            );
            self.run(parts)
        })
    }

    /// `/dev/vda` is an empty file system; `/dev/vdb` is blank, and fits into the page cache as long as no RAM is hidden.
    fn run(&self, parts: &Parts) -> Outcomes {
        let folder = tempfile::Builder::new().prefix("wringer-guest-").tempdir().expect("make a folder for the guest");
        let wanted = wanted(self.cases);
        let mut disks = vec![Disk::make(parts, folder.path(), "data", 1024)];
        if self.words.contains(SERVERS) {
            disks.extend([servers(parts).sandboxes(folder.path(), "sandboxes"), servers(parts).programs()]);
        } else {
            disks.push(Disk::blank(folder.path(), "blank", u64::from(self.memory_mib) * 3 / 4));
        }
        let machine = Machine {
            parts,
            initramfs: &initramfs(parts, &wanted),
            disks: &disks.iter().collect::<Vec<_>>(),
            memory_mib: self.memory_mib,
            words: &format!("{} points={}", self.words, points()),
            folder: folder.path(),
            name: self.name,
        };
        let began = Instant::now();
        let mut running = machine.boot();
        let (mut of, mut said) = (BTreeMap::new(), String::new());
        let mut emulator_failed = false;
        let mut ended = false;
        running.follow(self.limit, |line| {
            emulator_failed |= line.contains(EMULATOR_FAILED);
            ended = line == "GUEST ends";
            said += &format!("{line}\n");
            if let Some((name, verdict)) = line.strip_prefix("CASE ").and_then(|rest| rest.split_once(' ')) {
                println!("{line}");
                of.insert(name.to_owned(), Outcome { verdict: verdict.to_owned(), said: std::mem::take(&mut said) });
            }
            ended || line.contains("Kernel panic - not syncing")
        });
        let mut last_words = running.last_words();
        if !ended {
            last_words += &format!("\n(the guest did not come to its end, or not within {:?})", self.limit);
        }
        let good = ended && of.values().all(Outcome::is_good);
        drop(running);
        self.tell_time(&of, began);
        let kept = if good { PathBuf::new() } else { folder.keep() };
        Outcomes { of, last_words, kept, emulator_failed }
    }

    /// Prints at once, and past the test harness, which captures the output of tests.
    fn tell_time(&self, of: &BTreeMap<String, Outcome>, began: Instant) {
        let cases: String = of.iter().map(|(name, outcome)| format!("; {name} {}", outcome.verdict)).collect();
        let _ = writeln!(std::io::stderr(), "BOOT {} took {} s{cases}", self.name, began.elapsed().as_secs());
    }
}

/// `WRINGER_GUEST_POINTS=all`: cases that kill at crash points use every point, and cases with variants run every variant. Else they use a sample.
fn points() -> String {
    std::env::var("WRINGER_GUEST_POINTS").unwrap_or_else(|_| "sample".into())
}

/// With `WRINGER_GUEST_CASE=name,name`, only these cases run.
fn is_wanted(case: &str) -> bool {
    let only = std::env::var("WRINGER_GUEST_CASE").unwrap_or_default();
    only.is_empty() || only.split(',').any(|name| name == case)
}

fn wanted(cases: &[&'static str]) -> Vec<&'static str> {
    cases.iter().filter(|case| is_wanted(case)).copied().collect()
}

/// Reports that the case of this `place` is left out; returns false when the case is to run.
pub fn skip_unwanted(place: &str, case: &str) -> bool {
    let left_out = !is_wanted(case);
    if left_out {
        testkit::announce_skip(place, "left out by WRINGER_GUEST_CASE");
    }
    left_out
}

/// Runs the test of one case.
#[track_caller]
pub fn case(boot: &Boot, name: &str) {
    // each case counts, and skips are told apart by their places
    let place = format!("guest::{}::{name}", boot.name);
    let parts = match parts() {
        Ok(parts) => parts,
        Err(why) => return testkit::announce_skip(&place, &format!("no guest: {why}")),
    };
    if skip_unwanted(&place, name) {
        return;
    }
    let Outcomes { of, last_words, kept, .. } = boot.outcomes(parts);
    let Some(outcome) = of.get(name) else {
        panic!("{name} was not reached\n{last_words}\nkept in {}", kept.display());
    };
    println!("{}", outcome.said);
    assert!(outcome.is_good(), "{name}: {}\n{}kept in {}", outcome.verdict, outcome.said, kept.display());
}
