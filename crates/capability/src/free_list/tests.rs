// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::Flavour::{Mariadb, Mysql, Percona, Postgresql};

fn row(flavour: Flavour, version: &str) -> Option<&'static FreeList> {
    free_list(flavour, &version.parse().expect("a version"))
}

fn managers(flavour: Flavour, version: &str) -> Vec<Adapt> {
    let row = row(flavour, version).expect("a known version");
    let adapt = |it: &Refiller| match it {
        Refiller::Manager { adapt, .. } => Some(*adapt),
        Refiller::Cleaner { .. } => None,
    };
    row.refillers.iter().filter_map(adapt).collect()
}

#[test]
fn a_version_that_nobody_looked_at_has_no_row() {
    let unknown = [
        (Percona, "5.5"),
        (Percona, "5.6.34"),
        (Percona, "5.7.9"),
        (Percona, "8.1"),
        (Percona, "8.4.9"),
        (Percona, "9.8"),
        (Mysql, "5.5"),
        (Mysql, "9.8"),
        (Mariadb, "10.1.24"),
        (Mariadb, "10.2"),
        (Mariadb, "10.6"),
        (Mariadb, "12.0"),
        (Postgresql, "15"),
    ];
    for (flavour, version) in unknown {
        assert!(row(flavour, version).is_none(), "{flavour} {version}");
    }
}

#[test]
fn the_beginning_of_a_version_means_the_newest_that_is_known() {
    assert_eq!(row(Mariadb, "10.1").expect("known").since, [10, 1, 25]);
    assert_eq!(row(Percona, "5.6").expect("known").since, [5, 6, 36]);
    assert_eq!(row(Mariadb, "10.11").expect("known").since, [10, 11, 18]);
    assert_eq!(row(Percona, "8.0").expect("known").since, [8, 0, 32]);
    assert_eq!(row(Percona, "8.0.0").expect("known").since, [8, 0], "a whole version means itself");
    assert_eq!(row(Percona, "8.4").expect("known").since, [8, 3]);
}

#[test]
fn the_sleep_of_the_lru_manager_changed_its_step() {
    let steps = |flavour, version| managers(flavour, version).iter().map(|it| it.step_up_ms).collect::<Vec<_>>();
    assert_eq!(steps(Mariadb, "10.1.23"), [50]);
    assert_eq!(steps(Mariadb, "10.1.25"), [1]);
    assert_eq!((steps(Percona, "5.7.17"), steps(Percona, "5.7.39")), (vec![50], vec![1]));
    assert_eq!((steps(Percona, "8.0.29"), steps(Percona, "8.4.3")), (vec![1], vec![]));
    assert_eq!(managers(Percona, "8.0.28")[0].clock, Clock::IntegerMs);
    assert_eq!(managers(Percona, "8.0.29")[0].clock, Clock::TruncatedMs);
    assert_eq!(managers(Percona, "8.0.32")[0].clock, Clock::TruncatedMs);
    assert_eq!(managers(Mariadb, "10.1.23")[0].progress, Progress::Flushed, "evictions are no progress there");
}

#[test]
fn the_default_algorithm_follows_the_version() {
    let default = |flavour, version| row(flavour, version).expect("known").algorithms[0];
    assert_eq!(default(Percona, "5.7.39"), Algorithm::Backoff);
    assert_eq!(default(Percona, "8.0.29"), Algorithm::Legacy);
    assert_eq!(default(Mysql, "8.4.0"), Algorithm::Legacy);
    assert_eq!(row(Mysql, "8.4.0").expect("known").algorithms.len(), 1, "MySQL has no backoff");
}

#[test]
fn no_two_rows_overlap_and_each_has_a_source() {
    let all: Vec<&FreeList> = free_lists().collect();
    for (index, one) in all.iter().enumerate() {
        assert!(one.source.len() > 20 && one.since < one.until && !one.counters.is_empty(), "{one:?}");
        for other in &all[index + 1..] {
            let disjoint = other.until <= one.since || one.until <= other.since;
            assert!(one.flavour != other.flavour || disjoint, "{one:?} and {other:?}");
        }
    }
}

/// The arguments of the sleeps of one call in MariaDB 10.1.23, as they were traced.
#[test]
fn the_ladder_is_what_was_traced() {
    let long = [10_000; 18];
    let mut traced = vec![1, 2, 4, 16, 16, 32, 32, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];
    traced.extend(long);
    traced.extend([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]);
    traced.extend(long);
    traced.extend([1, 2, 4]);
    let ours: Vec<u64> = (3..).take(traced.len()).map(|n| LADDER.wait_us(n)).collect();
    assert_eq!(ours, traced);
    assert!((0..3).all(|n| LADDER.wait_us(n) == 0 && !LADDER.is_sleep(n)) && LADDER.is_sleep(3));
}

/// With an overhead of 60 us for each sleep, in us: added up by hand, with the waits of the trace above.
#[test]
fn the_lengths_of_stalls_are_a_lattice() {
    let expected = [
        (0, 0),
        (3, 0),
        (4, 61),
        (16, 2_899),
        (18, 9_163),
        (19, 17_415),
        (20, 27_475),
        (25, 77_775),
        (37, 198_495),
        (51, 215_718),
        (52, 225_778),
        (63, 336_438),
        (69, 396_798),
        (83, 414_021),
        (84, 424_081),
        (133, 793_404),
        (135, 793_527),
    ];
    let ours: Vec<(u32, u64)> = expected.iter().map(|(n, _)| (*n, LADDER.length_us(*n, 60))).collect();
    assert_eq!(ours, expected);
}

