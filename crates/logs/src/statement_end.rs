// SPDX-License-Identifier: Apache-2.0
//! Where a statement of several lines ends. MySQL and MariaDB write `;` and a line end behind each statement of the slow log, and nothing else before the
//! next entry: a later line is damage, and not a part of the statement.

use sql::{Dialect, Inside, Piece, Scanner, piece};

/// Statements that may hold other statements, each with its own `;`.
const HOLD_OTHERS: [&str; 9] = ["ALTER", "CASE", "CREATE", "DECLARE", "FOR", "IF", "LOOP", "REPEAT", "WHILE"];

/// Looks at a statement that grows line by line; each byte is looked at once.
pub(crate) struct StatementEnd {
    scanner: Scanner,
    seen: usize,
}

impl Default for StatementEnd {
    fn default() -> Self {
        Self { scanner: Scanner::new(Dialect::Mysql), seen: 0 }
    }
}

impl StatementEnd {
    /// Whether the statement is whole with its last line: a `;` stands at its end, outside of texts and comments.
    pub(crate) fn is_reached(&mut self, sql: &str) -> bool {
        if !sql.trim_end().ends_with(';') || may_hold_others(sql) {
            return false;
        }
        let mut rest = sql.as_bytes().get(self.seen..).unwrap_or_default();
        let mut last = Piece::Symbol;
        while !rest.is_empty() {
            let (piece, length) = self.scanner.next(rest);
            if piece != Piece::Space {
                last = piece;
            }
            rest = &rest[length.max(1)..];
        }
        self.seen = sql.len();
        *self.scanner.inside() == Inside::Code && last == Piece::Symbol
    }
}

fn may_hold_others(sql: &str) -> bool {
    let mut words = words(sql).map(str::to_ascii_uppercase);
    match words.next().as_deref() {
        // `BEGIN NOT ATOMIC`; `BEGIN` alone begins a transaction
        Some("BEGIN") => words.next().as_deref() == Some("NOT"),
        Some(word) => HOLD_OTHERS.contains(&word),
        None => true,
    }
}

/// The first words, up to something else.
fn words(mut sql: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        loop {
            let (piece, length) = piece(sql.as_bytes(), Dialect::Mysql);
            let (first, rest) = sql.split_at_checked(length)?;
            match piece {
                Piece::Word => {
                    sql = rest;
                    return Some(first);
                }
                Piece::Space | Piece::Comment | Piece::LineComment if length > 0 => sql = rest,
                // SELECT in brackets
                Piece::Symbol if first == "(" => sql = rest,
                _ => return None,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_ends_at_its_own_semicolon() {
        let ends = |sql: &str| StatementEnd::default().is_reached(sql);
        for sql in
            ["SELECT 1;", "select ';\n' ;", "/* a */ UPDATE t SET a = 1; ", "BEGIN;", "BEGIN WORK;", "(SELECT 1);"]
        {
            assert!(ends(sql), "{sql}");
        }
        let not = [
            "SELECT 1",
            "SELECT 'a;",
            "SELECT 1 /* a;",
            "SELECT 1 -- a;",
            "SELECT 1 # a;",
            "create procedure p() begin select 1;",
            "BEGIN NOT ATOMIC SELECT 1;",
            "/*!50003 CREATE TRIGGER t BEFORE INSERT ON u FOR EACH ROW BEGIN SET @a = 1;",
            "IF 1 THEN SELECT 1;",
            ";",
        ];
        for sql in not {
            assert!(!ends(sql), "{sql}");
        }
    }

    #[test]
    fn a_text_may_have_lines_that_end_like_statements() {
        let mut end = StatementEnd::default();
        let mut sql = String::from("INSERT INTO t VALUES ('a;");
        assert!(!end.is_reached(&sql));
        sql.push_str("\nb;");
        assert!(!end.is_reached(&sql));
        sql.push_str("\nc');");
        assert!(end.is_reached(&sql));
    }
}
