// SPDX-License-Identifier: Apache-2.0
//! The workloads by name, and their options with sysbench's names and defaults.

use super::WorkloadError;
use std::fmt;
use std::str::FromStr;

/// A workload that has sysbench's name and sends sysbench's statements, or one of pgbench's built-in scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Name {
    OltpPointSelect,
    OltpReadOnly,
    OltpReadWrite,
    OltpWriteOnly,
    OltpUpdateIndex,
    OltpUpdateNonIndex,
    OltpInsert,
    OltpDelete,
    BulkInsert,
    SelectRandomPoints,
    SelectRandomRanges,
    PgbenchTpcbLike,
    PgbenchSimpleUpdate,
    PgbenchSelectOnly,
}

impl Name {
    pub const ALL: [Name; 14] = [
        Name::OltpPointSelect,
        Name::OltpReadOnly,
        Name::OltpReadWrite,
        Name::OltpWriteOnly,
        Name::OltpUpdateIndex,
        Name::OltpUpdateNonIndex,
        Name::OltpInsert,
        Name::OltpDelete,
        Name::BulkInsert,
        Name::SelectRandomPoints,
        Name::SelectRandomRanges,
        Name::PgbenchTpcbLike,
        Name::PgbenchSimpleUpdate,
        Name::PgbenchSelectOnly,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Name::OltpPointSelect => "oltp_point_select",
            Name::OltpReadOnly => "oltp_read_only",
            Name::OltpReadWrite => "oltp_read_write",
            Name::OltpWriteOnly => "oltp_write_only",
            Name::OltpUpdateIndex => "oltp_update_index",
            Name::OltpUpdateNonIndex => "oltp_update_non_index",
            Name::OltpInsert => "oltp_insert",
            Name::OltpDelete => "oltp_delete",
            Name::BulkInsert => "bulk_insert",
            Name::SelectRandomPoints => "select_random_points",
            Name::SelectRandomRanges => "select_random_ranges",
            Name::PgbenchTpcbLike => "pgbench_tpcb_like",
            Name::PgbenchSimpleUpdate => "pgbench_simple_update",
            Name::PgbenchSelectOnly => "pgbench_select_only",
        }
    }

    /// One line for people.
    pub fn describe(self) -> &'static str {
        match self {
            Name::OltpPointSelect => "one SELECT by primary key",
            Name::OltpReadOnly => "a transaction of point and range SELECTs",
            Name::OltpReadWrite => "SELECTs, UPDATEs, a DELETE and an INSERT in one transaction",
            Name::OltpWriteOnly => "UPDATEs, a DELETE and an INSERT in one transaction",
            Name::OltpUpdateIndex => "UPDATE of the column k, which the secondary index holds",
            Name::OltpUpdateNonIndex => "UPDATE of the column c, which no index holds",
            Name::OltpInsert => "INSERT of one row at the end of the table",
            Name::OltpDelete => "DELETE by primary key; most hit nothing after a while",
            Name::BulkInsert => "INSERTs of many small rows, each connection's into a table of its own",
            Name::SelectRandomPoints => "SELECT of several rows by k IN (...)",
            Name::SelectRandomRanges => "SELECT count(k) over several short ranges of k",
            Name::PgbenchTpcbLike => "pgbench's default: three UPDATEs, a SELECT and an INSERT in one transaction",
            Name::PgbenchSimpleUpdate => {
                "the same without the UPDATEs of the small tables, which every connection wants"
            }
            Name::PgbenchSelectOnly => "one SELECT of an account by its key",
        }
    }

    /// False for a workload that only reads.
    pub fn writes(self) -> bool {
        use Name::{OltpPointSelect, OltpReadOnly, PgbenchSelectOnly, SelectRandomPoints, SelectRandomRanges};
        !matches!(self, OltpPointSelect | OltpReadOnly | SelectRandomPoints | SelectRandomRanges | PgbenchSelectOnly)
    }

    /// Whether it runs on pgbench's tables, which [`crate::prepare::pgbench`] makes.
    pub fn is_pgbench(self) -> bool {
        matches!(self, Name::PgbenchTpcbLike | Name::PgbenchSimpleUpdate | Name::PgbenchSelectOnly)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Name {
    type Err = WorkloadError;

    /// `-` and `_` are the same.
    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        let wanted = text.replace('-', "_");
        let found = Name::ALL.into_iter().find(|name| name.as_str() == wanted);
        found.ok_or_else(|| WorkloadError::Unknown { name: text.to_owned(), known: known() })
    }
}

