// SPDX-License-Identifier: Apache-2.0
//! Computes rows, widths and statements from the user's spec and the server's facts. No I/O.

use super::layout::Layout;
use super::{Error, FillSpec, ServerFacts, Shape, Size, TEXT_INDEXES};
use crate::Protocol;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// Everything that a fill will do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FillPlan {
    pub spec: FillSpec,
    pub facts: ServerFacts,
    pub rows_per_table: u64,
    /// Keys are 64-bit, because a table has more rows than a 32-bit key can count.
    pub wide_ids: bool,
    /// Bytes of the filler columns; empty for sysbench's own rows.
    pub filler_bytes: Vec<u64>,
    pub predicted: Predicted,
    /// Runs of keys; each is written in order over one connection.
    pub lanes: Vec<Lane>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Bytes of all columns of a row.
    pub row_bytes: u64,
    pub rows_per_page: u64,
    /// Pages that hold the rows of one table.
    pub row_pages: u64,
    /// Bytes of all tables with their indexes, in pages in use.
    pub used_bytes: u64,
}

/// A run of keys of one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// The table's number, from 1.
    pub table: u32,
    pub first: u64,
    pub rows: u64,
}

/// Rows are made in blocks of this many, each with its own seed. Lanes begin at a block, so that the number of connections does not change the rows.
pub(super) const BLOCK_ROWS: u64 = 256;
/// The widest column of fixed width in MySQL.
const COLUMN_BYTES_MAX: u64 = 255;
const NARROW_ID_MAX: u64 = 0x7fff_ffff;
const TABLES_MAX: u32 = 100_000;
const THREADS_MAX: u32 = 1024;

/// Plans a fill.
///
/// # Errors
/// A number makes no sense; no page can hold the row; no width gives that number of rows; tables of these names exist.
pub fn plan(spec: &FillSpec, facts: &ServerFacts) -> Result<FillPlan, Error> {
    check(spec, facts)?;
    let narrow = shaped(spec, facts, false)?;
    let wide = narrow.rows > NARROW_ID_MAX;
    let shaped = if wide { shaped(spec, facts, true)? } else { narrow };
    if i64::try_from(shaped.rows).is_err() {
        return Err(Error::Spec {
            option: "table-size",
            value: shaped.rows.to_string(),
            expected: "at most 2^63 - 1 rows",
        });
    }
    Ok(FillPlan {
        spec: spec.clone(),
        facts: facts.clone(),
        rows_per_table: shaped.rows,
        wide_ids: wide,
        filler_bytes: columns(facts.protocol, shaped.filler),
        predicted: shaped.predict(spec),
        lanes: lanes(spec, facts.protocol, shaped.rows),
    })
}

impl FillPlan {
    pub fn rows(&self) -> u64 {
        self.rows_per_table.saturating_mul(self.spec.tables.into())
    }

    pub fn table_name(table: u32) -> String {
        format!("sbtest{table}")
    }

    /// The statement that makes table `table`, from 1.
    pub fn create_table(&self, table: u32) -> String {
        let integer = if self.wide_ids { "BIGINT" } else { "INTEGER" };
        let id = match (self.facts.protocol, self.spec.auto_inc) {
            (Protocol::Mysql, true) => format!("{integer} NOT NULL AUTO_INCREMENT"),
            (Protocol::Postgresql, true) if self.wide_ids => "BIGSERIAL".to_owned(),
            (Protocol::Postgresql, true) => "SERIAL".to_owned(),
            (_, false) => format!("{integer} NOT NULL"),
        };
        let mut sql = format!(
            "CREATE TABLE {} (id {id}, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, \
             pad CHAR(60) DEFAULT '' NOT NULL",
            Self::table_name(table)
        );
        let kind = if self.facts.protocol == Protocol::Mysql { "BINARY" } else { "CHAR" };
        for (index, width) in self.filler_bytes.iter().enumerate() {
            let _ = write!(sql, ", filler{} {kind}({width}) DEFAULT '' NOT NULL", index + 1); // a String takes every write
        }
        // An InnoDB table is its primary key; PostgreSQL makes the primary key with the other indexes.
        sql.push_str(if self.facts.protocol == Protocol::Mysql { ", PRIMARY KEY (id))" } else { ")" });
        sql.push_str(self.table_options());
        sql
    }

