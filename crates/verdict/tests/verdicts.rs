// SPDX-License-Identifier: Apache-2.0
//! What a verdict promises, held against what is drawn at random.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng as _};
use verdict::{Compared, Figure, NoVerdict, Repeat, THROUGHPUT, Verdict, judge};

/// Above 0, below 1.
fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// Of a standard normal distribution: Box and Muller.
fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    let (radius, angle) = ((-2.0 * uniform(random).ln()).sqrt(), std::f64::consts::TAU * uniform(random));
    radius * angle.cos()
}

/// A repeat with figures that depend on each other, as those of a load do. `factor`: of the throughput; times go the other way.
fn repeat(random: &mut Xoshiro256PlusPlus, block: u32, drift: f64, noise: f64, factor: f64) -> Repeat {
    let common = drift + noise * normal(random);
    let mut figures = vec![Figure::new(THROUGHPUT, "queries/s", 1000.0 * factor * common.exp())];
    for (name, us, own) in [("p50", 900.0, 0.3), ("p95", 3000.0, 0.8), ("p99", 9000.0, 1.5), ("p99.9", 30_000.0, 4.0)] {
        let value = us / factor * (-common + own * noise * normal(random)).exp();
        figures.push(Figure { resolution: 0.001, ..Figure::new(name, "us", value) });
    }
    figures.push(Figure::new("reads a query", "reads", 0.4 * (common + noise * normal(random)).exp()));
    Repeat { block: Some(block), figures }
}

/// Blocks of two: in each one repeat of either side. The host drifts from block to block.
fn blocks(random: &mut Xoshiro256PlusPlus, count: u32, noise: f64, factor: f64) -> (Vec<Repeat>, Vec<Repeat>) {
    let of = |block| {
        let drift = 0.05 * normal(random);
        (repeat(random, block, drift, noise, 1.0), repeat(random, block, drift, noise, factor))
    };
    (0..count).map(of).unzip()
}

fn one(name: &str, values: &[f64]) -> Vec<Repeat> {
    let repeat = |value: &f64| Repeat { block: None, figures: vec![Figure::new(name, "us", *value)] };
    values.iter().map(repeat).collect()
}

fn only(a: &[f64], b: &[f64]) -> Compared {
    judge(&one("p99", a), &one("p99", b)).figures.remove(0)
}

#[test]
fn of_2000_equal_draws_at_most_6_in_100_show_any_difference() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(20_261_124);
    let mut draw = |paired: bool| {
        let (mut a, mut b) = blocks(&mut random, 5, 0.03, 1.0);
        if !paired {
            a.iter_mut().chain(&mut b).for_each(|repeat| repeat.block = None);
        }
        judge(&a, &b).shows_a_difference()
    };
    // a rule that never shows anything would pass, too
    let in_blocks = (0..2000).filter(|_| draw(true)).count();
    assert!((10..=120).contains(&in_blocks), "{in_blocks} of 2000");
    // the drift of the host is then a part of the spread
    let apart = (0..2000).filter(|_| draw(false)).count();
    assert!(apart <= 120, "{apart} of 2000");
}

#[test]
fn a_tenth_of_the_throughput_is_missed_in_ten_blocks_at_most_once_in_ten() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut draw = || {
        let (a, b) = blocks(&mut random, 10, 0.03, 0.9);
        judge(&a, &b).figure(THROUGHPUT).unwrap().verdict == Some(Verdict::Lower)
    };
    let shown = (0..1000).filter(|_| draw()).count();
    assert!(shown >= 900, "{shown} of 1000");
}

/// The interval of the throughput alone misses the true ratio in at most 2.5 %, and a ratio that is said to be detectable is detected.
#[test]
fn what_is_called_detectable_is_shown_nine_times_in_ten() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(11);
    let (mut logs, draws) = (0.0, 400);
    for _ in 0..draws {
        let (a, b) = blocks(&mut random, 6, 0.03, 1.0);
        logs += judge(&a, &b).figure(THROUGHPUT).unwrap().detectable_ratio.unwrap().ln();
    }
    // each draw knows only its own spread; their mean is close to that of the true one (a spread of 5 degrees is seen 5 % too small)
    let detectable = (logs / f64::from(draws) / 0.952).exp();
    let (mut shown, mut missed) = (0, 0);
    for _ in 0..2000 {
        let (a, b) = blocks(&mut random, 6, 0.03, detectable);
        let judged = judge(&a, &b);
        let throughput = judged.figure(THROUGHPUT).unwrap();
        shown += u32::from(throughput.verdict == Some(Verdict::Higher));
        missed += u32::from(!(throughput.low.unwrap()..=throughput.high.unwrap()).contains(&detectable));
    }
    assert!((1760..=1840).contains(&shown), "{shown} of 2000 at {detectable}");
    assert!((20..=75).contains(&missed), "{missed} of 2000");
}

