// SPDX-License-Identifier: Apache-2.0
//! The power goes while real servers commit to a slow disk: through the FUSE layer, and on device-mapper's delay. What they acknowledged is
//! there when the machine has come up again, `wringer undo` has run and they have recovered.
#![allow(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used)]

use guest::{Disk, EMULATOR_FAILED, Machine, Parts, PowerCut, initramfs, parts, servers, skip_unwanted, turn};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

const CASE: &str = "server_power_cut";
/// How the disk is slow in each life; the last one only looks.
const LIVES: [&str; 3] = ["fuse", "dm", "none"];
/// Commits of each server before its power may go, so that a cut never comes too early to show anything.
const LEAST_COMMITS: u64 = 20;
/// And then within this time.
const MOMENTS_MS: u64 = 1500;
/// Of one boot, on a busy machine.
const LIMIT: Duration = Duration::from_secs(480);

/// By server: how many rows it has acknowledged, over all lives.
type Acknowledged = BTreeMap<String, u64>;

#[derive(Debug, Default)]
struct Life {
    acknowledged: Acknowledged,
    verdict: String,
    emulator_failed: bool,
}

#[test]
fn what_servers_acknowledged_survives() {
    if skip_unwanted("guest::server_power_cut", CASE) {
        return;
    }
    let parts = match parts() {
        Ok(parts) => parts,
        Err(why) => testkit::skip!("no guest: {why}"),
    };
    let _turn = turn(2 * LIMIT);
    let folder = tempfile::Builder::new().prefix("wringer-guest-").tempdir().unwrap();
    let disks = Disks::new(parts, folder.path());
    let mut acknowledged = nothing_yet(&["mariadb", "postgresql"]);
    for mechanism in LIVES {
        let before = acknowledged.clone();
        let began = Instant::now();
        let lived = live(parts, folder.path(), &disks, mechanism, &before);
        println!("{mechanism}, {:.0} s: {lived:?}", began.elapsed().as_secs_f64());
        let last = mechanism == "none";
        if lived.verdict.starts_with("FAILED") || last && !lived.verdict.starts_with("ok") {
            panic!("{mechanism}: {lived:?}; kept in {}", folder.keep().display());
        }
        acknowledged.extend(lived.acknowledged);
        if !last {
            disks.lose();
            assert!(acknowledged.iter().all(|(server, count)| *count > before[server]), "{before:?} {acknowledged:?}");
        }
    }
}

/// The same with a slow layer whose syncs do nothing, and whose writes stay with it: the next boot must miss something.
#[test]
fn a_layer_that_does_not_sync_is_found_out() {
    if skip_unwanted("guest::server_power_cut_of_a_liar", CASE) {
        return;
    }
    let parts = match parts() {
        Ok(parts) => parts,
        Err(why) => testkit::skip!("no guest: {why}"),
    };
    let _turn = turn(2 * LIMIT);
    let folder = tempfile::Builder::new().prefix("wringer-guest-").tempdir().unwrap();
    let disks = Disks::new(parts, folder.path());
    let lived = live(parts, folder.path(), &disks, "fuse liar=yes", &nothing_yet(&["mariadb"]));
    println!("with a liar: {lived:?}");
    assert!(lived.acknowledged.get("mariadb").is_some_and(|count| *count >= LEAST_COMMITS), "{lived:?}");
    disks.lose();
    let found = live(parts, folder.path(), &disks, "none", &lived.acknowledged);
    println!("afterwards: {found:?}");
    let missed = ["commits' was not said", "durable", "sandbox start"];
    let verdict = &found.verdict;
    assert!(verdict.starts_with("FAILED") && missed.iter().any(|words| verdict.contains(words)), "{verdict}");
}

fn nothing_yet(servers: &[&str]) -> Acknowledged {
    servers.iter().map(|server| ((*server).to_owned(), 0)).collect()
}

struct Disks {
    /// With Wringer's journals, and the slow one with the servers' data.
    written: [PowerCut; 2],
}

impl Disks {
    fn new(parts: &Parts, folder: &Path) -> Self {
        let data = Disk::make(parts, folder, "data", 64);
        let sandboxes = servers(parts).sandboxes(folder, "sandboxes");
        let written = [PowerCut::new(&data, folder, "data"), PowerCut::new(&sandboxes, folder, "sandboxes")];
        Self { written }
    }

    /// With a coin whose seed is the time.
    fn lose(&self) {
        let seed = u64::from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().subsec_nanos());
        let mut random = SplitMix64::seed_from_u64(seed);
        let lost = self.written.each_ref().map(|disk| disk.power_went(|| random.next_u64() & 1 == 1));
        println!("the power went (seed {seed}): {lost:?}");
    }
}

/// One life, with the disk slow by `mechanism`, of a machine whose emulator works: where that fails, as it does at times while the kernel boots, there is another one.
fn live(parts: &Parts, folder: &Path, disks: &Disks, mechanism: &str, before: &Acknowledged) -> Life {
    let lived = live_once(parts, folder, disks, mechanism, before);
    if !lived.emulator_failed {
        return lived;
    }
    println!("{mechanism} again: \"{EMULATOR_FAILED}\" is the emulator's");
    live_once(parts, folder, disks, mechanism, before)
}

/// Until the power goes, or, where the disk is not slow any more, until the guest ends.
fn live_once(parts: &Parts, folder: &Path, disks: &Disks, mechanism: &str, before: &Acknowledged) -> Life {
    let counts: String = before.iter().map(|(server, count)| format!(" {server}={count}")).collect();
    let [data, sandboxes] = disks.written.each_ref().map(PowerCut::power_on);
    let machine = Machine {
        parts,
        initramfs: &initramfs(parts, &[CASE]),
        disks: &[&data, &sandboxes, &servers(parts).programs()],
        memory_mib: 1024,
        // one processor: see `power_cut`
        words: &format!("maxcpus=1 mechanism={mechanism}{counts}"),
        folder,
        name: &format!("{CASE}-{}", mechanism.replace(' ', "-")),
    };
    let mut running = machine.boot();
    let mut life = Life::default();
    let limit = Instant::now() + LIMIT;
    let mut end = None;
    while let Some(line) = running.line(end.unwrap_or(limit)) {
        life.emulator_failed |= line.contains(EMULATOR_FAILED);
        if let Some(verdict) = line.strip_prefix("CASE server_power_cut ") {
            life.verdict = verdict.to_owned();
        } else if let Some(row) = line.strip_prefix("ACKNOWLEDGED ").and_then(|words| words.split_once(' ')) {
            if let (true, Ok(id)) = (before.contains_key(row.0), row.1.parse()) {
                life.acknowledged.insert(row.0.to_owned(), id);
            }
            let enough = |(server, count): (&String, &u64)| {
                life.acknowledged.get(server).is_some_and(|id| id.saturating_sub(*count) >= LEAST_COMMITS)
            };
            if before.iter().all(enough) {
                end = end.or(Some(Instant::now() + moment()));
            }
        } else if let Some(why) = line.strip_prefix("COMMITS ended: ") {
            life.verdict = format!("FAILED: commits ended before the power went: {why}");
            break;
        } else if line == "GUEST ends" {
            break;
        }
    }
    running.cut_power();
    if end.is_none() && life.verdict.is_empty() {
        life.verdict = format!("FAILED: no commits, and no end\n{}", running.last_words());
    }
    life
}

fn moment() -> Duration {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().subsec_nanos();
    Duration::from_millis(u64::from(now) / 1000 % MOMENTS_MS)
}