    fn table_options(&self) -> &'static str {
        match (self.facts.protocol, self.filler_bytes.is_empty()) {
            (Protocol::Mysql, _) => " ENGINE=InnoDB",
            (Protocol::Postgresql, true) => "",
            // The largest value: nothing is compressed or moved out of a row that fits its page.
            (Protocol::Postgresql, false) => " WITH (toast_tuple_target=8160)",
        }
    }

    /// The statements that make the indexes of table `table` after the rows. They are built from sorted keys, so that their pages
    /// are as full as possible. No row is written again.
    pub fn create_indexes(&self, table: u32) -> Vec<String> {
        self.indexes(table).into_iter().map(|(_, sql)| sql).collect()
    }

    /// The same statements with the names of the indexes.
    pub(super) fn indexes(&self, table: u32) -> Vec<(String, String)> {
        let primary = (format!("sbtest{table}_pkey"), format!("ALTER TABLE sbtest{table} ADD PRIMARY KEY (id)"));
        let primary = (self.facts.protocol == Protocol::Postgresql).then_some(primary);
        let texts = TEXT_INDEXES.into_iter().take(self.spec.text_indexes as usize);
        let secondary = self.spec.secondary.then_some("k").into_iter().chain(texts);
        let create = |column| format!("CREATE INDEX {column}_{table} ON sbtest{table} ({column})");
        let secondary = secondary.map(|column| (format!("{column}_{table}"), create(column)));
        primary.into_iter().chain(secondary).collect()
    }
}

fn check(spec: &FillSpec, facts: &ServerFacts) -> Result<(), Error> {
    let refuse = |option, value: String, expected| Err(Error::Spec { option, value, expected });
    match spec.size {
        Size::Rows(0) => return refuse("table-size", "0".into(), "at least 1 row"),
        Size::Bytes(0) => return refuse("size", "0".into(), "at least 1 byte: a page is the least there is"),
        Size::TimesPool(times) if !(times.is_finite() && times > 0.0) => {
            return refuse("times-pool", times.to_string(), "a number above 0");
        }
        _ => {}
    }
    if !(1..=TABLES_MAX).contains(&spec.tables) {
        return refuse("tables", spec.tables.to_string(), "from 1 to 100000");
    }
    if !(1..=THREADS_MAX).contains(&spec.threads) {
        return refuse("threads", spec.threads.to_string(), "from 1 to 1024");
    }
    if spec.text_indexes as usize > TEXT_INDEXES.len() {
        return refuse("secondary-indexes", (spec.text_indexes + 1).to_string(), "from 0 to 3");
    }
    let ours = |name: &&String| {
        let number = name.strip_prefix("sbtest").and_then(|number| number.parse::<u32>().ok());
        number.is_some_and(|number| (1..=spec.tables).contains(&number))
    };
    match facts.existing.iter().find(ours) {
        Some(table) if !spec.replace && !spec.resume => Err(Error::Exists { table: table.clone() }),
        _ => Ok(()),
    }
}

struct Shaped {
    layout: Layout,
    filler: u64,
    rows: u64,
    rows_per_page: u64,
}

fn shaped(spec: &FillSpec, facts: &ServerFacts, wide_ids: bool) -> Result<Shaped, Error> {
    let layout = Layout::new(facts, wide_ids);
    let filler = filler(spec.shape, &layout)?;
    let too_wide =
        || Error::RowTooWide { row_bytes: layout.row_bytes(filler), widest: layout.row_bytes(layout.filler_max()) };
    let rows_per_page = layout.rows_per_page(filler).ok_or_else(too_wide)?;
    let mut shaped = Shaped { layout, filler, rows: 0, rows_per_page };
    shaped.rows = match spec.size {
        Size::Rows(rows) => rows,
        Size::Bytes(bytes) => shaped.rows_for(bytes as f64, spec),
        Size::TimesPool(times) => shaped.rows_for(facts.pool_bytes as f64 * times, spec),
    };
    Ok(shaped)
}

