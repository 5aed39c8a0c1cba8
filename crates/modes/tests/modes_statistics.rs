// SPDX-License-Identifier: Apache-2.0
//! What the mode finder promises, on thousands of random histograms: the right number of humps in at least 95 % of the cases
//! that are separable by construction, shares within 2 points of those drawn, and never a second hump in more than 2 % of one-hump controls.
#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // a test

mod random;

use evidence::LatencyHistogram;
use modes::{Bin, ReadDelay, bins_of, find, find_by_reads};
use random::Random;
use std::collections::BTreeMap;

/// How the values reach the finder.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bucketing {
    /// Our own, 0.1 %.
    Hdr,
    /// sysbench's 1024 steps from 1 us to 100 s, 1.8 %.
    Sysbench,
    /// Rounded to this many microseconds, then ours.
    Rounded(f64),
}

fn bin(values_us: &[f64], bucketing: Bucketing) -> Vec<Bin> {
    let rounded = |value: f64, step: f64| (value / step).round() * step;
    match bucketing {
        Bucketing::Hdr => hdr(values_us.iter().copied()),
        Bucketing::Rounded(step) => hdr(values_us.iter().map(|value| rounded(*value, step).max(step))),
        Bucketing::Sysbench => {
            let ratio = (1e8f64).ln() / 1023.0;
            let mut counts: BTreeMap<i64, u64> = BTreeMap::new();
            values_us
                .iter()
                .for_each(|value| *counts.entry((value.max(1.0).ln() / ratio).floor() as i64).or_default() += 1);
            let edge = |index: i64| (index as f64 * ratio).exp();
            counts.into_iter().map(|(i, count)| Bin { low_us: edge(i), high_us: edge(i + 1), count }).collect()
        }
    }
}

fn hdr(values_us: impl Iterator<Item = f64>) -> Vec<Bin> {
    let mut histogram = LatencyHistogram::new();
    values_us.for_each(|value| histogram.record((value * 1000.0) as u64));
    bins_of(&histogram)
}

fn any_bucketing(random: &mut Random) -> Bucketing {
    [Bucketing::Hdr, Bucketing::Hdr, Bucketing::Sysbench, Bucketing::Rounded(1.0)][random.below(4)]
}

/// The cases are the same each time, unless `WRINGER_SEED` is a number for other ones.
fn seeded(own: u64) -> Random {
    let Ok(text) = std::env::var("WRINGER_SEED") else { return Random(own) };
    let seed: u64 = text.parse().expect("WRINGER_SEED is a whole number");
    Random(own ^ Random(seed).bits())
}

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
    let mut random = seeded(20240628);
    let per_shape = 150;
    let mut wrong = [0usize; SHAPES];
    let mut by_bucketing = BTreeMap::<String, (usize, usize)>::new();
    for (shape, wrong) in wrong.iter_mut().enumerate() {
        for _ in 0..per_shape {
            let count = random.scaled(20.0, 100_000.0) as usize;
            let bucketing = match random.below(8) {
                0 => Bucketing::Rounded(10.0),
                1 => Bucketing::Rounded(50.0),
                2 => Bucketing::Rounded(1000.0),
                _ => any_bucketing(&mut random),
            };
            let found = find(&bin(&one_hump(&mut random, shape, count), bucketing), None);
            let entry = by_bucketing.entry(format!("{bucketing:?}")).or_default();
            entry.1 += 1;
            if found.modes.len() != 1 {
                *wrong += 1;
                entry.0 += 1;
            }
        }
    }
    println!("invented, by shape: {wrong:?} of {per_shape} each; {by_bucketing:?}");
    assert!(wrong.iter().all(|wrong| wrong * 50 <= per_shape), "{wrong:?}");
}

/// Humps that do not overlap by construction: each is within `reach` of its center, and the next begins beyond that. With the
/// share of each among the values that were drawn from a hump.
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
    let mut counts = vec![0usize; humps];
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
            counts[hump] += 1;
            centers[hump] * (spreads[hump] * random.normal()).exp()
        })
        .collect();
    let from_humps: usize = counts.iter().sum();
    (values, counts.iter().map(|have| *have as f64 / from_humps as f64).collect())
}

