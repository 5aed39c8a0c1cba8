// SPDX-License-Identifier: Apache-2.0
//! The text of SQL, cut into its pieces: words, literals, names in quotes, comments, parameters.
//!
//! - [`piece`]: the piece at the beginning of a text that is complete.
//! - [`Scanner`]: the pieces of a text that comes line by line; a literal or a comment may continue in the next line.
//! - [`tokens`] (and [`tokens_the_other_way`], where a setting of the server decides) and [`fingerprint`]: a statement's tokens, and its class, which is the text without its values. [`Classes`] makes the classes of many
//!   statements.
//!
//! Not here: what a statement means.

mod class_words;
mod scanner;
mod token;

pub use scanner::{Inside, Scanner, piece};
pub use token::{Classes, Token, fingerprint, tokens, tokens_the_other_way};

/// The server whose rules of quoting apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// The rules of MySQL and MariaDB.
    Mysql,
    Postgresql,
    /// A text for which no server is chosen yet: all quotes, no escapes, both kinds of parameters.
    Either,
}

/// The kind of a run of bytes.
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
