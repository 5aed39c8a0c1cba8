// SPDX-License-Identifier: Apache-2.0
//! The results of the readers of the formats: entries, and counts of everything that is no entry.

use crate::clock::{Moment, Zone};
use crate::figures::Figures;
use crate::lines::MOST_BYTES;
use crate::place::Place;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A statement that a server ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The connection: its number, or the text that the log has instead.
    pub session: String,
    /// The time at which it began, by the log's clock.
    pub at: Moment,
    /// The line of the log on which it begins.
    pub line: u64,
    pub sql: String,
    pub database: Option<String>,
    /// The offset of its first line, in bytes from the log's beginning.
    pub offset: u64,
    /// The measurements of its execution, as far as the log has them.
    pub figures: Figures,
    /// The last line before it in which a MySQL or MariaDB server names its version at its start.
    pub head: Option<Arc<str>>,
}

/// The number of omissions, and the line of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skip {
    pub count: u64,
    pub first_line: u64,
}

/// The content of a log that is no statement, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Lines and entries that could not be understood.
    pub not_understood: BTreeMap<&'static str, Skip>,
    /// Content that was understood and ran no statement: other commands, other messages.
    pub no_statement: BTreeMap<&'static str, Skip>,
    /// The first [`Self::LINES_KEPT`] lines that could not be understood, each with the reason.
    pub lines: Vec<(u64, String)>,
    /// The first [`Self::PLACES_KEPT`] places that could not be understood, and why. Places that follow each other for the same reason are one place.
    pub places: Vec<(Place, &'static str)>,
    /// Bytes that could not be understood, in all places together.
    pub bytes: u64,
}

impl Skipped {
    pub const LINES_KEPT: usize = 20;
    pub const PLACES_KEPT: usize = 1000;

    /// Lines and entries that could not be understood.
    pub fn not_understood_count(&self) -> u64 {
        self.not_understood.values().map(|skip| skip.count).sum()
    }
}

/// Reads one format, line by line.
pub(crate) trait Reader {
    fn line(&mut self, number: u64, line: &str, gathered: &mut Gathered);
    /// The log is at its end.
    fn end(&mut self, gathered: &mut Gathered);
}

/// The parts of an entry that a reader has found.
#[derive(Debug, Default)]
pub(crate) struct Found<'a> {
    pub(crate) session: &'a str,
    pub(crate) at: Moment,
    pub(crate) line: u64,
    /// The offset of its first line.
    pub(crate) from: u64,
    pub(crate) sql: String,
    pub(crate) database: Option<String>,
    pub(crate) figures: Figures,
}

/// Holds the findings of a reader until they are fetched.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) entries: VecDeque<Entry>,
    pub(crate) skipped: Skipped,
    /// The place of the line that is read now; after the last line, an empty place.
    pub(crate) here: Place,
    /// The most bytes of a text that are kept.
    pub(crate) most: usize,
    /// Whether a longer statement is cut, and an entry without a time is accepted. Otherwise both are left out.
    pub(crate) cuts: bool,
    /// The last line so far in which a server names its version at its start.
    pub(crate) head: Option<Arc<str>>,
    /// The time zone of the last time with a day.
    pub(crate) zone: Zone,
    /// Omitted bytes are counted up to this offset.
    left_out_until: u64,
}

impl Default for Gathered {
    fn default() -> Self {
        let (entries, skipped) = (VecDeque::new(), Skipped::default());
        Self {
            entries,
            skipped,
            here: Place::default(),
            most: MOST_BYTES,
            cuts: false,
            head: None,
            zone: Zone::default(),
            left_out_until: 0,
        }
    }
}

/// The first characters of a text, at most `most` bytes.
pub fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// A head that is longer than this, in bytes, is not kept.
const HEAD_BYTES: usize = 500;

impl Gathered {
    pub(crate) fn found(&mut self, found: Found<'_>) {
        let entry = self.entry(found);
        self.entries.extend(entry);
    }

