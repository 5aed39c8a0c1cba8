// SPDX-License-Identifier: Apache-2.0
//! The answer.

use capability::{Algorithm, Bug};
use serde::Serialize;
use simulate::Range;

/// The answer for one reading.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advised {
    /// `percona 8.0.29`.
    pub server: String,
    /// The version in the server's own words.
    pub said: String,
    /// The algorithm in force. `None`: the server has no such choice, or does not tell it.
    pub algorithm: Option<&'static str>,
    /// Whether queries of this server can wait for a free page by sleeping (`backoff`). `None`: the source of this version was not
    /// read.
    pub applicable: Option<bool>,
    /// The reason why it is applicable, or is not.
    pub applicable_why: String,
    /// The source of the facts about this version, and how they are known. `None`: the source of this version was not read.
    pub source: Option<String>,
    /// Seconds between the first reading and the last.
    pub seconds: f64,
    pub free_ratio: Option<FreeRatio>,
    pub page_demand_per_second: Option<f64>,
    pub page_demand: Option<Demand>,
    /// The longest time in which no thread makes pages free while a query waits. `None`: a query that waits wakes such a thread, or makes a page free itself.
    pub longest_sleep_us: Option<u64>,
    pub dirty_tail: Tail,
    pub counters: Vec<Counted>,
    pub advice: Vec<Advice>,
    /// What to look at, where there is nothing to set.
    pub watch: Vec<Watch>,
    /// Simulations of other depths, and of the other algorithm. Empty where the load is not known.
    pub trades: Vec<Trade>,
    pub trades_of: Option<Simulated>,
    pub missing: Vec<Missing>,
    pub notes: Vec<String>,
}

/// The share of the buffer pool that is kept free.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FreeRatio {
    pub share: f64,
    pub bytes: u64,
    /// Pages of one instance: `innodb_lru_scan_depth`.
    pub lru_scan_depth: u64,
    pub instances: u64,
    pub verdict: Share,
    pub source: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    /// Below 5 %.
    Fine,
    /// 5 to 20 %.
    Acceptable,
    /// More than 20 %.
    Problem,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Demand {
    /// The counters whose sum it is.
    pub from: Vec<String>,
    /// Pages that the counters do not count.
    pub without: Option<&'static str>,
    /// Pages of one instance that are asked for within the longest sleep, if all instances are asked equally.
    pub pages_in_longest_sleep: Option<f64>,
    /// The `innodb_lru_scan_depth` that would last through this time, with a quarter more.
    pub lru_scan_depth_needed: Option<u64>,
}

/// Whether dirty pages reach the end of the LRU list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tail {
    /// `clean`, `dirty_now_and_then`, `dirty`, or `not_known`.
    pub verdict: &'static str,
    pub pages_flushed_per_second: Option<f64>,
    pub single_flush_scanned_per_second: Option<f64>,
    /// The share of the pages asked for that were dirty at the end of the list. `None`: not known.
    pub dirty_share: Option<f64>,
    pub says: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counted {
    pub name: &'static str,
    /// `None`: not in the reading, or the value is not a counter but a state.
    pub value_per_second: Option<f64>,
    pub value_now: Option<f64>,
    pub means: String,
    /// `good`, `doubtful` (a known fault), or `missing`.
    pub trust: &'static str,
    pub bugs: Vec<&'static Bug>,
    pub source: &'static str,
}

/// How well something is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// On a server of this version.
    Measured,
    Simulated,
    /// From its source, or from another version: Wringer's authors had no server of this version.
    Assumed,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// A statement that you run, or write into the option file. `None`: leave everything as it is.
    pub statement: Option<String>,
    /// Whether the server takes it while it runs; otherwise it takes it at its start.
    pub dynamic: Option<bool>,
    pub why: String,
    pub price: String,
    pub basis: Basis,
    pub source: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Watch {
    pub what: &'static str,
    pub means: &'static str,
    pub source: &'static str,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Missing {
    pub what: String,
    /// A statement that would tell it. It is not run.
    pub statement: Option<String>,
}

/// The simulated load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Simulated {
    pub basis: Basis,
    /// The load that was simulated, as it was taken from the reading.
    pub load: Vec<String>,
    /// Unknown facts about the load: each figure has its lowest and its highest value over all of them.
    pub unknown: Vec<String>,
}

/// The result of one setting with that load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trade {
    pub lru_scan_depth: u64,
    pub algorithm: &'static str,
    /// Whether it is the setting of now.
    pub is_current: bool,
    /// Waits of 5 ms and more for a free page.
    pub stalls_per_minute: Range,
    /// `None`: there was no stall.
    pub stall_p50_us: Option<Range>,
    pub stall_max_us: Range,
    pub queries_per_second: Range,
    /// The throughput as a multiple of that with the setting of now, from the same start with the same load. `None`: no query is answered now.
    pub queries_times: Option<Range>,
    pub free_list_bytes: u64,
}

pub(crate) const ARTICLE: &str =
    "J.-F. Gagné, Tail Latencies in Percona Server because of InnoDB Stalls on Empty Free List (2022)";

/// The algorithm of this name.
pub(crate) fn algorithm_named(word: &str) -> Option<Algorithm> {
    [Algorithm::Backoff, Algorithm::Legacy].into_iter().find(|it| it.name().eq_ignore_ascii_case(word))
}
