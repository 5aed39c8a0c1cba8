// SPDX-License-Identifier: Apache-2.0
//! What the mode finder promises, on thousands of random histograms: the right number of humps in at least 95 % of the cases
//! that are separable by construction, shares within 2 points, and never a second hump in more than 2 % of one-hump controls.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a test

mod common;

use common::{Bucketing, Random, any_bucketing, bin};
use explain::modes::find;

/// One hump of any shape that latencies have.
fn one_hump(random: &mut Random, shape: usize, count: usize) -> Vec<f64> {
    let center = random.scaled(100.0, 50_000.0);
    let spread = random.scaled(0.02, 0.8);
    let outliers = random.between(0.0, 0.03);
    let heavy = random.between(1.2, 3.0);
    let gamma_shape = random.between(1.0, 20.0);
    let mut value = || match shape {
        0 => center * (spread * random.normal()).exp(),
        1 => center * (1.0 + spread * random.exponential()),
        2 => center * (0.3 + random.gamma(gamma_shape) / gamma_shape),
        3 => (center * (1.0 + spread * 0.3 * random.normal())).max(1.0),
        // Pareto: a tail over decades
        4 => center * random.unit().powf(-1.0 / heavy),
        5 => center * (1.0 + random.between(0.0, spread)),
        // a floor, and skewed noise on it
        6 => center + center * spread * (0.7 * random.normal()).exp(),
        // outliers spread evenly over a wide stretch on the right
        7 if random.unit() < outliers => center * random.between(0.9, 30.0),
        7 => center * (0.1 * random.normal()).exp(),
        // a tail of its own scale
        _ if random.unit() < outliers * 5.0 => center * (1.0 + 0.5 * random.exponential()),
        _ => center * (1.0 + 0.05 * random.exponential()),
    };
    (0..count).map(|_| value()).collect()
}
const SHAPES: usize = 9;

#[test]
fn one_hump_controls_stay_one_hump() {
    let mut random = Random(20240628);
    let per_shape = 150;
    let mut wrong = [0usize; SHAPES];
    let mut by_bucketing = std::collections::BTreeMap::<String, (usize, usize)>::new();
    for shape in 0..SHAPES {
        for _ in 0..per_shape {
            let count = random.scaled(30.0, 60_000.0) as usize;
            let bucketing = match random.below(6) {
                0 => Bucketing::Rounded(10.0),
                _ => any_bucketing(&mut random),
            };
            let found = find(&bin(&one_hump(&mut random, shape, count), bucketing), None);
            let entry = by_bucketing.entry(format!("{bucketing:?}")).or_default();
            entry.1 += 1;
            if found.modes.len() != 1 {
                wrong[shape] += 1;
                entry.0 += 1;
            }
        }
    }
    println!("invented, by shape: {wrong:?} of {per_shape} each; {by_bucketing:?}");
    assert!(wrong.iter().all(|wrong| wrong * 50 <= per_shape), "{wrong:?}");
}

/// Humps that do not overlap by construction: each is within `reach` of its center, and the next begins beyond that.
fn mixture(random: &mut Random, humps: usize, count: usize) -> (Vec<f64>, Vec<f64>) {
    let weights: Vec<f64> = (0..humps).map(|_| random.scaled(0.03, 1.0)).collect();
    let total: f64 = weights.iter().sum();
    let mut shares: Vec<f64> = weights.iter().map(|weight| weight / total).collect();
    // none below 2 %
    while let Some(small) = shares.iter().position(|share| *share < 0.02) {
        let large = (0..humps).max_by(|a, b| shares[*a].total_cmp(&shares[*b])).unwrap();
        shares[large] -= 0.03;
        shares[small] += 0.03;
    }
    let spreads: Vec<f64> = (0..humps).map(|_| random.scaled(0.02, 0.3)).collect();
    let mut centers = vec![random.scaled(100.0, 1000.0)];
    for index in 1..humps {
        // four standard deviations of each, on the logarithmic scale, and some room
        let apart = 4.0 * (spreads[index - 1] + spreads[index]).max(0.05) + random.scaled(0.02, 0.8);
        centers.push(centers[index - 1] * apart.exp());
    }
    let outliers = random.between(0.0, 0.005);
    let values = (0..count)
        .map(|_| {
            if random.unit() < outliers {
                return random.scaled(centers[0], centers[humps - 1] * 3.0);
            }
            let mut draw = random.unit();
            let mut hump = 0;
            while hump + 1 < humps && draw > shares[hump] {
                draw -= shares[hump];
                hump += 1;
            }
            centers[hump] * (spreads[hump] * random.normal()).exp()
        })
        .collect();
    (values, shares)
}

#[test]
fn separable_humps_are_counted_and_their_shares_are_right() {
    let mut random = Random(7);
    let cases = 1200;
    let mut right = 0;
    let mut shares_right = 0;
    for case in 0..cases {
        let humps = 1 + case % 4;
        let count = random.scaled(1000.0, 60_000.0) as usize;
        let (values, shares) = mixture(&mut random, humps, count);
        let found = find(&bin(&values, any_bucketing(&mut random)), None);
        if found.modes.len() == humps {
            right += 1;
            let off = found.modes.iter().zip(&shares).map(|(mode, share)| (mode.share - share).abs()).fold(0.0, f64::max);
            shares_right += usize::from(off <= 0.02 + 2.0 / (count as f64).sqrt() * 0.5);
        } else if std::env::var_os("SHOW").is_some() {
            let modes: Vec<_> = found.modes.iter().map(|m| (m.center_us.round(), (m.share * 1000.0).round() / 1000.0)).collect();
            println!("case {case}: {humps} humps {shares:.3?} n {count}: {modes:?}");
        }
    }
    println!("right number {right} of {cases}, shares {shares_right} of {right}");
    assert!(right * 100 >= cases * 95 && shares_right * 100 >= right * 99, "{right} {shares_right} of {cases}");
}
