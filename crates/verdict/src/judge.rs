// SPDX-License-Identifier: Apache-2.0
//! From two sides of repeats to a verdict for each figure.

use crate::figures::{Figure, Repeat, THROUGHPUT};
use crate::interval::{Estimate, Part};
use crate::judged::{Compared, Judged, NoVerdict, Verdict};
use crate::sides::{Valued, left_out, mean, pairs, variance};

/// With fewer repeats on a side there is no verdict: two values do not tell how far a third would be away from them.
pub const FEWEST_REPEATS: usize = 3;
/// The probability that any figure of two equal sides has a verdict.
const CHANCE: f64 = 0.05;

/// One figure, as far as it was measured.
struct Measured {
    name: String,
    unit: String,
    a: Vec<Valued>,
    b: Vec<Valued>,
    resolution: f64,
    other_unit: bool,
}

/// Compares `b` with `a`. There is an answer for any repeats: a figure that cannot be judged says why.
///
/// Which figures share the allowed error depends on how often they were measured, never on their values.
pub fn judge(a: &[Repeat], b: &[Repeat]) -> Judged {
    let measured: Vec<Measured> = names(a, b).into_iter().map(|name| Measured::of(name, a, b)).collect();
    let judged = || measured.iter().filter(|one| one.hindrance(a, b).is_none());
    let others = judged().filter(|one| one.name != THROUGHPUT).count();
    let has_throughput = judged().any(|one| one.name == THROUGHPUT);
    let figures = measured.iter().map(|one| match one.hindrance(a, b) {
        Some(why) => one.unjudged(why),
        None => one.judged(chance(&one.name, has_throughput, others)),
    });
    Judged { repeats_a: a.len(), repeats_b: b.len(), figures: figures.collect() }
}

/// The part of [`CHANCE`] that a figure gets; `others`: the number of figures without the throughput.
fn chance(name: &str, has_throughput: bool, others: usize) -> f64 {
    let of_others = if has_throughput { CHANCE / 2.0 } else { CHANCE };
    match (name == THROUGHPUT, others) {
        (true, 0) => CHANCE,
        (true, _) => CHANCE / 2.0,
        (false, others) => of_others / others.max(1) as f64,
    }
}

/// The names of all figures: throughput first, the others in the order of the repeats.
fn names<'r>(a: &'r [Repeat], b: &'r [Repeat]) -> Vec<&'r str> {
    let mut names: Vec<&str> = Vec::new();
    for figure in a.iter().chain(b).flat_map(|repeat| &repeat.figures) {
        if !names.contains(&figure.name.as_str()) {
            names.push(&figure.name);
        }
    }
    names.sort_by_key(|name| *name != THROUGHPUT);
    names
}

impl Measured {
    fn of(name: &str, a: &[Repeat], b: &[Repeat]) -> Self {
        let named = |repeat: &Repeat| repeat.figures.iter().find(|figure| figure.name == name).cloned();
        let all: Vec<Figure> = a.iter().chain(b).filter_map(named).collect();
        let unit = all.first().map(|figure| figure.unit.clone()).unwrap_or_default();
        let values = |side: &[Repeat]| {
            let values = side.iter().filter_map(|repeat| Some((repeat.block, named(repeat)?.value)));
            values.filter(|(_, value)| value.is_finite()).collect()
        };
        let resolutions = all.iter().map(|figure| figure.resolution).filter(|resolution| resolution.is_finite());
        Self {
            name: name.to_owned(),
            a: values(a),
            b: values(b),
            resolution: resolutions.fold(0.0, f64::max),
            other_unit: all.iter().any(|figure| figure.unit != unit),
            unit,
        }
    }

    /// Why it has no verdict.
    fn hindrance(&self, a: &[Repeat], b: &[Repeat]) -> Option<NoVerdict> {
        if self.other_unit {
            return Some(NoVerdict::DifferentUnits);
        }
        if a.len().min(b.len()) < FEWEST_REPEATS {
            return Some(NoVerdict::TooFewRepeats);
        }
        if self.a.len().min(self.b.len()) < FEWEST_REPEATS {
            return Some(NoVerdict::NotMeasured);
        }
        let is_unknown = |repeat: &&Repeat| {
            let has = |name: &str| repeat.figures.iter().any(|figure| figure.name == name && figure.value.is_finite());
            has(&throughput_beside(&self.name)) && !has(&self.name)
        };
        let unknown = a.iter().chain(b).filter(is_unknown).count();
        (is_percentile(&self.name) && unknown > 0).then_some(NoVerdict::LowerBounds)
    }

    /// Whether each value has a logarithm.
    fn has_logarithms(&self) -> bool {
        self.a.iter().chain(&self.b).all(|(_, value)| *value > 0.0)
    }