#[test]
fn separable_humps_are_counted_and_their_shares_are_right() {
    let mut random = seeded(7);
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
            let off =
                found.modes.iter().zip(&shares).map(|(mode, share)| (mode.share - share).abs()).fold(0.0, f64::max);
            shares_right += usize::from(off <= 0.02);
        } else if std::env::var_os("SHOW").is_some() {
            let modes: Vec<_> =
                found.modes.iter().map(|m| (m.center_us.round(), (m.share * 1000.0).round() / 1000.0)).collect();
            println!("case {case}: {humps} humps {shares:.3?} n {count}: {modes:?}");
        }
    }
    println!("right number {right} of {cases}, shares {shares_right} of {right}");
    assert!(right * 100 >= cases * 95 && shares_right == right, "{right} {shares_right} of {cases}");
}

/// Queries with a known number of reads each, on a storage that takes `delay` and its own time for a read.
struct Delayed {
    values: Vec<f64>,
    delay_us: f64,
    /// Share of queries by reads.
    shares: Vec<f64>,
    reads_per_query: f64,
    /// The two humps with the most reads, which are the widest, are apart by twice the standard deviations of both; and
    /// something is in RAM, or else a query's own time is well below the delay: a first hump beyond it could be either.
    separable: bool,
}

fn delayed(random: &mut Random, weights: &[f64], base_us: f64, delay_us: f64, count: usize) -> Delayed {
    let device_us = random.between(20.0, 150.0);
    let base_spread = random.between(0.05, 0.3);
    let read_spread = random.between(5.0, 60.0) + 0.01 * delay_us;
    let late = random.between(0.0, 0.02);
    let total: f64 = weights.iter().sum();
    let mut counts = vec![0u64; weights.len()];
    let values = (0..count)
        .map(|_| {
            let mut draw = random.unit() * total;
            let mut reads = 0;
            while reads + 1 < weights.len() && draw > weights[reads] {
                draw -= weights[reads];
                reads += 1;
            }
            counts[reads] += 1;
            let mut value = base_us * (base_spread * random.normal()).exp();
            for _ in 0..reads {
                value += delay_us + device_us * (0.2 * random.normal()).exp() + read_spread * random.exponential();
            }
            // the scheduler is late at times
            value + if random.unit() < late { 1000.0 * random.exponential() } else { 0.0 }
        })
        .collect();
    let reads: u64 = counts.iter().enumerate().map(|(reads, count)| reads as u64 * count).sum();
    let shares = counts.iter().map(|have| *have as f64 / count as f64).collect();
    let noise = |reads: usize| {
        let each = (0.2 * device_us).powi(2) + read_spread.powi(2);
        ((base_us * base_spread).powi(2) + reads as f64 * each).sqrt()
    };
    let most = weights.len() - 1;
    let are_apart = delay_us + device_us + read_spread >= 2.0 * (noise(most.saturating_sub(1)) + noise(most));
    let separable = are_apart && (counts[0] > 0 || base_us + device_us + read_spread < 0.3 * delay_us);
    Delayed { values, delay_us, shares, reads_per_query: reads as f64 / count as f64, separable }
}

#[test]
fn reads_are_counted_on_the_comb() {
    let mut random = seeded(41);
    let cases = 1200;
    let (mut separable, mut modes_right, mut reads_right, mut refused, mut wrong) = (0, 0, 0, 0, 0);
    for case in 0..cases {
        let most = 1 + case % 4;
        let mut weights: Vec<f64> = (0..=most).map(|_| random.scaled(0.03, 1.0)).collect();
        if case % 7 == 0 {
            weights[0] = 0.0; // nothing is in RAM
        }
        let delay_us = random.scaled(300.0, 50_000.0);
        let base_us = random.scaled(60.0, 400.0);
        let count = random.scaled(600.0, 30_000.0) as usize;
        let known = delayed(&mut random, &weights, base_us, delay_us, count);
        let found = find(&bin(&known.values, any_bucketing(&mut random)), Some(ReadDelay::added(known.delay_us)));
        let expected: Vec<f64> =
            (0..=most).filter(|reads| known.shares[*reads] > 0.0).map(|reads| reads as f64).collect();
        let got: Vec<f64> = found.modes.iter().filter_map(|mode| mode.reads).collect();
        let reads_ok = found.reads_per_query.is_some_and(|reads| (reads / known.reads_per_query - 1.0).abs() < 0.03);
        refused += usize::from(found.reads_per_query.is_none());
        wrong += usize::from(found.reads_per_query.is_some() && !reads_ok);
        separable += usize::from(known.separable);
        modes_right += usize::from(known.separable && got == expected);
        reads_right += usize::from(known.separable && reads_ok);
        if (got != expected || !reads_ok) && std::env::var_os("SHOW").is_some() {
            println!(
                "case {case}: separable {} d {delay_us:.0} base {base_us:.0} n {count} {:.3?} reads {:.3}: {got:?} {:?} {:?} {:?}",
                known.separable,
                known.shares,
                known.reads_per_query,
                found.reads_per_query,
                found.read_us,
                found.reason
            );
        }
    }
    println!("modes {modes_right}, reads {reads_right} of {separable}; not said {refused}, wrong {wrong} of {cases}");
    assert!(separable * 100 >= cases * 90, "{separable} of {cases}");
    assert!(
        modes_right * 100 >= separable * 95 && reads_right * 100 >= separable * 95,
        "{modes_right} {reads_right} of {separable}"
    );
    // whether separable or not: rather no answer than a wrong one
    assert!(wrong * 100 <= cases * 2, "{wrong} of {cases}");
}

