// SPDX-License-Identifier: Apache-2.0
//! The result of a fill: asked, predicted, and read back from the server.

use super::{FillPlan, FillSpec, Predicted, ServerFacts, Shape, Size, TableGot};
use crate::Protocol;
use evidence::{Measured, Quantity};
use serde::{Deserialize, Serialize};
use std::fmt;
use units::Bytes;

/// Asked, predicted and got, side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FillReport {
    pub asked: FillSpec,
    pub server_version: String,
    pub page_bytes: u64,
    /// Bytes of the server's page cache when the fill was planned.
    pub pool_bytes: u64,
    pub rows_per_table: u64,
    pub predicted: Predicted,
    pub got: Got,
    /// The tolerance in pages: each run of keys may leave some pages with fewer rows than the others, or with none.
    #[serde(default)]
    pub loose_pages: u64,
    /// Rows that a resumed fill found and kept.
    #[serde(default)]
    pub rows_kept: u64,
    /// In order of the tables' numbers.
    pub tables: Vec<TableGot>,
    /// Steps after the rows that the account was not allowed to do. Empty when pages are written and statistics are fresh.
    pub unsettled: Vec<String>,
    /// From the first table to the server's last answer.
    pub seconds: f64,
    /// Time for the rows only.
    pub rows_seconds: f64,
}

/// All tables together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Got {
    /// Counted, and compared with the written rows by sum, least and greatest key.
    pub rows: u64,
    pub row_pages: u64,
    /// Rows for each page that holds rows.
    pub rows_per_page: f64,
    /// Pages in use by rows and indexes.
    pub used_bytes: u64,
    /// The files' size, pages that are reserved and still free included.
    pub bytes_on_disk: u64,
}

/// Each run of keys may begin and end with a page that is not full.
const LOOSE_PAGES_PER_LANE: u64 = 2;
/// Since 16 PostgreSQL extends a table by up to this many pages at once (`MAX_BUFFERS_TO_EXTEND_BY`); the last ones may stay empty.
const PAGES_MADE_AHEAD: u64 = 64;
const TOLERANCE: f64 = 0.02;

impl FillReport {
    pub(super) fn new(
        plan: &FillPlan,
        tables: Vec<TableGot>,
        unsettled: Vec<String>,
        seconds: f64,
        rows_seconds: f64,
    ) -> Self {
        let sum = |of: fn(&TableGot) -> u64| tables.iter().map(of).sum::<u64>();
        let (rows, row_pages) = (sum(|table| table.rows), sum(|table| table.row_pages));
        let got = Got {
            rows,
            row_pages,
            rows_per_page: rows as f64 / row_pages.max(1) as f64,
            used_bytes: sum(|table| table.used_bytes),
            bytes_on_disk: sum(|table| table.file_bytes),
        };
        Self {
            asked: plan.spec.clone(),
            server_version: plan.facts.version.clone(),
            page_bytes: plan.facts.page_bytes,
            pool_bytes: plan.facts.pool_bytes,
            rows_per_table: plan.rows_per_table,
            predicted: plan.predicted,
            got,
            loose_pages: loose_pages(&plan.facts),
            rows_kept: 0,
            tables,
            unsettled,
            seconds,
            rows_seconds,
        }
    }

    /// Whether the rows take as many pages as predicted, within 2 % and a few pages for each run of keys.
    pub fn as_predicted(&self) -> bool {
        let predicted = self.predicted.row_pages * u64::from(self.asked.tables);
        let lanes = u64::from(self.asked.tables.max(self.asked.threads));
        let slack = predicted as f64 * TOLERANCE + (lanes * self.loose_pages) as f64;
        (self.got.row_pages.abs_diff(predicted)) as f64 <= slack
    }

    /// For the recording: `fill.rows`, `fill.rows_per_page`, `fill.size`, `fill.files`.
    pub fn measured(&self, at_us: u64) -> Vec<Measured> {
        let entry = |what: &str, asked, predicted, got, witness: &str| Measured {
            at_us,
            arm: None,
            what: what.to_owned(),
            mechanism: "fill".to_owned(),
            asked,
            predicted: Some(predicted),
            got: Some(got),
            witness: witness.to_owned(),
            within_tolerance: None,
            tolerance: None,
            looks: None,
            came_on: None,
        };
        let asked = &self.asked;
        let source = self.tables.first().map_or("", |table| table.row_pages_source.as_str());
        let rows_asked = match asked.size {
            Size::Rows(rows) => Some(Quantity::count(rows as f64 * f64::from(asked.tables))),
            Size::Bytes(_) | Size::TimesPool(_) => None,
        };
        let rows_planned = Quantity::count(self.rows_per_table as f64 * f64::from(asked.tables));
        let mut rows =
            entry("fill.rows", rows_asked, rows_planned, Quantity::count(self.got.rows as f64), "SELECT COUNT(*)");
        rows.within_tolerance = Some(rows_planned.value == self.got.rows as f64);
        rows.tolerance = Some("exact".to_owned());
        let shape_asked = match asked.shape {
            Shape::RowsPerPage(per_page) => Some(Quantity::count(per_page.into())),
            Shape::Sysbench | Shape::RowBytes(_) => None,
        };
        let per_page_planned = Quantity::count(self.predicted.rows_per_page as f64);
        let mut per_page =
            entry("fill.rows_per_page", shape_asked, per_page_planned, Quantity::count(self.got.rows_per_page), source);
        per_page.within_tolerance = Some(self.as_predicted());
        per_page.tolerance = Some(format!("2 % of the pages, and {} for each run of keys", self.loose_pages));
        let used = entry(
            "fill.size",
            self.asked_bytes().map(Quantity::bytes),
            Quantity::bytes(self.predicted.used_bytes),
            Quantity::bytes(self.got.used_bytes),
            source,
        );
        let mut files = used.clone();
        files.what = "fill.files".to_owned();
        files.got = Some(Quantity::bytes(self.got.bytes_on_disk));
        files.witness = "the server's list of files".to_owned();
        vec![rows, per_page, used, files]
    }

