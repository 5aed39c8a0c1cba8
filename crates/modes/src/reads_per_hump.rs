// SPDX-License-Identifier: Apache-2.0
//! How many reads each hump represents, when reads are delayed.
//!
//! A query that needs k reads takes base + k times one read; one read takes the delay and the time of the device and the layer. So humps are at equal
//! distances, like the teeth of a comb, and values between two teeth are noise on the lower one: noise only adds time. Two facts are certain without
//! a fit: a query that took less than one delay did no read, and k reads take at least k delays.
//!
//! When the first hump is beyond one delay, its queries may have read, or may just be slow. When a hump is wider than the distance of the teeth, its
//! teeth cannot be separated. Then the answer is "cannot be said", with the reason.

use super::{Bin, Mode, Modes, ReadDelay, SLACK, cut, mode, quantile_us, time};

/// The most that a read takes beyond the delay: the time of a slow device.
const DEVICE_FACTOR: f64 = 1.25;
const DEVICE_US: f64 = 400.0;
/// Below this delay a base time of the same size is ordinary, so a first hump beyond the delay proves nothing.
const CLEAR_DELAY_US: f64 = 1000.0;
/// As a share of the distance between teeth: a hump that is at most this far before a tooth belongs to the tooth.
const EARLY: f64 = 0.3;
/// As a share of the distance between teeth: a hump whose body, without its tail, is wider contains several teeth.
const WIDE: f64 = 0.9;
/// When teeth overlap, noise is equally likely on both sides of a tooth.
const NEAREST: f64 = 0.45;
/// The most teeth between two humps.
const MOST_TEETH: u32 = 40;
/// The number of teeth beyond the last hump that are looked for.
const FURTHER_TEETH: u32 = 4;

/// The comb: `base_us + k * read_us`.
#[derive(Debug, Clone, Copy)]
struct Comb {
    base_us: f64,
    read_us: f64,
    /// No read takes less time.
    least_us: f64,
}

impl Comb {
    /// The number of reads at this latency. Noise adds time, so a value between two teeth belongs to the lower one.
    fn reads_at(&self, us: f64) -> f64 {
        self.rounded(us, EARLY)
    }

    /// The number of reads at this latency. A value that is less than `early` of a read before a tooth belongs to that tooth. The result is never
    /// more than the number of reads for which there was time.
    fn rounded(&self, us: f64, early: f64) -> f64 {
        let nearest = ((us - self.base_us) / self.read_us + early).floor();
        nearest.min((us / self.least_us).floor()).max(0.0)
    }

    fn tooth_us(&self, reads: f64) -> f64 {
        self.base_us + reads * self.read_us
    }
}

/// Takes the humps that begin at `starts` for teeth.
pub(super) fn read(bins: &[Bin], starts: &[usize], delay: ReadDelay) -> Modes {
    let starts = &with_teeth_below(bins, starts, delay);
    let humps = cut(bins, starts);
    let count = bins.iter().map(|bin| bin.count).sum();
    let unknown = |reason: String| Modes {
        modes: humps.clone(),
        count,
        read_us: None,
        reads_per_query: None,
        reason: Some(reason),
    };
    let comb = match fit(bins, &peaked(bins, starts), delay) {
        Ok(comb) => comb,
        Err(reason) => return unknown(reason),
    };
    let teeth = with_small_teeth(bins, starts, comb);
    let modes: Vec<Mode> = merged(bins, &teeth, comb);
    let reads = modes.iter().map(|mode| mode.share * mode.reads.unwrap_or_default()).sum();
    let overlapping = modes.iter().any(|mode| mode.reads.is_some_and(|reads| reads.fract() != 0.0));
    let reason = overlapping
        .then(|| "some humps hold several numbers of reads that cannot be told apart; their mean is given".into());
    let read_us = (modes.len() > 1).then_some(comb.read_us);
    Modes { modes, count, read_us, reads_per_query: Some(reads), reason }
}