#[test]
fn transactions_with_many_reads_are_counted() {
    let mut random = seeded(43);
    let cases = 200;
    let (mut right, mut wrong) = (0, 0);
    for case in 0..cases {
        let mean = random.between(1.0, 8.0);
        // Poisson weights
        let mut weights = vec![(-mean).exp()];
        for reads in 1..=14 {
            weights.push(weights[reads - 1] * mean / reads as f64);
        }
        let delay_us = random.scaled(3000.0, 20_000.0);
        let base_us = random.between(500.0, 0.3 * delay_us);
        let count = random.scaled(2000.0, 10_000.0) as usize;
        let known = delayed(&mut random, &weights, base_us, delay_us, count);
        let found = find(&bin(&known.values, any_bucketing(&mut random)), Some(ReadDelay::added(known.delay_us)));
        let near = |reads: f64| (reads / known.reads_per_query - 1.0).abs() < 0.05;
        right += usize::from(found.reads_per_query.is_some_and(near));
        wrong += usize::from(found.reads_per_query.is_some_and(|reads| !near(reads)));
        if !found.reads_per_query.is_some_and(near) && std::env::var_os("SHOW").is_some() {
            println!(
                "case {case}: d {delay_us:.0} base {base_us:.0} n {count} reads {:.2}: {:?} {:?} {:?} {:?}",
                known.reads_per_query,
                found.reads_per_query,
                found.read_us,
                found.modes.iter().map(|m| m.reads).collect::<Vec<_>>(),
                found.reason
            );
        }
    }
    println!("many reads: right {right}, wrong {wrong} of {cases}");
    assert!(right * 100 >= cases * 90 && wrong * 100 <= cases * 5, "{right} {wrong} of {cases}");
}

/// With a delay that is no clearer than the noise, the answer is that it cannot be said; never a confident wrong number.
#[test]
fn a_delay_as_small_as_the_noise_is_not_read() {
    let mut random = seeded(47);
    let cases = 300;
    let mut confident = 0;
    for case in 0..cases {
        let weights = [random.scaled(0.1, 1.0), random.scaled(0.1, 1.0), random.scaled(0.1, 1.0)];
        let delay_us = random.between(300.0, 1000.0);
        let base_us = delay_us * random.between(1.0, 4.0);
        let known = delayed(&mut random, &weights, base_us, delay_us, 5000);
        let found = find(&bin(&known.values, any_bucketing(&mut random)), Some(ReadDelay::added(delay_us)));
        if found
            .reads_per_query
            .is_some_and(|reads| (reads - known.reads_per_query).abs() > 0.15 * known.reads_per_query)
        {
            confident += 1;
            if std::env::var_os("SHOW").is_some() {
                println!("case {case}: d {delay_us:.0} base {base_us:.0} {:.2?}: {found:?}", known.shares);
            }
        } else {
            assert!(found.reads_per_query.is_some() || found.reason.is_some());
        }
    }
    println!("confident and wrong: {confident} of {cases}");
    assert!(confident * 50 <= cases, "{confident} of {cases}");
}

#[test]
fn one_hump_below_the_delay_is_no_read() {
    let mut random = seeded(53);
    let (cases, mut wrong) = (300, 0);
    for _ in 0..cases {
        let count = random.scaled(300.0, 30_000.0) as usize;
        let delay_us = random.scaled(3000.0, 50_000.0);
        let known = delayed(&mut random, &[1.0], 250.0, delay_us, count);
        let found = find(&bin(&known.values, any_bucketing(&mut random)), Some(ReadDelay::added(delay_us)));
        wrong += usize::from(found.reads_per_query != Some(0.0) || found.modes.len() != 1);
    }
    println!("reads invented: {wrong} of {cases}");
    assert!(wrong * 50 <= cases, "{wrong} of {cases}");
}

