// SPDX-License-Identifier: Apache-2.0
//! Points of a chart: few enough to draw, rates in place of counters, and a break wherever there was one in the readings.

use evidence::{Point, Series};

/// With more points than this, neighbours are joined.
const POINTS: usize = 480;
/// A gap that is longer than this many usual intervals breaks the line.
const GAP: f64 = 4.0;

/// Seconds since the start of the run, and a value; `None` breaks the line.
type Shown = (f64, Option<f64>);

/// The thinned points; rates when the series is a counter. Neighbours that are joined have at most one break between them, however many there were.
pub(super) fn shown(series: &Series, factor: f64) -> Vec<Shown> {
    let mut points: Vec<Point> = series.points.iter().copied().filter(|point| point.value.is_finite()).collect();
    points.sort_by_key(|point| point.at_us);
    let longest = usual_interval_us(&points) * GAP;
    let step = points.len().div_ceil(POINTS).max(1);
    let mut shown = if series.cumulative { rates(&points, step, longest) } else { means(&points, step, longest) };
    shown.iter_mut().filter_map(|(_, value)| value.as_mut()).for_each(|value| *value *= factor);
    shown
}

/// The growth over each stretch is exact.
fn rates(points: &[Point], step: usize, longest: f64) -> Vec<Shown> {
    let pairs: Vec<&[Point]> = points.windows(2).collect();
    let is_broken = |pair: &[Point]| is_gap(&pair[0], &pair[1], longest) || !grows(&pair[0], &pair[1]);
    let mut shown = Vec::new();
    for chunk in pairs.chunks(step) {
        let whole = chunk.iter().position(|pair| is_broken(pair)).unwrap_or(chunk.len());
        let (before, after) = chunk.split_at(whole);
        shown.extend(rate(before));
        shown.extend(after.first().map(|broken| (seconds(broken[1].at_us), None)));
        let after: Vec<&[Point]> = after.iter().copied().filter(|pair| !is_broken(pair)).collect();
        shown.extend(rate(&after));
    }
    shown
}

/// `None`: there are no pairs.
fn rate(pairs: &[&[Point]]) -> Option<Shown> {
    let last = pairs.last()?;
    let growth: f64 = pairs.iter().map(|pair| pair[1].value - pair[0].value).sum();
    let elapsed: u64 = pairs.iter().map(|pair| pair[1].at_us - pair[0].at_us).sum();
    Some((seconds(last[1].at_us), Some(growth * 1e6 / elapsed as f64)))
}

/// A counter that falls is another one: another server had started.
fn grows(before: &Point, after: &Point) -> bool {
    after.at_us > before.at_us && after.value >= before.value
}

/// The mean stands for the points that are left out.
fn means(points: &[Point], step: usize, longest: f64) -> Vec<Shown> {
    let mut shown = Vec::new();
    let mut last: Option<Point> = None;
    for chunk in points.chunks(step) {
        let comes_late = |point: &Point| last.replace(*point).is_some_and(|before| is_gap(&before, point, longest));
        let late: Vec<bool> = chunk.iter().map(comes_late).collect();
        let (before, after) = chunk.split_at(late.iter().position(|late| *late).unwrap_or(chunk.len()));
        shown.extend(mean(before));
        shown.extend(after.first().map(|first| (seconds(first.at_us), None)));
        shown.extend(mean(after));
    }
    shown
}

/// `None`: there are no points.
fn mean(points: &[Point]) -> Option<Shown> {
    let middle = points.get(points.len() / 2)?;
    let sum: f64 = points.iter().map(|point| point.value).sum();
    Some((seconds(middle.at_us), Some(sum / points.len() as f64)))
}

fn is_gap(from: &Point, to: &Point, longest: f64) -> bool {
    (to.at_us - from.at_us) as f64 > longest
}

/// The median interval between two points.
fn usual_interval_us(points: &[Point]) -> f64 {
    let mut intervals: Vec<u64> = points.windows(2).map(|pair| pair[1].at_us - pair[0].at_us).collect();
    intervals.sort_unstable();
    intervals.get(intervals.len() / 2).map_or(f64::INFINITY, |us| (*us).max(1) as f64)
}

fn seconds(at_us: u64) -> f64 {
    at_us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::super::tests::series;
    use super::*;

    #[test]
    fn a_counter_becomes_a_rate_and_a_restart_a_gap() {
        let counter = series(true, [(0, 5.0), (1, 25.0), (2, 3.0), (3, 13.0), (20, 14.0), (21, 15.0)]);
        let expected = [(1.0, Some(20.0)), (2.0, None), (3.0, Some(10.0)), (20.0, None), (21.0, Some(1.0))];
        assert_eq!(shown(&counter, 1.0), expected);
    }

    #[test]
    fn thinning_keeps_a_counters_total() {
        let counter = series(true, (0..5_000).map(|s| (s, (s * s) as f64)));
        let rates = shown(&counter, 1.0);
        assert!(rates.len() <= POINTS);
        let mut at = 0.0;
        let total: f64 = rates
            .iter()
            .map(|(t, rate)| {
                let part = rate.unwrap() * (t - at);
                at = *t;
                part
            })
            .sum();
        assert!((total - at * at).abs() < 1e-3 * total);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let gauge = series(false, [(0, 1.0), (1, f64::NAN), (2, 3.0)]);
        assert_eq!(shown(&gauge, 1.0).iter().filter(|(_, value)| value.is_some()).count(), 2);
    }

    /// Ten hours with a reading each second, and a minute without any.
    #[test]
    fn an_outage_breaks_a_long_line_too() {
        let read = || (0..36_000).filter(|s| !(20_000..20_060).contains(s)).map(|s| (s, s as f64));
        for cumulative in [false, true] {
            let line = shown(&series(cumulative, read()), 1.0);
            let breaks: Vec<f64> = line.iter().filter(|(_, value)| value.is_none()).map(|(t, _)| *t).collect();
            assert_eq!(breaks, [20_060.0], "cumulative: {cumulative}");
            assert!(line.is_sorted_by(|a, b| a.0 <= b.0) && line.len() <= POINTS + 3);
        }
        let rates = shown(&series(true, read()), 1.0);
        assert!(
            rates.iter().all(|(_, rate)| rate.is_none_or(|rate| (rate - 1.0).abs() < 1e-9)),
            "none is lowered by the gap"
        );
    }

    #[test]
    fn a_restart_breaks_a_long_line_too() {
        let counter = series(true, (0..10_000).map(|s| (s, if s < 5_003 { 3 * s } else { 3 * (s - 5_003) } as f64)));
        let rates = shown(&counter, 1.0);
        assert_eq!(rates.iter().filter(|(_, rate)| rate.is_none()).count(), 1);
        assert!(rates.iter().all(|(_, rate)| rate.is_none_or(|rate| (rate - 3.0).abs() < 1e-9)));
    }

    #[test]
    fn many_breaks_do_not_make_many_points() {
        let gauge = series(false, (0..50_000).map(|n| (n + n / 3 * 10, 1.0)));
        assert!(shown(&gauge, 1.0).len() <= 3 * POINTS);
    }
}