/// This share of a hump is around its peak.
const CORE: f64 = 0.3;

/// The humps. The center of each is the middle of the shortest stretch that contains [`CORE`] of the hump: noise adds time, so the peak is nearer to
/// the tooth than the median.
fn peaked(bins: &[Bin], starts: &[usize]) -> Vec<Mode> {
    let peak = |hump: Mode| Mode { center_us: peak_us(bins, &hump), ..hump };
    cut(bins, starts).into_iter().map(peak).collect()
}

fn peak_us(bins: &[Bin], hump: &Mode) -> f64 {
    let own = bins_of_hump(bins, hump);
    let at = |part: f64| quantile_us(&own, part);
    let steps = 35;
    let stretch = |step: i32| {
        let from = f64::from(step) / f64::from(steps) * (1.0 - CORE);
        (at(from), at(from + CORE))
    };
    let shortest = (0..=steps).map(stretch).min_by(|a, b| (a.1 - a.0).total_cmp(&(b.1 - b.0)));
    shortest.map_or(hump.center_us, |(low, high)| (low + high) / 2.0)
}

fn bins_of_hump(bins: &[Bin], hump: &Mode) -> Vec<Bin> {
    bins.iter().filter(|bin| bin.low_us >= hump.low_us && bin.high_us <= hump.high_us).copied().collect()
}

/// Finds base and distance, or the reason why they cannot be found.
fn fit(bins: &[Bin], humps: &[Mode], delay: ReadDelay) -> Result<Comb, String> {
    let read_us = distance(humps, delay);
    let first = &humps[0];
    let width = spread(bins, first, 0.1, 0.9);
    if first.center_us < delay.us * (1.0 - SLACK) && width > 0.8 * read_us {
        return Err(format!(
            "the first hump is {} wide, and a read takes about {}: reads cannot be told from the noise",
            time(width),
            time(read_us)
        ));
    }
    let reads = first_reads(bins, humps, read_us, delay)?;
    let least_us = delay.us * (1.0 - SLACK);
    let comb = Comb { base_us: (first.center_us - reads * read_us).max(0.0), read_us, least_us };
    Ok(refined(humps, comb, delay))
}

/// The time of one read: the distance with which the humps agree best, not far from the delay.
fn distance(humps: &[Mode], delay: ReadDelay) -> f64 {
    let (least, most) = (delay.us * (1.0 - SLACK), delay.longest_us * DEVICE_FACTOR + DEVICE_US);
    let first = humps[0].center_us;
    let gaps = humps.windows(2).map(|pair| pair[1].center_us - pair[0].center_us);
    let from_first = humps.iter().skip(1).map(|hump| hump.center_us - first);
    let mut best = (f64::INFINITY, delay.us);
    for gap in gaps.chain(from_first) {
        for teeth in 1..=MOST_TEETH {
            let read_us = gap / f64::from(teeth);
            if (least..=most).contains(&read_us) {
                let expected_us = read_us.clamp(delay.us, delay.longest_us);
                let cost = misfit(humps, read_us) + 0.3 * (read_us / expected_us).ln().abs();
                best = if cost < best.0 { (cost, read_us) } else { best };
            }
        }
    }
    best.1
}

/// How far the humps are from teeth at this distance, weighted by share, from 0 to 1.
fn misfit(humps: &[Mode], read_us: f64) -> f64 {
    let first = humps[0].center_us;
    let weight: f64 = humps.iter().skip(1).map(|hump| hump.share.sqrt()).sum();
    let off = |hump: &Mode| {
        let teeth = (hump.center_us - first) / read_us;
        ((teeth - teeth.round()) / 0.15).powi(2).min(1.0) * hump.share.sqrt()
    };
    humps.iter().skip(1).map(off).sum::<f64>() / weight.max(1e-9)
}

