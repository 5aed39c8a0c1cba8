// SPDX-License-Identifier: Apache-2.0
//! The latency histogram of an arm, as lines of blocks, with the modes beside them.

use super::wrapped::Part;
use crate::bins::LogBins;
use crate::width::WIDTH;
use crate::{ArmView, show};
use modes::Mode;
use std::fmt::Write as _;

/// When there would be more lines than this, the bins are made wider.
const LINES: usize = 22;
/// The longest bar, where there is room for it.
const BAR: usize = 44;
/// The longest bar in a narrow window: a shorter one shows no shape.
const SHORTEST_BAR: usize = 10;
/// The columns of a line without its bar and its note.
const BESIDE: usize = 23;
/// From fine to coarse; the last one always fits: an hour is ten decades.
const PER_DECADE: [u32; 8] = [24, 16, 12, 10, 8, 6, 4, 2];

/// Empty for an arm without a load.
pub(super) fn of(view: &ArmView<'_>, width: usize) -> String {
    let Some(histogram) = view.histogram() else { return String::new() };
    let bins = PER_DECADE.map(|per_decade| LogBins::of(histogram, per_decade));
    let Some(bins) = bins.iter().find(|bins| shown(bins).len() <= LINES).or(bins.last()) else { return String::new() };
    let mut part = format!(
        "{}: {} of {} transactions\n",
        view.arm.name,
        view.times_of_histogram(),
        show::count(histogram.count())
    );
    let bar_width = bar_width(view, bins, width);
    let tallest = bins.counts.iter().copied().fold(1.0, f64::max);
    let mut last: Option<usize> = None;
    for position in shown(bins) {
        if last.is_some_and(|last| position > last + 1) {
            part.push_str("          ┊\n");
        }
        last = Some(position);
        let (low, high) = (bins.low_us(position), bins.low_us(position + 1));
        let count = bins.counts[position];
        let bar = blocks(count / tallest * bar_width as f64);
        let note = notes(view, low, high);
        let shown_count = if count < 0.95 { "<1".to_owned() } else { show::number(count.round()) };
        let line = format!("{:>9} │{bar:<bar_width$} {shown_count:>9}  {note}", show::micros(low));
        let _ = writeln!(part, "{}", line.trim_end());
    }
    if let Some(reason) = view.reason() {
        let mut wrapped = Part::of(width);
        wrapped.wrap("          ", reason);
        part.push_str(&wrapped.into_text());
    }
    part
}

/// In a narrow window the bars give way to the notes beside them.
fn bar_width(view: &ArmView<'_>, bins: &LogBins, width: usize) -> usize {
    if width >= WIDTH {
        return BAR;
    }
    let note = |position| notes(view, bins.low_us(position), bins.low_us(position + 1)).chars().count();
    let longest = shown(bins).into_iter().map(note).max().unwrap_or(0);
    width.saturating_sub(BESIDE + longest).clamp(SHORTEST_BAR, BAR)
}

/// The bins that are not empty, and single empty bins between them.
fn shown(bins: &LogBins) -> Vec<usize> {
    let filled = |position: usize| bins.counts.get(position).is_some_and(|count| *count >= 0.05);
    (0..bins.counts.len())
        .filter(|position| filled(*position) || (*position > 0 && filled(position - 1) && filled(position + 1)))
        .collect()
}

/// The modes whose middle lies in this bin.
fn notes(view: &ArmView<'_>, low_us: f64, high_us: f64) -> String {
    let inside = |mode: &&Mode| (low_us..high_us).contains(&mode.center_us);
    let note = |mode: &Mode| {
        let name = mode.reads.map_or_else(|| "mode".to_owned(), show::reads);
        format!("◀ {name}: {} at {}", show::percent(mode.share), show::micros(mode.center_us))
    };
    view.modes().iter().filter(inside).map(note).collect::<Vec<_>>().join("  ")
}

fn blocks(length: f64) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    #[allow(clippy::cast_possible_truncation)] // from 0 to BAR
    let eighths = (length * 8.0).round().max(1.0) as usize;
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}
