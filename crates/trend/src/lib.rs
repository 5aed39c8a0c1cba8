// SPDX-License-Identifier: Apache-2.0
//! Whether a series keeps growing, and how fast, when its readings depend on the readings before them.
//!
//! Published methods, each for one question:
//!
//! | question | method | module |
//! | --- | --- | --- |
//! | how fast? | the median of the slopes between all pairs (Theil 1950, Sen 1968): 29 % of the readings may be wild | `sen` |
//! | how sure is that? | bootstrap of what the line leaves over, in blocks (Künsch 1989; their length: Politis and White 2004) and by a sieve (Bühlmann 1997) | `bootstrap` |
//! | is there any trend? | Mann and Kendall's test, its variance corrected for autocorrelation (Hamed and Rao 1998) | `rank` |
//!
//! None of the three separates a series that keeps growing from one that has grown and stopped: steps and curves that level off have a trend, too.
//! [`Trend::keeps_on`] requires growth in each quarter of the time.

mod bootstrap;
mod rank;
mod sen;

pub use sen::{median, slopes_of};

/// When there are more readings, neighbours are joined into their median.
const READINGS: usize = 120;
/// Fewer readings cannot tell a trend from chance.
pub const FEWEST: usize = 30;

/// A reading: its time and its value.
pub type Reading = (f64, f64);

/// A line through a series. Units are those of the readings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    pub slope: f64,
    /// The ends of the interval that contains the true slope in 95 of 100 cases.
    pub low: f64,
    pub high: f64,
    /// The probability that a series without a trend has at least as much of a trend as this one.
    pub p: f64,
    /// It grew in each quarter of the time, and not less and less; and the interval that contains the true slope in 99 of 100 cases is above 0.
    pub keeps_on: bool,
}

/// `None`: there are fewer than [`FEWEST`] readings. They must be in the order of their times.
pub fn trend(readings: &[Reading]) -> Option<Trend> {
    if readings.len() < FEWEST {
        return None;
    }
    let readings = joined(readings);
    let slope = sen::slope(&readings);
    let residuals: Vec<f64> = readings.iter().map(|(t, y)| y - slope * t).collect();
    let interval = bootstrap::interval(&readings, slope, &residuals);
    Some(Trend {
        slope,
        low: interval.low,
        high: interval.high,
        p: rank::p_value(&readings, &residuals),
        keeps_on: interval.surely_above > 0.0 && keeps_on(&readings),
    })
}

fn joined(readings: &[Reading]) -> Vec<Reading> {
    let middle = |chunk: &[Reading]| {
        (
            median(chunk.iter().map(|reading| reading.0).collect()),
            median(chunk.iter().map(|reading| reading.1).collect()),
        )
    };
    readings.chunks(readings.len().div_ceil(READINGS)).map(middle).collect()
}

/// The least rise of each quarter, as a share of the mean rise: noise may take some of it, a standstill takes all.
const LEAST_RISE: f64 = 0.25;
/// The least slope of the second half, as a share of the slope of the first half: a series that fills up exponentially and passes this test has half
/// of its way still before it.
const LEAST_PACE: f64 = 0.5;

fn keeps_on(readings: &[Reading]) -> bool {
    let quarter = readings.len().div_ceil(4);
    let levels: Vec<f64> =
        readings.chunks(quarter).map(|chunk| median(chunk.iter().map(|reading| reading.1).collect())).collect();
    let rises: Vec<f64> = levels.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = rises.iter().sum::<f64>() / rises.len().max(1) as f64;
    let (first, second) = readings.split_at(readings.len() / 2);
    let (first, second) = (sen::slope(first), sen::slope(second));
    mean > 0.0 && rises.iter().all(|rise| *rise >= LEAST_RISE * mean) && second > 0.0 && second >= LEAST_PACE * first
}

#[cfg(test)]
mod tests;
