// SPDX-License-Identifier: Apache-2.0
//! How many humps a histogram has, and where one ends and the next begins. This module knows no delays.
//!
//! The counts always go down and up again; the question is whether the density from which the values were drawn does so, too. For every stretch of
//! the histogram a local test asks whether the density falls, or rises, somewhere in it: with a constant density the values are spread evenly over
//! the stretch, so their mean shows a fall or a rise. Short stretches must pass a higher bar, because there are more of them. A fall that is followed
//! by a rise is a valley between two humps. This is the multiscale test of Dümbgen and Walther, "Multiscale inference about a density", Annals of
//! Statistics 36 (2008); it needs no bandwidth and assumes nothing about the shape of a hump.
//!
//! The density is per time, not per logarithm of time: evenly spread outliers are flat in it.

use super::Bin;

/// Added to the bar of each stretch. Calibrated by simulation: one-hump samples of 30 to 1,000,000 values show a second
/// hump in well under 2 % of the cases (see the statistical tests).
const KAPPA: f64 = 1.6;
/// A valley that is less deep than this, relative to the lower of its humps, may be real, but does not matter to a reader.
const DEEPEST_VALLEY: f64 = 0.5;
/// A hump smaller than this is part of its neighbour's tail.
const LEAST_SHARE: f64 = 0.005;
const LEAST_COUNT: f64 = 6.0;
/// The number of parts, of equal counts, into which the histogram is cut for the tests.
const SEGMENTS: f64 = 360.0;

/// A stretch of the histogram with its count; empty stretches between bins are segments too.
#[derive(Debug, Clone, Copy)]
struct Segment {
    low_us: f64,
    high_us: f64,
    count: f64,
    /// Sum of count times position.
    moment: f64,
    /// The index after the last bin that belongs to this segment or to one before it.
    bins_end: usize,
}

impl Segment {
    fn width(&self) -> f64 {
        self.high_us - self.low_us
    }
}

/// Cuts the bins into humps: the index of the first bin of each, ascending, beginning with 0. Empty for no bins.
pub(super) fn starts(bins: &[Bin]) -> Vec<usize> {
    if bins.is_empty() {
        return Vec::new();
    }
    let segments = segments(bins);
    let valleys = shallow_removed(&segments, valleys(&segments));
    let mut starts = vec![0];
    starts.extend(valleys.iter().map(|valley| valley.first_bin_after).filter(|bin| (1..bins.len()).contains(bin)));
    starts.dedup();
    starts
}

fn segments(bins: &[Bin]) -> Vec<Segment> {
    let total: f64 = bins.iter().map(|bin| bin.count as f64).sum();
    let full = total / SEGMENTS;
    let mut segments: Vec<Segment> = Vec::new();
    let mut open: Option<Segment> = None;
    for (index, bin) in bins.iter().enumerate() {
        if let Some(last) = open
            && (last.count >= full || !belong_together(&last, bin))
        {
            segments.push(last);
            push_gap(&mut segments, bin.low_us);
            open = None;
        }
        let count = bin.count as f64;
        let segment = open.get_or_insert(Segment {
            low_us: bin.low_us,
            high_us: bin.high_us,
            count: 0.0,
            moment: 0.0,
            bins_end: 0,
        });
        segment.high_us = bin.high_us;
        segment.count += count;
        segment.moment += count * bin.mid_us();
        segment.bins_end = index + 1;
    }
    segments.extend(open);
    segments
}

/// Bins that are far apart, or have quite different densities, are not joined: a few stray values before a hump would blur its beginning.
fn belong_together(segment: &Segment, bin: &Bin) -> bool {
    let gap = bin.low_us - segment.high_us;
    let near = gap <= 4.0 * segment.width() || gap <= 0.01 * bin.low_us;
    let narrow = bin.high_us - segment.low_us <= 0.05 * bin.high_us;
    let (sparse, dense) = (segment.count / segment.width().max(1e-9), bin.count as f64 / bin.width_us().max(1e-9));
    let alike = bin.count < 8 && segment.count < 8.0 || (0.33..3.0).contains(&(dense / sparse));
    near && narrow && alike
}

