// SPDX-License-Identifier: Apache-2.0
//! How many reads queries needed, when reads take unequal times: on a disk that others use, on a busy host.
//!
//! Humps then overlap, and no comb fits. But the slow layer has measured how long each read took. The time of a query with k reads is its own time
//! and k times the time of a read: its distribution is the distribution of a query without reads, convolved k times with that of a read. The
//! histogram is a mixture of these distributions, and expectation maximisation (Dempster, Laird and Rubin, 1977) finds the share of each.
//!
//! Three quantities are not known and are chosen by the likelihood: the time that the way to the layer and back adds to each read, how late the
//! waiting thread is woken, and how many reads have a longer disturbance. Queries without reads are those that took less than one delay; their tail
//! beyond one delay is extrapolated from the queries below.

use super::{Bin, Mode, Modes, ReadDelay, SLACK, quantile_us, time};

/// Each delay has this many cells. [`DELAYS`] delays are covered, and the last cell contains everything beyond.
const CELLS: usize = 32;
const DELAYS: usize = 24;
const LENGTH: usize = CELLS * DELAYS;
/// The largest number of reads that is distinguished.
const MOST_READS: usize = 14;
/// With fewer queries below one delay, the time of a query without reads is not known.
const FEWEST_QUERIES: f64 = 30.0;
const FEWEST_READS: u64 = 100;
/// The largest number of strays, as a share of the queries with reads.
const MOST_STRAYS: f64 = 0.1;
/// Expectation maximisation ends after this many rounds, or when no share changes by more than [`ENOUGH`].
const ROUNDS: u32 = 150;
const ENOUGH: f64 = 1e-6;
/// Humps are separate when the times of nine of ten reads differ by no more than this share of the delay, and at most the share [`FEW_LATE`] of the
/// queries is without reads and beyond one delay.
const EQUAL: f64 = 0.2;
const FEW_LATE: f64 = 0.005;
/// A smaller share is no mode.
const LEAST_SHARE: f64 = 0.001;

/// Further times of a read, in delays.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Beside {
    /// Added to each read, always the same.
    way: f64,
    /// Added to each read, exponentially distributed.
    late: f64,
    /// Also exponentially distributed, and added to the share `disturbed` of the reads.
    disturbance: f64,
    disturbed: f64,
}

const WAYS: [f64; 9] = [0.0, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.6];
const LATE: [f64; 6] = [0.0, 0.03, 0.06, 0.12, 0.25, 0.5];
const DISTURBANCES: [f64; 5] = [0.3, 0.6, 1.0, 2.0, 4.0];
const DISTURBED: [f64; 6] = [0.0, 0.05, 0.1, 0.2, 0.3, 0.5];

impl Beside {
    const FIRST: Self = Self { way: 0.04, late: 0.06, disturbance: 1.0, disturbed: 0.1 };

    // each function returns variants in which one field is changed

    fn ways(self) -> Vec<Self> {
        WAYS.iter().map(|way| Self { way: *way, ..self }).collect()
    }

    fn late(self) -> Vec<Self> {
        LATE.iter().map(|late| Self { late: *late, ..self }).collect()
    }

    fn disturbances(self) -> Vec<Self> {
        DISTURBANCES.iter().map(|disturbance| Self { disturbance: *disturbance, ..self }).collect()
    }

    fn disturbed(self) -> Vec<Self> {
        DISTURBED.iter().map(|disturbed| Self { disturbed: *disturbed, ..self }).collect()
    }
}

/// Counts or probabilities, by cell.
type Cells = Vec<f64>;

#[derive(Debug)]
struct Known<'a> {
    queries: Cells,
    without_reads: Cells,
    times: &'a [Bin],
    delay_us: f64,
}

/// The result of one choice of [`Beside`].
#[derive(Debug)]
struct Mixture {
    log_likelihood: f64,
    /// By the number of reads: the share of the queries, and (below) the distribution of their times.
    shares: Vec<f64>,
    times: Vec<Cells>,
}

/// The modes by the mixture. `None`: the humps are separate, or too little is known. `times`: how long the reads took.
pub(super) fn read(bins: &[Bin], delay: ReadDelay, times: &[Bin]) -> Option<Modes> {
    if times.iter().map(|bin| bin.count).sum::<u64>() < FEWEST_READS {
        return None;
    }
    let queries = cells(bins, delay.us, 0.0);
    let (without_reads, late) = without_reads(&queries)?;
    let (short_us, long_us) = (quantile_us(times, 0.05), quantile_us(times, 0.95));
    if long_us - short_us <= EQUAL * delay.us && late <= FEW_LATE {
        return None;
    }
    let mut mixture = likeliest(&Known { queries, without_reads, times, delay_us: delay.us });
    fold_strays(&mut mixture.shares);
    let reads = mixture.shares.iter().enumerate().map(|(reads, share)| reads as f64 * share).sum();
    let count = bins.iter().map(|bin| bin.count).sum();
    let reason = format!(
        "reads took {} to {} (nine of ten of them), so the humps run into each other; the shares are the likeliest with reads of such times",
        time(short_us),
        time(long_us)
    );
    let read_us = Some(quantile_us(times, 0.5));
    Some(Modes {
        modes: modes(bins, &mixture, delay, count),
        count,
        read_us,
        reads_per_query: Some(reads),
        reason: Some(reason),
    })
}