/// The number of reads of the first hump.
fn first_reads(bins: &[Bin], humps: &[Mode], read_us: f64, delay: ReadDelay) -> Result<f64, String> {
    let first = &humps[0];
    if first.center_us < delay.us * (1.0 - SLACK) {
        return Ok(0.0);
    }
    let reads = (first.center_us / read_us + SLACK).floor().max(1.0);
    let base_us = (first.center_us - reads * read_us).max(0.0);
    // the lowest fifth of a normal hump ends 0.84 standard deviations below its center; stray values further left say nothing about its width
    let left_us = 1.64 / 0.84 * (first.center_us - quantile_of(bins, first, 0.2));
    // a base time is rarely smaller than its own spread
    let plausible = base_us < 0.4 * read_us && base_us + SLACK * first.center_us >= 0.8 * left_us;
    let on_comb = humps.len() > 1 || reads < 1.5;
    if delay.us >= CLEAR_DELAY_US && plausible && on_comb {
        return Ok(reads);
    }
    Err(format!(
        "the first hump lies at {}, beyond one delay of {}: its queries may have read, or have spent that time on their own work",
        time(first.center_us),
        time(delay.us)
    ))
}

/// Noise only adds time, so a few values at a whole number of reads before the first hump's center are teeth of their own.
fn with_teeth_below(bins: &[Bin], starts: &[usize], delay: ReadDelay) -> Vec<usize> {
    let humps = peaked(bins, starts);
    let (first_us, read_us) = (humps[0].center_us, distance(&humps, delay));
    let mut teeth = starts.to_vec();
    let mut tooth_us = first_us - read_us;
    let mut above_us = first_us;
    while tooth_us > 0.0 && tooth_us > bins[0].low_us - EARLY * read_us {
        if stands_out(bins, tooth_us, read_us) {
            // values after the tooth are its noise, up to just before the next tooth
            teeth.push(bins.partition_point(|bin| bin.mid_us() < above_us - EARLY * read_us));
            above_us = tooth_us;
        }
        tooth_us -= read_us;
    }
    teeth.sort_unstable();
    teeth.dedup();
    teeth
}

/// Fits the comb to the humps' centers by least squares; keeps the comb when there is only one tooth.
fn refined(humps: &[Mode], comb: Comb, delay: ReadDelay) -> Comb {
    let on_tooth = |hump: &&Mode| {
        let teeth = (hump.center_us - comb.base_us) / comb.read_us;
        (teeth - teeth.round()).abs() < 0.25
    };
    let points: Vec<(f64, f64, f64)> = humps
        .iter()
        .filter(on_tooth)
        .map(|hump| (((hump.center_us - comb.base_us) / comb.read_us).round(), hump.center_us, hump.share.sqrt()))
        .collect();
    let weight: f64 = points.iter().map(|(_, _, w)| w).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|point| of(point) * point.2).sum::<f64>() / weight;
    let (reads, center) = (mean(|point| point.0), mean(|point| point.1));
    let spread: f64 = points.iter().map(|(k, _, w)| w * (k - reads).powi(2)).sum();
    if points.len() < 2 || spread <= 0.0 {
        return comb;
    }
    let read_us = points.iter().map(|(k, c, w)| w * (k - reads) * (c - center)).sum::<f64>() / spread;
    if read_us < delay.us * (1.0 - SLACK) {
        return comb;
    }
    Comb { base_us: (center - reads * read_us).max(0.0), read_us, ..comb }
}

/// Adds teeth with too few values for a hump of their own: a few values at the place of a tooth, and not before it. Returns the bins at which teeth
/// begin.
fn with_small_teeth(bins: &[Bin], starts: &[usize], comb: Comb) -> Vec<usize> {
    let mut teeth = starts.to_vec();
    let last_us = bins[bins.len() - 1].high_us;
    let furthest = comb.reads_at(last_us);
    let known: Vec<f64> = peaked(bins, starts).iter().map(|hump| comb.reads_at(hump.center_us)).collect();
    let from = 0.0;
    let until = furthest.min(known[known.len() - 1] + f64::from(FURTHER_TEETH));
    let mut reads = from;
    while reads <= until {
        if !known.contains(&reads) && stands_out(bins, comb.tooth_us(reads), comb.read_us) {
            let from_us = comb.tooth_us(reads) - EARLY * comb.read_us;
            teeth.push(bins.partition_point(|bin| bin.mid_us() < from_us));
        }
        reads += 1.0;
    }
    teeth.push(0);
    teeth.sort_unstable();
    teeth.dedup();
    teeth
}