fn push_gap(segments: &mut Vec<Segment>, until_us: f64) {
    if let Some(last) = segments.last().copied().filter(|last| until_us > last.high_us) {
        let bins_end = last.bins_end;
        segments.push(Segment { low_us: last.high_us, high_us: until_us, count: 0.0, moment: 0.0, bins_end });
    }
}

/// Prefix sums over the segments.
struct Sums {
    count: Vec<f64>,
    moment: Vec<f64>,
}

impl Sums {
    fn of(segments: &[Segment]) -> Self {
        let (mut count, mut moment) = (vec![0.0], vec![0.0]);
        let (mut counted, mut moved) = (0.0, 0.0);
        for segment in segments {
            counted += segment.count;
            moved += segment.moment;
            count.push(counted);
            moment.push(moved);
        }
        Self { count, moment }
    }

    fn total(&self) -> f64 {
        self.count[self.count.len() - 1]
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Direction {
    Falls,
    Rises,
}

/// Whether the density falls (or rises) somewhere in the segments `first..=last`, with confidence.
///
/// The stretch was chosen to begin (or end) at a value. So that one value is no evidence, and is left out.
fn shows(direction: Direction, segments: &[Segment], sums: &Sums, first: usize, last: usize) -> bool {
    let count = sums.count[last + 1] - sums.count[first] - 1.0;
    if count < 4.0 {
        return false;
    }
    let (low, high) = (segments[first].low_us, segments[last].high_us);
    let moment = sums.moment[last + 1] - sums.moment[first];
    let left_out = match direction {
        Direction::Falls => low,
        Direction::Rises => high,
    };
    let mean = (moment - left_out - low * count) / (high - low);
    let slope = (3.0 / count).sqrt() * (2.0 * mean - count);
    let bar = (2.0 * (std::f64::consts::E * sums.total() / count).ln()).sqrt() + KAPPA;
    match direction {
        Direction::Falls => -slope > bar,
        Direction::Rises => slope > bar,
    }
}

/// The shortest stretch from segment `from` on that shows `direction`: the pair with the smallest last segment.
fn next(direction: Direction, segments: &[Segment], sums: &Sums, from: usize) -> Option<(usize, usize)> {
    for last in from..segments.len() {
        if direction == Direction::Rises && segments[last].count == 0.0 {
            continue;
        }
        let fits = |first: &usize| {
            (direction == Direction::Rises || segments[*first].count > 0.0)
                && shows(direction, segments, sums, *first, last)
        };
        if let Some(first) = (from..=last).rev().find(fits) {
            return Some((first, last));
        }
    }
    None
}

/// A valley between two humps.
#[derive(Debug, Clone, Copy)]
struct Valley {
    first_bin_after: usize,
    /// The segment that contains the cut.
    segment: usize,
    density: f64,
}

/// Every fall that is followed by a rise.
fn valleys(segments: &[Segment]) -> Vec<Valley> {
    let sums = Sums::of(segments);
    let mut found: Vec<Valley> = Vec::new();
    let mut from = 0;
    while let Some((falls, fallen)) = next(Direction::Falls, segments, &sums, from) {
        // the rise may begin in an empty stretch at the end of the fall
        let after = if segments[fallen].count == 0.0 { fallen } else { fallen + 1 };
        let Some((_, risen)) = next(Direction::Rises, segments, &sums, after) else { break };
        // the search begins at the densest segment, not at the hump's beginning: a hump before it that is too small to be shown may be denser
        let peak = densest(segments, falls, fallen);
        found.push(lowest_between(segments, peak, risen));
        from = risen;
    }
    found
}

/// The densest segment of `first..=last`.
fn densest(segments: &[Segment], first: usize, last: usize) -> usize {
    let density = |index: &usize| segments[*index].count / segments[*index].width().max(1e-9);
    (first..=last).max_by(|a, b| density(a).total_cmp(&density(b))).unwrap_or(first)
}

/// A run of segments at one level of a monotone density.
#[derive(Debug, Clone, Copy)]
struct Level {
    count: f64,
    width: f64,
    first: usize,
}

impl Level {
    fn density(&self) -> f64 {
        self.count / self.width.max(1e-9)
    }

    fn log_likelihood(&self) -> f64 {
        if self.count == 0.0 { 0.0 } else { self.count * self.density().ln() }
    }
}

/// Pool adjacent violators, for a density that falls along `order`. Returns, after each segment, the log likelihood of the best fit so far, and the
/// level at its end.
fn falling(segments: &[Segment], order: impl Iterator<Item = usize>) -> Vec<(f64, Level)> {
    let mut levels: Vec<(Level, f64)> = Vec::new(); // each with the log likelihood of everything before it
    let mut fits = Vec::new();
    for index in order {
        let mut level = Level { count: segments[index].count, width: segments[index].width(), first: index };
        let mut before = levels.last().map_or(0.0, |(last, before)| before + last.log_likelihood());
        while let Some((last, earlier)) = levels.last().copied().filter(|(last, _)| last.density() <= level.density()) {
            level = Level { count: level.count + last.count, width: level.width + last.width, first: last.first };
            before = earlier;
            levels.pop();
        }
        levels.push((level, before));
        fits.push((before + level.log_likelihood(), level));
    }
    fits
}

/// The place of the lowest density between two peaks: the middle of the lowest level of the best fit that falls and then rises.
fn lowest_between(segments: &[Segment], left: usize, right: usize) -> Valley {
    let down = falling(segments, left..=right);
    let up = falling(segments, (left..=right).rev());
    let length = right - left + 1;
    // the fall has the first `cut` segments, the rise has the others
    let likelihood = |cut: &usize| down[cut - 1].0 + up[length - cut - 1].0;
    let cut = (1..length).max_by(|a, b| likelihood(a).total_cmp(&likelihood(b))).unwrap_or(1);
    let (fall, rise) = (down[cut - 1].1, up[length - cut - 1].1);
    let (first, last, density) = if fall.density() <= rise.density() {
        (fall.first, left + cut - 1, fall.density())
    } else {
        (left + cut, rise.first, rise.density())
    };
    let middle = (segments[first].low_us + segments[last].high_us) / 2.0;
    let segment = (first..=last).find(|index| segments[*index].high_us >= middle).unwrap_or(last);
    Valley { first_bin_after: segments[segment].bins_end, segment, density }
}

/// Removes, one by one, valleys that are too shallow, or that separate too few values.
fn shallow_removed(segments: &[Segment], mut valleys: Vec<Valley>) -> Vec<Valley> {
    let total: f64 = segments.iter().map(|segment| segment.count).sum();
    loop {
        let humps = humps(segments, &valleys);
        let least = (LEAST_SHARE * total).max(LEAST_COUNT);
        let small = humps.iter().position(|hump| hump.count < least);
        let worst = match small {
            Some(hump) => shallower_side(&valleys, hump),
            None => (0..valleys.len()).find(|index| {
                let lower = humps[*index].density.min(humps[index + 1].density);
                valleys[*index].density > DEEPEST_VALLEY * lower
            }),
        };
        match worst {
            Some(index) => drop(valleys.remove(index)),
            None => return valleys,
        }
    }
}

/// The valley with the higher density of those on both sides of a hump.
fn shallower_side(valleys: &[Valley], hump: usize) -> Option<usize> {
    let sides = [hump.checked_sub(1), Some(hump).filter(|index| *index < valleys.len())];
    sides.into_iter().flatten().max_by(|a, b| valleys[*a].density.total_cmp(&valleys[*b].density))
}

#[derive(Debug, Clone, Copy)]
struct Hump {
    count: f64,
    /// The density of the densest stretch that contains a tenth of the hump.
    density: f64,
}

fn humps(segments: &[Segment], valleys: &[Valley]) -> Vec<Hump> {
    let mut from = 0;
    let ends = valleys.iter().map(|valley| valley.segment).chain([segments.len() - 1]);
    ends.map(|end| {
        let own = &segments[from.min(end)..=end];
        from = end + 1;
        let count: f64 = own.iter().map(|segment| segment.count).sum();
        Hump { count, density: peak_density(own, (count / 10.0).max(4.0)) }
    })
    .collect()
}

/// The highest density of any run of segments that holds at least `least` values.
fn peak_density(own: &[Segment], least: f64) -> f64 {
    let mut best: f64 = 0.0;
    let (mut first, mut count) = (0, 0.0);
    for last in 0..own.len() {
        count += own[last].count;
        while count - own[first].count >= least {
            count -= own[first].count;
            first += 1;
        }
        if count >= least {
            best = best.max(count / (own[last].high_us - own[first].low_us).max(1e-9));
        }
    }
    best
}
