// SPDX-License-Identifier: Apache-2.0
//! SQL text whose placeholders are filled in by the client, for servers or runs without prepared statements.

use crate::target::Protocol;
use sql::{Piece, piece};
use std::io::Write as _;
use workload::Param;

/// The bytes of PostgreSQL's operators. The minus sign of a number must not stand directly after one of them: `k -` and `-50` would become a comment,
/// `k %` and `-50` an operator that does not exist. In MySQL `--50` is a number, and a space after `--` would begin a comment.
const OPERATORS: &[u8] = b"+-*/<>=~!@#%^&|`?";

/// A statement, split once at its placeholders, so that filling it in takes a few copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    /// The SQL before each placeholder, with the index of the parameter after it.
    pieces: Vec<(Vec<u8>, usize)>,
    tail: Vec<u8>,
    protocol: Protocol,
}

impl Template {
    /// Placeholders are `?` for MySQL, `$1` for PostgreSQL. Those in literals, names and comments are left alone.
    pub fn new(sql: &str, protocol: Protocol) -> Self {
        let (mut pieces, mut text) = (Vec::new(), Vec::new());
        let mut rest = sql.as_bytes();
        while !rest.is_empty() {
            let (piece, mut length) = piece(rest, protocol.dialect());
            let index = match (piece, protocol) {
                (Piece::Parameter, Protocol::Mysql) => Some(pieces.len()),
                (Piece::Parameter, Protocol::Postgresql) => index_of(&rest[1..length]),
                _ => None,
            };
            if piece == Piece::Executable {
                // The server executes the content of such a comment.
                length = 3;
            }
            match index {
                Some(index) => pieces.push((std::mem::take(&mut text), index)),
                None => text.extend_from_slice(&rest[..length]),
            }
            rest = &rest[length..];
        }
        Self { pieces, tail: text, protocol }
    }

    /// Appends the statement with `params` filled in; a missing parameter becomes NULL.
    pub fn render(&self, params: &[Param], texts: &[u8], out: &mut Vec<u8>) {
        for (before, index) in &self.pieces {
            out.extend_from_slice(before);
            match params.get(*index) {
                Some(Param::Int(value)) => {
                    let joins = self.protocol == Protocol::Postgresql
                        && before.last().is_some_and(|last| OPERATORS.contains(last));
                    if joins && *value < 0 {
                        out.push(b' ');
                    }
                    // A Vec takes every byte.
                    drop(write!(out, "{value}"));
                }
                Some(Param::Text { start, end }) => self.quote(&texts[*start as usize..*end as usize], out),
                None => out.extend_from_slice(b"NULL"),
            }
        }
        out.extend_from_slice(&self.tail);
    }

    /// A string literal. PostgreSQL with `standard_conforming_strings` (the default) does not treat a backslash specially.
    fn quote(&self, text: &[u8], out: &mut Vec<u8>) {
        out.push(b'\'');
        for &byte in text {
            match (byte, self.protocol) {
                (b'\'', _) => out.extend_from_slice(b"''"),
                (b'\\', Protocol::Mysql) => out.extend_from_slice(b"\\\\"),
                (0, Protocol::Mysql) => out.extend_from_slice(b"\\0"),
                _ => out.push(byte),
            }
        }
        out.push(b'\'');
    }
}

/// The index from the digits of a placeholder: 1 for `$2`.
fn index_of(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse::<usize>().ok()?.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(protocol: Protocol, sql: &str, expected: &str) {
        let texts = b"it's \\ 100%";
        let params = [Param::Int(-7), Param::Text { start: 0, end: 11 }];
        let mut out = Vec::new();
        Template::new(sql, protocol).render(&params, texts, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn fills_placeholders_in() {
        check(Protocol::Mysql, "SELECT ?, ? -- end", "SELECT -7, 'it''s \\\\ 100%' -- end");
        check(Protocol::Postgresql, "SELECT $2, $1,$1", "SELECT 'it''s \\ 100%', -7,-7");
    }

    #[test]
    fn leaves_quoted_text_alone() {
        check(Protocol::Mysql, "SELECT '?', `a?`, ?", "SELECT '?', `a?`, -7");
        check(Protocol::Postgresql, "SELECT '$1', $1, $x", "SELECT '$1', -7, $x");
    }

    #[test]
    fn leaves_comments_alone() {
        check(
            Protocol::Mysql,
            "/* hot? */ SELECT ? -- why?\n, ? # who?",
            "/* hot? */ SELECT -7 -- why?\n, 'it''s \\\\ 100%' # who?",
        );
        check(Protocol::Mysql, "SELECT 'it\\'s?', ?, 1--?", "SELECT 'it\\'s?', -7, 1--'it''s \\\\ 100%'");
        check(
            Protocol::Mysql,
            "SELECT /*+ MAX_EXECUTION_TIME(1) ? */ /*!40001 ? */ 1",
            "SELECT /*+ MAX_EXECUTION_TIME(1) ? */ /*!40001 -7 */ 1",
        );
        check(Protocol::Postgresql, "/* a /* $1 */ $1 */ SELECT $1 --$1", "/* a /* $1 */ $1 */ SELECT -7 --$1");
        check(
            Protocol::Postgresql,
            "SELECT $x$ $1 $x$, E'\\'$1', '\\', $1, a$1",
            "SELECT $x$ $1 $x$, E'\\'$1', '\\', -7, a$1",
        );
    }

    #[test]
    fn a_negative_number_makes_no_comment_and_no_operator() {
        let sql = "UPDATE t SET k = k -$1, c = 5 %$1, d = (5-$1)::int WHERE id = -$1 AND $2 -$2 > 0";
        let text = "'it''s \\ 100%'";
        let expected =
            format!("UPDATE t SET k = k - -7, c = 5 % -7, d = (5- -7)::int WHERE id = - -7 AND {text} -{text} > 0");
        check(Protocol::Postgresql, sql, &expected);
        check(Protocol::Mysql, "SELECT k -?, 1--'1'", "SELECT k --7, 1--'1'");
    }

    #[test]
    fn a_missing_parameter_is_null() {
        check(Protocol::Mysql, "?,?,?", "-7,'it''s \\\\ 100%',NULL");
    }
}
