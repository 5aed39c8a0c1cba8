// SPDX-License-Identifier: Apache-2.0
//! The test of Mann and Kendall. Its sum has a known variance when readings are independent; Hamed and Rao (1998) increase the variance by the
//! autocorrelation of the ranks of the line's residuals.

use super::Reading;
use statrs::distribution::{ContinuousCDF as _, Normal};

/// Autocorrelations within this many deviations of 0 are taken for 0 (Hamed and Rao: 95 of 100 cases).
const SIGNIFICANT: f64 = 1.96;

/// The two-sided p-value; 1 when all readings are equal.
pub(super) fn p_value(readings: &[Reading], residuals: &[f64]) -> f64 {
    let values: Vec<f64> = readings.iter().map(|reading| reading.1).collect();
    let sum = sum_of_signs(&values);
    let variance = variance(&values) * correction(residuals);
    // the sum changes in steps of two, so this takes half a step off
    let distance = (sum.abs() - 1.0).max(0.0);
    match (variance > 0.0, Normal::new(0.0, 1.0)) {
        (true, Ok(normal)) => 2.0 * normal.cdf(-distance / variance.sqrt()),
        _ => 1.0,
    }
}

fn sum_of_signs(values: &[f64]) -> f64 {
    let sign = |from: f64, to: f64| f64::from(i8::from(to > from) - i8::from(to < from));
    let of = |(index, from): (usize, &f64)| values[index + 1..].iter().map(|to| sign(*from, *to)).sum::<f64>();
    values.iter().enumerate().map(of).sum()
}

/// The variance for independent readings, some of which may be equal.
fn variance(values: &[f64]) -> f64 {
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let equal: f64 = sorted.chunk_by(|a, b| a == b).map(|group| term(group.len() as f64)).sum();
    (term(values.len() as f64) - equal) / 18.0
}

/// The factor for the variance. Never below 1: readings that swing back make a trend no more certain.
fn correction(residuals: &[f64]) -> f64 {
    let n = residuals.len() as f64;
    let correlations = autocorrelations(&ranks(residuals), residuals.len() / 2);
    let limit = SIGNIFICANT / n.sqrt();
    let term = |(lag, correlation): (f64, f64)| (n - lag) * (n - lag - 1.0) * (n - lag - 2.0) * correlation;
    let lags = (1..).map(f64::from).zip(correlations).filter(|(_, correlation)| correlation.abs() > limit);
    (1.0 + 2.0 / (n * (n - 1.0) * (n - 2.0)) * lags.map(term).sum::<f64>()).max(1.0)
}

/// Ranks from 1; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for group in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let mean = before as f64 + (group.len() as f64 + 1.0) / 2.0;
        group.iter().for_each(|index| ranks[*index] = mean);
        before += group.len();
    }
    ranks
}

/// Autocorrelations of the lags 1 to `most`; 0 when all values are equal.
pub(super) fn autocorrelations(values: &[f64], most: usize) -> Vec<f64> {
    let covariances = autocovariances(values, most);
    let whole = covariances.first().copied().unwrap_or(0.0);
    let share = |covariance: &f64| if whole > 0.0 { covariance / whole } else { 0.0 };
    covariances.iter().skip(1).map(share).collect()
}

/// Autocovariances of the lags 0 to `most`.
pub(super) fn autocovariances(values: &[f64], most: usize) -> Vec<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let of = |lag: usize| centred.iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum::<f64>() / n;
    (0..=most.min(values.len().saturating_sub(1))).map(of).collect()
}
