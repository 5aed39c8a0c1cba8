// SPDX-License-Identifier: Apache-2.0
//! The mode finder: how many humps a latency histogram has, where they are, their shares, and how many reads each represents.
//!
//! In: the histogram, the delay in force, and how long the reads took, if the slow layer has measured it. The finder never gets the number of reads:
//! the counts of the server and the slow layer check the answer, and do not help to find it. Out: [`Modes`].
//!
//! Without a delay the humps are found, but their meaning is not known. With a delay, a query that needed k reads took base + k times (delay +
//! device) and some noise, so humps form a comb; see `reads_per_hump`. When reads took unequal times, humps overlap; see `mixture`.

mod bins;
mod humps;
mod mixture;
mod reads_per_hump;

use evidence::{Bucket, Delay, DelayMode, LatencyHistogram};
use serde::{Deserialize, Serialize};

/// A clock or a bin edge may be off by this share of the delay.
const SLACK: f64 = 0.03;

/// `count` values from `low_us` to `high_us`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bin {
    pub low_us: f64,
    pub high_us: f64,
    pub count: u64,
}

impl Bin {
    pub fn mid_us(&self) -> f64 {
        (self.low_us + self.high_us) / 2.0
    }

    pub fn width_us(&self) -> f64 {
        self.high_us - self.low_us
    }
}

impl From<Bucket> for Bin {
    /// A bucket holds whole nanoseconds, both ends included.
    fn from(bucket: Bucket) -> Self {
        Self { low_us: bucket.low_ns as f64 / 1e3, high_us: (bucket.high_ns + 1) as f64 / 1e3, count: bucket.count }
    }
}

/// The bins of one of our histograms.
pub fn bins_of(histogram: &LatencyHistogram) -> Vec<Bin> {
    histogram.buckets().map(Bin::from).collect()
}

/// The time that the storage adds to each read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ReadDelay {
    /// No read takes less.
    pub us: f64,
    /// The longest time that a probe saw; equal to `us` without a probe. The disk below may have been slower during the probe than under the load.
    pub longest_us: f64,
    pub mode: DelayMode,
}

impl ReadDelay {
    pub fn added(us: f64) -> Self {
        Self::constant(us, DelayMode::Add)
    }

    pub fn constant(us: f64, mode: DelayMode) -> Self {
        Self { us, longest_us: us, mode }
    }

    /// `None` when reads are not delayed, or not all by the same time: then humps form no comb.
    pub fn of(delay: Option<Delay>) -> Option<Self> {
        delay
            .filter(|delay| delay.read_us > 0 && !delay.varies)
            .map(|delay| Self::constant(delay.read_us as f64, delay.mode))
    }

    /// Widens the range to the time that a probe saw.
    #[must_use]
    pub fn seen(self, us: f64) -> Self {
        Self { us: self.us.min(us), longest_us: self.longest_us.max(us), ..self }
    }
}

/// The result of the finder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Modes {
    /// Ascending; empty only for an empty histogram.
    pub modes: Vec<Mode>,
    /// Values in the histogram.
    pub count: u64,
    /// The time of one read, by the distance of the humps.
    pub read_us: Option<f64>,
    /// The mean over all queries. `None`: not known, and [`Self::reason`] says why.
    pub reads_per_query: Option<f64>,
    /// Why the reads, or more humps, cannot be determined.
    pub reason: Option<String>,
}

/// One hump.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mode {
    /// The median of the hump.
    pub center_us: f64,
    /// The bounds between which its values were counted.
    pub low_us: f64,
    pub high_us: f64,
    pub count: u64,
    /// From 0 to 1.
    pub share: f64,
    /// How many reads each query of this hump needed. Not whole when several teeth of the comb could not be separated: then it is their mean. `None`:
    /// not known.
    pub reads: Option<f64>,
}

/// Finds the humps of a histogram, and, with a delay, the reads that each represents.
pub fn find(bins: &[Bin], delay: Option<ReadDelay>) -> Modes {
    let delay = delay.filter(|delay| delay.us > 0.0);
    let below_us = delay.map_or(f64::INFINITY, |delay| delay.us * 0.3);
    let bins = bins::coarsened(&bins::regrid(bins::tidy(bins), below_us));
    let count = bins.iter().map(|bin| bin.count).sum();
    if bins.is_empty() {
        let reason = Some("the histogram is empty".to_owned());
        return Modes { modes: Vec::new(), count, read_us: None, reads_per_query: None, reason };
    }
    let starts = humps::starts(&bins);
    match delay {
        Some(delay) => reads_per_hump::read(&bins, &starts, delay),
        None => Modes {
            modes: cut(&bins, &starts),
            count,
            read_us: None,
            reads_per_query: None,
            reason: Some("no delay was in force, so nothing says how many reads a hump stands for".into()),
        },
    }
}

/// Like [`find`]. `times`: how long the reads took, as the slow layer measured it.
pub fn find_by_reads(bins: &[Bin], delay: ReadDelay, times: &[Bin]) -> Modes {
    mixture::read(&bins::tidy(bins), delay, times).unwrap_or_else(|| find(bins, Some(delay)))
}

fn time(us: f64) -> String {
    if us >= 1000.0 { format!("{:.2} ms", us / 1000.0) } else { format!("{us:.0} us") }
}

/// The humps that begin at these bins.
fn cut(bins: &[Bin], starts: &[usize]) -> Vec<Mode> {
    let total: u64 = bins.iter().map(|bin| bin.count).sum();
    let ends = starts.iter().skip(1).copied().chain([bins.len()]);
    starts.iter().zip(ends).map(|(first, end)| mode(&bins[*first..end], total)).collect()
}

fn mode(own: &[Bin], total: u64) -> Mode {
    let count: u64 = own.iter().map(|bin| bin.count).sum();
    Mode {
        center_us: quantile_us(own, 0.5),
        low_us: own.first().map_or(0.0, |bin| bin.low_us),
        high_us: own.last().map_or(0.0, |bin| bin.high_us),
        count,
        share: count as f64 / total as f64,
        reads: None,
    }
}

/// A quantile, with values spread evenly in each bin.
fn quantile_us(own: &[Bin], quantile: f64) -> f64 {
    let wanted = own.iter().map(|bin| bin.count as f64).sum::<f64>() * quantile;
    let mut passed = 0.0;
    for bin in own {
        let count = bin.count as f64;
        if passed + count >= wanted {
            return bin.low_us + bin.width_us() * ((wanted - passed) / count);
        }
        passed += count;
    }
    own.last().map_or(0.0, |bin| bin.high_us)
}