#[test]
fn below_three_repeats_a_side_there_is_no_verdict() {
    let few = only(&[100.0, 101.0], &[200.0, 201.0, 202.0]);
    assert_eq!((few.verdict, few.no_verdict), (None, Some(NoVerdict::TooFewRepeats)));
    assert!(few.ratio.unwrap() > 1.9 && few.told[0].contains("3 repeats of each side"), "{few:?}");
    assert_eq!(only(&[100.0, 101.0, 99.0], &[200.0, 201.0, 202.0]).verdict, Some(Verdict::Higher));
}

#[test]
fn a_figure_that_one_side_lacks_is_told_and_takes_no_part_of_the_error() {
    let (a, mut b) = blocks(&mut Xoshiro256PlusPlus::seed_from_u64(3), 5, 0.01, 1.0);
    let whole = judge(&a, &b);
    for repeat in &mut b {
        repeat.figures.retain(|figure| figure.name != "p99");
        repeat.figures.iter_mut().filter(|figure| figure.name == "p95").for_each(|figure| figure.value = f64::NAN);
    }
    let judged = judge(&a, &b);
    for name in ["p95", "p99"] {
        let lacking = judged.figure(name).unwrap();
        assert_eq!((lacking.no_verdict, lacking.repeats_b), (Some(NoVerdict::NotMeasured), 0), "{lacking:?}");
    }
    let confidence = |judged: &verdict::Judged| judged.figure("p50").unwrap().confidence.unwrap();
    assert!((confidence(&whole) - 0.995).abs() < 1e-12 && (confidence(&judged) - (1.0 - 0.025 / 3.0)).abs() < 1e-12);
    assert!((judged.figure(THROUGHPUT).unwrap().confidence.unwrap() - 0.975).abs() < 1e-12);
}

/// Two of five runs fell behind their rate: their p99 is a lower bound, and they have no such figure. The three that kept up are no sample of all.
#[test]
fn a_percentile_that_some_repeats_know_only_as_a_lower_bound_has_no_verdict() {
    let (mut a, mut b) = blocks(&mut Xoshiro256PlusPlus::seed_from_u64(5), 5, 0.01, 1.0);
    for repeat in &mut b[..2] {
        repeat.figures.retain(|figure| figure.name != "p99");
    }
    let judged = judge(&a, &b);
    let p99 = judged.figure("p99").unwrap();
    assert_eq!((p99.verdict, p99.no_verdict), (None, Some(NoVerdict::LowerBounds)), "{p99:?}");
    assert!(p99.told[0].contains("lower bound") && judged.figure("p95").unwrap().verdict.is_some());

    // so it is where each figure names its load
    for figure in a.iter_mut().chain(&mut b).flat_map(|repeat| &mut repeat.figures) {
        figure.name = format!("reads x64: {}", figure.name);
    }
    let p99 = judge(&a, &b).figure("reads x64: p99").unwrap().clone();
    assert_eq!((p99.verdict, p99.no_verdict), (None, Some(NoVerdict::LowerBounds)), "{p99:?}");
}

#[test]
fn a_side_that_came_to_nothing_is_lower_without_an_interval_of_a_ratio() {
    let dead = only(&[1000.0, 1010.0, 990.0, 1005.0], &[0.0; 4]);
    assert_eq!((dead.verdict, dead.ratio, dead.low), (Some(Verdict::Lower), Some(0.0), None));
    assert!(dead.told[0].contains("no logarithm"), "{dead:?}");
    let idle = only(&[0.0; 3], &[0.0; 3]);
    assert_eq!((idle.verdict, idle.ratio), (Some(Verdict::NoDifferenceShown), None));
}

#[test]
fn a_difference_below_the_resolution_is_none() {
    let side = |value: f64, resolution: f64| -> Vec<Repeat> {
        let figure = Figure { resolution, ..Figure::new("p50", "us", value) };
        vec![Repeat { block: None, figures: vec![figure] }; 5]
    };
    let verdict = |resolution| judge(&side(100.0, resolution), &side(101.0, resolution)).figures[0].verdict;
    assert_eq!((verdict(0.02), verdict(0.0)), (Some(Verdict::NoDifferenceShown), Some(Verdict::Higher)));
}

#[test]
fn figures_in_different_units_are_not_compared() {
    let mut b = one("p99", &[1.0, 1.1, 1.2]);
    b.iter_mut().for_each(|repeat| repeat.figures[0].unit = "ms".into());
    let judged = judge(&one("p99", &[1.0, 1.1, 1.2]), &b);
    assert_eq!((judged.figures[0].no_verdict, judged.figures[0].ratio), (Some(NoVerdict::DifferentUnits), None));
}

