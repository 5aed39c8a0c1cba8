// SPDX-License-Identifier: Apache-2.0
//! `arms.compare`: each arm, all its turns together, against the first arm, with an interval, and "no difference shown" when the interval contains 1.
//! The turns of one run are no repeats: the interval shows what varied while the arms ran, and not how another run would differ.

use super::figures::{ArmsCompare, ComparedArm};
use super::{Doubt, Finding, FindingEvidence, doubt, percent, time};
use crate::Percentiles;
use crate::steady::{slots, slowest_and_fastest_second};
use evidence::{Arm, Clock, Evidence, LatencyHistogram};
use verdict::within::{self, Batches};

/// How often a run may report a difference between equal arms, over all its comparisons together.
const CHANCE: f64 = 0.05;

/// One side of a comparison: all turns of a cell together.
pub(super) struct Side {
    pub(super) name: String,
    /// Transactions a second.
    pub(super) rate: f64,
    pub(super) response: Option<Percentiles>,
    /// Whether p50 and p99 are lower bounds, because transactions had not ended.
    pub(super) at_least: [bool; 2],
    /// Whether another program was the load.
    pub(super) driven: bool,
    /// Transactions in the slowest second and in the fastest; `None`: too few seconds.
    seconds: Option<(f64, f64)>,
}

/// The effect of chance on a ratio: factors around it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) detectable_ratio: Option<f64>,
}

/// All turns of a cell in one run, and what they did while they ran.
pub(super) struct Cell {
    pub(super) side: Side,
    /// `None`: the run was too short.
    batches: Option<Batches>,
}

impl Cell {
    /// `None` when there is no throughput.
    pub(super) fn of(name: &str, turns: &[&Arm]) -> Option<Self> {
        let phases = || turns.iter().filter_map(|arm| arm.load.as_ref()).map(|load| &load.measured);
        let elapsed_us: u64 = phases().map(|phase| phase.elapsed_us).sum();
        let transactions: u64 = phases().map(|phase| phase.transactions).sum();
        let mut response = LatencyHistogram::new();
        phases().for_each(|phase| response.merge(&phase.response_at_least()));
        let rates: Vec<Vec<f64>> = turns.iter().filter_map(|arm| arm.load.as_ref()).map(slots).collect();
        let rates: Vec<&[f64]> = rates.iter().map(Vec::as_slice).collect();
        (transactions > 0 && elapsed_us > 0).then(|| Self {
            side: Side {
                name: name.to_owned(),
                rate: transactions as f64 * 1e6 / elapsed_us as f64,
                response: Percentiles::of(&response),
                at_least: [50.0, 99.0].map(|percentile| {
                    phases().any(|phase| phase.times(Clock::Response).percentile(percentile).is_at_least())
                }),
                driven: turns.iter().any(|arm| arm.driven.is_some()),
                seconds: slowest_and_fastest_second(turns.iter().filter_map(|arm| arm.load.as_ref())),
            },
            batches: within::batches(&rates),
        })
    }

    /// The effect of chance on the ratio of this cell over `base`, when there are this many comparisons; `None`: the run was too short.
    pub(super) fn beside(&self, base: &Self, comparisons: usize) -> Option<Interval> {
        let chance = CHANCE / comparisons.max(1) as f64;
        let within = within::compare(base.batches.as_ref()?, self.batches.as_ref()?, chance)?;
        let (low, high) = (within.low / within.ratio, within.high / within.ratio);
        Some(Interval { low, high, detectable_ratio: Some(within.detectable_ratio) })
    }
}

pub(super) struct Comparison {
    arm: String,
    /// Transactions a second.
    rate: f64,
    ratio: f64,
    /// `None`: the run was too short.
    interval: Option<Interval>,
    p50_ratio: Option<f64>,
    p99_ratio: Option<f64>,
    /// The arm's own times, not ratios.
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    /// Whether these times are lower bounds.
    at_least: [bool; 2],
    /// Whether one of the two loads was another program.
    driven: bool,
    /// Where there is no interval, and each second of the one is slower than each of the other: that, in words.
    apart: Option<String>,
}

impl Comparison {
    /// The figures as the evidence of a finding.
    pub(super) fn figures(&self, base: &Side) -> ComparedArm {
        ComparedArm {
            arm: self.arm.clone(),
            throughput_ratio: self.ratio,
            margin: self.margin(),
            low: self.interval.map(|interval| self.ratio * interval.low),
            high: self.interval.map(|interval| self.ratio * interval.high),
            detectable_ratio: self.interval.and_then(|interval| interval.detectable_ratio),
            difference_shown: self.shown(),
            p50_ratio: self.p50_ratio,
            p99_ratio: self.p99_ratio,
            statement: sentence(base, self),
        }
    }

