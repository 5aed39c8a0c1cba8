// SPDX-License-Identifier: Apache-2.0
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{
    Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializer, V2Serializer,
};
use serde::{Deserialize, Serialize, de, ser};
use std::fmt;

/// A latency histogram in nanoseconds: high dynamic range, three significant digits, mergeable.
///
/// Values from 1 us to [`LatencyHistogram::HIGHEST_NS`] are kept within 0.1 %, shorter ones within 1 ns. Larger values are
/// counted in the last bucket and in [`LatencyHistogram::overflow`]; they are never dropped. Recording does not allocate.
///
/// As JSON: `{"unit":"ns","encoding":"HDR V2 deflate, base64","overflow":0,"data":"..."}`, readable by any HdrHistogram library.
#[derive(Clone, PartialEq)]
pub struct LatencyHistogram {
    inner: Histogram<u64>,
    overflow: u64,
}

/// One non-empty bucket: `count` values in `low_ns..=high_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bucket {
    pub low_ns: u64,
    pub high_ns: u64,
    pub count: u64,
}

impl LatencyHistogram {
    /// The narrowest bucket. A bucket of 128 ns would be more than 0.1 % of a latency below 128 us.
    pub const LOWEST_NS: u64 = 1;
    /// One hour. A latency above it is an outage, not a latency; it is counted in `overflow`.
    pub const HIGHEST_NS: u64 = 3_600_000_000_000;
    const DIGITS: u8 = 3;

    pub fn new() -> Self {
        let inner = Histogram::new_with_bounds(Self::LOWEST_NS, Self::HIGHEST_NS, Self::DIGITS)
            .expect("constant bounds are valid");
        Self { inner, overflow: 0 }
    }

    pub fn record(&mut self, ns: u64) {
        self.record_n(ns, 1);
    }

    pub fn record_n(&mut self, ns: u64, count: u64) {
        if ns > Self::HIGHEST_NS {
            self.overflow += count;
        }
        self.inner.saturating_record_n(ns, count);
    }

    pub fn merge(&mut self, other: &Self) {
        self.overflow += other.overflow;
        self.inner.add(&other.inner).expect("all our histograms have the same bounds");
    }

    /// The values that were recorded after `before`, an earlier state of this histogram.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut after = self.clone();
        match after.inner.subtract(&before.inner) {
            Ok(()) => after.overflow = after.overflow.saturating_sub(before.overflow),
            // `before` is no earlier state of this histogram
            Err(_) => return self.clone(),
        }
        after
    }

    pub fn clear(&mut self) {
        self.inner.reset();
        self.overflow = 0;
    }

    pub fn count(&self) -> u64 {
        self.inner.len()
    }

    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// The number of values above [`Self::HIGHEST_NS`].
    pub fn overflow(&self) -> u64 {
        self.overflow
    }

    /// 0 when empty.
    pub fn min_ns(&self) -> u64 {
        if self.inner.is_empty() { 0 } else { self.inner.min() }
    }

    pub fn max_ns(&self) -> u64 {
        self.inner.max()
    }

    pub fn mean_ns(&self) -> f64 {
        self.inner.mean()
    }

    pub fn stdev_ns(&self) -> f64 {
        self.inner.stdev()
    }

    /// `percentile` is in 0..=100. The returned value is the highest value of the bucket.
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        self.inner.value_at_percentile(percentile)
    }

    pub fn median_us(&self) -> f64 {
        self.percentile_ns(50.0) as f64 / 1000.0
    }

    /// The non-empty buckets, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.inner.iter_recorded().map(|step| {
            let value = step.value_iterated_to();
            Bucket {
                low_ns: self.inner.lowest_equivalent(value),
                high_ns: self.inner.highest_equivalent(value),
                count: step.count_since_last_iteration(),
            }
        })
    }

    /// The histogram as HdrHistogram V2, deflated.
    pub fn to_hdr(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if V2DeflateSerializer::new().serialize(&self.inner, &mut bytes).is_err() {
            bytes.clear();
            V2Serializer::new().serialize(&self.inner, &mut bytes).expect("a Vec takes every byte");
        }
        bytes
    }

    /// Reads HdrHistogram V2, plain or deflated.
    ///
    /// # Errors
    /// The bytes are not such a histogram.
    pub fn from_hdr(bytes: &[u8], overflow: u64) -> Result<Self, String> {
        let read: Histogram<u64> = HdrDeserializer::new()
            .deserialize(&mut &*bytes)
            .map_err(|error| format!("not an HdrHistogram: {error}"))?;
        let mut histogram = Self::new();
        histogram.inner.add(&read).map_err(|error| format!("histogram has other bounds than ours: {error}"))?;
        histogram.overflow = overflow;
        Ok(histogram)
    }
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LatencyHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "LatencyHistogram({} values, p50 {} ns, p99 {} ns, max {} ns)",
            self.count(),
            self.percentile_ns(50.0),
            self.percentile_ns(99.0),
            self.max_ns()
        )
    }
}