fn filler(shape: Shape, layout: &Layout) -> Result<u64, Error> {
    match shape {
        Shape::Sysbench => Ok(0),
        Shape::RowsPerPage(asked) => layout.filler_for(asked.into()).ok_or_else(|| no_such_number(asked, layout)),
        Shape::RowBytes(asked) => {
            let narrowest = layout.row_bytes(0);
            let refused = || Error::RowTooNarrow { row_bytes: asked, narrowest };
            asked.checked_sub(narrowest).ok_or_else(refused)
        }
    }
}

/// No width gives `asked` rows on a page: names the nearest possible numbers.
fn no_such_number(asked: u32, layout: &Layout) -> Error {
    let possible = |rows: &u32| layout.filler_for((*rows).into()).is_some();
    let most = layout.rows_per_page(0).and_then(|most| u32::try_from(most).ok()).unwrap_or(u32::MAX);
    let fewer = (1..asked.min(most.saturating_add(1))).rev().find(possible);
    let more = (asked.saturating_add(1)..=most).find(possible);
    let near: Vec<String> = fewer.into_iter().chain(more).map(|rows| rows.to_string()).collect();
    Error::RowsPerPage { asked, page_bytes: layout.page_bytes, near: near.join(" or ") }
}

impl Shaped {
    fn bytes_per_row(&self, spec: &FillSpec) -> f64 {
        let page = self.layout.page_bytes as f64 + self.layout.parent_bytes_per_page();
        page / self.rows_per_page as f64 + self.layout.index_bytes_per_row(spec.secondary, spec.text_indexes)
    }

    /// Rows of each table, in whole pages, so that all tables together take `bytes`.
    fn rows_for(&self, bytes: f64, spec: &FillSpec) -> u64 {
        let rows = bytes / f64::from(spec.tables) / self.bytes_per_row(spec);
        // Far below 2^63 for any real storage; beyond it the cast saturates, and the plan refuses.
        #[allow(clippy::cast_possible_truncation)]
        let rows = rows.round().max(1.0) as u64;
        rows.checked_next_multiple_of(self.rows_per_page).unwrap_or(rows)
    }

    fn predict(&self, spec: &FillSpec) -> Predicted {
        let rows = self.rows as f64 * f64::from(spec.tables);
        #[allow(clippy::cast_possible_truncation)] // as in rows_for
        let used_bytes = (rows * self.bytes_per_row(spec)) as u64;
        Predicted {
            row_bytes: self.layout.row_bytes(self.filler),
            rows_per_page: self.rows_per_page,
            row_pages: self.rows.div_ceil(self.rows_per_page),
            used_bytes,
        }
    }
}

/// Widths of columns of fixed width: PostgreSQL takes any width, MySQL up to 255 bytes each.
fn columns(protocol: Protocol, filler: u64) -> Vec<u64> {
    match (protocol, filler) {
        (_, 0) => Vec::new(),
        (Protocol::Postgresql, width) => vec![width],
        (Protocol::Mysql, width) => {
            let count = width.div_ceil(COLUMN_BYTES_MAX);
            (0..count).map(|column| (width - column * COLUMN_BYTES_MAX).min(COLUMN_BYTES_MAX)).collect()
        }
    }
}

/// The runs of keys. A PostgreSQL table is one run, or several when there are more connections than tables.
///
/// An InnoDB table is always one run. With two adjoining runs, every page split of the first would move the first row of the
/// second, too (`btr_page_get_split_rec_to_right`), and its pages would hold one row less than they could.
fn lanes(spec: &FillSpec, protocol: Protocol, rows: u64) -> Vec<Lane> {
    let parts = match protocol {
        Protocol::Mysql => 1,
        Protocol::Postgresql => u64::from(spec.threads.div_ceil(spec.tables)),
    };
    (1..=spec.tables).flat_map(|table| split(table, 1..=rows, parts)).collect()
}

