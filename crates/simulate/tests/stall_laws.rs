// SPDX-License-Identifier: Apache-2.0
//! Laws that hold whatever the load: how the sleep grows, and that one seed gives one result.

mod helper;

use capability::{Algorithm, Flavour, LADDER};
use helper::{MS, S, article, of};
use simulate::{Burst, Load, Settings, Start, simulate, simulate_with_band};

/// Nobody asks for pages, and a round of the refiller takes nothing but its sleep.
fn quiet(settings: Settings, time_ns: u64) -> u64 {
    let settings = Settings { threads: 0, initial_sleep_ms: 0, loop_overhead_ns: 0, time_ns, ..settings };
    let loads = simulate(&settings).expect("can be simulated");
    loads[0].refiller_sleep_us.expect("somebody refills")
}

fn one(settings: &Settings) -> Load {
    simulate(settings).expect("can be simulated").remove(0)
}

#[test]
fn the_sleep_of_a_quiet_server_grows_with_the_root_of_twice_the_time() {
    for version in ["5.6.36", "5.7.39", "8.0.29"] {
        for seconds in [5, 10, 30, 60, 120, 245, 300, 499, 500] {
            let us = quiet(of(Flavour::Percona, version, Algorithm::Backoff), seconds * S) as f64;
            let law = (2.0 * seconds as f64 * 1000.0).sqrt() * 1000.0;
            assert!((us / law - 1.0).abs() < 0.02, "{version}, {seconds} s: {us} us, not {law}");
        }
    }
}

/// 1 + 2 + ... + 700 ms.
#[test]
fn a_sleep_of_700_ms_ends_after_245_350_ms() {
    let server = || of(Flavour::Percona, "8.0.29", Algorithm::Backoff);
    let whole: u64 = (1..=700).sum();
    assert_eq!(quiet(server(), whole * MS), 700_000);
    assert_eq!(quiet(server(), whole * MS + 1), 701_000);
}

/// 50 + 100 + ... + 1000 ms are 10.5 s.
#[test]
fn steps_of_50_ms_reach_a_second_within_ten_and_a_half() {
    let server = || of(Flavour::Mariadb, "10.1.23", Algorithm::Backoff);
    assert_eq!((quiet(server(), 9_499 * MS), quiet(server(), 9_501 * MS)), (950_000, 1_000_000));
    assert_eq!((quiet(server(), 10_500 * MS), quiet(server(), 60 * S)), (1_000_000, 1_000_000));
}

/// Traced in MariaDB 10.1.23: a sleep of a second takes 1001.1 ms, since its `select` may be late by a thousandth. The same rule sleeps by the clock alone
/// in 5.7.
#[test]
fn a_refiller_that_sleeps_by_select_comes_a_thousandth_later() {
    let refills = |version| {
        let settings = Settings { threads: 0, time_ns: 2000 * S, ..of(Flavour::Percona, version, Algorithm::Backoff) };
        one(&settings).timeline.iter().map(|part| part.refills).sum::<u64>()
    };
    // 2000 s by 1000.07 ms, and by 1001.02 ms
    assert_eq!((refills("5.7.39"), refills("5.6.36")), (1999, 1997));
}

/// With one client that finds the list empty at once, and a refiller that comes at a known time, its stall ends at a step of the ladder.
#[test]
fn a_stall_ends_at_the_first_step_of_the_ladder_after_the_refill() {
    for offset_ms in [3, 18, 50, 77, 150, 197, 199, 300, 397, 400, 555, 700, 812, 1000] {
        let mut settings = Settings {
            initial_free: Some(0),
            start: Start { wake_offset_ns: Some(offset_ms * MS), had_work: true, ..Start::default() },
            time_ns: 100 * MS,
            ..article()
        };
        settings.reads_per_query = 1.0;
        settings.costs.yield_ns = 0;
        let load = one(&settings);
        let first_page_us = offset_ms * 1000 + 30;
        let expected = (0..).find(|n| LADDER.length_us(*n, 60) >= first_page_us).expect("one is longer");
        let length = LADDER.length_us(expected, 60) as f64;
        let longest = load.stall_max_us.unwrap_or(load.lost_query_us);
        assert!((longest - length).abs() < 0.001, "{offset_ms} ms: {longest} us, not T({expected}) = {length}");
        assert_eq!(load.counters.wait_free, u64::from(expected), "{offset_ms} ms");
    }
}

#[test]
fn one_seed_gives_one_result_and_another_seed_another() {
    let settings = |seed| Settings { threads: 4, rate_per_second: Some(20_000.0), seed, ..article() };
    assert_eq!(simulate_with_band(&settings(7), 8), simulate_with_band(&settings(7), 8));
    assert_ne!(simulate(&settings(7)), simulate(&settings(8)));
}

#[test]
fn what_is_unknown_is_a_band_around_the_load_and_what_was_given_is_none() {
    let of_start = |start| {
        let settings = Settings { start, ..article() };
        simulate_with_band(&settings, 16).expect("can be simulated").remove(0)
    };
    let (load, band) = of_start(Start::default());
    let band = band.expect("the start of a sleep is unknown");
    assert_eq!((band.unknown.as_slice(), band.starts), (["wake_offset", "clock"].as_slice(), 17));
    assert!(band.max_us.low <= load.max_us && load.max_us <= band.max_us.high);
    assert!(band.max_us.high - band.max_us.low > 500_000.0, "anything from nothing to a whole sleep: {band:?}");
    let mut settings = Settings { start: Start { wake_offset_ns: Some(300 * MS), ..Start::default() }, ..article() };
    settings.clock = Some(capability::Clock::IntegerMs);
    assert_eq!(simulate_with_band(&settings, 16).expect("can be simulated")[0].1, None);
}

