// SPDX-License-Identifier: Apache-2.0
//! Compares the simulation with the naive model of `testkit`.

use super::loads;
use crate::settings::{Burst, Costs, Settings, Start};
use capability::{
    Algorithm, BatchLimit, Clock, Flavour, FreeList, OnEmpty, Progress, Refiller, SleepCall, Target, free_list,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use testkit::naive::{self, LegacySetup, ManagerSetup, NaiveCounts, NaiveSetup};

const US: u64 = 1000;

fn row(flavour: Flavour, version: &str) -> &'static FreeList {
    free_list(flavour, &version.parse().expect("a version")).expect("a known version")
}

/// A number from `from` to `to`, both included.
fn pick(rng: &mut Xoshiro256PlusPlus, from: u64, to: u64) -> u64 {
    from + rng.next_u64() % (to - from + 1)
}

fn drawn(number: u64) -> Settings {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(number);
    let rng = &mut rng;
    let rows = [
        row(Flavour::Percona, "8.0.29"),
        row(Flavour::Percona, "8.0.32"),
        row(Flavour::Percona, "5.7.39"),
        row(Flavour::Percona, "5.7.12"),
        row(Flavour::Percona, "5.6.36"),
        row(Flavour::Percona, "5.6.35"),
        row(Flavour::Mariadb, "10.1.23"),
        row(Flavour::Mysql, "5.6.41"),
        row(Flavour::Mysql, "8.0.36"),
    ];
    #[allow(clippy::cast_possible_truncation)] // an index
    let server = rows[pick(rng, 0, 8) as usize];
    let has_choice = server.algorithms.len() > 1;
    let is_backoff = has_choice && pick(rng, 0, 2) > 0;
    let scan_depth = pick(rng, 100, 260);
    let is_dirty = pick(rng, 0, 2) == 0;
    let is_open = pick(rng, 0, 2) == 0;
    let threads = pick(rng, 0, 6);
    Settings {
        server,
        algorithm: if is_backoff { Algorithm::Backoff } else { Algorithm::Legacy },
        #[allow(clippy::cast_possible_truncation)] // small
        scan_depth: scan_depth as u32,
        instance_pages: pick(rng, 1280, 7000),
        #[allow(clippy::cast_possible_truncation)] // small
        instances: if pick(rng, 0, 1) == 0 { 1 } else { pick(rng, 2, 3) as u32 },
        #[allow(clippy::cast_possible_truncation)] // small
        threads: threads as u32,
        rate_per_second: is_open.then(|| pick(rng, 1000, 60_000) as f64),
        time_ns: pick(rng, 5_000, 60_000) * US,
        pause_ns: pick(rng, 0, 20_000) * US,
        #[allow(clippy::cast_possible_truncation)] // small
        repeat: pick(rng, 1, 2) as u32,
        gap_ns: pick(rng, 1, 5_000) * US,
        reads_per_query: pick(rng, 0, 300) as f64 / 100.0,
        pages_without_read: if pick(rng, 0, 2) == 0 { pick(rng, 1, 150) as f64 / 100.0 } else { 0.0 },
        service_ns: pick(rng, 5, 80) * US,
        read_ns: pick(rng, 0, 1) * pick(rng, 1, 200) * US,
        write_ns: pick(rng, 1, 500) * US,
        dirty: if is_dirty { pick(rng, 1, 100) as f64 / 100.0 } else { 0.0 },
        active: is_dirty || number % 4 == 1,
        burst: (pick(rng, 0, 2) == 0)
            .then(|| Burst { pages: pick(rng, 1, 2000), every_ns: 2 * pick(rng, 1_000, 20_000) * US }),
        sleep_overhead_ns: pick(rng, 0, 120) * US,
        loop_overhead_ns: pick(rng, 0, 150) * US,
        initial_sleep_ms: pick(rng, 0, 60),
        initial_free: (pick(rng, 0, 1) == 0).then(|| pick(rng, 0, 1000)),
        start: Start {
            wake_offset_ns: None,
            first_wake_ns: Some(pick(rng, 0, 60_000) * US),
            phase_ns: Some(pick(rng, 0, 30_000) * US),
            had_work: pick(rng, 0, 1) == 0,
        },
        clock: None,
        seed: rng.next_u64(),
        costs: Costs {
            yield_ns: pick(rng, 0, 3) * US,
            batch_first_ns: pick(rng, 1, 40) * US,
            batch_page_ns: pick(rng, 1, 6) * US,
            look_ns: US,
            take_ns: pick(rng, 1, 3) * US,
            is_doublewrite: pick(rng, 0, 3) > 0,
            idle_ns: pick(rng, 0, 20) * US,
        },
    }
}

