// SPDX-License-Identifier: Apache-2.0
//! The one scanner of quotes and comments.

use crate::{Dialect, Piece};

/// The piece at the beginning of `rest`, and its length, which is 0 only if `rest` is empty. A piece that is not closed extends to the end of `rest`.
pub fn piece(rest: &[u8], dialect: Dialect) -> (Piece, usize) {
    Scanner::new(dialect).next(rest)
}

/// Whether a backslash in a text escapes. In the MySQL family it does, except with `sql_mode = NO_BACKSLASH_ESCAPES`; in PostgreSQL it does not, except
/// with `standard_conforming_strings = off`. A statement's text does not tell the setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backslash {
    AsByDefault,
    TheOtherWay,
}

/// The piece that is still open between two runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inside {
    Code,
    /// A text or a name, open until this quote.
    Quote {
        quote: u8,
        escapes: bool,
        piece: Piece,
    },
    /// A text, open until this `$tag$`.
    Dollar(Vec<u8>),
    /// A comment; `depth` counts the comments that are open, because comments of PostgreSQL nest.
    Comment {
        depth: u32,
        piece: Piece,
    },
}

/// Takes a text run by run. The text may be given in parts that are cut at ends of lines.
#[derive(Debug, Clone)]
pub struct Scanner {
    dialect: Dialect,
    backslash: Backslash,
    inside: Inside,
}

impl Scanner {
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, backslash: Backslash::AsByDefault, inside: Inside::Code }
    }

    pub(crate) fn with(dialect: Dialect, backslash: Backslash) -> Self {
        Self { backslash, ..Self::new(dialect) }
    }

    pub fn inside(&self) -> &Inside {
        &self.inside
    }

    /// The next run of `rest`: a whole piece, or the part of a piece that `rest` holds.
    pub fn next(&mut self, rest: &[u8]) -> (Piece, usize) {
        let (piece, from) = match &self.inside {
            Inside::Code => self.begin(rest),
            Inside::Quote { piece, .. } | Inside::Comment { piece, .. } => (*piece, 0),
            Inside::Dollar(_) => (Piece::Text, 0),
        };
        let length = match &mut self.inside {
            Inside::Code => return (piece, from),
            Inside::Quote { quote, escapes, .. } => end_of_quote(&rest[from..], *quote, *escapes),
            Inside::Dollar(tag) => rest[from..].windows(tag.len()).position(|it| it == tag).map(|at| at + tag.len()),
            Inside::Comment { depth, .. } => end_of_comment(&rest[from..], depth, self.dialect == Dialect::Postgresql),
        };
        if length.is_some() {
            self.inside = Inside::Code;
        }
        (piece, length.map_or(rest.len(), |length| from + length))
    }

    /// The kind of the piece that begins here, and its length; for a piece that ends with a mark of its own, the length of its opening mark.
    fn begin(&mut self, rest: &[u8]) -> (Piece, usize) {
        let is_postgresql = self.dialect == Dialect::Postgresql;
        let is_mysql = self.dialect == Dialect::Mysql;
        match *rest {
            [] => (Piece::Space, 0),
            [byte, ..] if byte.is_ascii_whitespace() => (Piece::Space, length_of(rest, |it| it.is_ascii_whitespace())),
            _ if self.begins_line_comment(rest) => {
                (Piece::LineComment, rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1))
            }
            [b'/', b'*', ..] => {
                let runs = is_mysql && (rest.starts_with(b"/*!") || rest.starts_with(b"/*M!"));
                let piece = if runs { Piece::Executable } else { Piece::Comment };
                self.inside = Inside::Comment { depth: 1, piece };
                (piece, 2)
            }
            [b'\'', ..] => self.open(b'\'', self.escapes(), Piece::Text, 1),
            [b'"', ..] => {
                self.open(b'"', is_mysql && self.escapes(), if is_mysql { Piece::Text } else { Piece::Name }, 1)
            }
            [b'`', ..] if !is_postgresql => self.open(b'`', false, Piece::Name, 1),
            [b'$', digit, ..] if !is_mysql && digit.is_ascii_digit() => {
                (Piece::Parameter, 1 + length_of(&rest[1..], u8::is_ascii_digit))
            }
            [b'$', ..] if is_postgresql => match dollar_tag(rest) {
                Some(tag) => {
                    self.inside = Inside::Dollar(tag.to_vec());
                    (Piece::Text, tag.len())
                }
                None => (Piece::Symbol, 1),
            },
            [b'?', ..] if !is_postgresql => (Piece::Parameter, 1),
            [byte, ..] if byte.is_ascii_digit() => (Piece::Number, number(rest)),
            // the letter before the quote and the quoted text are one literal
            [letter @ (b'e' | b'E' | b'x' | b'X' | b'b' | b'B' | b'n' | b'N'), b'\'', ..] => {
                let escapes = self.escapes() || (is_postgresql && letter.eq_ignore_ascii_case(&b'e'));
                self.open(b'\'', escapes, Piece::Text, 2)
            }
            [byte, ..] if is_word(byte) && byte != b'$' => (Piece::Word, length_of(rest, |it| is_word(*it))),
            _ => (Piece::Symbol, 1),
        }
    }

    /// Whether a backslash escapes in a text without a letter before it.
    fn escapes(&self) -> bool {
        match (self.dialect, self.backslash) {
            (Dialect::Mysql, it) => it == Backslash::AsByDefault,
            (Dialect::Postgresql, it) => it == Backslash::TheOtherWay,
            (Dialect::Either, _) => false,
        }
    }

    fn open(&mut self, quote: u8, escapes: bool, piece: Piece, length: usize) -> (Piece, usize) {
        self.inside = Inside::Quote { quote, escapes, piece };
        (piece, length)
    }

    /// `-- ` or `#` begins a comment. In MySQL and MariaDB, `--` without a space after it is two signs, as in `5--1`.
    fn begins_line_comment(&self, rest: &[u8]) -> bool {
        match rest {
            [b'#', ..] => self.dialect == Dialect::Mysql,
            [b'-', b'-', after @ ..] => {
                self.dialect != Dialect::Mysql || after.first().is_none_or(|byte| *byte <= b' ')
            }
            _ => false,
        }
    }
}

