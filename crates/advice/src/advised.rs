// SPDX-License-Identifier: Apache-2.0
//! The answer.

use capability::{Algorithm, Bug};
use serde::Serialize;
use simulate::Range;

/// What is said of one reading.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advised {
    /// `percona 8.0.29`.
    pub server: String,
    /// In the server's own words.
    pub said: String,
    /// In force. `None`: the server has no such choice, or does not say.
    pub algorithm: Option<&'static str>,
    /// Whether queries of this server can wait for a free page by sleeping (`backoff`). `None`: nobody has looked at this version.
    pub applicable: Option<bool>,
    /// Why it is, or is not.
    pub applicable_why: String,
    /// Where what is said of this version comes from, and how it is known. `None`: nobody has looked at it.
    pub source: Option<String>,
    /// Between the first reading and the last.
    pub seconds: f64,
    pub free_ratio: Option<FreeRatio>,
    pub page_demand_per_second: Option<f64>,
    pub page_demand: Option<Demand>,
    /// The longest that nobody makes pages free while a query waits. `None`: a query that waits wakes who does, or makes a page free itself.
    pub longest_sleep_us: Option<u64>,
    pub dirty_tail: Tail,
    pub counters: Vec<Counted>,
    pub advice: Vec<Advice>,
    /// What to look at, where there is nothing to set.
    pub watch: Vec<Watch>,
    /// Other depths, and the other algorithm. None where the load is not known.
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
    /// Which counters it is the sum of.
    pub from: Vec<String>,
    /// What the counters do not see.
    pub without: Option<&'static str>,
    /// Pages an instance that are asked for within the longest sleep, where all instances are asked alike.
    pub pages_in_longest_sleep: Option<f64>,
    /// `innodb_lru_scan_depth` that would last through it, with a quarter more.
    pub lru_scan_depth_needed: Option<u64>,
}

/// Whether dirty pages reach the end of the LRU list.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tail {
    /// `clean`, `dirty`, or `not_known`.
    pub verdict: &'static str,
    pub pages_flushed_per_second: Option<f64>,
    pub single_flush_scanned_per_second: Option<f64>,
    /// Of the pages asked for, so many were dirty at the end of the list. `None`: not known.
    pub dirty_share: Option<f64>,
    pub says: String,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Counted {
    pub name: &'static str,
    /// `None`: not in the reading, or it says how things stand now.
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
    /// By its source, or by another version: no server of this version was had.
    Assumed,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// To be run, or written into the option file, by you. `None`: leave it as it is.
    pub statement: Option<String>,
    /// The server takes it while it runs; else at its start.
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
    /// What would tell it. It is not run.
    pub statement: Option<String>,
}

/// What was simulated.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Simulated {
    pub basis: Basis,
    /// The load that was simulated, as it was taken from the reading.
    pub load: Vec<String>,
    /// What nobody knows of it: each figure is the lowest and the highest over all of that.
    pub unknown: Vec<String>,
}

/// What one setting does with that load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trade {
    pub lru_scan_depth: u64,
    pub algorithm: &'static str,
    /// As it is now.
    pub is_current: bool,
    /// Waits of 5 ms and more for a free page.
    pub stalls_per_minute: Range,
    /// `None`: there was no stall.
    pub stall_p50_us: Option<Range>,
    pub stall_max_us: Range,
    pub queries_per_second: Range,
    /// So many times as now, from the same start with the same load. `None`: nothing is answered now.
    pub queries_times: Option<Range>,
    pub free_list_bytes: u64,
}

pub(crate) const ARTICLE: &str =
    "J.-F. Gagné, Tail Latencies in Percona Server because of InnoDB Stalls on Empty Free List (2022)";

/// The one of the two that a word names.
pub(crate) fn algorithm_named(word: &str) -> Option<Algorithm> {
    [Algorithm::Backoff, Algorithm::Legacy].into_iter().find(|it| it.name().eq_ignore_ascii_case(word))
}
