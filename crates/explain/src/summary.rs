// SPDX-License-Identifier: Apache-2.0
use crate::busy::Busy;
use crate::modes::Modes;
use crate::reads::{Reads, StatementModes, humps, reads};
use evidence::{Arm, Conditions, Delay, LatencyHistogram, Phase};
use serde::{Deserialize, Serialize};

/// One arm in figures. Those of the load are `None` when the arm did not get as far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    pub name: String,
    /// The delay in force; `None` without a slow layer.
    pub delay: Option<Delay>,
    pub transactions: u64,
    pub queries: u64,
    pub elapsed_us: u64,
    pub transactions_per_second: Option<f64>,
    pub queries_per_second: Option<f64>,
    /// From the intended start.
    pub response: Option<Percentiles>,
    /// From the actual start.
    pub service: Option<Percentiles>,
    /// The humps of the transactions' service times.
    pub modes: Option<Modes>,
    /// By class of statement, where a transaction has several.
    pub statements: Vec<StatementModes>,
    pub reads: Option<Reads>,
    pub errors: u64,
    pub late: u64,
    pub skipped: u64,
    /// How busy the host was meanwhile; `None`: nobody looked.
    #[serde(default)]
    pub busy: Option<Busy>,
}

/// Of transactions, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    pub min_us: f64,
    pub mean_us: f64,
    pub p50_us: f64,
    pub p95_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

impl Percentiles {
    /// `None` for an empty histogram.
    pub(crate) fn of(histogram: &LatencyHistogram) -> Option<Self> {
        let at = |percentile| histogram.percentile_ns(percentile) as f64 / 1e3;
        (!histogram.is_empty()).then(|| Self {
            min_us: histogram.min_ns() as f64 / 1e3,
            mean_us: histogram.mean_ns() / 1e3,
            p50_us: at(50.0),
            p95_us: at(95.0),
            p99_us: at(99.0),
            p999_us: at(99.9),
            max_us: histogram.max_ns() as f64 / 1e3,
        })
    }
}

pub(crate) fn of(arm: &Arm, conditions: &Conditions) -> ArmSummary {
    let empty = Phase::default();
    let measured = arm.load.as_ref().map(|load| &load.measured);
    let phase = measured.unwrap_or(&empty);
    let found = measured.map(|phase| humps(phase, arm.delay));
    ArmSummary {
        name: arm.name.clone(),
        delay: arm.delay,
        transactions: phase.transactions,
        queries: phase.queries(),
        elapsed_us: phase.elapsed_us,
        transactions_per_second: phase.transactions_per_second(),
        queries_per_second: phase.queries_per_second(),
        response: Percentiles::of(&phase.transaction.response),
        service: Percentiles::of(&phase.transaction.service),
        reads: found.as_ref().map(|found| reads(arm, phase, found, conditions)),
        modes: found.as_ref().map(|found| found.whole.clone()),
        statements: found.map(|found| found.statements).unwrap_or_default(),
        errors: phase.errors.values().sum(),
        late: phase.late,
        skipped: phase.skipped,
        busy: Busy::of(arm),
    }
}
