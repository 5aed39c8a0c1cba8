// SPDX-License-Identifier: Apache-2.0
//! A statement's text, cut at its `:name` placeholders.

use capability::Protocol;
use sql::{Dialect, Piece, piece};
use std::fmt::Write as _;

/// Text between placeholders, and the parameters by their index in the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Sql {
    pieces: Vec<(String, usize)>,
    tail: String,
    /// The text has a server's own placeholder: `?`, `$1`.
    pub(super) question_mark: bool,
    pub(super) dollar: bool,
}

impl Sql {
    /// Placeholders are names after a colon; not in quotes and comments, and not after a second colon, which is PostgreSQL's cast.
    ///
    /// # Errors
    /// The names that `index_of` does not know.
    pub(super) fn parse(text: &str, index_of: impl Fn(&str) -> Option<usize>) -> Result<Self, Vec<String>> {
        let (mut sql, mut unknown) = (Self::default(), Vec::new());
        let mut rest = text.trim().trim_end_matches(';').trim_end();
        while !rest.is_empty() {
            let (piece, mut length) = piece(rest.as_bytes(), Dialect::Either);
            if rest.starts_with("::") {
                length = 2;
            } else if let Some(name) = rest.strip_prefix(':').map(name_of).filter(|name| !name.is_empty()) {
                match index_of(name) {
                    Some(index) => sql.pieces.push((std::mem::take(&mut sql.tail), index)),
                    None => unknown.push(name.to_owned()),
                }
                rest = &rest[1 + name.len()..];
                continue;
            } else if piece == Piece::Parameter {
                sql.question_mark |= rest.starts_with('?');
                sql.dollar |= rest.starts_with('$');
            }
            sql.tail.push_str(&rest[..length]);
            rest = &rest[length..];
        }
        if unknown.is_empty() { Ok(sql) } else { Err(unknown) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.tail.is_empty()
    }

    /// The text as the server prepares it.
    pub(super) fn for_server(&self, protocol: Protocol) -> String {
        let mut text = String::new();
        for (number, (before, _)) in self.pieces.iter().enumerate() {
            text.push_str(before);
            match protocol {
                Protocol::Mysql => text.push('?'),
                // a String takes every write
                Protocol::Postgresql => drop(write!(text, "${}", number + 1)),
            }
        }
        text + &self.tail
    }

    /// The parameters in the order of their placeholders.
    pub(super) fn parameters(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().map(|(_, index)| *index)
    }

    /// The first word of the text, in small letters: `select`, `update`, `with`.
    pub(super) fn first_word(&self) -> String {
        let text = self.pieces.first().map_or(self.tail.as_str(), |(before, _)| before.as_str());
        let words = text.trim_start_matches(|letter: char| !letter.is_ascii_alphabetic());
        words.chars().take_while(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase()
    }
}

fn name_of(text: &str) -> &str {
    if !text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        return "";
    }
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len());
    &text[..end]
}