    fn margin(&self) -> Option<f64> {
        self.interval.map(|interval| self.ratio * (interval.high - interval.low) / 2.0)
    }

    /// Whether 1 is outside of the interval.
    fn shown(&self) -> bool {
        self.interval.is_some_and(|interval| self.ratio * interval.low > 1.0 || self.ratio * interval.high < 1.0)
    }
}

pub(super) fn finding(evidence: &Evidence) -> Option<Finding> {
    let mut cells = loaded(evidence).into_iter();
    let base = cells.next()?;
    let others: Vec<Cell> = cells.collect();
    let count = others.len();
    let compared: Vec<Comparison> =
        others.iter().filter_map(|one| compare(&base.side, &one.side, one.beside(&base, count))).collect();
    if compared.is_empty() {
        return None;
    }
    let arms: Vec<ComparedArm> = compared.iter().map(|one| one.figures(&base.side)).collect();
    Some(Finding {
        arm: None,
        statement: arms.iter().map(|one| one.statement.as_str()).collect::<Vec<_>>().join(" "),
        evidence: FindingEvidence::ArmsCompare(ArmsCompare { baseline: base.side.name, arms }),
        doubts: doubts(evidence, &compared),
    })
}

/// The cells with a load and a throughput, in the order in which they first ran.
fn loaded(evidence: &Evidence) -> Vec<Cell> {
    let mut turns: Vec<(&str, Vec<&Arm>)> = Vec::new();
    for arm in evidence.arms.iter().filter(|arm| arm.load.is_some()) {
        match turns.iter_mut().find(|(cell, _)| *cell == arm.cell) {
            Some((_, turns)) => turns.push(arm),
            None => turns.push((&arm.cell, vec![arm])),
        }
    }
    turns.iter().filter_map(|(cell, turns)| Cell::of(cell, turns)).collect()
}

pub(super) fn compare(base: &Side, side: &Side, interval: Option<Interval>) -> Option<Comparison> {
    let ratio = side.rate / Some(base.rate).filter(|rate| *rate > 0.0)?;
    let of = |percentile: fn(&Percentiles) -> f64| {
        let (base, own) = (base.response.as_ref()?, side.response.as_ref()?);
        (percentile(base) > 0.0).then(|| percentile(own) / percentile(base))
    };
    let own = |percentile: fn(&Percentiles) -> f64| side.response.as_ref().map(percentile);
    Some(Comparison {
        arm: side.name.clone(),
        rate: side.rate,
        ratio,
        interval,
        // a ratio to a lower bound is none
        p50_ratio: of(|percentiles| percentiles.p50_us).filter(|_| !base.at_least[0]),
        p99_ratio: of(|percentiles| percentiles.p99_us).filter(|_| !base.at_least[1]),
        p50_us: own(|percentiles| percentiles.p50_us),
        p99_us: own(|percentiles| percentiles.p99_us),
        at_least: side.at_least,
        driven: base.driven || side.driven,
        apart: base.seconds.zip(side.seconds).filter(|_| interval.is_none()).and_then(|(base, own)| apart(base, own)),
    })
}

/// One arm against the first, in words.
fn sentence(base: &Side, one: &Comparison) -> String {
    let (arm, first) = (&one.arm, &base.name);
    if let Some(margin) = one.margin().filter(|_| !one.shown()) {
        let (more, margin) = (many_more(one.ratio), percent(margin));
        let why = format!("{more} transactions a second, where chance alone makes up to {margin}");
        return format!("Between \"{arm}\" and \"{first}\" no difference is shown: {why}.");
    }
    let took = |how_many: &str, own: Option<f64>, ratio: Option<f64>, at_least: bool| match (
        own.filter(|us| *us > 0.0),
        ratio,
    ) {
        (Some(us), _) if at_least => {
            format!("; {how_many} take up to {} or more, because some had not ended", time(us))
        }
        (Some(us), Some(ratio)) => format!("; {how_many} take up to {}, {}", time(us), as_long(ratio, us)),
        (Some(us), None) if base.response.is_some() => {
            format!("; {how_many} take up to {} (there some had not ended)", time(us))
        }
        _ => String::new(),
    };
    format!(
        "\"{arm}\" does {} transactions a second, {} \"{first}\" ({}){}{}{}.",
        so_many(one.rate),
        as_many(one.ratio),
        so_many(base.rate),
        took("half of them", one.p50_us, one.p50_ratio, one.at_least[0]),
        took("99 of 100", one.p99_us, one.p99_ratio, one.at_least[1]),
        untold(one)
    )
}

