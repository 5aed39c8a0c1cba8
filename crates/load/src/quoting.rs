// SPDX-License-Identifier: Apache-2.0
//! Where in a statement's text a server looks for nothing: literals, names in quotes, comments. What stands in them is no parameter and
//! no keyword.

use crate::Flavour;

/// The length of what is opaque at the beginning of `rest`, or of a word there; 0 where neither begins. `/*! ... */` is a comment that
/// the MySQL family runs: only its opening is passed over.
pub(crate) fn opaque(rest: &[u8], flavour: Flavour) -> usize {
    let is_mysql = flavour == Flavour::Mysql;
    match rest {
        [b'\'' | b'"', ..] => quoted(rest, is_mysql),
        [b'`', ..] if is_mysql => quoted(rest, false),
        _ if begins_line_comment(rest, flavour) => line_comment(rest),
        [b'/', b'*', ..] if runs(rest, flavour) => 3,
        [b'/', b'*', ..] => block_comment(rest, flavour),
        [b'$', ..] if !is_mysql => dollar_quoted(rest).unwrap_or(0),
        [b'e' | b'E', b'\'', ..] if !is_mysql => 1 + quoted(&rest[1..], true),
        [first, ..] if is_word(*first) && !first.is_ascii_digit() && *first != b'$' => word(rest),
        _ => 0,
    }
}

/// The letters of names; `$` is one, but for the first.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

pub(crate) fn word(rest: &[u8]) -> usize {
    rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len())
}

/// `-- ` or `#`; without a space behind it `--` is two signs for the MySQL family, as in `5--1`.
pub(crate) fn begins_line_comment(rest: &[u8], flavour: Flavour) -> bool {
    match (rest, flavour) {
        ([b'#', ..], Flavour::Mysql) => true,
        ([b'-', b'-', after @ ..], Flavour::Mysql) => after.first().is_none_or(|byte| *byte <= b' '),
        ([b'-', b'-', ..], Flavour::Postgresql) => true,
        _ => false,
    }
}

/// With the end of its line.
pub(crate) fn line_comment(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1)
}

/// A comment that MySQL and MariaDB run.
pub(crate) fn runs(rest: &[u8], flavour: Flavour) -> bool {
    flavour == Flavour::Mysql && (rest.starts_with(b"/*!") || rest.starts_with(b"/*M!"))
}

/// Of `/* ... */`; PostgreSQL's may hold others.
pub(crate) fn block_comment(rest: &[u8], flavour: Flavour) -> usize {
    let (mut at, mut depth) = (2, 1);
    while at < rest.len() && depth > 0 {
        let step = match &rest[at..] {
            [b'*', b'/', ..] => -1,
            [b'/', b'*', ..] if flavour == Flavour::Postgresql => 1,
            _ => 0,
        };
        depth += step;
        at += if step == 0 { 1 } else { 2 };
    }
    at.min(rest.len())
}

/// Up to the quote that it begins with; a doubled one does not end it, and with `escapes` none behind a backslash.
pub(crate) fn quoted(rest: &[u8], escapes: bool) -> usize {
    let quote = rest[0];
    let mut at = 1;
    while at < rest.len() {
        if escapes && rest[at] == b'\\' {
            at += 2;
        } else if rest[at] != quote {
            at += 1;
        } else if rest.get(at + 1) == Some(&quote) {
            at += 2;
        } else {
            return at + 1;
        }
    }
    rest.len()
}

/// `$tag$text$tag$`. `None`: no tag begins here.
pub(crate) fn dollar_quoted(rest: &[u8]) -> Option<usize> {
    let end = rest[1..].iter().position(|byte| *byte == b'$')?;
    let tag = &rest[..end + 2];
    let name = &rest[1..=end];
    if name.first().is_some_and(u8::is_ascii_digit) || !name.iter().all(|byte| is_word(*byte)) {
        return None;
    }
    let text = &rest[tag.len()..];
    let closed = text.windows(tag.len()).position(|window| window == tag);
    Some(closed.map_or(rest.len(), |at| tag.len() + at + tag.len()))
}