/// A host that drifts by 20 % from block to block hides 5 % from two samples, and not from pairs.
#[test]
fn blocks_take_the_drift_of_the_host_out() {
    let drifts = [1.0, 0.8, 1.2, 0.9, 1.1];
    let side = |factor: f64| -> Vec<Repeat> {
        let one = |(block, drift): (u32, &f64)| Repeat {
            block: Some(block),
            figures: vec![Figure::new(
                THROUGHPUT,
                "queries/s",
                1000.0 * drift * factor * (1.0 + 0.002 * f64::from(block)),
            )],
        };
        (0..).zip(&drifts).map(one).collect()
    };
    let (mut a, mut b) = (side(1.0), side(0.95));
    b[0].figures[0].value *= 1.004;
    assert_eq!(judge(&a, &b).figures[0].verdict, Some(Verdict::Lower));
    assert_eq!(judge(&a, &b).figures[0].pairs, Some(5));
    a.iter_mut().chain(&mut b).for_each(|repeat| repeat.block = None);
    assert_eq!(
        (judge(&a, &b).figures[0].verdict, judge(&a, &b).figures[0].pairs),
        (Some(Verdict::NoDifferenceShown), None)
    );
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => 1e-3..1e9,
        1 => Just(0.0),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), Just(f64::MAX), Just(f64::MIN_POSITIVE)],
    ]
}

fn side() -> impl Strategy<Value = Vec<Repeat>> {
    let figure = |name: &'static str| {
        (value(), 0.0..0.1_f64)
            .prop_map(move |(value, resolution)| Figure { resolution, ..Figure::new(name, "us", value) })
    };
    let figures = (proptest::option::weighted(0.9, figure(THROUGHPUT)), proptest::option::weighted(0.7, figure("p99")));
    let repeat = (proptest::option::of(0..6_u32), figures)
        .prop_map(|(block, (a, b))| Repeat { block, figures: a.into_iter().chain(b).collect() });
    proptest::collection::vec(repeat, 0..9)
}

proptest! {
    /// Whatever is put in, an answer comes out that fits in itself and in JSON.
    #[test]
    fn any_sides_are_answered(a in side(), b in side()) {
        let judged = judge(&a, &b);
        for figure in &judged.figures {
            prop_assert_eq!(figure.verdict.is_none(), figure.no_verdict.is_some());
            if let (Some(low), Some(high), Some(ratio)) = (figure.low, figure.high, figure.ratio) {
                prop_assert!(low <= ratio * (1.0 + 1e-9) && ratio <= high * (1.0 + 1e-9), "{:?}", figure);
                let shown = match figure.verdict {
                    Some(Verdict::Lower) => high < 1.0,
                    Some(Verdict::Higher) => low > 1.0,
                    _ => low <= 1.0 && high >= 1.0,
                };
                prop_assert!(shown, "{:?}", figure);
            }
            prop_assert!(figure.detectable_ratio.is_none_or(|ratio| ratio >= 1.0));
        }
        let text = serde_json::to_string(&judged).unwrap();
        let read: verdict::Judged = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read.figures.len(), judged.figures.len());
    }

    /// Exchanged sides give the inverse ratio and the opposite verdict.
    #[test]
    fn exchanged_sides_give_the_opposite(a in side(), b in side()) {
        let (there, back) = (judge(&a, &b), judge(&b, &a));
        for figure in there.figures.iter().filter(|figure| figure.verdict.is_some()) {
            let other = back.figure(&figure.name).unwrap();
            let opposite = match figure.verdict.unwrap() {
                Verdict::Lower => Verdict::Higher,
                Verdict::Higher => Verdict::Lower,
                same @ Verdict::NoDifferenceShown => same,
            };
            prop_assert_eq!(other.verdict, Some(opposite));
            if let (Some(ratio), Some(inverse)) = (figure.low, other.high) {
                prop_assert!((ratio * inverse - 1.0).abs() < 1e-6, "{} {}", ratio, inverse);
            }
        }
    }
}

#[test]
fn a_limit_is_shown_unseen_or_cannot_be_told() {
    use verdict::{Held, Limit};
    let check = |limit: &str, a: &[f64], b: &[f64]| {
        limit.parse::<Limit>().unwrap().check(&judge(&one("p99", a), &one("p99", b)))
    };
    let (quiet, slower, noisy) =
        ([100.0, 101.0, 100.5, 99.5], [120.0, 121.0, 119.0, 120.5], [60.0, 100.0, 150.0, 90.0]);
    assert_eq!(check("p99>1.05x", &quiet, &slower), Held::Shown);
    assert_eq!(check("p99 > 1.5x", &quiet, &slower), Held::NotShown);
    assert_eq!(check("p99<0.95x", &quiet, &slower), Held::NotShown);
    // the interval reaches the limit: the true ratio may be beyond it
    assert_eq!(check("p99>1.201x", &quiet, &slower), Held::Unseen);
    assert_eq!(check("p99<0.95x", &slower, &quiet), Held::Shown);
    assert_eq!(check("p99>1.05x", &noisy, &noisy), Held::Unseen);
    assert_eq!(check("p50>1.05x", &quiet, &slower), Held::CannotTell);
    assert_eq!(check("p99>1.05x", &quiet[..2], &slower), Held::CannotTell);
    assert_eq!(check("p99>1.05x", &[0.0; 3], &[5.0, 6.0, 5.5]), Held::Shown);
    for wrong in ["p99", ">1.05x", "p99>1.05", "p99>0.9x", "p99<1.1x", "p99>NaNx", "p99>x"] {
        let error = wrong.parse::<Limit>().unwrap_err().to_string();
        assert!(error.contains("for example 'p99>1.05x'"), "{error}");
    }
}