/// With an overhead of 60 us for each sleep: the length of a stall in ms, and the failed tries.
#[test]
#[allow(clippy::cast_possible_truncation)] // microseconds of a stall
fn the_counter_is_a_clock_of_stalls() {
    let expected = [
        (5.0, 16),
        (17.5, 19),
        (50.0, 22),
        (78.0, 25),
        (100.0, 27),
        (150.0, 32),
        (200.0, 46),
        (250.0, 54),
        (300.0, 59),
        (336.44, 63),
        (400.0, 80),
        (500.0, 91),
        (555.0, 97),
        (600.0, 113),
        (700.0, 123),
        (800.0, 145),
        (900.0, 155),
        (1000.0, 177),
        (1500.0, 252),
        (2000.0, 338),
    ];
    let ours: Vec<(f64, u32)> = expected.iter().map(|(ms, _)| (*ms, LADDER.tries((*ms * 1000.0) as u64, 60))).collect();
    assert_eq!(ours, expected);
}

#[test]
fn each_bug_and_setting_has_a_source_and_is_about_a_counter_that_its_versions_have() {
    for bug in bug::BUGS {
        assert!(bug.since < bug.until && bug.source.len() > 20, "{bug:?}");
        let has = |name: &&str| {
            let rows = free_lists().filter(|row| row.flavour == bug.flavour);
            rows.filter(|row| row.since < bug.until).any(|row| row.counters.iter().any(|it| it.name == *name))
        };
        assert!(bug.counters.iter().all(has), "{bug:?}");
    }
    let named = |flavour, version: &str| {
        bugs(flavour, &version.parse().expect("a version")).map(|bug| bug.name).collect::<Vec<_>>()
    };
    assert!(named(Percona, "5.7.29").contains(&"PS-6860") && !named(Percona, "5.7.39").contains(&"PS-6860"));
    assert!(named(Percona, "8.0.29").contains(&"Bug#109200/PS-8785"));
    assert!(!named(Percona, "8.0.36").iter().any(|name| name.contains("109200")));
    assert!(named(Mysql, "9.7.2").contains(&"Bug#109200") && !named(Mysql, "5.7.44").contains(&"Bug#109200"));
    assert!(named(Mariadb, "10.11.19").is_empty());
}

#[test]
fn what_can_be_set_while_a_server_runs() {
    let is_dynamic = |name, flavour, version: &str| {
        setting(name, flavour, &version.parse().expect("a version")).map(|it| it.is_dynamic)
    };
    assert_eq!(is_dynamic("innodb_empty_free_list_algorithm", Percona, "5.7.39"), Some(true));
    assert_eq!(is_dynamic("innodb_empty_free_list_algorithm", Mysql, "8.0.29"), None);
    assert_eq!(is_dynamic("innodb_lru_threads", Percona, "9.7.2"), Some(false));
    assert_eq!(is_dynamic("innodb_lru_threads", Percona, "8.0.29"), None);
    assert_eq!(is_dynamic("innodb_lru_scan_depth", Mariadb, "10.1.23"), Some(true));
}

#[test]
fn every_algorithm_of_a_row_has_its_meaning_of_each_counter() {
    for row in free_lists() {
        for counter in row.counters {
            let has_backoff = row.algorithms.contains(&Algorithm::Backoff);
            assert!(
                !counter.legacy.is_empty() && (!has_backoff || !counter.backoff.is_empty()),
                "{row:?}: {counter:?}"
            );
        }
    }
}

#[test]
fn the_function_in_which_queries_wait_has_the_name_of_its_version() {
    let symbol = |flavour, version: &str| {
        waiting_function(flavour, &version.parse().expect("a version")).map(|it| (it.symbol, it.evidence))
    };
    let pool = "_Z22buf_LRU_get_free_blockP10buf_pool_t";
    assert_eq!(symbol(Mariadb, "10.1.23"), Some((pool, Evidence::Measured)));
    for (flavour, version) in [(Mariadb, "10.1.48"), (Mariadb, "10.4.30"), (Percona, "8.0.29"), (Mysql, "9.7.4")] {
        assert_eq!(symbol(flavour, version), Some((pool, Evidence::Assumed)), "{flavour} {version}");
    }
    assert_eq!(symbol(Mariadb, "10.11.19").map(|it| it.0), Some("_Z22buf_LRU_get_free_blockb"));
    assert_eq!(symbol(Mariadb, "11.8.6").map(|it| it.0), Some("_Z22buf_LRU_get_free_block11buf_LRU_get"));
    for (flavour, version) in [(Mariadb, "11.4.2"), (Mariadb, "5.5.60"), (Mysql, "9.8.0"), (Postgresql, "15")] {
        assert_eq!(symbol(flavour, version), None, "{flavour} {version}");
    }
    // the ABI writes a name's length before it
    assert!(function::ALL.iter().all(|it| it.symbol.starts_with("_Z22") && "buf_LRU_get_free_block".len() == 22));
}
