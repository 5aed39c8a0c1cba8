// SPDX-License-Identifier: Apache-2.0
//! Draws a latency histogram on the terminal, with the hump of each bar.

use modes::{Bin, Mode};
use std::fmt::Write as _;

/// Rows of the chart, at most.
const ROWS: usize = 44;
const BAR: usize = 60;
/// Heights of a row, as parts of a doubling; the first that fits is used.
const STEPS: [f64; 6] = [16.0, 8.0, 6.0, 4.0, 3.0, 2.0];

/// One row for each step on a logarithmic scale; runs of empty rows are left out. Each bar is marked with its hump.
pub fn chart(bins: &[Bin], modes: &[Mode]) -> String {
    let step = STEPS.into_iter().find(|step| rows(bins, modes, *step).len() <= ROWS).unwrap_or(1.0);
    let rows = rows(bins, modes, step);
    let most = rows.iter().map(|row| row.count).max().unwrap_or(1).max(1);
    let mut out = String::new();
    let mut before: Option<i64> = None;
    for Row { index, count, hump } in rows {
        if before.is_some_and(|before| index > before + 1) {
            let _ = writeln!(out, "           :");
        }
        before = Some(index);
        let low_us = (index as f64 / step).exp2();
        #[allow(clippy::cast_possible_truncation)] // at most `BAR`
        let length = ((count as f64 / most as f64) * BAR as f64).round() as usize;
        let bar = if length == 0 { ".".to_owned() } else { mark(hump).to_string().repeat(length) };
        let _ = writeln!(out, "{:>10} |{bar} {count}", time(low_us));
    }
    out
}

struct Row {
    /// The row's position on the logarithmic scale.
    index: i64,
    count: u64,
    /// The hump of the row's last values.
    hump: usize,
}

/// The rows that are not empty, ascending.
fn rows(bins: &[Bin], modes: &[Mode], step: f64) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for bin in bins.iter().filter(|bin| bin.count > 0) {
        #[allow(clippy::cast_possible_truncation)] // the logarithm of a time
        let index = (bin.mid_us().max(0.001).log2() * step).floor() as i64;
        let hump = modes.iter().rposition(|mode| mode.low_us <= bin.mid_us()).unwrap_or(0);
        match rows.last_mut().filter(|row| row.index == index) {
            Some(row) => *row = Row { index, count: row.count + bin.count, hump },
            None => rows.push(Row { index, count: bin.count, hump }),
        }
    }
    rows
}

/// Each hump has its own letter for its bars.
pub fn mark(index: usize) -> char {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char::from(letters[index % letters.len()])
}

pub fn time(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{:.2} s", us / 1e6),
        us if us >= 10_000.0 => format!("{:.1} ms", us / 1e3),
        us if us >= 1000.0 => format!("{:.2} ms", us / 1e3),
        us if us >= 10.0 => format!("{us:.0} us"),
        us if us >= 1.0 => format!("{us:.1} us"),
        us => format!("{:.0} ns", us * 1e3),
    }
}