/// The values of each bin, spread evenly over it. `later_us` is added to each value.
fn cells(bins: &[Bin], delay_us: f64, later_us: f64) -> Cells {
    let mut cells = vec![0.0; LENGTH];
    let place = |us: f64| (us + later_us) / delay_us * CELLS as f64;
    for bin in bins {
        let (low, high) = (place(bin.low_us), place(bin.high_us));
        let (first, last) = (cell(low), cell(high));
        for (index, cell) in cells.iter_mut().enumerate().take(last + 1).skip(first) {
            let from = low.max(index as f64);
            let to = if index + 1 == LENGTH { high } else { high.min(index as f64 + 1.0) };
            let share = if first == last { 1.0 } else { (to - from).max(0.0) / (high - low) };
            *cell += bin.count as f64 * share;
        }
    }
    cells
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and LENGTH
fn cell(place: f64) -> usize {
    (place.max(0.0) as usize).min(LENGTH - 1)
}

/// The times of queries without reads: those below one delay, and a tail beyond it that falls as a power of the time, with the power that is seen
/// from a quarter of the delay on. Also returns the expected share of this tail in all queries.
fn without_reads(queries: &[f64]) -> Option<(Cells, f64)> {
    let end = cell((1.0 - SLACK) * CELLS as f64);
    let sum = |from: usize, to: usize| queries[from..to].iter().sum::<f64>();
    if sum(0, end) < FEWEST_QUERIES {
        return None;
    }
    let mut none = queries.to_vec();
    none[end..].fill(0.0);
    // with a power law, each doubling of the time leaves the same share
    let (nearer, farther) = (sum(end / 4, end / 2), sum(end / 2, end));
    let mut late = 0.0;
    if nearer > farther && farther > 0.0 {
        late = (farther * farther / (nearer - farther)).min(farther);
        let power = ((nearer + farther + late) / (farther + late)).log2();
        let beyond = |cell: usize| late * (end as f64 / cell as f64).powf(power);
        for (index, value) in none.iter_mut().enumerate().skip(end) {
            *value = beyond(index) - if index + 1 == LENGTH { 0.0 } else { beyond(index + 1) };
        }
    }
    Some((normal(none), late / sum(0, LENGTH)))
}

fn normal(mut cells: Cells) -> Cells {
    let sum: f64 = cells.iter().sum();
    cells.iter_mut().for_each(|value| *value /= sum);
    cells
}

/// Changes one field of [`Beside`] at a time, until no change makes it likelier.
fn likeliest(known: &Known<'_>) -> Mixture {
    let mut chosen = Beside::FIRST;
    let mut best = mixture(known, chosen);
    loop {
        let before = best.log_likelihood;
        let coordinates: [fn(Beside) -> Vec<Beside>; 4] =
            [Beside::ways, Beside::late, Beside::disturbances, Beside::disturbed];
        for varied in coordinates {
            for other in varied(chosen) {
                if other == chosen {
                    continue;
                }
                let tried = mixture(known, other);
                if tried.log_likelihood > best.log_likelihood {
                    (best, chosen) = (tried, other);
                }
            }
        }
        if best.log_likelihood <= before {
            return best;
        }
    }
}

fn mixture(known: &Known<'_>, beside: Beside) -> Mixture {
    let one_read = one_read(known, beside);
    let mut times = vec![known.without_reads.clone()];
    while times.len() <= MOST_READS {
        let next = convolved(&times[times.len() - 1], &one_read);
        if next[LENGTH - 1] > 0.99 {
            break;
        }
        times.push(next);
    }
    let (shares, log_likelihood) = shares(&known.queries, &times);
    Mixture { log_likelihood, shares, times }
}

/// A few queries beyond a number of reads that no query needed are disturbed ones: they needed as many reads as the other queries with reads.
fn fold_strays(shares: &mut [f64]) {
    let Some(gap) = (1..shares.len()).find(|reads| shares[*reads] < LEAST_SHARE) else { return };
    let (reading, strays) = (shares[1..gap].iter().sum::<f64>(), shares[gap..].iter().sum::<f64>());
    if strays < MOST_STRAYS * reading {
        shares[1..gap].iter_mut().for_each(|share| *share *= (reading + strays) / reading);
        shares[gap..].fill(0.0);
    }
}

/// The distribution of the time that one read adds to a query.
fn one_read(known: &Known<'_>, beside: Beside) -> Cells {
    let read = normal(cells(known.times, known.delay_us, beside.way * known.delay_us));
    let read = delayed(&read, beside.late);
    let disturbed = delayed(&read, beside.disturbance);
    let both = read.iter().zip(&disturbed);
    both.map(|(calm, disturbed)| calm * (1.0 - beside.disturbed) + disturbed * beside.disturbed).collect()
}

/// The distribution after an exponentially distributed delay with this mean.
fn delayed(cells: &[f64], mean_delays: f64) -> Cells {
    if mean_delays == 0.0 {
        return cells.to_vec();
    }
    let stays = (-1.0 / (mean_delays * CELLS as f64)).exp();
    let (mut waiting, mut delayed) = (0.0, Vec::with_capacity(LENGTH));
    for value in cells {
        waiting += value;
        delayed.push(waiting * (1.0 - stays));
        waiting *= stays;
    }
    delayed[LENGTH - 1] += waiting;
    delayed
}

/// The convolution of two distributions. Values beyond the last cell are counted in it.
fn convolved(one: &[f64], other: &[f64]) -> Cells {
    let mut sums = vec![0.0; LENGTH];
    for (index, share) in one.iter().enumerate().filter(|(_, share)| **share > 0.0) {
        for (sum, value) in sums[index..].iter_mut().zip(other) {
            *sum += share * value;
        }
    }
    let inside: f64 = sums.iter().sum();
    sums[LENGTH - 1] += (1.0 - inside).max(0.0);
    sums
}

/// The shares by expectation maximisation, and the logarithm of the likelihood.
fn shares(queries: &[f64], times: &[Cells]) -> (Vec<f64>, f64) {
    // so that no value is impossible
    const LEAST: f64 = 1e-9;
    let total: f64 = queries.iter().sum();
    let mut shares = vec![1.0 / times.len() as f64; times.len()];
    let density = |shares: &[f64]| -> Cells {
        let mut density = vec![LEAST; LENGTH];
        for (share, times) in shares.iter().zip(times) {
            density.iter_mut().zip(times).for_each(|(sum, value)| *sum += share * value);
        }
        density
    };
    for _ in 0..ROUNDS {
        let weights: Cells = queries.iter().zip(density(&shares)).map(|(count, density)| count / density).collect();
        let of = |(share, times): (&f64, &Cells)| {
            share * times.iter().zip(&weights).map(|(value, weight)| (value + LEAST) * weight).sum::<f64>() / total
        };
        let next: Vec<f64> = shares.iter().zip(times).map(of).collect();
        let moved = next.iter().zip(&shares).map(|(next, share)| (next - share).abs()).fold(0.0, f64::max);
        shares = next;
        if moved < ENOUGH {
            break;
        }
    }
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= sum);
    let log_likelihood = queries.iter().zip(density(&shares)).map(|(count, density)| count * density.ln()).sum();
    (shares, log_likelihood)
}