#[allow(clippy::cast_possible_truncation)] // small
fn asked(of: &Settings) -> NaiveSetup {
    let size = |number: u64| number as usize;
    let instances = of.instances as usize;
    let mut managers = Vec::new();
    let mut cleaner = None;
    for refiller in of.server.refillers {
        match *refiller {
            Refiller::Manager { per_instance, adapt } => {
                let one = |from, until| ManagerSetup {
                    from,
                    until,
                    sleep_ms: of.initial_sleep_ms,
                    had_work: of.start.had_work,
                    up: u64::from(adapt.step_up_ms),
                    is_target_limited: adapt.target == Target::DepthOrLength,
                    counts_evicted: adapt.progress == Progress::FlushedAndEvicted,
                    truncates: adapt.clock == Clock::TruncatedMs,
                };
                if per_instance {
                    managers.extend((0..instances).map(|index| one(index, index + 1)));
                } else {
                    managers.push(one(0, instances));
                }
            }
            Refiller::Cleaner { can_be_woken, only_if_active, .. } => {
                let first = of.start.first_wake_ns.unwrap_or(0) / US;
                let beside = (first + of.start.phase_ns.unwrap_or(0) / US) % 1_000_000;
                let first = if managers.is_empty() { first } else { beside };
                cleaner = (!only_if_active || of.active).then_some((1_000_000, first, can_be_woken));
            }
        }
    }
    let OnEmpty::Searches(search) = of.server.legacy else { panic!("not known to the naive model") };
    NaiveSetup {
        seed: of.seed,
        instances,
        pages: size(of.instance_pages),
        depth: of.scan_depth as usize,
        free: size(of.initial_free.unwrap_or(u64::from(of.scan_depth))),
        least: 256,
        chunk: match of.server.batch {
            BatchLimit::Pages => None,
            BatchLimit::ChunksOfWrites(chunk) => Some(chunk as usize),
        },
        is_backoff: of.algorithm == Algorithm::Backoff,
        legacy: LegacySetup {
            waits_for_batch: search.waits_for_batch,
            depth: search.depth.unwrap_or(of.scan_depth) as usize,
            wakes: search.wakes_cleaner,
            sleep: u64::from(search.sleep_us),
            takes_clean: search.single_flush_takes_clean,
        },
        managers,
        cleaner,
        first_wake: of.start.first_wake_ns.unwrap_or(0) / US,
        threads: of.threads as usize,
        mean_gap: of.rate_per_second.map(|rate| f64::from(of.threads) * 1e6 / rate),
        time: of.time_ns / US,
        pause: of.pause_ns / US,
        gap: of.gap_ns / US,
        patience: super::PATIENCE_NS / US,
        repeat: of.repeat,
        reads: of.reads_per_query,
        without: of.pages_without_read,
        service: of.service_ns / US,
        read: of.read_ns / US,
        write: of.write_ns / US,
        dirty: of.dirty,
        burst: of.burst.map(|it| (it.pages, it.every_ns / US)),
        overhead: of.sleep_overhead_ns / US,
        loop_overhead: of.loop_overhead_ns / US,
        is_select: of.server.sleep == SleepCall::Select,
        idle: of.costs.idle_ns / US,
        yields: of.costs.yield_ns / US,
        batch_first: of.costs.batch_first_ns / US,
        batch_page: of.costs.batch_page_ns / US,
        look: of.costs.look_ns / US,
        take: of.costs.take_ns / US,
        is_doublewrite: of.costs.is_doublewrite,
    }
}

#[allow(clippy::cast_possible_truncation)] // whole microseconds
fn seen(load: &crate::Load) -> NaiveCounts {
    let it = &load.counters;
    NaiveCounts {
        wait_free: it.wait_free,
        searches: it.get_free_search,
        loops: it.get_free_loops,
        sleeps: it.get_free_waits,
        scanned: it.search_scanned,
        scans: it.search_num_scan,
        passed: it.single_flush_scanned,
        single_writes: it.single_flushes,
        evicted: it.lru_evicted,
        flushed: it.lru_flushed,
        without: it.pages_without_read,
        queries: load.queries,
        max: load.max_us.round() as u64,
        lost: load.lost_query_us.round() as u64,
        sleep_ms: load.refiller_sleep_us.map(|us| us / 1000),
        free: load.free_pages_at_end,
    }
}

/// `WRINGER_CASES_OF_MODELS`: the number of cases, 10,000 for a release.
#[test]
fn a_naive_model_counts_the_same_for_random_settings() {
    let cases: u64 = std::env::var("WRINGER_CASES_OF_MODELS").ok().and_then(|it| it.parse().ok()).unwrap_or(150);
    let mut stalled = 0;
    // case 2048 has a scan that still waits ten seconds after the load
    for number in (0..cases).chain([2048]) {
        let settings = drawn(number);
        settings.check().expect("drawn within the limits");
        let (ours, is_whole) = loads(&settings);
        let (naive, is_naive_whole) = naive::run(&asked(&settings));
        let ours_seen: Vec<NaiveCounts> = ours.iter().map(seen).collect();
        assert_eq!(ours_seen, naive, "case {number}: {settings:#?}");
        assert!(is_whole && is_naive_whole, "case {number}: a page is lost or doubled: {settings:#?}");
        stalled += u64::from(ours.iter().any(|load| load.stalls + load.micro_stalls > 0));
    }
    testkit::announce_cases("a_naive_model_counts_the_same_for_random_settings", usize::try_from(cases).unwrap_or(0));
    assert!(stalled * 4 > cases, "too few of the settings empty the list to say anything: {stalled} of {cases}");
}