/// Why nobody can say how much of the difference is chance; nothing where an interval says it.
fn untold(one: &Comparison) -> String {
    let why = match one.interval {
        Some(_) => return String::new(),
        None if one.driven => "; nothing says how much of that is chance",
        None => "; the run was too short to tell how much of that is chance",
    };
    format!("{why}{}", one.apart.as_deref().unwrap_or_default())
}

/// That the seconds of both do not overlap. It is no interval: both may vary over a longer time than they were measured.
fn apart(base: (f64, f64), own: (f64, f64)) -> Option<String> {
    let (which, rate, than, other) = if own.1 < base.0 {
        ("fastest", own.1, "slower than the slowest", base.0)
    } else if own.0 > base.1 {
        ("slowest", own.0, "faster than the fastest", base.1)
    } else {
        return None;
    };
    Some(format!(", but its {which} second ({}) was {than} there ({})", so_many(rate), so_many(other)))
}

/// `43.9 % fewer`, `2.5 times as many`, `as many`: without the word that a second arm would follow.
fn many_more(ratio: f64) -> String {
    let more = as_many(ratio);
    more.strip_suffix(" than").or(more.strip_suffix(" as")).unwrap_or(&more).to_owned()
}

/// Without decimals from a hundred on: a tenth does not matter there.
fn so_many(rate: f64) -> String {
    if rate >= 100.0 { format!("{rate:.0}") } else { format!("{rate:.1}") }
}

/// A ratio of rates in words.
fn as_many(ratio: f64) -> String {
    match ratio {
        ratio if ratio <= 0.0 => "none, beside those of".to_owned(),
        ratio if ratio < 0.5 => format!("{} times fewer than", factor(1.0 / ratio)),
        ratio if ratio < 0.9995 => format!("{} fewer than", percent(1.0 - ratio)),
        ratio if ratio < 1.0005 => "as many as".to_owned(),
        ratio if ratio < 2.0 => format!("{} more than", percent(ratio - 1.0)),
        ratio => format!("{} times as many as", factor(ratio)),
    }
}

/// A ratio of times in words, with the other time in brackets.
fn as_long(ratio: f64, us: f64) -> String {
    let other = time(us / ratio.max(1e-9));
    match ratio {
        ratio if (0.95..=1.05).contains(&ratio) => "the same as there".to_owned(),
        ratio if ratio < 0.5 => format!("{} times less ({other})", factor(1.0 / ratio.max(1e-9))),
        ratio if ratio < 1.0 => format!("{:.0} % less ({other})", (1.0 - ratio) * 100.0),
        ratio if ratio < 2.0 => format!("{:.0} % longer ({other})", (ratio - 1.0) * 100.0),
        ratio => format!("{} times as long ({other})", factor(ratio)),
    }
}

fn factor(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

fn doubts(evidence: &Evidence, compared: &[Comparison]) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let cells: Vec<&str> = evidence.arms.iter().map(|arm| arm.cell.as_str()).collect();
    let once = cells.iter().all(|cell| cells.iter().filter(|other| other == &cell).count() == 1);
    if once {
        let text = "each arm ran only once: a part of the difference may be what else happened on this host meanwhile";
        doubts.push(doubt("compare.once", text, Some("repeat = 3 runs all arms in turn, three times")));
    } else {
        let text = "the turns of an arm are no repeats: they share the server's data and what earlier turns left, so another run may differ by more";
        let hint = "three runs of each side, each with one arm's settings: wringer compare --a A1 A2 A3 --b B1 B2 B3";
        doubts.push(doubt("compare.turns", text, Some(hint)));
    }
    if compared.iter().any(|one| one.driven) {
        let text = match compared.iter().any(|one| one.driven && one.interval.is_none()) {
            true => {
                "the other program printed too few interim figures of its run (too few slots): nothing says how much of the difference is chance"
            }
            false => {
                "the load of an arm is counted by that program itself, and so are the slots by which chance is told from a difference"
            }
        };
        doubts.push(doubt("compare.driver", text, Some("repeat = 3, and look how far its turns are apart")));
    }
    let broken = evidence.arms.iter().filter(|arm| arm.broke_off.is_some() && arm.load.is_some());
    let broken: Vec<&str> = broken.map(|arm| arm.name.as_str()).collect();
    if !broken.is_empty() {
        let text = format!("{} broke off: the comparison is with what it did until then", broken.join(", "));
        doubts.push(doubt("compare.broke_off", text, Some("run again what broke off, before the arms are compared")));
    }
    let short = compared.iter().filter(|one| one.interval.is_none() && !one.driven);
    let short: Vec<&str> = short.map(|one| one.arm.as_str()).collect();
    if !short.is_empty() {
        let text = format!(
            "the first arm, or {}, ran for too short a time for what varied in it: no interval can be given",
            short.join(", ")
        );
        doubts.push(doubt("compare.short", text, Some("measure for longer: load.time")));
    }
    doubts
}
