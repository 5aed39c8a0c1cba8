// SPDX-License-Identifier: Apache-2.0
use super::Reading;

/// The median of the slopes between all pairs of readings; 0 where no two have different times.
pub(super) fn slope(readings: &[Reading]) -> f64 {
    let mut slopes = Vec::with_capacity(readings.len() * readings.len() / 2);
    for (index, (t, y)) in readings.iter().enumerate() {
        let later = readings[index + 1..].iter().filter(|(later, _)| later > t);
        slopes.extend(later.map(|(later, value)| (value - y) / (later - t)));
    }
    median(slopes)
}

/// The mean of the two in the middle where their number is even; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
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
