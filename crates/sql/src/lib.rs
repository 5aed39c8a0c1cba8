// SPDX-License-Identifier: Apache-2.0
//! The text of SQL, cut into its pieces: words, literals, names in quotes, comments, parameters.
//!
//! - [`piece`]: what stands at the beginning of a text that is there as a whole.
//! - [`Scanner`]: the same for a text that comes line by line; a literal or a comment may go on in the next line.
//! - [`tokens`] and [`fingerprint`]: a statement's tokens, and its class: the text without its values. [`Classes`] makes those of many.
//!
//! Not here: what a statement means.

mod scanner;
mod token;
mod words;

pub use scanner::{Inside, Scanner, piece};
pub use token::{Classes, Token, fingerprint, tokens};

/// Whose rules of quoting count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Of MySQL and MariaDB.
    Mysql,
    Postgresql,
    /// A text that has not been given to one of them yet: all quotes, no escapes, both kinds of parameters.
    Either,
}

/// What a run of bytes is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    Space,
    /// A keyword or a plain name.
    Word,
    Number,
    /// One byte.
    Symbol,
    /// `'...'`, `E'...'`, `$tag$...$tag$`; `"..."` for the MySQL family.
    Text,
    /// A name in quotes.
    Name,
    /// `?`, `$1`.
    Parameter,
    /// `-- ...` or `# ...`, with the end of its line.
    LineComment,
    Comment,
    /// `/*! ... */`: a comment that MySQL and MariaDB run.
    Executable,
}
