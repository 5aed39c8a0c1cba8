// SPDX-License-Identifier: Apache-2.0
//! What a reading tells about dirty pages, about the doublewrite buffer and about writes, and what follows from that. The readings are made by hand.
#![allow(clippy::unwrap_used)] // a test

use advice::{AdviceRequest, Advised, Reading, Snapshot, Trade, advise};

const WAIT_FREE: &str = "Innodb_buffer_pool_wait_free";
const LRU_FLUSHED: &str = "Innodb_buffer_pool_pages_LRU_flushed";
const DEPTH: &str = "SET GLOBAL innodb_lru_scan_depth = 1536;";
const CAPACITY: &str = "SET GLOBAL innodb_io_capacity = 400;";

/// 10 seconds with 1500 queries and 900 reads a second, in a pool of 128 MiB. `more`: counters, and how far they rise in a second.
fn reading(version: &str, comment: &str, variables: &[(&str, &str)], more: &[(&str, f64)]) -> Reading {
    let always = [
        ("version", version),
        ("version_comment", comment),
        ("innodb_buffer_pool_size", "134217728"),
        ("innodb_page_size", "16384"),
        ("innodb_lru_scan_depth", "1024"),
        ("innodb_io_capacity", "200"),
        ("innodb_buffer_pool_instances", "1"),
    ];
    let variables = always.iter().chain(variables).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let at = |at_seconds: f64| {
        let rates = [("Questions", 1500.0), ("Innodb_buffer_pool_reads", 900.0), ("Innodb_pages_created", 0.0)];
        let status = rates.iter().chain(more).map(|(name, rate)| ((*name).to_owned(), rate * at_seconds));
        Snapshot { at_seconds, status: status.collect(), ..Snapshot::default() }
    };
    Reading { variables: variables.collect(), readings: vec![at(0.0), at(10.0)], ..Reading::default() }
}

fn mysql(more: &[(&str, f64)]) -> Advised {
    told(&reading("8.4.3", "MySQL Community Server - GPL", &[], more))
}

fn percona(version: &str, variables: &[(&str, &str)], more: &[(&str, f64)]) -> Reading {
    reading(version, "Percona Server (GPL)", variables, more)
}

fn told(reading: &Reading) -> Advised {
    advise(reading, &AdviceRequest { threads: Some(4), service_us: None, starts: 0 })
}

fn simulated(reading: &Reading, service_us: f64) -> Vec<Trade> {
    advise(reading, &AdviceRequest { threads: Some(4), service_us: Some(service_us), starts: 1 }).trades
}

fn statements(it: &Advised) -> Vec<&str> {
    it.advice.iter().filter_map(|advice| advice.statement.as_deref()).collect()
}

fn trade<'a>(trades: &'a [Trade], algorithm: &str) -> &'a Trade {
    trades.iter().find(|it| it.lru_scan_depth == 1024 && it.algorithm == algorithm).unwrap()
}

const BACKOFF: (&str, &str) = ("innodb_empty_free_list_algorithm", "backoff");
const LEGACY: (&str, &str) = ("innodb_empty_free_list_algorithm", "legacy");

#[test]
fn with_oracles_algorithm_a_rising_wait_free_means_a_dirty_list() {
    let dirty = mysql(&[(WAIT_FREE, 40.0)]);
    assert_eq!((dirty.dirty_tail.verdict, statements(&dirty)), ("dirty", vec![CAPACITY, DEPTH]));
    let seldom = mysql(&[(WAIT_FREE, 2.0)]);
    assert_eq!((seldom.dirty_tail.verdict, statements(&seldom)), ("dirty_now_and_then", vec![CAPACITY, DEPTH]));
    assert!(seldom.dirty_tail.says.starts_with("now and then dirty pages"), "{}", seldom.dirty_tail.says);
    let never = mysql(&[(WAIT_FREE, 0.0)]);
    assert_eq!((never.dirty_tail.verdict, statements(&never)), ("not_known", vec![]));
    let percona_legacy = told(&percona("8.0.36", &[LEGACY], &[(WAIT_FREE, 40.0), (LRU_FLUSHED, 1.0)]));
    assert_eq!((percona_legacy.dirty_tail.verdict, statements(&percona_legacy)), ("dirty", vec![CAPACITY, DEPTH]));
}

