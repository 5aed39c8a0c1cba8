// SPDX-License-Identifier: Apache-2.0
//! The graph of the heap over time, and the list of snapshots below it.

use super::{Options, Outline, number};
use crate::damage::Error;
use crate::massif::TimeUnit;
use std::io::Write;

const PEAK: u8 = b'#';
const DETAILED: u8 = b'@';
const NORMAL: u8 = b':';

pub(super) fn write(outline: &Outline, options: &Options, output: &mut impl Write) -> Result<(), Error> {
    let largest = outline.snapshots.iter().filter_map(|it| it.total_bytes()).max().unwrap_or(0).max(1);
    let end = outline.snapshots.last().map_or(0, |it| it.time).max(1);
    let (y_end, y_unit) = number::axis_end(largest, TimeUnit::Bytes);
    let (x_end, x_unit) = number::axis_end(end, outline.header.time_unit);
    let area = area(outline, options, largest, end);
    writeln!(output, "    {y_unit:>2}")?;
    for (nth, row) in area.iter().enumerate().rev() {
        let is_top = nth + 1 == options.rows;
        output.write_all(if is_top { y_end.as_bytes() } else { b"     " })?;
        output.write_all(if is_top { b"^" } else { b"|" })?;
        output.write_all(row)?;
        output.write_all(b"\n")?;
    }
    writeln!(output, "   0 +{}>{x_unit}", "-".repeat(options.columns - 1))?;
    writeln!(output, "     0{}{x_end:>5}", " ".repeat(options.columns.saturating_sub(5)))?;
    write_list(outline, output)
}

/// Row by row from below: a bar for each snapshot in the column of its time.
fn area(outline: &Outline, options: &Options, largest: u64, end: u64) -> Vec<Vec<u8>> {
    let mut area = vec![vec![b' '; options.columns]; options.rows];
    let each_row = largest as f64 / options.rows as f64;
    let (mut column, mut height, mut mark) = (0, 0, NORMAL);
    for (place, snapshot) in outline.snapshots.iter().enumerate() {
        let before = column;
        // columns count from 1
        column = match snapshot.time {
            time if time == end => options.columns,
            time => whole(time as f64 / end as f64 * options.columns as f64) + 1,
        };
        // a column without a snapshot has the height of the column before
        if height > 0 {
            let row = area.get_mut(height - 1).into_iter().flatten().enumerate();
            row.filter(|(at, _)| (before + 1..column).contains(&(at + 1))).for_each(|(_, cell)| *cell = mark);
        }
        mark = match snapshot.kind {
            _ if outline.is_peak(place) => PEAK,
            crate::massif::Kind::Normal => NORMAL,
            _ => DETAILED,
        };
        let total = snapshot.total_bytes().unwrap_or(u64::MAX) as f64;
        height = (1..=options.rows).take_while(|row| total >= *row as f64 * each_row).last().unwrap_or(0);
        let cells = area.iter_mut().take(height).filter_map(|row| row.get_mut(column - 1));
        cells.filter(|cell| rank(mark) >= rank(**cell)).for_each(|cell| *cell = mark);
    }
    area
}

/// The number without the digits after the decimal point.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn whole(number: f64) -> usize {
    number as usize
}

/// Which mark stays where several bars fall into one column.
fn rank(mark: u8) -> u8 {
    match mark {
        PEAK => 2,
        DETAILED => 1,
        _ => 0,
    }
}

fn write_list(outline: &Outline, output: &mut impl Write) -> Result<(), Error> {
    let detailed = outline.snapshots.iter().enumerate().filter(|(_, snapshot)| snapshot.has_tree());
    let words = detailed.map(|(place, _)| format!("{place}{}", if outline.is_peak(place) { " (peak)" } else { "" }));
    let words: Vec<String> = words.collect();
    writeln!(output, "\nNumber of snapshots: {}", outline.snapshots.len())?;
    writeln!(output, " Detailed snapshots: [{}]\n", words.join(", "))?;
    Ok(())
}