/// Whether there are more values at a tooth than in the stretch before it: in a falling tail there are more before it.
fn stands_out(bins: &[Bin], tooth_us: f64, read_us: f64) -> bool {
    let count = |low: f64, high: f64| -> u64 {
        bins.iter().filter(|bin| (low..high).contains(&bin.mid_us())).map(|bin| bin.count).sum()
    };
    let (early, late, flank) = (0.06, 0.12, 0.45);
    let at = count(tooth_us - early * read_us, tooth_us + late * read_us);
    let before = count(tooth_us - flank * read_us, tooth_us - early * read_us);
    let chance = (early + late) / (late + flank);
    at >= 3 && binomial_tail(at, at + before, chance) < 0.002
}

/// P(X >= `least`) for X binomial in `of` trials.
fn binomial_tail(least: u64, of: u64, chance: f64) -> f64 {
    let mut term = (1.0 - chance).powf(of as f64);
    if term <= 0.0 {
        // the first term is too small for f64; for such numbers the normal approximation is good
        let (mean, deviation) = (of as f64 * chance, (of as f64 * chance * (1.0 - chance)).sqrt());
        return if least as f64 > mean + 4.0 * deviation { 0.0 } else { 1.0 };
    }
    let mut below = 0.0;
    for hits in 0..least {
        below += term;
        term *= (of - hits) as f64 / (hits + 1) as f64 * chance / (1.0 - chance);
    }
    (1.0 - below).max(0.0)
}

/// Humps with the same number of reads become one mode; a hump that is wider than the distance of the teeth gets its mean number of reads.
fn merged(bins: &[Bin], starts: &[usize], comb: Comb) -> Vec<Mode> {
    let mut kept: Vec<(usize, f64)> = Vec::new();
    let humps = peaked(bins, starts);
    for (start, hump) in starts.iter().zip(&humps) {
        let wide = spread(bins, hump, 0.1, 0.75) > WIDE * comb.read_us;
        let reads = if wide { mean_reads(bins, hump, comb) } else { comb.reads_at(hump.center_us) };
        let same = kept.last().is_some_and(|(_, before)| reads <= *before);
        if !same {
            kept.push((*start, reads));
        }
    }
    let ends = kept.iter().skip(1).map(|(start, _)| *start).chain([bins.len()]);
    let total: u64 = bins.iter().map(|bin| bin.count).sum();
    kept.iter()
        .zip(ends)
        .map(|((start, reads), end)| Mode { reads: Some(*reads), ..mode(&bins[*start..end], total) })
        .collect()
}

/// The mean number of reads of a hump: each value belongs to its nearest tooth, in doubt to the lower one. The result is never whole, so that the
/// hump is not taken for one tooth.
fn mean_reads(bins: &[Bin], hump: &Mode, comb: Comb) -> f64 {
    let nearest = |bin: &Bin| comb.rounded(bin.mid_us(), NEAREST);
    let sum: f64 = bins_of_hump(bins, hump).iter().map(|bin| bin.count as f64 * nearest(bin)).sum();
    let mean = ((sum / hump.count as f64) * 1000.0).round() / 1000.0;
    if mean.fract() == 0.0 { mean + 0.001 } else { mean }
}

fn quantile_of(bins: &[Bin], hump: &Mode, quantile: f64) -> f64 {
    quantile_us(&bins_of_hump(bins, hump), quantile)
}

fn spread(bins: &[Bin], hump: &Mode, low: f64, high: f64) -> f64 {
    quantile_of(bins, hump, high) - quantile_of(bins, hump, low)
}
