// SPDX-License-Identifier: Apache-2.0
//! Each distribution against its closed form: chi-square over keys or over ranges of keys, with fixed seeds.

use super::{Distribution, Kind, Options};
use crate::Rng;
use crate::rand_core::SeedableRng as _;
use proptest::prelude::*;

const DRAWS: u32 = 200_000;

fn of(kind: Kind) -> Distribution {
    Options { kind, ..Options::default() }.check().unwrap()
}

/// How often each of the keys `1..=count` came.
fn tally(distribution: Distribution, count: u64, seed: u64) -> Vec<u32> {
    let (sampler, mut rng) = (distribution.sampler(1, count), Rng::seed_from_u64(seed));
    let mut seen = vec![0; usize::try_from(count).unwrap()];
    for _ in 0..DRAWS {
        seen[usize::try_from(sampler.sample(&mut rng)).unwrap() - 1] += 1;
    }
    seen
}

/// Chi-square of counts against shares that sum to 1; bins that expect less than five draws are joined with the next.
fn chi_square(seen: &[u32], shares: &[f64]) -> (f64, usize) {
    let (mut statistic, mut bins, mut got, mut expected) = (0.0, 0, 0.0, 0.0);
    for (index, (n, share)) in seen.iter().zip(shares).enumerate() {
        got += f64::from(*n);
        expected += share * f64::from(DRAWS);
        if expected >= 5.0 || index + 1 == seen.len() {
            statistic += (got - expected).powi(2) / expected.max(1e-9);
            (bins, got, expected) = (bins + 1, 0.0, 0.0);
        }
    }
    (statistic, bins - 1)
}

/// The value that chi-square exceeds in about 1 of 10,000 cases (Wilson and Hilferty's approximation, z = 3.72).
fn critical(freedom: usize) -> f64 {
    let k = freedom as f64;
    let ninth = 2.0 / (9.0 * k);
    k * (1.0 - ninth + 3.72 * ninth.sqrt()).powi(3)
}

fn assert_fits(distribution: Distribution, shares: &[f64]) {
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "shares of {distribution} do not sum to 1");
    for seed in 1..=5 {
        let (statistic, freedom) = chi_square(&tally(distribution, shares.len() as u64, seed), shares);
        assert!(statistic < critical(freedom), "{distribution}, seed {seed}: {statistic:.1} at {freedom} degrees");
    }
}

/// Shares of `count` equal steps of a continuous distribution on 0..1.
fn shares(count: usize, cdf: impl Fn(f64) -> f64) -> Vec<f64> {
    let at = |step: usize| cdf(step as f64 / count as f64);
    (0..count).map(|step| at(step + 1) - at(step)).collect()
}

/// Distribution function of the mean of n uniform draws (Irwin and Hall): the closed form.
fn bates_cdf(n: u32, mean: f64) -> f64 {
    let (x, mut sum, mut choose, factorial) = (mean * f64::from(n), 0.0, 1.0, (1..=n).map(f64::from).product::<f64>());
    for k in 0..=n {
        if f64::from(k) < x {
            let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
            sum += sign * choose * (x - f64::from(k)).powi(n.try_into().unwrap());
        }
        choose *= f64::from(n - k) / f64::from(k + 1);
    }
    (sum / factorial).clamp(0.0, 1.0)
}

#[test]
fn uniform_fits() {
    assert_fits(Distribution::Uniform, &[0.01; 100]);
}

#[test]
fn gaussian_fits() {
    assert_fits(of(Kind::Gaussian), &shares(100, |x| bates_cdf(12, x)));
    assert_fits(Distribution::Gaussian { iterations: 3 }, &shares(50, |x| bates_cdf(3, x)));
}

#[test]
fn special_fits() {
    let mut expected: Vec<f64> = shares(1000, |x| bates_cdf(12, x)).iter().map(|share| share * 0.25).collect();
    expected[495..505].iter_mut().for_each(|share| *share += 0.075);
    assert_fits(of(Kind::Special), &expected);
}

#[test]
fn pareto_fits() {
    let power = 0.2f64.ln() / 0.8f64.ln();
    let expected = shares(1000, |x| x.powf(1.0 / power));
    assert!((expected[..200].iter().sum::<f64>() - 0.8).abs() < 1e-9, "the first fifth gets four fifths");
    assert_fits(of(Kind::Pareto), &expected);
}

#[test]
fn zipfian_fits() {
    for exponent in [0.0, 0.5, 0.8, 1.0, 1.2, 2.5] {
        for ranks in [2u32, 10, 5000] {
            let bars: Vec<f64> = (1..=ranks).map(|k| f64::from(k).powf(-exponent)).collect();
            let total: f64 = bars.iter().sum();
            assert_fits(Distribution::Zipfian { exponent }, &bars.iter().map(|bar| bar / total).collect::<Vec<_>>());
        }
    }
}

/// The same test tells a wrong distribution from a right one.
#[test]
fn a_wrong_form_does_not_fit() {
    let (statistic, freedom) = chi_square(&tally(of(Kind::Zipfian), 100, 1), &[0.01; 100]);
    assert!(statistic > critical(freedom));
    let (statistic, freedom) = chi_square(&tally(of(Kind::Gaussian), 100, 1), &shares(100, |x| bates_cdf(11, x)));
    assert!(statistic > critical(freedom), "12 draws against 11: {statistic:.1}");
}

#[test]
fn refused_by_name() {
    assert!("normal".parse::<Kind>().unwrap_err().to_string().contains("'normal'"));
    let refused = |options: Options| options.check().unwrap_err().to_string();
    assert!(
        refused(Options { kind: Kind::Pareto, pareto_h: 1.0, ..Options::default() }).contains("rand-pareto-h is 1")
    );
    assert!(
        refused(Options { kind: Kind::Gaussian, spec_iterations: 0, ..Options::default() }).contains("rand-spec-iter")
    );
    let special = Options { kind: Kind::Special, spec_special_percent: 101.0, ..Options::default() };
    assert!(refused(special).contains("rand-spec-res"));
    let zipfian = Options { kind: Kind::Zipfian, zipfian_exponent: f64::NAN, ..Options::default() };
    assert!(refused(zipfian).contains("rand-zipfian-exp"));
    assert_eq!(
        Options { pareto_h: 7.0, ..Options::default() }.check(),
        Ok(Distribution::Uniform),
        "not used, not checked"
    );
}

#[test]
fn names_itself_with_its_numbers() {
    assert_eq!(of(Kind::Special).to_string(), "special (res 75 %, pct 1 %, iter 12)");
    assert_eq!(of(Kind::Uniform).to_string(), "uniform");
    assert_eq!(of(Kind::Zipfian).to_string(), "zipfian (exp 0.8)");
}

proptest! {
    #[test]
    fn draws_stay_in_the_range(low in 0u64..1 << 40, count in 1u64..1 << 40, seed: u64, kind in prop::sample::select(Kind::ALL.to_vec())) {
        let (sampler, mut rng) = (of(kind).sampler(low, low + count - 1), Rng::seed_from_u64(seed));
        for _ in 0..200 {
            let key = sampler.sample(&mut rng);
            prop_assert!((low..low + count).contains(&key), "{key} outside {low} + {count}");
        }
    }
}
