// SPDX-License-Identifier: Apache-2.0
//! A statement's tokens, enough to name its class and to tell reads from the rest. Comments are left out.

use crate::Flavour;
use crate::quoting::{begins_line_comment, block_comment, dollar_quoted, is_word, line_comment, quoted, runs, word};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
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

pub(super) fn tokens(sql: &str, flavour: Flavour) -> Vec<Token> {
    let bytes = sql.as_bytes();
    let is_postgresql = flavour == Flavour::Postgresql;
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (token, length) = match rest[0] {
            byte if byte.is_ascii_whitespace() => (None, 1),
            _ if begins_line_comment(rest, flavour) => (None, line_comment(rest)),
            b'/' if rest.starts_with(b"/*") => {
                (runs(rest, flavour).then_some(Token::Executable), block_comment(rest, flavour))
            }
            b'\'' => (Some(Token::Text), quoted(rest, !is_postgresql || after_e(&found, bytes, at))),
            b'"' if is_postgresql => named(sql, at, quoted(rest, false)),
            b'"' => (Some(Token::Text), quoted(rest, true)),
            b'`' => named(sql, at, quoted(rest, false)),
            b'$' if is_postgresql => dollar(rest),
            b'?' if !is_postgresql => (Some(Token::Parameter), 1),
            byte if byte.is_ascii_digit() => (Some(Token::Number), number(rest)),
            byte if is_word(byte) => {
                let length = word(rest);
                (Some(Token::Word(String::from_utf8_lossy(&rest[..length]).to_lowercase())), length)
            }
            byte => (Some(Token::Symbol(char::from(byte))), 1),
        };
        // E'...', X'...', N'...': one literal
        if token == Some(Token::Text) && is_prefix(found.last()) && at > 0 && is_word(bytes[at - 1]) {
            found.pop();
        }
        found.extend(token);
        at += length.max(1);
    }
    found
}

fn is_prefix(last: Option<&Token>) -> bool {
    matches!(last, Some(Token::Word(word)) if matches!(word.as_str(), "e" | "x" | "b" | "n"))
}

fn after_e(found: &[Token], bytes: &[u8], at: usize) -> bool {
    at > 0 && matches!(bytes[at - 1], b'e' | b'E') && is_prefix(found.last())
}

fn named(sql: &str, at: usize, length: usize) -> (Option<Token>, usize) {
    (Some(Token::Name(sql.get(at..at + length).unwrap_or_default().to_owned())), length)
}

/// `$1`, or `$tag$text$tag$`.
fn dollar(rest: &[u8]) -> (Option<Token>, usize) {
    let digits = rest[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits > 0 {
        return (Some(Token::Parameter), digits + 1);
    }
    dollar_quoted(rest).map_or((Some(Token::Symbol('$')), 1), |length| (Some(Token::Text), length))
}

/// Digits, a point, an exponent, and what hexadecimal has.
fn number(rest: &[u8]) -> usize {
    let mut at = 0;
    while at < rest.len() {
        let sign = matches!(rest[at], b'+' | b'-') && at > 0 && matches!(rest[at - 1], b'e' | b'E');
        if !(rest[at].is_ascii_alphanumeric() || rest[at] == b'.' || sign) {
            break;
        }
        at += 1;
    }
    at
}

/// The class of a statement: its words in lower case, `?` for each value, one `?` for a list of them.
pub(super) fn fingerprint(tokens: &[Token]) -> String {
    let mut words: Vec<String> = Vec::new();
    for token in tokens {
        let word = match token {
            Token::Word(word) => word.clone(),
            Token::Name(name) => name.trim_matches(['`', '"']).to_owned(),
            Token::Text | Token::Number | Token::Parameter => "?".into(),
            Token::Symbol(symbol) => symbol.to_string(),
            Token::Executable => "/*!*/".into(),
        };
        words.push(word);
        shorten(&mut words);
    }
    let mut text = String::new();
    for word in words.iter().filter(|word| *word != ";") {
        let opens = text.is_empty() || text.ends_with(['(', '.', '@', ':']);
        let tight = opens || matches!(word.as_str(), ")" | "," | "." | ":");
        if !tight {
            text.push(' ');
        }
        text.push_str(word);
    }
    text
}

/// `? , ?` is `?`; `( ? ) , ( ? )` is `( ? )`; a sign before a value belongs to it.
fn shorten(words: &mut Vec<String>) {
    let ends =
        |words: &[String], with: &[&str]| words.len() >= with.len() && words[words.len() - with.len()..] == *with;
    if ends(words, &["?", ",", "?"]) {
        words.truncate(words.len() - 2);
    }
    if ends(words, &["(", "?", ")", ",", "(", "?", ")"]) {
        words.truncate(words.len() - 4);
    }
    for sign in ["-", "+"] {
        for before in ["(", ",", "=", "<", ">", "between", "and"] {
            if ends(words, &[before, sign, "?"]) {
                words.truncate(words.len() - 2);
                words.push("?".into());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(sql: &str) -> String {
        fingerprint(&tokens(sql, Flavour::Mysql))
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
        assert_eq!(class("INSERT INTO t VALUES (1,'a'),(2,'b'),(3,NULL)"), "insert into t values (?), (?, null)");
        assert_eq!(class("SELECT a-1, t.b FROM s.t;"), "select a - ?, t.b from s.t");
        assert_eq!(class("SELECT @@version, a::int"), "select @@version, a::int");
    }

    #[test]
    fn postgresql_has_quotes_of_its_own() {
        let class = |sql| fingerprint(&tokens(sql, Flavour::Postgresql));
        assert_eq!(class("SELECT \"A b\", $x$it's$x$, E'\\'', $1 FROM t"), "select A b, ? from t");
        assert_eq!(class("SELECT '\\' , 1"), "select ?");
    }

    #[test]
    fn comments_are_left_out_unless_they_run() {
        assert_eq!(class("/* who */ SELECT 1 # x"), "select ?");
        assert_eq!(class("SELECT 5--f(1)"), "select ? - - f (?)", "for the MySQL family two signs");
        assert!(tokens("SELECT /*!40001 SQL_NO_CACHE */ 1", Flavour::Mysql).contains(&Token::Executable));
    }
}
