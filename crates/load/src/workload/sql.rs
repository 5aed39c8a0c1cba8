// SPDX-License-Identifier: Apache-2.0
//! The SQL text of each class of statements, in both dialects.

use super::{Kind, StatementSpec};
use crate::Protocol;
use std::fmt::Write as _;

/// A class of statements: the same text but for the table's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Begin,
    Commit,
    PointSelect,
    SimpleRange,
    SumRange,
    OrderRange,
    DistinctRange,
    IndexUpdate,
    NonIndexUpdate,
    Delete,
    Insert,
    /// The server hands out the key.
    InsertKeyless,
    BulkInsert {
        rows: u32,
    },
    RandomPoints {
        points: u32,
    },
    RandomRanges {
        ranges: u32,
    },
}

impl Class {
    pub(super) fn spec(self, protocol: Protocol, table: u32) -> StatementSpec {
        let mut text = Text { protocol, sql: String::new(), params: 0 };
        self.write(&mut text, &format!("sbtest{table}"));
        StatementSpec {
            class: self.name().to_owned(),
            kind: self.kind(),
            sql: text.sql,
            params: text.params,
            returns_rows: self.kind() == Kind::Read,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Class::Begin => "begin",
            Class::Commit => "commit",
            Class::PointSelect => "point_select",
            Class::SimpleRange => "simple_range",
            Class::SumRange => "sum_range",
            Class::OrderRange => "order_range",
            Class::DistinctRange => "distinct_range",
            Class::IndexUpdate => "index_update",
            Class::NonIndexUpdate => "non_index_update",
            Class::Delete => "delete",
            Class::Insert | Class::InsertKeyless => "insert",
            Class::BulkInsert { .. } => "bulk_insert",
            Class::RandomPoints { .. } => "random_points",
            Class::RandomRanges { .. } => "random_ranges",
        }
    }

    fn kind(self) -> Kind {
        match self {
            Class::Begin | Class::Commit => Kind::Other,
            Class::PointSelect
            | Class::SimpleRange
            | Class::SumRange
            | Class::OrderRange
            | Class::DistinctRange
            | Class::RandomPoints { .. }
            | Class::RandomRanges { .. } => Kind::Read,
            Class::IndexUpdate
            | Class::NonIndexUpdate
            | Class::Delete
            | Class::Insert
            | Class::InsertKeyless
            | Class::BulkInsert { .. } => Kind::Write,
        }
    }

    /// In the templates `{}` is the table and `?` a placeholder.
    fn write(self, text: &mut Text, table: &str) {
        match self {
            Class::Begin => text.push("BEGIN", table),
            Class::Commit => text.push("COMMIT", table),
            Class::PointSelect => text.push("SELECT c FROM {} WHERE id=?", table),
            Class::SimpleRange => text.push("SELECT c FROM {} WHERE id BETWEEN ? AND ?", table),
            Class::SumRange => text.push("SELECT SUM(k) FROM {} WHERE id BETWEEN ? AND ?", table),
            Class::OrderRange => text.push("SELECT c FROM {} WHERE id BETWEEN ? AND ? ORDER BY c", table),
            Class::DistinctRange => text.push("SELECT DISTINCT c FROM {} WHERE id BETWEEN ? AND ? ORDER BY c", table),
            Class::IndexUpdate => text.push("UPDATE {} SET k=k+1 WHERE id=?", table),
            Class::NonIndexUpdate => text.push("UPDATE {} SET c=? WHERE id=?", table),
            Class::Delete => text.push("DELETE FROM {} WHERE id=?", table),
            Class::Insert => text.push("INSERT INTO {} (id, k, c, pad) VALUES (?, ?, ?, ?)", table),
            Class::InsertKeyless => text.push("INSERT INTO {} (k, c, pad) VALUES (?, ?, ?)", table),
            Class::BulkInsert { rows } => {
                text.push("INSERT INTO {} (id, k) VALUES ", table);
                text.repeat(rows, "(?, ?)", ", ");
            }
            Class::RandomPoints { points } => {
                text.push("SELECT id, k, c, pad FROM {} WHERE k IN (", table);
                text.repeat(points, "?", ", ");
                text.push(")", table);
            }
            Class::RandomRanges { ranges } => {
                text.push("SELECT count(k) FROM {} WHERE ", table);
                text.repeat(ranges, "k BETWEEN ? AND ?", " OR ");
            }
        }
    }
}

/// SQL text as it grows, with its placeholders counted and written the server's way.
struct Text {
    protocol: Protocol,
    sql: String,
    params: usize,
}

impl Text {
    fn push(&mut self, template: &str, table: &str) {
        let mut rest = template;
        while let Some(at) = rest.find(['?', '{']) {
            self.sql.push_str(&rest[..at]);
            if rest[at..].starts_with('?') {
                self.placeholder();
                rest = &rest[at + 1..];
            } else {
                self.sql.push_str(table);
                rest = &rest[at + 2..];
            }
        }
        self.sql.push_str(rest);
    }

    fn repeat(&mut self, times: u32, template: &str, between: &str) {
        for index in 0..times {
            if index > 0 {
                self.sql.push_str(between);
            }
            self.push(template, "");
        }
    }

    fn placeholder(&mut self) {
        self.params += 1;
        match self.protocol {
            Protocol::Mysql => self.sql.push('?'),
            Protocol::Postgresql => {
                let _ = write!(self.sql, "${}", self.params); // a String takes every write
            }
        }
    }
}
