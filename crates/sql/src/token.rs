// SPDX-License-Identifier: Apache-2.0
//! A statement's tokens: they suffice to name its class, and to tell whether it reads. Comments are left out.

use crate::class_words::Words;
use crate::scanner::Backslash;
use crate::{Dialect, Piece, Scanner, piece};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Token {
    /// A keyword or a plain name, in lower case.
    Word(String),
    /// A name in quotes, as written.
    Name(String),
    Text,
    Number,
    /// `?`, `$1`.
    Parameter,
    Symbol(char),
    /// `/*! ... */`: a comment that MySQL and MariaDB run.
    Executable,
}

pub fn tokens(sql: &str, dialect: Dialect) -> Vec<Token> {
    tokens_with(sql, dialect, Backslash::AsByDefault)
}

/// The tokens that a server finds whose setting for backslashes is not the default: `NO_BACKSLASH_ESCAPES`, or `standard_conforming_strings = off`.
/// `None`: it finds the same ones.
pub fn tokens_the_other_way(sql: &str, dialect: Dialect) -> Option<Vec<Token>> {
    sql.contains('\\').then(|| tokens_with(sql, dialect, Backslash::TheOtherWay))
}

fn tokens_with(sql: &str, dialect: Dialect, backslash: Backslash) -> Vec<Token> {
    let bytes = sql.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (piece, length) = Scanner::with(dialect, backslash).next(&bytes[at..]);
        let text = || sql.get(at..at + length).unwrap_or_default();
        found.extend(match piece {
            Piece::Space | Piece::LineComment | Piece::Comment => None,
            Piece::Word => Some(Token::Word(text().to_lowercase())),
            Piece::Name => Some(Token::Name(text().to_owned())),
            Piece::Text => Some(Token::Text),
            Piece::Number => Some(Token::Number),
            Piece::Parameter => Some(Token::Parameter),
            Piece::Symbol => Some(Token::Symbol(char::from(bytes[at]))),
            Piece::Executable => Some(Token::Executable),
        });
        at += length;
    }
    found
}

/// The class of a statement: its words in lower case, `?` for each value, one `?` for a list of values.
pub fn fingerprint(tokens: &[Token]) -> String {
    let mut words = Words::default();
    for token in tokens {
        match token {
            Token::Word(word) => words.push(word),
            Token::Name(name) => words.push(name.trim_matches(['`', '"'])),
            Token::Text | Token::Number | Token::Parameter => words.push("?"),
            Token::Symbol(symbol) => words.push(symbol.encode_utf8(&mut [0; 4])),
            Token::Executable => words.push("/*!*/"),
        }
    }
    let mut text = String::new();
    words.join(&mut text);
    text
}

/// Makes classes of many statements, one after the other, and uses the same memory for all of them.
#[derive(Debug, Default)]
pub struct Classes {
    words: Words,
    class: String,
}

impl Classes {
    /// The class of `sql`, the same as [`fingerprint`] of its [`tokens`].
    pub fn of(&mut self, sql: &str, dialect: Dialect) -> &str {
        self.words.clear();
        let bytes = sql.as_bytes();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let (piece, length) = piece(rest, dialect);
            let text = sql.get(at..at + length).unwrap_or_default();
            match piece {
                Piece::Space | Piece::LineComment | Piece::Comment => {}
                Piece::Word => self.words.push_lowercase(text),
                Piece::Name => self.words.push(text.trim_matches(['`', '"'])),
                Piece::Text | Piece::Number | Piece::Parameter => self.words.push("?"),
                Piece::Symbol => self.words.push(char::from(bytes[at]).encode_utf8(&mut [0; 4])),
                Piece::Executable => self.words.push("/*!*/"),
            }
            at += length;
        }
        self.words.join(&mut self.class);
        &self.class
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(sql: &str) -> String {
        let class = fingerprint(&tokens(sql, Dialect::Mysql));
        assert_eq!(Classes::default().of(sql, Dialect::Mysql), class, "one class by both ways");
        class
    }

    #[test]
    fn values_make_no_class_of_their_own() {
        assert_eq!(class("SELECT c FROM sbtest1 WHERE id=4711"), "select c from sbtest1 where id = ?");
        assert_eq!(
            class("select  c\nfrom `sbtest1` where id = 'it''s \\' x' -- y"),
            "select c from sbtest1 where id = ?"
        );
        assert_eq!(
            class("SELECT a FROM t WHERE b IN (1, 2,3) AND c > -1.5e-3"),
            "select a from t where b in (?) and c > ?"
        );
        assert_eq!(class("SELECT a FROM t WHERE b IN (1, -2,+3)"), "select a from t where b in (?)");
        assert_eq!(class("INSERT INTO t VALUES (1,'a'),(2,'b'),(3,NULL)"), "insert into t values (?), (?, null)");
        assert_eq!(class("SELECT a-1, t.b FROM s.t;"), "select a - ?, t.b from s.t");
        assert_eq!(class("SELECT @@version, a::int"), "select @@version, a::int");
    }

    #[test]
    fn postgresql_has_quotes_of_its_own() {
        let mut classes = Classes::default();
        let mut class = |sql| {
            let class = fingerprint(&tokens(sql, Dialect::Postgresql));
            assert_eq!(classes.of(sql, Dialect::Postgresql), class, "one class by both ways");
            class
        };
        assert_eq!(class("SELECT \"A b\", $x$it's$x$, E'\\'', $1 FROM t"), "select A b, ? from t");
        assert_eq!(class("SELECT '\\' , 1"), "select ?");
    }

    #[test]
    fn a_setting_of_the_server_decides_where_a_text_ends() {
        let other = |sql, dialect| tokens_the_other_way(sql, dialect).map(|tokens| fingerprint(&tokens));
        let sql = r"SELECT 'a\' INTO OUTFILE '/tmp/x' -- '";
        assert_eq!(class(sql), "select ? / tmp / ?");
        assert_eq!(other(sql, Dialect::Mysql).as_deref(), Some("select ? into outfile ?"));
        let sql = r"SELECT 'a\' || f(1) || '";
        assert_eq!(other(sql, Dialect::Postgresql).as_deref(), Some("select ?"));
        assert_eq!(other("SELECT 'it''s'", Dialect::Mysql), None);
    }

    #[test]
    fn comments_are_left_out_unless_they_run() {
        assert_eq!(class("/* who */ SELECT 1 # x"), "select ?");
        assert_eq!(class("SELECT 5--f(1)"), "select ? - - f (?)", "for the MySQL family two signs");
        assert!(tokens("SELECT /*!40001 SQL_NO_CACHE */ 1", Dialect::Mysql).contains(&Token::Executable));
    }
}
