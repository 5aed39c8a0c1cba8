// SPDX-License-Identifier: Apache-2.0
//! The figures of each kind of finding, as plain data. `docs/findings.md` says what they mean.

use crate::busy::{Busy, Cause};
use crate::growth::{Growth, LeafGrowth};
use crate::reads::{Reads, StatementModes};
use evidence::{Delay, Looks, Quantity};
use modes::Mode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencyModes {
    /// The arms that have latencies.
    pub arms: Vec<ArmModes>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmModes {
    pub arm: String,
    /// The delay that was in force; `None` without a slow layer.
    pub delay: Option<Delay>,
    pub queries: u64,
    pub modes: Vec<Mode>,
    /// Why the reads, or more humps, cannot be determined.
    pub reason: Option<String>,
    pub read_us: Option<f64>,
    pub statements: Vec<StatementModes>,
    #[serde(flatten)]
    pub reads: Reads,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmsCompare {
    /// The arm with which the others are compared.
    pub baseline: String,
    pub arms: Vec<ComparedArm>,
}

/// One arm against another; a ratio is this arm's figure over the other's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedArm {
    /// All turns of the arm together.
    pub arm: String,
    pub throughput_ratio: f64,
    /// Half the width of the interval around the ratio; `None`: the run was too short.
    pub margin: Option<f64>,
    /// Lower end of the interval of the ratio.
    #[serde(default)]
    pub low: Option<f64>,
    #[serde(default)]
    pub high: Option<f64>,
    /// If the true ratio were this, or 1 over this, the difference would be shown in 9 of 10 such runs.
    #[serde(default)]
    pub detectable_ratio: Option<f64>,
    /// Whether 1 is outside of the interval.
    pub difference_shown: bool,
    pub p50_ratio: Option<f64>,
    pub p99_ratio: Option<f64>,
    /// One sentence for people.
    pub statement: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunsCompare {
    /// The number of the run with which the others are compared.
    pub baseline: usize,
    /// The ids of the runs.
    pub runs: Vec<String>,
    pub cells: Vec<ComparedCell>,
}

/// A cell of a later run against the same cell of the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedCell {
    pub cell: String,
    /// The number of the later run.
    pub run: usize,
    #[serde(flatten)]
    pub compared: ComparedArm,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunsConditions {
    pub different: Vec<DifferentCondition>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DifferentCondition {
    pub what: String,
    /// One value for each run, with the type of the condition; `null` when a run has none.
    pub values: Vec<Value>,
}

/// A [`evidence::Measured`] that is out of its tolerance, with its measured value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SqueezeGot {
    pub what: String,
    pub mechanism: String,
    pub asked: Option<Quantity>,
    pub predicted: Option<Quantity>,
    pub got: Option<Quantity>,
    pub witness: String,
    pub tolerance: Option<String>,
    pub looks: Option<Looks>,
    pub came_on: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SqueezeForeignCache {
    pub cached_by_others_bytes: f64,
    pub mechanism: String,
    pub witness: String,
    pub tolerance: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadOverload {
    /// Transactions that should have started.
    pub intended: u64,
    pub late: u64,
    /// Transactions that never started.
    pub skipped: u64,
    /// From the intended start to the start; for those that had not started at the end, until then.
    pub mean_wait_us: Option<f64>,
    pub transactions_per_second: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadErrors {
    /// Statements that failed.
    pub errors: u64,
    pub queries: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostBusy {
    /// The arms during which the host was busy enough to change the figures.
    pub arms: Vec<BusyArm>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BusyArm {
    pub arm: String,
    pub causes: Vec<Cause>,
    pub busy: Busy,
}

/// A field is `None` when the figure was not read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObserveServer {
    pub elapsed_us: f64,
    /// The share of all CPUs together.
    pub host_busy_share: Option<f64>,
    pub server_cpu_us: Option<f64>,
    /// The server's own count: MySQL, MariaDB.
    pub statements: Option<u64>,
    /// The server's own count: PostgreSQL.
    pub transactions: Option<u64>,
    /// The name of the measure of memory: `Pss` or `RSS`.
    pub memory: Option<String>,
    pub memory_first_bytes: Option<f64>,
    pub memory_last_bytes: Option<f64>,
}

/// Figures while a load on another host was measured; a field is `None` when the figure was not read all the time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObserveJoined {
    pub queries: u64,
    pub transactions_of_the_load: u64,
    pub elapsed_us: u64,
    pub server_cpu_us: Option<f64>,
    /// The server's own count: MySQL, MariaDB.
    pub statements: Option<f64>,
    /// The server's own count: PostgreSQL.
    pub transactions: Option<f64>,
    /// The accuracy of the times.
    pub clock: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallsEvents {
    /// The length of the shortest stall that was looked for.
    pub least_us: u64,
    pub stalls: u64,
    /// Statements, each counted as often as it stalled.
    pub victims: u64,
    pub longest_us: u64,
    /// The time of slow statements that are in no stall, and not of their own work. `None`: the source shows only statements that stalled.
    #[serde(default)]
    pub no_stall_query_us: Option<u64>,
    /// In the order of time; if there are more than 20 stalls, only those that lost the most.
    pub events: Vec<StallEvent>,
}

/// One stall.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallEvent {
    /// On the run's clock, from the begin of the first victim to the end of the last one.
    pub from_us: u64,
    pub length_us: u64,
    /// `free_list_backoff`, `unknown`, ...
    pub cause: String,
    /// From 0 to 1; 0 for `unknown`.
    pub confidence: f64,
    pub victims: u64,
    pub lost_query_us: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StallsAccount {
    /// The sum over all victims. A victim loses its time minus the median of its class outside of stalls. Equal to `attributed + unexplained`.
    pub lost_query_us: u64,
    pub attributed_query_us: u64,
    /// The time lost in stalls of cause `unknown`.
    pub unexplained_query_us: u64,
    /// The lost time by cause.
    pub by_cause: BTreeMap<String, u64>,
    /// The share of the time of all connections of the load, from 0 to 1; `None`: another program was the load.
    #[serde(default)]
    pub share: Option<f64>,
    /// Beside the lost time: how long transactions of an open loop waited until a connection was free for them. `None`: the load is no open loop of
    /// Wringer's own.
    #[serde(default)]
    pub wait_to_start_query_us: Option<u64>,
    /// The growth of `Innodb_buffer_pool_wait_free`, and the growth that these stalls cause, if they wait under `backoff`.
    pub wait_free: Option<u64>,
    pub wait_free_by_stalls: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryGrowth {
    /// The worst verdict of all leaves.
    pub verdict: Growth,
    /// Inventories since the server's last start.
    pub inventories: u64,
    /// From the first of these inventories to the last.
    pub elapsed_us: u64,
    pub total: LeafGrowth,
    /// How far the total of one of these inventories may be off because processes were estimated; the largest.
    #[serde(default)]
    pub estimate_uncertainty_bytes: u64,
    /// Bytes in chunks that malloc has handed out. `None`: the chunks were not walked, or the server has several processes.
    pub heap_used: Option<LeafGrowth>,
    /// The leaves that changed by 64 KiB or more, the fastest growing leaf first.
    pub leaves: Vec<LeafGrowth>,
}

/// The cost of all observers together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ObserveCost {
    pub cpu_us: f64,
    pub elapsed_us: f64,
    pub share_of_one_cpu: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArticleFigures {
    /// From 1 to 5, as `docs/articles.md` counts them.
    pub article: u32,
    pub title: String,
    /// The measured figures, in words: one sentence. Empty: no figure that has words was measured.
    #[serde(default)]
    pub told: String,
    pub figures: Vec<ArticleFigure>,
}

/// One figure of the article, and the same figure of this run. They are not compared with each other, because the machines differ: both are compared
/// with the law that should hold at any scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArticleFigure {
    pub name: String,
    /// The figure that the article printed, or one that is computed from the article's figures. `None`: the article has no such figure.
    pub article: Option<f64>,
    /// The numbers that the article printed, in words.
    #[serde(default)]
    pub article_from: Option<String>,
    /// `None`: this run has not measured it.
    pub ours: Option<f64>,
    pub unit: String,
    /// The law that should hold on any machine. `None`: there is no law, and the two figures are only shown beside each other.
    pub law: Option<String>,
    /// The bounds of the law, both included. `None`: there is no bound on this side.
    #[serde(default)]
    pub law_low: Option<f64>,
    #[serde(default)]
    pub law_high: Option<f64>,
    /// Whether `ours` follows the law; `None`: it was not measured, or there is no law.
    pub agrees: Option<bool>,
    /// When `agrees` is false: other facts in the recording that may explain it, or that there are none.
    pub because: Option<String>,
    /// The values from which `ours` was computed.
    pub from: Option<String>,
}