/// A mode for each number of reads that enough queries needed. Between its bounds it is the most frequent one.
fn modes(bins: &[Bin], mixture: &Mixture, delay: ReadDelay, count: u64) -> Vec<Mode> {
    let us = |cell: usize| cell as f64 * delay.us / CELLS as f64;
    let likely: Vec<usize> = (0..mixture.shares.len()).filter(|reads| mixture.shares[*reads] >= LEAST_SHARE).collect();
    let at = |reads: usize, cell: usize| mixture.shares[reads] * mixture.times[reads][cell];
    let mut bounds: Vec<usize> = vec![0];
    for pair in likely.windows(2) {
        let from = bounds[bounds.len() - 1];
        let next = (from..LENGTH - 1).find(|cell| at(pair[1], *cell) > at(pair[0], *cell));
        bounds.push(next.unwrap_or(LENGTH - 1));
    }
    bounds.push(LENGTH);
    let (first_us, last_us) = (bins[0].low_us, bins[bins.len() - 1].high_us);
    let one = |(place, reads): (usize, &usize)| {
        let share = mixture.shares[*reads];
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a part of the count
        let count = (share * count as f64).round() as u64;
        let is_last = place + 1 == likely.len();
        Mode {
            center_us: us(median(&mixture.times[*reads])) + us(1) / 2.0,
            low_us: if place == 0 { first_us } else { us(bounds[place]) },
            high_us: if is_last { last_us } else { us(bounds[place + 1]) },
            count,
            share,
            reads: Some(*reads as f64),
        }
    };
    likely.iter().enumerate().map(one).collect()
}

fn median(cells: &[f64]) -> usize {
    let mut passed = 0.0;
    let middle = cells.iter().position(|value| {
        passed += value;
        passed >= 0.5
    });
    middle.unwrap_or(LENGTH - 1)
}
