// SPDX-License-Identifier: Apache-2.0
//! A file of any format: its outline, and its trees.

use crate::addresses::Symbols;
use crate::damage::{Damage, Error, of_input};
use crate::format::{BEGINNING, Format};
use crate::outline::Outline;
use crate::plain::packed_by;
use crate::tree::Tree;
use crate::{dhat, heaptrack, massif, sampled};
use std::io::{Cursor, ErrorKind, Read};

impl Outline {
    /// Reads a file; its first bytes tell the format. Compressed files go through [`crate::plain`] first.
    ///
    /// # Errors
    /// [`Error::Damage`]: the input is not a heap profile of a known format. Damage after its beginning is in `damage`.
    pub fn read(mut input: impl Read) -> Result<Self, Error> {
        let beginning = beginning(&mut input)?;
        let Some(format) = Format::of(&beginning) else {
            let what = unknown(&beginning);
            return Err(Damage { at_byte: 0, line: 1, what, is_end: beginning.is_empty() }.into());
        };
        let input = Cursor::new(beginning).chain(input);
        match format {
            Format::Massif => massif::trees::outline(input),
            Format::Heaptrack => heaptrack::outline(input),
            Format::Gperftools | Format::Jemalloc => sampled::outline(input, format),
            Format::Dhat => dhat::outline(input),
        }
    }
}

impl Format {
    /// The format of a file, of which only the beginning is read. `None`: the format is not known, or the file cannot be read.
    pub fn read(mut input: impl Read) -> Option<Self> {
        Self::of(&beginning(&mut input).ok()?)
    }
}

/// Why a file with this beginning is none that can be read. Of what is no text nothing is repeated.
fn unknown(beginning: &[u8]) -> String {
    if beginning.trim_ascii().is_empty() {
        return "it is empty".to_owned();
    }
    if let Some(why) = packed_by(beginning) {
        return why.to_owned();
    }
    let words: String = String::from_utf8_lossy(beginning).chars().take(40).collect();
    let line = words.lines().next().unwrap_or_default();
    if line.contains(|it: char| it.is_control() && it != '\t' || it == char::REPLACEMENT_CHARACTER) {
        return "it begins as no heap profile does, and as no text does".to_owned();
    }
    format!("it begins as no heap profile does: {line:?}")
}

/// The first bytes, as far as they could be read. A later error shows when the rest is read.
fn beginning(input: &mut impl Read) -> Result<Vec<u8>, Error> {
    let mut beginning = Vec::new();
    match input.take(BEGINNING as u64).read_to_end(&mut beginning) {
        Ok(_) => Ok(beginning),
        Err(error) if beginning.is_empty() => {
            let none = |what| Damage { at_byte: 0, line: 1, what, is_end: false };
            Err(of_input(error, none))
        }
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::InvalidData) => Ok(beginning),
        Err(error) => Err(error.into()),
    }
}

/// The trees of the snapshots at these places of the outline, in the file's order, one at a time; other snapshots are skipped.
///
/// # Errors
/// As [`Outline::read`]. Of a damaged file, only the trees before the damage are read.
pub fn each_tree(
    input: impl Read,
    outline: &Outline,
    places: &[usize],
    symbols: &mut dyn Symbols,
    each: &mut dyn FnMut(usize, Tree),
) -> Result<(), Error> {
    match outline.format {
        Format::Massif => massif::trees::trees(input, places, each),
        Format::Heaptrack => heaptrack::trees(input, outline, places, each),
        Format::Gperftools | Format::Jemalloc if places.contains(&0) => {
            sampled::tree(input, outline, symbols)?.into_iter().for_each(|tree| each(0, tree));
            Ok(())
        }
        Format::Gperftools | Format::Jemalloc => Ok(()),
        Format::Dhat => dhat::trees(input, outline, places, each),
    }
}

/// All trees at these places.
///
/// # Errors
/// As [`each_tree`].
pub fn trees(
    input: impl Read,
    outline: &Outline,
    places: &[usize],
    symbols: &mut dyn Symbols,
) -> Result<Vec<Tree>, Error> {
    let mut trees = Vec::new();
    each_tree(input, outline, places, symbols, &mut |_, tree| trees.push(tree))?;
    Ok(trees)
}