/// Splits a run of keys into `parts` or fewer runs. Each has whole blocks when the first key begins a block.
pub(super) fn split(table: u32, keys: RangeInclusive<u64>, parts: u64) -> impl Iterator<Item = Lane> {
    let rows = keys.end() - keys.start() + 1;
    let blocks = rows.div_ceil(BLOCK_ROWS);
    let start = move |part: u64| ((blocks / parts * part + (blocks % parts).min(part)) * BLOCK_ROWS).min(rows);
    let lane = move |part: u64| Lane { table, first: keys.start() + start(part), rows: start(part + 1) - start(part) };
    (0..parts).map(lane).filter(|lane| lane.rows > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts(protocol: Protocol) -> ServerFacts {
        ServerFacts {
            protocol,
            version: "test".into(),
            page_bytes: if protocol == Protocol::Mysql { 16_384 } else { 8192 },
            pool_bytes: 128 << 20,
            character_bytes_max: 1,
            packet_bytes_max: 16 << 20,
            bulk_load: true,
            existing: Vec::new(),
        }
    }

    #[test]
    fn the_article_s_table() {
        let spec = FillSpec {
            size: Size::TimesPool(1.5),
            shape: Shape::RowsPerPage(4),
            secondary: false,
            ..FillSpec::default()
        };
        let plan = plan(&spec, &facts(Protocol::Mysql)).unwrap();
        assert_eq!(plan.predicted.rows_per_page, 4);
        assert!(plan.predicted.used_bytes.abs_diff(192 << 20) < 1 << 16, "{}", plan.predicted.used_bytes);
        assert_eq!(plan.rows_per_table, 49_112, "12,288 pages of 16 KiB, less one in a thousand above them");
        assert_eq!(plan.filler_bytes.iter().sum::<u64>(), 3220);
        assert!(plan.filler_bytes.iter().all(|width| *width <= 255));
    }

    #[test]
    fn statements() {
        let spec = FillSpec { shape: Shape::RowsPerPage(30), ..FillSpec::default() };
        let mysql = plan(&spec, &facts(Protocol::Mysql)).unwrap();
        insta::assert_snapshot!(mysql.create_table(1), @"CREATE TABLE sbtest1 (id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, filler1 BINARY(255) DEFAULT '' NOT NULL, filler2 BINARY(38) DEFAULT '' NOT NULL, PRIMARY KEY (id)) ENGINE=InnoDB");
        let postgresql = plan(&FillSpec { auto_inc: false, ..spec.clone() }, &facts(Protocol::Postgresql)).unwrap();
        insta::assert_snapshot!(postgresql.create_table(2), @"CREATE TABLE sbtest2 (id INTEGER NOT NULL, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, filler1 CHAR(45) DEFAULT '' NOT NULL) WITH (toast_tuple_target=8160)");
        let plain = plan(&FillSpec::default(), &facts(Protocol::Postgresql)).unwrap();
        insta::assert_snapshot!(plain.create_table(1), @"CREATE TABLE sbtest1 (id SERIAL, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL)");
        let three = plan(&FillSpec { text_indexes: 2, ..FillSpec::default() }, &facts(Protocol::Mysql)).unwrap();
        insta::assert_snapshot!(three.create_indexes(4).join("; "), @"CREATE INDEX k_4 ON sbtest4 (k); CREATE INDEX pad_4 ON sbtest4 (pad); CREATE INDEX c_4 ON sbtest4 (c)");
        let huge = plan(&FillSpec { size: Size::Rows(3_000_000_000), ..spec }, &facts(Protocol::Mysql)).unwrap();
        assert!(huge.wide_ids && huge.create_table(1).contains("id BIGINT NOT NULL AUTO_INCREMENT"));
    }

    #[test]
    fn refusals_say_what_would_do() {
        let refused = |spec: FillSpec, protocol| plan(&spec, &facts(protocol)).unwrap_err().to_string();
        let shaped = |shape| FillSpec { shape, ..FillSpec::default() };
        insta::assert_snapshot!(refused(shaped(Shape::RowsPerPage(1)), Protocol::Mysql), @"no row width gives exactly 1 rows on a page of 16 KiB; the nearest possible number is 2");
        insta::assert_snapshot!(refused(shaped(Shape::RowsPerPage(36)), Protocol::Postgresql), @"no row width gives exactly 36 rows on a page of 8 KiB; the nearest possible number is 35 or 37");
        insta::assert_snapshot!(refused(shaped(Shape::RowsPerPage(500)), Protocol::Mysql), @"no row width gives exactly 500 rows on a page of 16 KiB; the nearest possible number is 73");
        insta::assert_snapshot!(refused(shaped(Shape::RowBytes(100)), Protocol::Mysql), @"rows of 100 bytes are narrower than the columns id, k, c and pad, which take 188");
        insta::assert_snapshot!(refused(shaped(Shape::RowBytes(9000)), Protocol::Mysql), @"rows of 9000 bytes do not stay on one page: the widest that do have 8107 bytes");
        insta::assert_snapshot!(refused(FillSpec { text_indexes: 3, ..FillSpec::default() }, Protocol::Mysql), @"secondary-indexes is 4: it must be from 0 to 3");
        insta::assert_snapshot!(refused(FillSpec { tables: 0, ..FillSpec::default() }, Protocol::Mysql), @"tables is 0: it must be from 1 to 100000");
    }

    #[test]
    fn tables_in_the_way() {
        let facts = ServerFacts { existing: vec!["sbtest_old".into(), "sbtest3".into()], ..facts(Protocol::Mysql) };
        assert!(plan(&FillSpec { tables: 2, ..FillSpec::default() }, &facts).is_ok());
        let three = FillSpec { tables: 3, ..FillSpec::default() };
        assert!(matches!(plan(&three, &facts), Err(Error::Exists { table }) if table == "sbtest3"));
        assert!(plan(&FillSpec { replace: true, ..three }, &facts).is_ok());
    }

    proptest! {
        /// Every key of every table is in exactly one lane, and lanes begin at blocks.
        #[test]
        fn lanes_cover_all_keys(tables in 1u32..6, threads in 1u32..20, rows in 1u64..20_000) {
            let spec = FillSpec { tables, threads, size: Size::Rows(rows), ..FillSpec::default() };
            let plan = plan(&spec, &facts(Protocol::Postgresql)).unwrap();
            for table in 1..=tables {
                let mut next = 1;
                for lane in plan.lanes.iter().filter(|lane| lane.table == table) {
                    prop_assert_eq!(lane.first, next);
                    prop_assert_eq!((lane.first - 1) % BLOCK_ROWS, 0);
                    next += lane.rows;
                }
                prop_assert_eq!(next, rows + 1);
            }
        }

        #[test]
        fn sizes_are_met(mib in 8u64..1 << 20, tables in 1u32..9, secondary: bool, per_page in 2u32..30, postgresql: bool) {
            let protocol = if postgresql { Protocol::Postgresql } else { Protocol::Mysql };
            let size = Size::Bytes(mib << 20);
            let spec = FillSpec { tables, size, secondary, shape: Shape::RowsPerPage(per_page), ..FillSpec::default() };
            let plan = plan(&spec, &facts(protocol)).unwrap();
            let wanted = (mib << 20) as f64;
            let off = (plan.predicted.used_bytes as f64 - wanted).abs();
            prop_assert!(off < wanted * 0.001 + f64::from(tables) * 20_000.0, "{} for {wanted}", plan.predicted.used_bytes);
        }
    }
}
