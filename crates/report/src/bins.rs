// SPDX-License-Identifier: Apache-2.0
//! A latency histogram in bins of equal width on a log axis, for bars.

use evidence::LatencyHistogram;

/// Bin `index` goes from `10^(index / per_decade)` microseconds to the start of the next. Counts are fractions where a bucket of the histogram lies
/// across a bin's edge: the bucket's count is divided among the bins, so that bars show no pattern that only comes from the edges of buckets and
/// bins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LogBins {
    pub per_decade: u32,
    /// The index of the first entry in `counts`; negative below one microsecond.
    pub first: i64,
    /// Without the empty bins at both ends.
    pub counts: Vec<f64>,
}

impl LogBins {
    pub(crate) fn of(histogram: &LatencyHistogram, per_decade: u32) -> Self {
        let per = f64::from(per_decade);
        let index = |us: f64| (us.log10() * per).floor();
        let (Some(low), true) = (histogram.buckets().next(), histogram.count() > 0) else {
            return Self { per_decade, first: 0, counts: Vec::new() };
        };
        let first = index(low_us(low.low_ns));
        let mut counts = Vec::new();
        for bucket in histogram.buckets() {
            let (low, high) = (low_us(bucket.low_ns), (bucket.high_ns + 1) as f64 / 1e3);
            if high <= low {
                add(&mut counts, index(low) - first, bucket.count as f64);
                continue;
            }
            let mut at = low;
            let mut bin = index(low);
            while at < high {
                let edge = 10f64.powf((bin + 1.0) / per).min(high);
                add(&mut counts, bin - first, bucket.count as f64 * (edge - at).max(0.0) / (high - low));
                at = at.max(edge);
                bin += 1.0;
            }
        }
        // bins are a few hundred at most: an hour is 3.6e9 us
        #[allow(clippy::cast_possible_truncation)]
        Self { per_decade, first: first as i64, counts }
    }

    /// Start of the bin at `position` in `counts`, in microseconds. The end is the start of the next.
    pub(crate) fn low_us(&self, position: usize) -> f64 {
        10f64.powf((self.first as f64 + position as f64) / f64::from(self.per_decade))
    }
}

/// 0 has no logarithm, so nothing is shown shorter than this; no client gets a reply in less time.
const SHORTEST_NS: u64 = 64;

fn low_us(low_ns: u64) -> f64 {
    low_ns.max(SHORTEST_NS) as f64 / 1e3
}

fn add(counts: &mut Vec<f64>, position: f64, count: f64) {
    #[allow(clippy::cast_possible_truncation)] // a few hundred, not negative
    let position = position.max(0.0) as usize;
    if counts.len() <= position {
        counts.resize(position + 1, 0.0);
    }
    counts[position] += count;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values_us: &[u64]) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::new();
        values_us.iter().for_each(|us| histogram.record(us * 1000));
        histogram
    }

    #[test]
    fn nothing_is_lost_whatever_the_bins() {
        let values: Vec<u64> = (1..5000).map(|n| n * n / 7 + 3).collect();
        for per_decade in [1, 7, 60, 96] {
            let bins = LogBins::of(&histogram(&values), per_decade);
            let total: f64 = bins.counts.iter().sum();
            assert!((total - values.len() as f64).abs() < 1e-6, "{per_decade}: {total}");
        }
    }

    #[test]
    fn a_value_is_in_its_bin() {
        let bins = LogBins::of(&histogram(&[10_300]), 96);
        let tallest = (0..bins.counts.len()).max_by(|a, b| bins.counts[*a].total_cmp(&bins.counts[*b])).unwrap();
        assert!((bins.low_us(tallest)..bins.low_us(tallest + 1)).contains(&10_300.0));
    }

    #[test]
    fn empty_zero_and_overflow() {
        assert!(LogBins::of(&LatencyHistogram::new(), 10).counts.is_empty());
        let mut extreme = histogram(&[0]);
        extreme.record(40);
        extreme.record(u64::MAX);
        let bins = LogBins::of(&extreme, 10);
        assert!((bins.counts.iter().sum::<f64>() - 3.0).abs() < 1e-9);
        assert!(bins.counts.len() < 200);
    }
}