#[test]
fn legacy_makes_its_own_pages_and_nobody_stalls() {
    for (flavour, version) in [
        (Flavour::Percona, "8.0.29"),
        (Flavour::Percona, "5.6.36"),
        (Flavour::Mysql, "8.0.36"),
        (Flavour::Mysql, "5.6.41"),
    ] {
        let settings = Settings { threads: 4, reads_per_query: 0.73, ..of(flavour, version, Algorithm::Legacy) };
        let load = one(&settings);
        assert_eq!((load.stalls, load.wait_free), (0, 0), "{flavour} {version}");
        assert!(load.counters.get_free_loops > 10_000, "{flavour} {version} finds the list empty again and again");
    }
}

/// A tail that is all dirty, on a slow disk: clients write pages one by one, sleep, and stall.
#[test]
fn legacy_stalls_where_the_tail_is_dirty() {
    let settings = Settings {
        dirty: 1.0,
        threads: 16,
        write_ns: 5 * MS,
        reads_per_query: 1.0,
        ..of(Flavour::Percona, "8.0.29", Algorithm::Legacy)
    };
    let load = one(&settings);
    assert!(load.counters.single_flushes > 0 && load.wait_free > 0 && load.stalls > 0, "{:?}", load.counters);
    assert!(load.counters.lru_flushed > 0, "the LRU manager writes as well");
}

/// Nobody writes, so that the page cleaner does not count the server as active, and nobody else refills.
#[test]
fn backoff_without_an_lru_manager_waits_for_ever_on_a_load_that_only_reads() {
    let load = one(&Settings { threads: 3, ..of(Flavour::Percona, "8.4.3", Algorithm::Backoff) });
    assert_eq!((load.unfinished, load.stalls, load.refiller_sleep_us), (3, 3, None));
    assert!(load.max_us > 10e6, "as long as it has lasted: {}", load.max_us);
    // clients write elsewhere, and the pages at the end of the list are clean
    let writes = one(&Settings { threads: 3, active: true, ..of(Flavour::Percona, "8.4.3", Algorithm::Backoff) });
    assert_eq!((writes.unfinished, writes.counters.lru_flushed), (0, 0));
    assert!(writes.counters.lru_evicted > 0, "the page cleaner refills");
}

#[test]
fn a_page_cleaner_that_is_woken_leaves_no_stall() {
    for (flavour, version) in
        [(Flavour::Mariadb, "10.11.18"), (Flavour::Mariadb, "11.8"), (Flavour::Mariadb, "10.5.23")]
    {
        let settings = Settings { threads: 16, ..of(flavour, version, Algorithm::Legacy) };
        let load = one(&settings);
        assert_eq!((load.stalls, load.unfinished), (0, 0), "{flavour} {version}: {load:?}");
        assert!(load.queries > 100_000);
    }
    let woken = one(&Settings { threads: 4, ..of(Flavour::Percona, "9.7.2", Algorithm::Backoff) });
    assert_eq!(woken.stalls, 0, "each failed try wakes it");
}

/// A compressed table needs frames: pages without any read.
#[test]
fn pages_that_are_not_read_empty_the_list_as_well() {
    let settings = Settings { reads_per_query: 0.0, pages_without_read: 0.5, ..article() };
    let load = one(&settings);
    assert!(load.stalls > 0 && load.counters.pages_without_read > 2_000, "{:?}", load.counters);
}

#[test]
fn more_instances_have_a_refiller_each() {
    let settings = Settings { instances: 4, instance_pages: 2048, ..article() };
    let load = one(&settings);
    assert!(load.stalls > 0 && load.queries > 0, "{load:?}");
    let burst = Burst { pages: 5000, every_ns: 2 * S };
    let open = Settings { threads: 4, rate_per_second: Some(400.0), burst: Some(burst), ..settings };
    let load = one(&open);
    assert!(load.events.iter().any(|it| it.is_burst) && load.events.iter().any(|it| !it.is_burst), "{:?}", load.events);
}

/// Only a release build is held to it: the other is built for its tests.
#[test]
fn ten_thousand_seconds_are_simulated_in_one_in_the_case_of_two_minutes() {
    let simulated = 6_000;
    let burst = Some(Burst { pages: 1229, every_ns: 120 * S });
    let settings = Settings { threads: 4, rate_per_second: Some(400.0), time_ns: simulated * S, burst, ..article() };
    let began = std::time::Instant::now();
    let load = one(&settings);
    let speed = simulated as f64 / began.elapsed().as_secs_f64();
    println!("{speed:.0} simulated seconds a second, {} queries", load.queries);
    assert!(load.queries > 2_000_000 && load.stalls > 100);
    assert!(cfg!(debug_assertions) || speed >= 10_000.0, "{speed:.0} simulated seconds a second");
}
