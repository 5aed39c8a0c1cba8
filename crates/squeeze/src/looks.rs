// SPDX-License-Identifier: Apache-2.0
//! How often and how long a witness measures: three looks, and all of them count. No look is repeated until it passes. The result
//! is the median over all readings, with the spread of the looks.

use crate::Error;
use crate::probe::Task;
use evidence::{LatencyHistogram, Looks, Measured};
use std::time::{Duration, Instant};

pub(crate) const LOOKS: u32 = 3;
/// The length of one look at reads of some milliseconds.
const LOOK_US: f64 = 800_000.0;
/// The length of a look at slower reads: three of them stay below ten seconds.
const LONGEST_LOOK_US: f64 = 2_400_000.0;
/// The least readings of a look, as long as there is time: fewer say little.
const FEW: f64 = 8.0;
const MOST: f64 = 1000.0;
/// From this time on a read is so slow that five reads in all looks together must be enough.
const SLOW_US: f64 = 2_000_000.0;
const OF_SLOW: [u32; LOOKS as usize] = [2, 2, 1];
/// The readings of one look without the delay.
const BARE: u32 = 300;
const BARE_TIME: Duration = Duration::from_millis(250);
/// How much longer than twice the asked time a read may take before it counts as one that does not come back.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of readings of each look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    reading_us: f64,
}

impl Pace {
    /// The pace for readings one after the other, each of which should take `reading_us`.
    pub(crate) fn of(reading_us: f64) -> Self {
        Self { reading_us: reading_us.max(1.0) }
    }

    /// The task of one look, numbered from 0.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped
    pub(crate) fn look(self, number: u32) -> Task {
        let of_slow = OF_SLOW.get(number as usize).copied().unwrap_or(1);
        let fit = (LOOK_US / self.reading_us).max(FEW.min(LONGEST_LOOK_US / self.reading_us));
        let slow = self.reading_us > SLOW_US;
        let reads = if slow { of_slow } else { fit.clamp(1.0, MOST) as u32 };
        let time = Duration::from_micros(LONGEST_LOOK_US as u64);
        Task { reads, depth: 1, least: if slow { of_slow } else { 1 }, time, deadline: self.deadline() }
    }

    /// The task of a look without any delay.
    pub(crate) fn bare(self) -> Task {
        Task { reads: BARE, depth: 1, least: 1, time: BARE_TIME, deadline: PATIENCE * 2 }
    }

    fn deadline(self) -> Duration {
        PATIENCE + Duration::from_secs_f64(self.reading_us * 2.0 / 1e6)
    }
}

/// The results of all looks together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Looked {
    pub(crate) all: LatencyHistogram,
    medians_us: Vec<f64>,
}

impl Looked {
    pub(crate) fn add(&mut self, look: &LatencyHistogram) {
        self.all.merge(look);
        self.medians_us.push(look.median_us());
    }

    pub(crate) fn median_us(&self) -> f64 {
        self.all.median_us()
    }

    pub(crate) fn looks(&self) -> Looks {
        spread(&self.medians_us, self.all.count())
    }
}

/// Times each `work`, one after the other, as the task asks.
pub(crate) fn timed(task: Task, work: impl Fn() -> Result<(), Error>) -> Result<LatencyHistogram, Error> {
    let (mut histogram, began) = (LatencyHistogram::new(), Instant::now());
    for number in 0..task.reads {
        if number >= task.least && began.elapsed() > task.time {
            break;
        }
        let start = Instant::now();
        work()?;
        histogram.record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(histogram)
}

/// The spread of these figures, one for each look.
pub(crate) fn spread(figures: &[f64], readings: u64) -> Looks {
    let lowest = figures.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = figures.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let number = u32::try_from(figures.len()).unwrap_or(u32::MAX);
    Looks { number, readings, lowest, highest }
}

/// Returns all rows, unless one must end the change: a missed one always does; with `strict`, one out of tolerance does, too.
///
/// # Errors
/// [`Error::OutOfTolerance`].
pub fn accept(found: Vec<Measured>, strict: bool) -> Result<Vec<Measured>, Error> {
    let ends = |it: &&Measured| it.is_missed() || strict && it.is_outside();
    let ending = found.iter().find(ends).map(Error::out_of_tolerance);
    ending.map_or(Ok(found), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest_us(reading_us: f64) -> f64 {
        (0..LOOKS).map(|look| f64::from(Pace::of(reading_us).look(look).reads) * reading_us).sum()
    }

    #[test]
    fn three_looks_stay_below_ten_seconds_or_are_five_reads() {
        for reading_us in [1.0, 100.0, 10_000.0, 99_000.0, 300_000.0, 1_100_000.0, 1_999_000.0] {
            assert!(longest_us(reading_us) + 3.0 * 250_000.0 <= 10e6, "{reading_us}");
        }
        for reading_us in [2_100_000.0, 10e6, 60e6] {
            assert!((longest_us(reading_us) / reading_us - 5.0).abs() < 0.01, "{reading_us}");
        }
        let reads = |us| Pace::of(us).look(0).reads;
        assert_eq!([100.0, 10_000.0, 100_000.0, 1_500_000.0, 5e6].map(reads), [1000, 80, 8, 1, 2]);
        assert!(Pace::of(10e6).look(0).deadline >= Duration::from_secs(20));
    }

    #[test]
    fn every_look_counts_and_their_spread_is_kept() {
        let mut looked = Looked::default();
        for us in [1000, 1010, 9000] {
            let mut look = LatencyHistogram::new();
            look.record_n(us * 1000, 10);
            looked.add(&look);
        }
        let looks = looked.looks();
        assert_eq!((looks.number, looks.readings), (3, 30));
        assert!((looks.lowest - 1000.0).abs() < 2.0 && (looks.highest - 9000.0).abs() < 10.0, "{looks:?}");
        assert!((looked.median_us() - 1010.0).abs() < 2.0, "{}", looked.median_us());
    }
}