/// On a host short of CPU, one query in ten waits for its turn: a tick or two of a 250 Hz kernel.
#[test]
fn a_starved_host_does_not_add_reads() {
    let mut random = seeded(59);
    let (cases, mut right) = (200, 0);
    for case in 0..cases {
        let weights = [random.between(0.3, 1.0), random.between(0.3, 1.0), random.between(0.0, 0.3)];
        let delay_us = random.between(8000.0, 20_000.0);
        let mut known = delayed(&mut random, &weights, 120.0, delay_us, 2000);
        for value in &mut known.values {
            if random.unit() < 0.1 {
                *value += 4000.0 * random.unit();
            }
        }
        let found = find(&bin(&known.values, any_bucketing(&mut random)), Some(ReadDelay::added(delay_us)));
        let near = found.reads_per_query.is_some_and(|reads| (reads / known.reads_per_query - 1.0).abs() < 0.05);
        right += usize::from(near);
        if !near && std::env::var_os("SHOW").is_some() {
            println!(
                "case {case}: d {delay_us:.0} reads {:.3}: {:?} {:?}",
                known.reads_per_query, found.reads_per_query, found.read_us
            );
        }
    }
    println!("starved: right {right} of {cases}");
    assert!(right * 100 >= cases * 95, "{right} of {cases}");
}

/// The disk below has other users, and the hypervisor other guests: reads take unequal times, of which the slow layer sees the most.
#[test]
fn reads_of_unequal_times_are_counted_where_they_were_measured() {
    let mut random = seeded(61);
    let (cases, mut right, mut right_alone) = (60, 0, 0);
    for case in 0..cases {
        let delay_us = random.scaled(700.0, 12_000.0);
        let weights = [random.between(0.3, 1.0), random.between(0.2, 1.0), random.between(0.0, 0.2)];
        let (device_us, unequal) = (random.between(0.05, 0.5) * delay_us, random.between(0.5, 1.5));
        let late_us = random.between(10.0, 60.0) + 0.02 * delay_us;
        let (count, way_us) = (random.scaled(3000.0, 10_000.0) as usize, random.between(30.0, 90.0));
        let (mut queries, mut times, mut reads_in_all) = (Vec::new(), Vec::new(), 0);
        for _ in 0..count {
            let draw = random.unit() * weights.iter().sum::<f64>();
            let reads = usize::from(draw > weights[0]) + usize::from(draw > weights[0] + weights[1]);
            let mut query_us = 40.0 + 60.0 * random.exponential();
            for _ in 0..reads {
                let read_us = delay_us + device_us * (unequal * random.normal()).exp();
                times.push(read_us);
                query_us += read_us + way_us + late_us * random.exponential();
            }
            // a slice of the processor's time that somebody else has
            query_us += if random.unit() < 0.03 { 2000.0 * random.exponential() } else { 0.0 };
            queries.push(query_us);
            reads_in_all += reads;
        }
        let known = reads_in_all as f64 / count as f64;
        let near = |reads: Option<f64>| reads.is_some_and(|reads| (reads / known - 1.0).abs() <= 0.05);
        let (bins, delay) = (bin(&queries, Bucketing::Hdr), ReadDelay::added(delay_us));
        let found = find_by_reads(&bins, delay, &bin(&times, Bucketing::Hdr));
        right += usize::from(near(found.reads_per_query));
        right_alone += usize::from(near(find(&bins, Some(delay)).reads_per_query));
        let shares: f64 = found.modes.iter().map(|mode| mode.share).sum();
        assert!((0.97..1.001).contains(&shares), "{found:#?}");
        if !near(found.reads_per_query) && std::env::var_os("SHOW").is_some() {
            println!(
                "case {case}: d {delay_us:.0} device {device_us:.0} unequal {unequal:.2} reads {known:.3}: {found:?}"
            );
        }
    }
    println!("unequal reads: right {right}, and {right_alone} by the humps alone, of {cases}");
    assert!(right * 100 >= cases * 85 && right > right_alone, "{right} {right_alone} of {cases}");
}
