// SPDX-License-Identifier: Apache-2.0
//! The histogram in the form that the finder needs: sorted, without empty bins, and with bins no finer than the clock that filled it.

use super::Bin;

/// Sorts the bins, drops empty ones, and joins bins that overlap.
pub(super) fn tidy(bins: &[Bin]) -> Vec<Bin> {
    let usable =
        |bin: &&Bin| bin.count > 0 && bin.low_us.is_finite() && bin.high_us.is_finite() && bin.high_us >= bin.low_us;
    let mut sorted: Vec<Bin> = bins.iter().filter(usable).copied().collect();
    sorted.sort_by(|a, b| a.low_us.total_cmp(&b.low_us).then(a.high_us.total_cmp(&b.high_us)));
    let mut tidy: Vec<Bin> = Vec::with_capacity(sorted.len());
    for bin in sorted {
        match tidy.last_mut() {
            Some(last) if bin.low_us < last.high_us || bin.low_us == last.low_us => {
                last.high_us = last.high_us.max(bin.high_us);
                last.count += bin.count;
            }
            _ => tidy.push(bin),
        }
    }
    widen_points(&mut tidy);
    tidy
}

/// A bin without width has no density: it is widened to half the distance to its neighbours, and at most to a thousandth of its value.
fn widen_points(bins: &mut [Bin]) {
    for index in 0..bins.len() {
        if bins[index].width_us() > 0.0 {
            continue;
        }
        let value = bins[index].low_us;
        let before = index.checked_sub(1).map_or(f64::INFINITY, |i| value - bins[i].high_us);
        let after = bins.get(index + 1).map_or(f64::INFINITY, |next| next.low_us - value);
        let half = (value.abs() * 0.0005).max(0.0005).min(before / 2.0).min(after / 2.0);
        bins[index].low_us = value - half;
        bins[index].high_us = value + half;
    }
}

/// Humps that are nearer to each other than this are one hump for a reader, and finer bins only show the steps of the clock.
const FINEST: f64 = 0.01;

/// Joins neighbours until no bin is finer than [`FINEST`] of its value. A smaller gap is no gap: the bin before it is extended over it.
pub(super) fn coarsened(bins: &[Bin]) -> Vec<Bin> {
    let mut coarse: Vec<Bin> = Vec::with_capacity(bins.len());
    for bin in bins {
        let Some(last) = coarse.last_mut() else {
            coarse.push(*bin);
            continue;
        };
        let finest = FINEST * bin.low_us;
        if bin.low_us - last.high_us < finest {
            last.high_us = last.high_us.max(bin.low_us);
        }
        if last.high_us >= bin.low_us && last.width_us() < finest {
            last.high_us = bin.high_us;
            last.count += bin.count;
        } else {
            coarse.push(*bin);
        }
    }
    coarse
}

/// Steps of a clock, or of a rounding, in microseconds.
const STEPS_US: [f64; 16] =
    [0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 250.0, 500.0, 1000.0, 4000.0];
/// Fewer different values may be on a grid by chance.
const FEWEST_STEPS: usize = 3;

/// When the values were rounded to a grid that is coarser than the bins, each grid point would look like a hump. Then this widens the bins to the
/// grid. Grids that are coarser than `below_us` are not looked for: the teeth of a delay are no grid.
pub(super) fn regrid(bins: Vec<Bin>, below_us: f64) -> Vec<Bin> {
    let found = STEPS_US.iter().rev().filter(|step| **step < below_us).find(|step| on_grid(&bins, **step));
    match found {
        Some(step) => tidy(&bins.iter().map(|bin| snapped(bin, *step)).collect::<Vec<_>>()),
        None => bins,
    }
}

/// Whether nearly all values are multiples of `step`, and this is not by chance.
fn on_grid(bins: &[Bin], step: f64) -> bool {
    let fine: Vec<&Bin> = bins.iter().filter(|bin| bin.width_us() * 1.5 <= step).collect();
    let total: u64 = bins.iter().map(|bin| bin.count).sum();
    let count: u64 = fine.iter().map(|bin| bin.count).sum();
    // values are on a grid by chance when it is hardly coarser than the bins
    let sharp = fine.iter().all(|bin| bin.width_us() * 10.0 <= step);
    if fine.len() < if sharp { 2 } else { FEWEST_STEPS } || count * 2 < total {
        return false;
    }
    let fits = |bin: &&&Bin| {
        let nearest = (bin.mid_us() / step).round() * step;
        (bin.mid_us() - nearest).abs() <= bin.width_us() * 0.51
    };
    let on: u64 = fine.iter().filter(fits).map(|bin| bin.count).sum();
    on * 50 >= count * 49 && in_a_row(&fine, step) * 3 >= count
}

/// The number of values whose neighbour is one step away.
fn in_a_row(fine: &[&Bin], step: f64) -> u64 {
    let one_step = |left: &Bin, right: &Bin| (0.5..1.5).contains(&((right.mid_us() - left.mid_us()) / step));
    let beside = |index: usize| {
        let before = index.checked_sub(1).is_some_and(|before| one_step(fine[before], fine[index]));
        before || fine.get(index + 1).is_some_and(|after| one_step(fine[index], after))
    };
    fine.iter().enumerate().filter(|(index, _)| beside(*index)).map(|(_, bin)| bin.count).sum()
}

fn snapped(bin: &Bin, step: f64) -> Bin {
    if bin.width_us() * 1.5 > step {
        return *bin;
    }
    let nearest = (bin.mid_us() / step).round() * step;
    Bin { low_us: nearest - step / 2.0, high_us: nearest + step / 2.0, count: bin.count }
}
