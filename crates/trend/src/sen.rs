// SPDX-License-Identifier: Apache-2.0
use super::Reading;

/// The median of the slopes between all pairs of readings; 0 when no two readings have different times.
pub(super) fn slope(readings: &[Reading]) -> f64 {
    let mut slopes = Vec::with_capacity(readings.len() * readings.len() / 2);
    for (index, (t, y)) in readings.iter().enumerate() {
        let later = readings[index + 1..].iter().filter(|(later, _)| later > t);
        slopes.extend(later.map(|(later, value)| (value - y) / (later - t)));
    }
    median(slopes)
}

/// The mean of the two middle values when their number is even; 0 for no values.
pub fn median(mut values: Vec<f64>) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    let is_even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if !is_even {
        return upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(lower, upper)
}

/// The slope, and the interval that contains it in 95 of 100 cases when readings are independent: the slopes of pairs by their ranks (Sen 1968;
/// Hollander and Wolfe, Nonparametric Statistical Methods, 9.3). `None`: there are fewer than two readings.
pub fn slopes_of(readings: &[Reading]) -> Option<(f64, f64, f64)> {
    const Z: f64 = 1.96;
    let mut slopes = Vec::new();
    for (index, (t, y)) in readings.iter().enumerate() {
        let later = readings[index + 1..].iter().filter(|(later, _)| later > t);
        slopes.extend(later.map(|(later, value)| (value - y) / (later - t)));
    }
    slopes.sort_unstable_by(f64::total_cmp);
    let (n, pairs) = (readings.len() as f64, slopes.len() as f64);
    let width = Z * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at least 0, and below the number of pairs
    let from = (((pairs - width) / 2.0).floor().max(0.0)) as usize;
    let (low, high) = (*slopes.get(from)?, *slopes.get(slopes.len().checked_sub(from + 1)?)?);
    Some((median(slopes), low, high))
}
