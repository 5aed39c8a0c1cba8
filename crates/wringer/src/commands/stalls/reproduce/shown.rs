// SPDX-License-Identifier: Apache-2.0
//! The four columns of a reproduction for people: the printed figures, the prediction for the article's server, the prediction for this server, and
//! the measurement.

use super::Row;
use super::article::Figures;
use super::predict::Prediction;
use super::views::View;
use crate::commands::chart::time;
use simulate::Range;
use std::fmt::Write as _;

const HEAD: [&str; 6] = ["", "first load", "later", "queries/s", "stalled", "wait_free"];

pub(super) fn table(rows: &[Row]) -> String {
    let mut lines: Vec<[String; 6]> = vec![HEAD.map(str::to_owned)];
    for row in rows {
        lines.push([row.arm.clone(), String::new(), String::new(), String::new(), String::new(), String::new()]);
        lines.extend(row.article.map(|figures| line("the article", figures)));
        let depth = |of: &Prediction| format!(", depth {}", of.scan_depth);
        let theirs = format!("predicted for its server{}", depth(&row.article_server));
        lines.push(line(&theirs, row.article_server.figures));
        lines.push(line(&format!("predicted for this one{}", depth(&row.here)), row.here.figures));
        lines.extend(row.here_by_legacy.as_ref().map(|again| line("with legacy's query time", again.figures)));
        lines.extend(row.measured.as_ref().map(|measured| line("measured here", measured.figures)));
    }
    aligned(&lines)
}

const VIEWS: [&str; 4] = ["", "clients", "slow log", "watch"];

/// Who saw the slow statements of each arm. Empty: no arm was watched.
pub(super) fn views(rows: &[Row]) -> String {
    let of = |row: &Row| {
        let views = row.measured.as_ref()?.views.clone()?;
        let log = views.log.map_or_else(|| "-".to_owned(), View::words);
        Some(([row.arm.clone(), views.clients.words(), log, views.watch.words()], views.least_us))
    };
    let seen: Vec<([String; 4], u64)> = rows.iter().filter_map(of).collect();
    let Some(least_us) = seen.iter().map(|(_, least_us)| *least_us).max() else { return String::new() };
    let lines: Vec<[String; 4]> =
        std::iter::once(VIEWS.map(str::to_owned)).chain(seen.into_iter().map(|(line, _)| line)).collect();
    format!("statements of {} and more, as three saw them\n{}", time(least_us as f64), aligned(&lines))
}

fn aligned<const N: usize>(lines: &[[String; N]]) -> String {
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut out = String::new();
    for cells in lines {
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
