// SPDX-License-Identifier: Apache-2.0
//! Columns as wide as their widest cell.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

#[derive(Debug)]
pub(super) struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new(heads: &[(&str, Align)]) -> Self {
        let names = heads.iter().map(|(name, _)| (*name).to_owned()).collect();
        Self { aligns: heads.iter().map(|(_, align)| *align).collect(), rows: vec![names] }
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Empty if there are no rows below the head.
    pub(super) fn text(&self) -> String {
        if self.rows.len() < 2 {
            return String::new();
        }
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| length(cell)).max();
        let widths: Vec<usize> = (0..self.aligns.len()).map(|column| width(column).unwrap_or(0)).collect();
        let line = |row: &Vec<String>| {
            let cells =
                row.iter().zip(&widths).zip(&self.aligns).map(|((cell, width), align)| padded(cell, *width, *align));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        self.rows.iter().map(line).collect()
    }
}

fn length(cell: &str) -> usize {
    cell.chars().count()
}

fn padded(cell: &str, width: usize, align: Align) -> String {
    let gap = " ".repeat(width.saturating_sub(length(cell)));
    match align {
        Align::Left => format!("{cell}{gap}"),
        Align::Right => format!("{gap}{cell}"),
    }
}
