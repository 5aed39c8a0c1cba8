// SPDX-License-Identifier: Apache-2.0
//! The workloads by name.

use crate::Error;
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

    /// False for a workload that only reads.
    pub fn writes(self) -> bool {
        use Name::{OltpPointSelect, OltpReadOnly, PgbenchSelectOnly, SelectRandomPoints, SelectRandomRanges};
        !matches!(self, OltpPointSelect | OltpReadOnly | SelectRandomPoints | SelectRandomRanges | PgbenchSelectOnly)
    }

    /// Whether an experiment may name it: `bulk_insert` brings its own tables, but the arms of an experiment share their tables.
    pub fn in_experiments(self) -> bool {
        self != Name::BulkInsert
    }

    /// Whether it runs on pgbench's tables, which `wringer fill --pgbench` makes.
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
    type Err = Error;

    /// `-` and `_` are the same.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wanted = text.replace('-', "_");
        let found = Name::ALL.into_iter().find(|name| name.as_str() == wanted);
        found.ok_or_else(|| Error::Unknown { name: text.to_owned(), known: known() })
    }
}

fn known() -> String {
    Name::ALL.map(Name::as_str).join(", ")
}
