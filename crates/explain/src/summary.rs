// SPDX-License-Identifier: Apache-2.0
use crate::busy::Busy;
use crate::reads::{Reads, StatementModes, humps, reads};
use evidence::{Arm, Conditions, Delay, DelayMode, LatencyHistogram, Measured, Phase};
use modes::{Modes, ReadDelay};
use serde::{Deserialize, Serialize};

/// The figures of one arm. Figures of the load are `None` when the arm ended before its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmSummary {
    pub name: String,
    /// The delay that was in force; `None` without a slow layer.
    pub delay: Option<Delay>,
    pub transactions: u64,
    pub queries: u64,
    pub elapsed_us: u64,
    pub transactions_per_second: Option<f64>,
    pub queries_per_second: Option<f64>,
    /// From the intended start. A transaction that had not ended counts with the time for which it had waited.
    pub response: Option<Percentiles>,
    /// From the actual start.
    pub service: Option<Percentiles>,
    /// The humps of the transactions' service times.
    pub modes: Option<Modes>,
    /// By class of statement, when a transaction has several.
    pub statements: Vec<StatementModes>,
    pub reads: Option<Reads>,
    pub errors: u64,
    pub late: u64,
    pub skipped: u64,
    /// How busy the host was during the arm; `None`: the host was not observed.
    #[serde(default)]
    pub busy: Option<Busy>,
}

/// Times of transactions, in microseconds.
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

pub(crate) fn of(arm: &Arm, conditions: &Conditions, squeezed: &[Measured]) -> ArmSummary {
    let empty = Phase::default();
    let measured = arm.load.as_ref().map(|load| &load.measured);
    let phase = measured.unwrap_or(&empty);
    let found = measured.map(|phase| humps(phase, arm.delay, read_delay(arm, squeezed), arm.layer_reads.as_ref()));
    ArmSummary {
        name: arm.name.clone(),
        delay: arm.delay,
        transactions: phase.transactions,
        queries: phase.queries(),
        elapsed_us: phase.elapsed_us,
        transactions_per_second: phase.transactions_per_second(),
        queries_per_second: phase.queries_per_second(),
        response: Percentiles::of(&phase.response_at_least()),
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

/// The time of a read: the delay, and, when the delay is out of its tolerance, the value that took effect. `None`: reads are not delayed, or not all
/// by the same time.
pub(crate) fn read_delay(arm: &Arm, squeezed: &[Measured]) -> Option<ReadDelay> {
    let asked = ReadDelay::of(arm.delay)?;
    let of_arm = |it: &&Measured| it.what == "disk.read.median" && it.arm.as_deref() == Some(arm.name.as_str());
    let outside = squeezed.iter().rev().find(of_arm).filter(|it| it.is_outside());
    let Some((got, share)) = outside.and_then(|it| Some((it.got?, it.came_on?))) else { return Some(asked) };
    Some(match asked.mode {
        DelayMode::Add => asked.seen(asked.us * share),
        DelayMode::Total => asked.seen(got.value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::Quantity;

    fn arm(mode: DelayMode) -> Arm {
        Arm {
            delay: Some(Delay { read_us: 10_000, write_us: 0, sync_us: 0, mode, varies: false }),
            ended_us: 1,
            ..Arm::begun("10 ms", 0)
        }
    }

    fn measured(arm: &str, got_us: f64, came_on: f64, within: bool) -> Measured {
        Measured {
            at_us: 0,
            arm: Some(arm.into()),
            what: "disk.read.median".into(),
            mechanism: "fuse layer".into(),
            asked: Some(Quantity::micros(10_000.0)),
            predicted: Some(Quantity::micros(10_060.0)),
            got: Some(Quantity::micros(got_us)),
            witness: "240 direct reads".into(),
            within_tolerance: Some(within),
            tolerance: None,
            looks: None,
            came_on: Some(came_on),
        }
    }

    #[test]
    fn what_is_computed_uses_what_was_got_where_that_is_not_what_was_asked() {
        let bounds = |mode, rows: &[Measured]| {
            let read = read_delay(&arm(mode), rows).unwrap();
            (read.us, read.longest_us)
        };
        // the disk below may have been slow while the probe read: only the asked time is certain for every read
        let off = [measured("10 ms", 13_060.0, 1.3, false)];
        assert_eq!(bounds(DelayMode::Add, &off), (10_000.0, 13_000.0));
        assert_eq!(bounds(DelayMode::Total, &off), (10_000.0, 13_060.0));
        let less = [measured("10 ms", 7_500.0, 0.75, false)];
        assert_eq!(bounds(DelayMode::Add, &less), (7_500.0, 10_000.0));
        let near = [measured("10 ms", 10_100.0, 1.004, true)];
        let of_another = [measured("20 ms", 13_060.0, 1.3, false)];
        let asked = (10_000.0, 10_000.0);
        assert_eq!([&near[..], &of_another, &[]].map(|rows| bounds(DelayMode::Add, rows)), [asked; 3]);
    }
}