    /// The entry, for a reader that gives it later. `None`: its statement is too long, and is left out.
    pub(crate) fn entry(&mut self, found: Found<'_>) -> Option<Entry> {
        let Found { session, at, line, from, mut sql, database, figures } = found;
        if sql.len() > self.most {
            if !self.cuts {
                self.trouble_from(from, line, "a statement longer than 64 MiB");
                return None;
            }
            sql.truncate(cut(&sql, self.most).len());
        }
        let (session, head) = (session.to_owned(), self.head.clone());
        Some(Entry { session, at, line, sql, database, offset: from, figures, head })
    }

    pub(crate) fn head(&mut self, line: &str) {
        if line.contains(", Version: ") && line.len() <= HEAD_BYTES {
            self.head = Some(line.into());
        }
    }

    pub(crate) fn zone(&mut self, zone: &Zone) {
        if self.zone != *zone {
            self.zone = zone.clone();
        }
    }

    pub(crate) fn trouble(&mut self, line: u64, reason: &'static str) {
        self.trouble_with(line, reason, || reason.to_owned());
    }

    /// `what` gives more details than `reason`, by which the trouble is counted.
    pub(crate) fn trouble_with(&mut self, line: u64, reason: &'static str, what: impl FnOnce() -> String) {
        self.note(self.here, line, reason, what);
    }

    /// Counts an entry that began at the offset `from` and ended before this line, or that is this line.
    pub(crate) fn trouble_from(&mut self, from: u64, line: u64, reason: &'static str) {
        self.trouble_from_with(from, line, reason, || reason.to_owned());
    }

    pub(crate) fn trouble_from_with(
        &mut self,
        from: u64,
        line: u64,
        reason: &'static str,
        what: impl FnOnce() -> String,
    ) {
        let here = self.here;
        let place = if from < here.offset { Place { offset: from, bytes: here.offset - from } } else { here };
        self.note(place, line, reason, what);
    }

    /// The present entry has several lines, and this is the last of them: they count as one place.
    pub(crate) fn here_since(&mut self, from: u64) {
        let end = self.here.offset + self.here.bytes;
        self.here = Place { offset: from, bytes: end.saturating_sub(from) };
    }

    fn note(&mut self, place: Place, line: u64, reason: &'static str, what: impl FnOnce() -> String) {
        count(&mut self.skipped.not_understood, reason, line);
        if self.skipped.lines.len() < Skipped::LINES_KEPT {
            self.skipped.lines.push((line, what()));
        }
        self.leave_out(place, reason);
    }

    /// When a whole entry is left out, one of its lines may have been left out before: each byte counts once.
    fn leave_out(&mut self, mut place: Place, reason: &'static str) {
        let Skipped { places, bytes, .. } = &mut self.skipped;
        let is_full = places.len() >= Skipped::PLACES_KEPT;
        let end = (place.offset + place.bytes).max(self.left_out_until);
        if !is_full {
            while let Some((covered, _)) = places.pop_if(|(last, _)| last.offset >= place.offset) {
                *bytes -= covered.bytes;
                self.left_out_until = places.last().map_or(0, |(last, _)| last.offset + last.bytes);
            }
        }
        place.offset = place.offset.max(self.left_out_until);
        place.bytes = end.saturating_sub(place.offset);
        *bytes += place.bytes;
        self.left_out_until = end;
        match places.last_mut() {
            Some((last, why)) if *why == reason && last.offset + last.bytes == place.offset => {
                last.bytes += place.bytes
            }
            _ if is_full || place.bytes == 0 => {}
            _ => places.push((place, reason)),
        }
    }

    pub(crate) fn no_statement(&mut self, line: u64, reason: &'static str) {
        count(&mut self.skipped.no_statement, reason, line);
    }
}

fn count(skips: &mut BTreeMap<&'static str, Skip>, reason: &'static str, line: u64) {
    skips.entry(reason).or_insert(Skip { count: 0, first_line: line }).count += 1;
}
