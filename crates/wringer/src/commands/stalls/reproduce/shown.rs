// SPDX-License-Identifier: Apache-2.0
//! The four columns of a reproduction for people: the printed figures, the prediction for the article's server, the prediction for this server, and
//! the measurement.

use super::Row;
use super::article::Figures;
use crate::commands::chart::time;
use simulate::Range;
use std::fmt::Write as _;

const HEAD: [&str; 6] = ["", "first load", "later", "queries/s", "stalled", "wait_free"];

pub(super) fn table(rows: &[Row]) -> String {
    let mut lines: Vec<[String; 6]> = vec![HEAD.map(str::to_owned)];
    for row in rows {
        lines.push([row.arm.clone(), String::new(), String::new(), String::new(), String::new(), String::new()]);
        lines.extend(row.article.map(|figures| line("the article", figures)));
        lines.push(line("predicted for its server", row.article_server.figures));
        lines.push(line("predicted for this one", row.here.figures));
        lines.extend(row.here_by_legacy.as_ref().map(|again| line("with legacy's query time", again.figures)));
        lines.extend(row.measured.as_ref().map(|measured| line("measured here", measured.figures)));
    }
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut out = String::new();
    for cells in &lines {
        let cells = cells.iter().zip(&widths).enumerate().map(|(index, (cell, width))| match index {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    out
}

fn line(who: &str, figures: Figures) -> [String; 6] {
    let number = |range: Range| between(range, |value| format!("{value:.0}"));
    [
        format!("  {who}"),
        cell(figures.first_max_us, |range| between(range, time)),
        cell(figures.later_max_us, |range| between(range, time)),
        cell(figures.queries_per_second, number),
        cell(figures.stalled, number),
        cell(figures.wait_free, number),
    ]
}

fn cell(range: Option<Range>, words: impl Fn(Range) -> String) -> String {
    range.map_or_else(|| "-".to_owned(), words)
}

pub(super) fn between(range: Range, words: impl Fn(f64) -> String) -> String {
    let (low, high) = (words(range.low), words(range.high));
    if low == high { low } else { format!("{low} to {high}") }
}