fn known() -> String {
    Name::ALL.map(Name::as_str).join(", ")
}

/// What a workload may be told. Counts are statements a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The tables are `sbtest1` to `sbtest<tables>`; each group of like statements in a transaction goes to one of them.
    pub tables: u32,
    /// Rows in each table: keys are drawn from 1 to this.
    pub table_size: u64,
    /// `oltp_point_select` always sends one.
    pub point_selects: u32,
    /// False leaves out all four kinds of range statements.
    pub range_selects: bool,
    pub simple_ranges: u32,
    pub sum_ranges: u32,
    pub order_ranges: u32,
    pub distinct_ranges: u32,
    /// Rows a range spans.
    pub range_size: u64,
    pub index_updates: u32,
    pub non_index_updates: u32,
    /// Pairs of a DELETE and an INSERT of the same key.
    pub delete_inserts: u32,
    /// No BEGIN and COMMIT around the statements: each commits by itself.
    pub skip_trx: bool,
    /// Whether the server hands out the keys of `oltp_insert`.
    pub auto_inc: bool,
    /// Values in the IN list of `select_random_points`.
    pub random_points: u32,
    /// Ranges in one statement of `select_random_ranges`, and the width of each.
    pub number_of_ranges: u32,
    pub delta: u64,
    /// Connections: `select_random_*` cut the keys into so many segments; `bulk_insert` has so many tables.
    pub connections: u32,
    /// Rows in one statement of `bulk_insert`.
    pub bulk_rows: u32,
    /// Branches in pgbench's tables; each has 10 tellers and 100,000 accounts.
    pub scale: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tables: 1,
            table_size: 10_000,
            point_selects: 10,
            range_selects: true,
            simple_ranges: 1,
            sum_ranges: 1,
            order_ranges: 1,
            distinct_ranges: 1,
            range_size: 100,
            index_updates: 1,
            non_index_updates: 1,
            delete_inserts: 1,
            skip_trx: false,
            auto_inc: true,
            random_points: 10,
            number_of_ranges: 10,
            delta: 5,
            connections: 1,
            bulk_rows: 500,
            scale: 1,
        }
    }
}

impl Options {
    /// # Errors
    /// A number with which there is nothing to send, or more than one statement can hold.
    pub(super) fn check(&self) -> Result<(), WorkloadError> {
        // both protocols count the parameters of a statement in 16 bits
        let limits: [(&'static str, u64, u64); 10] = [
            ("tables", self.tables.into(), 100_000),
            ("table-size", self.table_size, MOST_ROWS),
            ("range-size", self.range_size, MOST_ROWS),
            ("point-selects", u64::from(self.point_selects).max(1), MOST_STATEMENTS),
            ("random-points", self.random_points.into(), 65_535),
            ("number-of-ranges", self.number_of_ranges.into(), 32_767),
            ("delta", self.delta.max(1), MOST_ROWS),
            ("threads", self.connections.into(), 1_000_000),
            ("bulk-rows", self.bulk_rows.into(), 32_767),
            ("scale", self.scale.into(), u32::MAX.into()),
        ];
        let counts = [
            ("simple-ranges", self.simple_ranges),
            ("sum-ranges", self.sum_ranges),
            ("order-ranges", self.order_ranges),
            ("distinct-ranges", self.distinct_ranges),
            ("index-updates", self.index_updates),
            ("non-index-updates", self.non_index_updates),
            ("delete-inserts", self.delete_inserts),
        ];
        let counts = counts.map(|(option, count)| (option, u64::from(count).max(1), MOST_STATEMENTS));
        for (option, value, most) in limits.into_iter().chain(counts) {
            if !(1..=most).contains(&value) {
                return Err(WorkloadError::OutOfRange { option, value, most });
            }
        }
        Ok(())
    }
}

/// Keys are signed 64-bit numbers at the server; half of them leaves room for ranges beyond the last row.
const MOST_ROWS: u64 = 1 << 62;
/// Of one kind in one transaction; beyond it a transaction is a batch job, not a load.
const MOST_STATEMENTS: u64 = 100_000;