    /// `None`: the user asked for a number of rows.
    fn asked_bytes(&self) -> Option<u64> {
        match self.asked.size {
            Size::Rows(_) => None,
            Size::Bytes(bytes) => Some(bytes),
            // As in the plan; a multiple of the pool is far below 2^63.
            #[allow(clippy::cast_possible_truncation)]
            Size::TimesPool(times) => Some((self.pool_bytes as f64 * times) as u64),
        }
    }
}

/// A table for people: one line for each quantity, the asked value beside the actual one.
impl fmt::Display for FillReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked_rows = match self.asked.size {
            Size::Rows(rows) => (rows * u64::from(self.asked.tables)).to_string(),
            Size::Bytes(_) | Size::TimesPool(_) => String::new(),
        };
        let asked_shape = match self.asked.shape {
            Shape::RowsPerPage(rows) => rows.to_string(),
            Shape::Sysbench | Shape::RowBytes(_) => String::new(),
        };
        let asked_row_bytes = match self.asked.shape {
            Shape::RowBytes(bytes) => bytes.to_string(),
            Shape::Sysbench | Shape::RowsPerPage(_) => String::new(),
        };
        let (got, predicted) = (&self.got, &self.predicted);
        let mut line = |what: &str, asked: String, predicted: String, got: String| {
            writeln!(f, "{what:<18} {asked:>14} {predicted:>14} {got:>14}")
        };
        line("", "asked".into(), "predicted".into(), "got".into())?;
        line("tables", self.asked.tables.to_string(), String::new(), self.tables.len().to_string())?;
        line(
            "rows",
            asked_rows,
            (self.rows_per_table * u64::from(self.asked.tables)).to_string(),
            got.rows.to_string(),
        )?;
        line("bytes a row", asked_row_bytes, predicted.row_bytes.to_string(), String::new())?;
        line("rows a page", asked_shape, predicted.rows_per_page.to_string(), format!("{:.2}", got.rows_per_page))?;
        let asked_bytes = self.asked_bytes().map(|bytes| Bytes(bytes).to_string()).unwrap_or_default();
        line("pages in use", asked_bytes, Bytes(predicted.used_bytes).to_string(), Bytes(got.used_bytes).to_string())?;
        line("files on disk", String::new(), String::new(), Bytes(got.bytes_on_disk).to_string())?;
        writeln!(f, "server's page cache {}; page {}", Bytes(self.pool_bytes), Bytes(self.page_bytes))?;
        let indexes = u32::from(self.asked.secondary) + self.asked.text_indexes;
        writeln!(f, "k is {}; {}", self.asked.keys, secondary_indexes(indexes))?;
        if self.asked.resume {
            writeln!(f, "{} of the rows were there, the others were written", self.rows_kept)?;
        }
        let rate = (got.rows - self.rows_kept) as f64 / self.rows_seconds.max(1e-9);
        write!(
            f,
            "{:.1} s in all, rows written in {:.1} s ({rate:.0} rows/s), read back and compared",
            self.seconds, self.rows_seconds
        )?;
        self.unsettled.iter().try_for_each(|refused| write!(f, "\nnot allowed: {refused}"))
    }
}

fn loose_pages(facts: &ServerFacts) -> u64 {
    let major = facts.version.split(|c: char| !c.is_ascii_digit()).next().and_then(|major| major.parse::<u32>().ok());
    match (facts.protocol, major) {
        (Protocol::Postgresql, Some(16..)) => LOOSE_PAGES_PER_LANE + PAGES_MADE_AHEAD,
        _ => LOOSE_PAGES_PER_LANE,
    }
}

fn secondary_indexes(count: u32) -> String {
    match count {
        0 => "no secondary index".to_owned(),
        1 => "1 secondary index".to_owned(),
        more => format!("{more} secondary indexes"),
    }
}