/// The letters of names; `$` is a letter, except at the beginning of a name.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

fn length_of(rest: &[u8], belongs: impl Fn(&u8) -> bool) -> usize {
    rest.iter().position(|byte| !belongs(byte)).unwrap_or(rest.len())
}

/// The place after the closing quote. A doubled quote does not close; with `escapes`, a quote after a backslash does not close either.
fn end_of_quote(rest: &[u8], quote: u8, escapes: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        at += rest.get(at..)?.iter().position(|byte| *byte == quote || (escapes && *byte == b'\\'))?;
        if rest[at] == quote && rest.get(at + 1) != Some(&quote) {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The place after the `*/` that closes the comment. At the end of `rest`, `depth` is the number of comments that are open.
fn end_of_comment(rest: &[u8], depth: &mut u32, nests: bool) -> Option<usize> {
    let mut at = 0;
    while at < rest.len() {
        match rest[at..] {
            [b'*', b'/', ..] => {
                *depth -= 1;
                at += 2;
                if *depth == 0 {
                    return Some(at);
                }
            }
            [b'/', b'*', ..] if nests => {
                *depth += 1;
                at += 2;
            }
            _ => at += 1,
        }
    }
    None
}

/// `$$` or `$name$` at the beginning of `rest`.
fn dollar_tag(rest: &[u8]) -> Option<&[u8]> {
    let end = rest[1..].iter().position(|byte| *byte == b'$')? + 1;
    let name = &rest[1..end];
    let is_name = name.iter().all(|byte| is_word(*byte)) && !name.first().is_some_and(u8::is_ascii_digit);
    is_name.then(|| &rest[..=end])
}

/// The length of a number: digits, a point, an exponent, and the letters of hexadecimal numbers.
fn number(rest: &[u8]) -> usize {
    let is_sign = |at: usize| matches!(rest[at], b'+' | b'-') && at > 0 && matches!(rest[at - 1], b'e' | b'E');
    let belongs = |at: &usize| rest[*at].is_ascii_alphanumeric() || rest[*at] == b'.' || is_sign(*at);
    (0..rest.len()).take_while(belongs).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str, dialect: Dialect) -> Vec<(Piece, &str)> {
        let (mut found, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (piece, length) = piece(rest.as_bytes(), dialect);
            found.push((piece, &rest[..length]));
            rest = &rest[length..];
        }
        found.retain(|(piece, _)| *piece != Piece::Space);
        found
    }

    #[test]
    fn each_dialect_has_its_own_quotes_and_comments() {
        use Piece::{Comment, Executable, LineComment, Name, Number, Parameter, Symbol, Text, Word};
        let text = "a$1 'x\\'' \"q\" `n` # c\n--1 /*! y */";
        let mysql = [
            (Word, "a$1"),
            (Text, "'x\\''"),
            (Text, "\"q\""),
            (Name, "`n`"),
            (LineComment, "# c\n"),
            (Symbol, "-"),
            (Symbol, "-"),
            (Number, "1"),
            (Executable, "/*! y */"),
        ];
        assert_eq!(pieces(text, Dialect::Mysql), mysql);
        let text = "'\\' E'\\'' $1 $x$it's$x$ \"q\" --1\n/* a /* b */ c */ x'ff'";
        let postgresql = [
            (Text, "'\\'"),
            (Text, "E'\\''"),
            (Parameter, "$1"),
            (Text, "$x$it's$x$"),
            (Name, "\"q\""),
            (LineComment, "--1\n"),
            (Comment, "/* a /* b */ c */"),
            (Text, "x'ff'"),
        ];
        assert_eq!(pieces(text, Dialect::Postgresql), postgresql);
        assert_eq!(pieces("? $1", Dialect::Either), [(Parameter, "?"), (Parameter, "$1")]);
    }

    /// A piece that is open at the end of a line continues in the next line, and the runs are the same as those of the whole text.
    #[test]
    fn lines_one_by_one_are_the_same_as_the_whole() {
        let text = "SELECT 'a\n''b\n' , $x$ y\n$ $x$ /* 1\n/* 2 */\n3 */ E'\\\n' -- z\n\"n\nm\" `q\n`;\n";
        for dialect in [Dialect::Mysql, Dialect::Postgresql, Dialect::Either] {
            let (mut scanner, mut runs): (Scanner, Vec<(Piece, String)>) = (Scanner::new(dialect), Vec::new());
            for line in text.split_inclusive('\n') {
                let mut rest = line;
                while !rest.is_empty() {
                    let goes_on = *scanner.inside() != Inside::Code;
                    let (piece, length) = scanner.next(rest.as_bytes());
                    match runs.last_mut().filter(|_| goes_on) {
                        Some((_, run)) => run.push_str(&rest[..length]),
                        None => runs.push((piece, rest[..length].to_owned())),
                    }
                    rest = &rest[length..];
                }
            }
            runs.retain(|(piece, _)| *piece != Piece::Space);
            let runs: Vec<(Piece, &str)> = runs.iter().map(|(piece, run)| (*piece, run.as_str())).collect();
            assert_eq!(runs, pieces(text, dialect), "{dialect:?}");
        }
    }

    #[test]
    fn what_is_not_closed_is_said() {
        for (text, dialect) in [("'a\\'", Dialect::Mysql), ("/* x", Dialect::Either), ("$a$ $b$", Dialect::Postgresql)]
        {
            let mut scanner = Scanner::new(dialect);
            assert_eq!(scanner.next(text.as_bytes()).1, text.len());
            assert_ne!(*scanner.inside(), Inside::Code, "{text}");
        }
    }
}