#[test]
fn under_backoff_wait_free_counts_tries_and_tells_nothing_about_dirty_pages() {
    let it = told(&percona("8.0.36", &[BACKOFF], &[(WAIT_FREE, 40.0), (LRU_FLUSHED, 0.0)]));
    assert_eq!(it.dirty_tail.verdict, "clean");
    assert!(!statements(&it).contains(&CAPACITY), "{:#?}", it.advice);
    // MariaDB 10.11 counts each wait for its page cleaner
    let other = told(&reading("10.11.18-MariaDB", "MariaDB Server", &[], &[(WAIT_FREE, 40.0), (LRU_FLUSHED, 0.0)]));
    assert_eq!((other.dirty_tail.verdict, statements(&other)), ("clean", vec![]));
}

#[test]
fn a_deeper_list_takes_no_more_than_a_fifth_of_the_pool() {
    let with_depth = |depth| {
        let mut it = reading("8.4.3", "MySQL Community Server - GPL", &[], &[(WAIT_FREE, 40.0)]);
        it.variables.insert("innodb_lru_scan_depth".to_owned(), depth);
        told(&it)
    };
    assert_eq!(statements(&with_depth("256".to_owned())), [CAPACITY, "SET GLOBAL innodb_lru_scan_depth = 512;"]);
    assert_eq!(statements(&with_depth("1536".to_owned())), [CAPACITY]);
}

/// Dirty pages alone: a query under legacy writes one page after the other, once or twice.
#[test]
fn without_the_doublewrite_buffer_legacy_costs_less() {
    let with = |word: &str| {
        let variables = [LEGACY, ("innodb_doublewrite", word)];
        percona("8.0.36", &variables, &[(LRU_FLUSHED, 900.0), (WAIT_FREE, 40.0)])
    };
    let speed = |word: &str| trade(&simulated(&with(word), 30.0), "legacy").queries_per_second.low;
    let (on, off) = (speed("ON"), speed("OFF"));
    assert!(off > on * 1.1, "{off}, ON: {on}");
    for word in ["OFF", "0", "DETECT_ONLY"] {
        let price = &told(&with(word)).advice[0].price;
        assert!(!price.contains("doublewrite"), "{price}");
    }
    assert!(told(&with("ON")).advice[0].price.contains("with the doublewrite buffer on"));
}

/// The page cleaner of Percona Server 8.4 works only while clients write.
#[test]
fn where_clients_write_the_page_cleaner_works_also_on_a_clean_list() {
    let speed = |more: &[(&str, f64)]| {
        let trades = simulated(&percona("8.4.3", &[LEGACY], more), 500.0);
        let backoff = trade(&trades, "backoff");
        (backoff.queries_per_second.low, backoff.stall_max_us.high)
    };
    let clean = (LRU_FLUSHED, 0.0);
    let (alone, longest) = speed(&[clean]);
    assert!(alone < 1200.0 && longest > 5e6, "nobody writes, and nobody refills: {alone}, {longest}");
    for write in ["Innodb_rows_updated", "Com_insert"] {
        let (speed, longest) = speed(&[clean, (write, 5.0)]);
        assert!(speed > 1200.0 && longest < 1.2e6, "{write}: {speed}, {longest}");
    }
    // 9000 pages came from a list of 1024: a thread refilled it
    let trades = simulated(&percona("8.4.3", &[BACKOFF], &[clean, (WAIT_FREE, 300.0)]), 500.0);
    let now = trade(&trades, "backoff");
    assert!(now.is_current && now.stall_max_us.high < 1.2e6, "{now:?}");
    // they were all free already when the reading began
    let mut at_first = percona("8.4.3", &[BACKOFF], &[clean, (WAIT_FREE, 300.0)]);
    at_first.readings[0].status.insert("Innodb_buffer_pool_pages_free".to_owned(), 9500.0);
    assert!(trade(&simulated(&at_first, 500.0), "backoff").stall_max_us.high > 5e6);
}