    fn unjudged(&self, why: NoVerdict) -> Compared {
        let (mut a, mut b) = (self.typical(&self.a), self.typical(&self.b));
        let told = match why {
            NoVerdict::DifferentUnits => {
                (a, b) = (None, None);
                "the two sides measured it in different units".to_owned()
            }
            NoVerdict::TooFewRepeats => format!("a verdict needs {FEWEST_REPEATS} repeats of each side"),
            NoVerdict::LowerBounds => {
                "some repeats know it only as a lower bound, because transactions were still waiting at their end: \
                without these, the others would be the faster ones"
                    .to_owned()
            }
            NoVerdict::NotMeasured => format!(
                "measured in {} and {} repeats of the two sides: a verdict needs {FEWEST_REPEATS} of each",
                self.a.len(),
                self.b.len()
            ),
        };
        Compared {
            name: self.name.clone(),
            unit: self.unit.clone(),
            repeats_a: self.a.len(),
            repeats_b: self.b.len(),
            pairs: None,
            a,
            b,
            ratio: ratio(a, b),
            low: None,
            high: None,
            confidence: None,
            verdict: None,
            no_verdict: Some(why),
            detectable_ratio: None,
            told: vec![told],
        }
    }

    fn judged(&self, chance: f64) -> Compared {
        let by_ratio = self.has_logarithms();
        let scaled = |side: &[Valued]| -> Vec<Valued> {
            let scale = |value: f64| if by_ratio { value.ln() } else { value };
            side.iter().map(|(block, value)| (*block, scale(*value))).collect()
        };
        let (a, b) = (scaled(&self.a), scaled(&self.b));
        let pairs = Some(pairs(&a, &b)).filter(|pairs| pairs.len() >= FEWEST_REPEATS);
        let mut told = Vec::new();
        let (typical_a, typical_b, estimate) = match &pairs {
            Some(pairs) => {
                let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
                let of = |side: fn(&(f64, f64)) -> f64| mean(&pairs.iter().map(side).collect::<Vec<_>>());
                let estimate = Estimate::paired(mean(&differences), variance(&differences), differences.len());
                if let many @ 1.. = left_out(&a, &b) {
                    told.push(format!("{many} repeats stand in a block without the other side, and are left out"));
                }
                (of(|(a, _)| *a), of(|(_, b)| *b), estimate)
            }
            None => {
                let (a, b) = (part(&a), part(&b));
                (a.mean, b.mean, Estimate::apart(a, b))
            }
        };
        let typical = |scaled: f64| Some(if by_ratio { scaled.exp() } else { scaled });
        let (typical_a, typical_b) = (typical(typical_a), typical(typical_b));
        // each side's typical value may be wrong by half of the distance that cannot be distinguished
        let blur = if by_ratio { self.resolution.max(0.0).ln_1p() } else { 0.0 };
        let half = estimate.half_width(chance) + blur;
        let (low, high) = (estimate.difference - half, estimate.difference + half);
        let verdict = match (low, high) {
            (low, _) if low > 0.0 => Verdict::Higher,
            (_, high) if high < 0.0 => Verdict::Lower,
            _ => Verdict::NoDifferenceShown,
        };
        if !by_ratio {
            told.push(format!(
                "a value is 0 or less, which has no logarithm: judged by the difference, which is between {low:.6} and {high:.6}"
            ));
        }
        let detectable = (estimate.detectable(chance) + blur).exp();
        Compared {
            name: self.name.clone(),
            unit: self.unit.clone(),
            repeats_a: self.a.len(),
            repeats_b: self.b.len(),
            pairs: pairs.as_ref().map(Vec::len),
            a: typical_a,
            b: typical_b,
            ratio: ratio(typical_a, typical_b),
            low: by_ratio.then(|| low.exp()),
            high: by_ratio.then(|| high.exp()).filter(|high| high.is_finite()),
            confidence: Some(1.0 - chance),
            verdict: Some(verdict),
            no_verdict: None,
            detectable_ratio: by_ratio.then_some(detectable).filter(|ratio| ratio.is_finite()),
            told,
        }
    }

    /// The geometric mean, or the plain one where a value has no logarithm.
    fn typical(&self, side: &[Valued]) -> Option<f64> {
        let by_ratio = self.has_logarithms();
        let values: Vec<f64> = side.iter().map(|(_, value)| if by_ratio { value.ln() } else { *value }).collect();
        let mean = (!values.is_empty()).then(|| mean(&values))?;
        Some(if by_ratio { mean.exp() } else { mean })
    }
}

/// `p99.9`, or `LOAD: p99.9` where there are several loads: a load that counts transactions always has it, but for one that is a lower bound.
fn is_percentile(name: &str) -> bool {
    let (_, figure) = of_load(name);
    figure.strip_prefix('p').is_some_and(|rest| rest.parse::<f64>().is_ok())
}

/// The load, where a figure names one, and the figure.
fn of_load(name: &str) -> (Option<&str>, &str) {
    name.rsplit_once(": ").map_or((None, name), |(load, figure)| (Some(load), figure))
}

/// The name of the throughput of the same load.
fn throughput_beside(name: &str) -> String {
    of_load(name).0.map_or_else(|| THROUGHPUT.to_owned(), |load| format!("{load}: {THROUGHPUT}"))
}

fn part(side: &[Valued]) -> Part {
    let values: Vec<f64> = side.iter().map(|(_, value)| *value).collect();
    Part { mean: mean(&values), square: variance(&values) / values.len().max(1) as f64, count: values.len() }
}

fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    let ratio = b? / a.filter(|a| *a != 0.0)?;
    ratio.is_finite().then_some(ratio)
}
