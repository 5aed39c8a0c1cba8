// SPDX-License-Identifier: Apache-2.0
//! `[fill]`.

use super::driver::{refuse_password, texts};
use super::statements::distribution;
use crate::model::{Fill, FillSize, Flavour, RowShape, Server};
use crate::section::{Placed, Section};
use crate::tree::Value;
use units::Bytes;

/// InnoDB keeps at least two rows in a page of the clustered index; about 70 of sysbench's own rows fit in a page of 16 KiB.
const INNODB_ROWS_PER_PAGE: std::ops::RangeInclusive<u32> = 2..=60;
/// PostgreSQL's pages have 8 KiB; about 35 of sysbench's own rows fit in one.
const POSTGRESQL_ROWS_PER_PAGE: std::ops::RangeInclusive<u32> = 1..=30;

pub(super) fn read(top: &Section<'_>, server: Option<&Server>) -> Option<Fill> {
    let section = top.section("fill");
    let from = section.text("from").map(|path| path.value);
    let keep = keep(&section);
    let database = section.text("database").map(|name| name.value);
    let tables = section.integer("tables", 1..=10_000u32).map_or(1, |number| number.value);
    let command = texts(&section, "command").unwrap_or_default();
    check_command(&section, &command);
    let size = if (from.is_some() || section.node("command").is_some())
        && !SIZES.iter().any(|key| section.node(key).is_some())
    {
        needs_a_size(&section);
        Some(None)
    } else {
        size(&section).map(Some)
    };
    let rows = shape(&section, server.map_or(Flavour::Mariadb, |server| server.flavour));
    let secondary_indexes = indexes(&section);
    let k_distribution = distribution(&section, "k_distribution");
    let pgbench = section.integer("pgbench", 1..=20_000u32).map(|number| number.value);
    section.finish();
    Some(Fill { from, keep, database, tables, size: size?, rows, k_distribution, secondary_indexes, pgbench, command })
}

/// Keys that say how much is filled.
const SIZES: [&str; 2] = ["size", "rows"];

/// Whether data of the user's own are kept, too.
fn keep(section: &Section<'_>) -> bool {
    let asked = section.boolean("keep");
    if let (Some(node), None) = (section.node("keep"), section.node("from")) {
        let message = "fill.keep is for data of your own, and there is no fill.from";
        section.wrong(Some(node), message, Some("leave it out: what is filled is kept in any case".into()));
    }
    asked.is_some_and(|asked| asked.value)
}

fn check_command(section: &Section<'_>, command: &[String]) {
    if section.node("command").is_some() && command.first().is_none_or(|program| program.trim().is_empty()) {
        let hint =
            "write command = [\"./fill.sh\", \"{dsn}\"]: the program, then each of its arguments as a text of its own"
                .to_owned();
        section.wrong(section.node("command"), "fill.command names no program", Some(hint));
    }
    refuse_password(section, command);
}

/// Nothing is filled: keys that describe the rows would have no effect.
fn needs_a_size(section: &Section<'_>) {
    for key in ["rows_per_page", "row_bytes", "secondary", "secondary_indexes", "k_distribution"] {
        if let Some(node) = section.node(key) {
            let message = format!(
                "fill.{key} says what filled rows are like, and nothing is filled with them: {} brings the data",
                if section.node("from").is_some() { "fill.from" } else { "fill.command" }
            );
            section.wrong(
                Some(node),
                &message,
                Some("leave it out, or write rows = 100000 to fill sbtest1 beside them".into()),
            );
        }
    }
}

/// The number of secondary indexes; `secondary = true` means one.
fn indexes(section: &Section<'_>) -> u32 {
    let one = section.boolean("secondary").is_some_and(|asked| asked.value);
    let count = section.integer("secondary_indexes", 0..=3u32);
    if let (Some(_), Some(node)) = (&count, section.node("secondary")) {
        let message = "fill.secondary and fill.secondary_indexes both say which indexes";
        section.wrong(Some(node), message, Some("keep one of them".into()));
    }
    count.map_or(u32::from(one), |count| count.value)
}

fn size(section: &Section<'_>) -> Option<FillSize> {
    let rows = section.integer("rows", 1..=10_000_000_000u64);
    let written = section.node("rows").is_some();
    let Some(node) = section.node("size") else {
        if !written {
            section
                .missing("size", "write how much under [fill]: rows = 100000, size = \"192M\" or size = \"1.5x pool\"; or from = \"dump.sql\", data of your own; or command = [\"./fill.sh\"], a program that fills");
        }
        return rows.map(|number| FillSize::Rows(number.value));
    };
    if written {
        section.wrong(Some(node), "fill.size and fill.rows both say how much", Some("keep one of them".into()));
        return None;
    }
    match times_pool(&node.value) {
        Some(factor) if (0.001..=1000.0).contains(&factor) => Some(FillSize::TimesPool(factor)),
        Some(factor) => {
            let hint = Some("it goes from 0.001x pool to 1000x pool".into());
            section.wrong(Some(node), &format!("fill.size cannot be {factor} times the pool"), hint);
            None
        }
        None => in_bytes(section.unit::<Bytes>("size", "192M\" or \"1.5x pool")?, section),
    }
}

fn in_bytes(size: Placed<Bytes>, section: &Section<'_>) -> Option<FillSize> {
    if size.value < Bytes::mib(1) || size.value > Bytes(16 * Bytes::TIB) {
        let hint = Some("it goes from 1M to 16T".into());
        section.wrong(section.node("size"), &format!("fill.size cannot be {}", size.value), hint);
        return None;
    }
    Some(FillSize::Size(size.value))
}

/// `1.5x pool`, also without the blank or the word.
fn times_pool(value: &Value) -> Option<f64> {
    let Value::Text(text) = value else { return None };
    let text = text.trim();
    let number = text.strip_suffix("pool").map_or(text, str::trim_end).strip_suffix('x')?;
    number.trim().parse().ok().filter(|factor: &f64| factor.is_finite())
}

fn shape(section: &Section<'_>, flavour: Flavour) -> RowShape {
    let range = match flavour {
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => INNODB_ROWS_PER_PAGE,
        Flavour::Postgresql => POSTGRESQL_ROWS_PER_PAGE,
    };
    let per_page = section.integer("rows_per_page", range);
    let width = section.unit::<Bytes>("row_bytes", "4000");
    if let (Some(_), Some(node)) = (&per_page, section.node("row_bytes")) {
        let hint = Some("keep one of them".into());
        section.wrong(Some(node), "fill.row_bytes and fill.rows_per_page both say how wide a row is", hint);
    }
    if let Some(width) = width.as_ref().filter(|width| !(200..=8000).contains(&width.value.0)) {
        let hint = Some("it goes from 200 to 8000; sysbench's own rows are about 200".into());
        section.wrong(section.node("row_bytes"), &format!("fill.row_bytes cannot be {}", width.value.0), hint);
    }
    match (per_page, width) {
        (Some(rows), _) => RowShape::PerPage(rows.value),
        (None, Some(width)) => RowShape::Width(width.value),
        (None, None) => RowShape::Sysbench,
    }
}
