// SPDX-License-Identifier: Apache-2.0
//! The power goes in the middle of squeezes; the machine comes up again on the same disk, and Wringer knows what vanished by itself.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use guest::{Disk, Machine, Parts, initramfs, parts, skip_unwanted, turn};
use std::path::Path;
use std::time::{Duration, Instant};

const CUTS: u32 = 3;
const PART_MS: u32 = 2000;
const CASE: &str = "power_cut";
/// Of one boot, on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);

/// One boot: what the guest found, and what it had acknowledged when the power went.
#[derive(Debug, Default)]
struct Life {
    stale_runs: u32,
    acknowledged: u64,
    verdict: String,
}

#[test]
fn the_power_goes() {
    if skip_unwanted("guest::power_cut", CASE) {
        return;
    }
    let parts = match parts() {
        Ok(parts) => parts,
        Err(why) => testkit::skip!("no guest: {why}"),
    };
    let _turn = turn(LIMIT * CUTS);
    let folder = tempfile::Builder::new().prefix("wringer-guest-").tempdir().unwrap();
    let disk = Disk::make(parts, folder.path(), "data", 256);
    let mut acknowledged = 0;
    let mut stale = 0;
    for life in 0..=CUTS {
        let last = life == CUTS;
        let lived = live(parts, folder.path(), &disk, acknowledged, (!last).then(|| Cut::of(life)));
        println!("boot {life}: {lived:?}");
        if lived.verdict.starts_with("FAILED") || last && !lived.verdict.starts_with("ok") {
            panic!("boot {life}: {lived:?}; kept in {}", folder.keep().display());
        }
        acknowledged = acknowledged.max(lived.acknowledged);
        stale += lived.stale_runs;
    }
    assert!(stale > 0, "no cut hit a squeeze: the test has shown nothing");
    assert!(acknowledged > 0, "nothing was ever acknowledged");
}

/// When the power goes.
#[derive(Debug)]
struct Cut {
    /// After the first line that begins so.
    mark: &'static str,
    after: Duration,
}

impl Cut {
    /// After the guest has begun, each life in another part of the seconds that two squeezes and their release take. The last one after
    /// a line that is acknowledged: a machine that is busy may have come to none before.
    fn of(life: u32) -> Self {
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().subsec_nanos();
        let part = now / 1000 % PART_MS;
        let (mark, ms) = if life + 1 == CUTS { ("POWER line ", part) } else { ("POWER may go", life * PART_MS + part) };
        Self { mark, after: Duration::from_millis(ms.into()) }
    }
}

/// `cut`: when the power goes; `None`: it stays until the guest ends.
fn live(parts: &Parts, folder: &Path, disk: &Disk, acknowledged: u64, cut: Option<Cut>) -> Life {
    let last = if cut.is_none() { "yes" } else { "no" };
    let machine = Machine {
        parts,
        initramfs: &initramfs(parts, &[CASE]),
        disks: &[disk],
        memory_mib: 1536,
        // one processor: with two the emulator may fail while the kernel patches its own code at boot (`EMULATOR_FAILED`)
        words: &format!("maxcpus=1 acknowledged={acknowledged} last={last}"),
        folder,
        name: CASE,
    };
    let mut running = machine.boot();
    let mut life = Life::default();
    let limit = Instant::now() + LIMIT;
    let mut end = None;
    while let Some(line) = running.line(end.unwrap_or(limit)) {
        if let Some(cut) = cut.as_ref().filter(|cut| line.starts_with(cut.mark)) {
            end = end.or(Some(Instant::now() + cut.after));
        }
        let word = |place: usize| -> u64 { line.split(' ').nth(place).unwrap_or_default().parse().unwrap_or(0) };
        if let Some(verdict) = line.strip_prefix("CASE power_cut ") {
            life.verdict = verdict.to_owned();
        } else if line.starts_with("POWER line ") {
            life.acknowledged = word(2);
        } else if line.contains("stale runs") {
            life.stale_runs = u32::try_from(word(1)).unwrap_or(0);
        } else if line == "GUEST ends" {
            break;
        }
    }
    running.cut_power();
    if end.is_none() && life.verdict.is_empty() {
        life.verdict = format!("FAILED: never squeezed, never ended\n{}", running.last_words());
    }
    life
}
