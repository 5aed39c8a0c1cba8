// SPDX-License-Identifier: Apache-2.0
//! Into how many instances the buffer pool is parted, and what follows for the share that is kept free. MariaDB 10.1 with 24 MiB has one instance, and its
//! variable says 8.
#![allow(clippy::unwrap_used)] // a test

use advice::{AdviceRequest, Advised, Reading, Snapshot, advise};

const MIB: u64 = 1 << 20;

/// 10 seconds under `backoff`, with 1500 queries and 900 reads a second.
fn reading(version: &str, comment: &str, pool: u64, depth: u64, reads: f64) -> Reading {
    let variables = [
        ("version", version),
        ("version_comment", comment),
        ("innodb_buffer_pool_size", &pool.to_string()),
        ("innodb_page_size", "16384"),
        ("innodb_lru_scan_depth", &depth.to_string()),
        ("innodb_buffer_pool_instances", "8"),
        ("innodb_empty_free_list_algorithm", "backoff"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let at = |at_seconds: f64| {
        let rates = [("Questions", 1500.0), ("Innodb_buffer_pool_reads", reads), ("Innodb_pages_created", 0.0)];
        let status = rates.map(|(name, rate)| (name.to_owned(), rate * at_seconds)).into_iter().collect();
        Snapshot { at_seconds, status, ..Snapshot::default() }
    };
    Reading { variables: variables.into_iter().collect(), readings: vec![at(0.0), at(10.0)], ..Reading::default() }
}

fn xtradb(pool: u64, depth: u64) -> Reading {
    reading("10.1.23-MariaDB", "MariaDB Server", pool, depth, 900.0)
}

fn told(reading: &Reading, starts: u32) -> Advised {
    advise(reading, &AdviceRequest { threads: Some(4), service_us: Some(100.0), starts })
}

/// Instances, and the share that is kept free in thousandths.
fn kept(it: &Advised) -> (u64, u64) {
    let ratio = it.free_ratio.as_ref().unwrap();
    (ratio.instances, format!("{:.0}", ratio.share * 1000.0).parse().unwrap())
}

fn depths(it: &Advised) -> Vec<&str> {
    it.advice.iter().filter_map(|it| it.statement.as_deref()).filter(|it| it.contains("depth")).collect()
}

#[test]
fn a_small_pool_of_an_old_version_has_one_instance_whatever_its_variable_says() {
    let it = told(&xtradb(24 * MIB, 256), 1);
    assert_eq!(kept(&it), (1, 167), "256 of 1536 pages");
    assert!(depths(&it).is_empty(), "{:#?}", it.advice);
    assert!(it.trades.iter().any(|it| it.is_current) && it.notes.is_empty(), "{:#?}", it.notes);
    assert_eq!(kept(&told(&xtradb(2048 * MIB, 256), 0)), (8, 16), "from 1 GiB on there are as many as asked for");
}

#[test]
fn what_the_server_counts_decides() {
    let mut counted = xtradb(2048 * MIB, 256);
    counted.instances = Some(1);
    assert_eq!(kept(&told(&counted, 0)), (1, 2));
    // it was saved with the reading
    let saved = serde_json::to_string(&counted).unwrap();
    let read = advice::read(&saved).unwrap();
    assert_eq!((read.instances, read.notes.len()), (Some(1), 0));
    // from 5.7 on the variable tells what there is, also after a larger pool was made smaller
    let newer = reading("5.7.39-42", "Percona Server (GPL)", 640 * MIB, 256, 900.0);
    assert_eq!(kept(&told(&newer, 0)), (8, 50));
}

#[test]
fn no_more_is_kept_free_than_there_is() {
    let it = told(&xtradb(24 * MIB, 8192), 0);
    assert_eq!(kept(&it), (1, 833), "all but 256 of 1536 pages");
    assert!(it.notes[0].contains("only 1280 can be free: 256 stay in use"), "{:?}", it.notes);
}

/// Under `backoff` a list that does not last through the longest sleep is not made shorter.
#[test]
fn under_backoff_a_list_that_is_used_up_is_not_made_shorter() {
    let busy = told(&xtradb(32 * MIB, 1024), 0);
    assert_eq!((kept(&busy), depths(&busy)), ((1, 500), vec![]), "{:#?}", busy.advice);
    let quiet = told(&reading("10.1.23-MariaDB", "MariaDB Server", 32 * MIB, 1024, 90.0), 0);
    assert_eq!(depths(&quiet), ["SET GLOBAL innodb_lru_scan_depth = 384;"]);
}

#[test]
fn why_nothing_is_simulated_is_told() {
    let it = told(&xtradb(5 * MIB, 1024), 1);
    assert!(it.trades.is_empty());
    assert!(it.notes.last().unwrap().contains("of the 320 pages of an instance 64 can be free"), "{:?}", it.notes);
}