#[derive(Serialize, Deserialize)]
struct Written {
    unit: String,
    encoding: String,
    overflow: u64,
    data: String,
}

const ENCODING: &str = "HDR V2 deflate, base64";

impl Serialize for LatencyHistogram {
    fn serialize<S: ser::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let data = STANDARD.encode(self.to_hdr());
        Written { unit: "ns".into(), encoding: ENCODING.into(), overflow: self.overflow, data }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LatencyHistogram {
    fn deserialize<D: de::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        let bytes = STANDARD.decode(&written.data).map_err(de::Error::custom)?;
        Self::from_hdr(&bytes, written.overflow).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn overflow_is_counted_not_dropped() {
        let mut histogram = LatencyHistogram::new();
        histogram.record(LatencyHistogram::HIGHEST_NS * 2);
        assert_eq!((histogram.count(), histogram.overflow()), (1, 1));
    }

    /// A single value is kept within 0.1 % from 1 us up, and within 1 ns below 1 us.
    #[test]
    fn a_short_latency_is_kept_as_well_as_a_long_one() {
        for ns in (0..=41).flat_map(|power| [1u64 << power, (1 << power) + (1 << power) / 3 + 1, (2 << power) - 1]) {
            let mut histogram = LatencyHistogram::new();
            histogram.record(ns);
            let bucket = histogram.buckets().next().unwrap();
            assert!(bucket.low_ns <= ns && ns <= bucket.high_ns, "{bucket:?} for {ns}");
            let width = (bucket.high_ns - bucket.low_ns) as f64;
            assert!(width <= ns as f64 / 1000.0 || width < 1.0, "{ns} is kept as {bucket:?}");
        }
    }

    /// A recording of an earlier release has buckets of 128 ns and wider.
    #[test]
    fn a_histogram_of_wider_buckets_is_read() {
        let mut wide = Histogram::<u64>::new_with_bounds(128, LatencyHistogram::HIGHEST_NS, 3).unwrap();
        for ns in [100u64, 40_000, 250_000, 9_000_000] {
            wide.record(ns).unwrap();
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&wide, &mut bytes).unwrap();
        let read = LatencyHistogram::from_hdr(&bytes, 3).unwrap();
        assert_eq!((read.count(), read.overflow()), (4, 3));
        for (percentile, ns) in [(50.0, 40_000.0), (75.0, 250_000.0), (100.0, 9_000_000.0)] {
            let got = read.percentile_ns(percentile) as f64;
            assert!((got - ns).abs() <= 128.0 + ns * 0.001, "p{percentile}: {got}");
        }
    }

    #[test]
    fn since_leaves_out_what_was_there_before() {
        let mut histogram = LatencyHistogram::new();
        histogram.record_n(1_000_000, 5);
        let before = histogram.clone();
        histogram.record_n(9_000_000, 2);
        let since = histogram.since(&before);
        assert_eq!((since.count(), since.min_ns() > 8_000_000), (2, true));
        assert_eq!(before.since(&histogram), before, "there is nothing before it");
    }

    proptest! {
        #[test]
        fn percentiles_match_a_sorted_list(mut values in prop::collection::vec(200u64..5_000_000_000, 1..300)) {
            let mut histogram = LatencyHistogram::new();
            values.iter().for_each(|v| histogram.record(*v));
            values.sort_unstable();
            for p in [50.0, 95.0, 99.0, 100.0] {
                #[allow(clippy::cast_possible_truncation)]
                let rank = ((p / 100.0 * values.len() as f64).ceil() as usize).clamp(1, values.len());
                let expected = values[rank - 1] as f64;
                let got = histogram.percentile_ns(p) as f64;
                prop_assert!((got - expected).abs() <= expected * 0.001 + 1.0, "p{p}: {got} for {expected}");
            }
        }

        #[test]
        fn json_round_trip_and_merge(values in prop::collection::vec(1u64..10_000_000_000_000, 0..100)) {
            let mut whole = LatencyHistogram::new();
            let (mut left, mut right) = (LatencyHistogram::new(), LatencyHistogram::new());
            for (i, v) in values.iter().enumerate() {
                whole.record(*v);
                if i % 2 == 0 { left.record(*v) } else { right.record(*v) }
            }
            left.merge(&right);
            let read: LatencyHistogram = serde_json::from_str(&serde_json::to_string(&left).unwrap()).unwrap();
            prop_assert_eq!(read.buckets().collect::<Vec<_>>(), whole.buckets().collect::<Vec<_>>());
            prop_assert_eq!(read.overflow(), whole.overflow());
        }
    }
}
