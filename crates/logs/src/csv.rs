// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's csvlog: records of messages. After a damaged record, reading goes on with the next line that begins a record.

use crate::clock::{Moment, Told};
use crate::entry::{Gathered, Reader};
use crate::lines::append;
use crate::postgresql::{Connections, Message};
use crate::prefix::SEVERITIES;
use std::borrow::Cow;

/// Columns of csvlog ("Using CSV-Format Log Output"): the same in all versions; later versions append columns.
mod column {
    pub(crate) const TIME: usize = 0;
    pub(crate) const DATABASE: usize = 2;
    pub(crate) const PROCESS: usize = 3;
    pub(crate) const SEVERITY: usize = 11;
    pub(crate) const MESSAGE: usize = 13;
    pub(crate) const DETAIL: usize = 14;
    pub(crate) const STATEMENT: usize = 19;
    pub(crate) const LEAST: usize = 23;
}

/// Whether a record begins with this line.
pub(crate) fn is_record(line: &str) -> bool {
    let mut fields = Fields::default();
    fields.split(line);
    Moment::of_iso(&fields.text(column::TIME)).is_some() && SEVERITIES.contains(&fields.text(column::SEVERITY).as_ref())
}

/// Splits records into fields. The parser is made once, because making it takes longer than reading a record.
struct Fields {
    parser: csv_core::Reader,
    bytes: Vec<u8>,
    /// More fields than a csvlog has.
    ends: [usize; 64],
    count: usize,
}

impl Default for Fields {
    fn default() -> Self {
        // the parser's own default is a parser that was not built
        Self { parser: csv_core::Reader::new(), bytes: Vec::new(), ends: [0; 64], count: 0 }
    }
}

impl Fields {
    fn split(&mut self, record: &str) {
        self.parser.reset();
        self.bytes.clear();
        self.bytes.resize(record.len() + 1, 0);
        let (_, read, written, ends) = self.parser.read_record(record.as_bytes(), &mut self.bytes, &mut self.ends);
        // no more input: the last field ends here
        let (.., last) =
            self.parser.read_record(&record.as_bytes()[read..], &mut self.bytes[written..], &mut self.ends[ends..]);
        self.count = ends + last;
    }

    fn text(&self, column: usize) -> Cow<'_, str> {
        let end = |column: usize| self.ends[..self.count].get(column).copied();
        let start = column.checked_sub(1).map_or(Some(0), end);
        let bytes = start.zip(end(column)).and_then(|(start, end)| self.bytes.get(start..end));
        String::from_utf8_lossy(bytes.unwrap_or_default())
    }
}

/// A record may have line ends within quotes.
#[derive(Default)]
pub(crate) struct Csv {
    connections: Connections,
    /// The number of the record's first line, its offset, and the record so far.
    open: Option<(u64, u64, String)>,
    is_quoted: bool,
    fields: Fields,
}

impl Reader for Csv {
    fn line(&mut self, number: u64, line: &str, gathered: &mut Gathered) {
        if self.is_quoted && is_begin_beside_quotes(line) {
            self.leave_out(gathered);
        }
        match &mut self.open {
            Some((.., record)) => append(record, line, gathered.most),
            None => self.open = Some((number, gathered.here.offset, line.to_owned())),
        }
        self.is_quoted ^= line.bytes().filter(|byte| *byte == b'"').count() % 2 == 1;
        let is_too_long = self.open.as_ref().is_some_and(|(.., record)| record.len() > gathered.most);
        if self.is_quoted && !is_too_long {
            return;
        }
        self.is_quoted = false;
        let Some((first, from, record)) = self.open.take() else { return };
        gathered.here_since(from);
        if is_too_long {
            return gathered.trouble(first, "a record that is too long");
        }
        self.record(first, from, &record, gathered);
    }

    fn end(&mut self, gathered: &mut Gathered) {
        self.leave_out(gathered);
        self.connections.end(gathered);
    }
}

impl Csv {
    fn record(&mut self, first: u64, from: u64, record: &str, gathered: &mut Gathered) {
        self.fields.split(record);
        let count = self.fields.count;
        if count < column::LEAST {
            let what = || format!("{count} columns where a csvlog has {} or more", column::LEAST);
            return gathered.trouble_with(first, "fewer columns than a csvlog has", what);
        }
        let text = |column: usize| self.fields.text(column).into_owned();
        let message = Message {
            line: first,
            from,
            told: Told::of_iso(&text(column::TIME)),
            session: text(column::PROCESS),
            database: Some(text(column::DATABASE)).filter(|name| !name.is_empty()),
            severity: text(column::SEVERITY),
            text: text(column::MESSAGE),
            detail: text(column::DETAIL),
            statement: text(column::STATEMENT),
        };
        self.connections.message(message, gathered);
    }

    /// The open record does not end: another one begins, or the log is over.
    fn leave_out(&mut self, gathered: &mut Gathered) {
        self.is_quoted = false;
        if let Some((first, from, _)) = self.open.take() {
            gathered.trouble_from(from, first, "a record that does not end");
        }
    }
}

/// Whether a record begins with this line, although the quotes before it say that the line is a part of a quoted text. In such a text each quote is written
/// twice; a record has single ones.
fn is_begin_beside_quotes(line: &str) -> bool {
    let quotes = line.find('"').map_or("", |first| &line[first..]);
    let run = quotes.find(|letter| letter != '"').unwrap_or(quotes.len());
    run % 2 == 1 && is_record(line)
}

#[cfg(test)]
mod tests {
    use crate::{Format, Log, Recorded};

    fn record(process: u32, message: &str) -> String {
        format!(
            "2026-11-21 22:51:56.000 UTC,\"me\",\"shop\",{process},\"[local]\",6a.7,1,\"idle\",2026-11-21 22:51:55 UTC,3/1,0,LOG,00000,\
             \"{message}\",,,,,,,,,\"psql\",\"client backend\",,0\n"
        )
    }

    /// The statements, and the first lines and the bytes of what was left out.
    fn read(text: &str) -> (Vec<String>, Vec<u64>, u64) {
        let read = Recorded::of(Log::of(Format::PostgresqlCsv, text.as_bytes())).expect("reads");
        let statements = read.sessions.iter().flat_map(|it| it.statements.iter().map(|it| it.sql.clone())).collect();
        (statements, read.skipped.lines.iter().map(|(line, _)| *line).collect(), read.skipped.bytes)
    }

    #[test]
    fn after_a_damaged_record_the_next_one_is_read() {
        let good = record(7, "statement: SELECT 1\n, 2") + &record(7, "statement: SELECT 3");
        let statements = ["SELECT 1\n, 2", "SELECT 3"].map(str::to_owned).to_vec();
        let begun_before = " FROM t\",,,,,,,,,\"psql\",\"client backend\",,0\n";
        let stray = record(7, "statement: SELECT \" 4");
        let cut = &record(7, "statement: SELECT 5")[..120];
        for bad in [begun_before, &stray, &format!("{cut}\n")] {
            assert_eq!(read(&(bad.to_owned() + &good)), (statements.clone(), vec![1], bad.len() as u64), "{bad}");
        }
    }

    #[test]
    fn a_record_within_a_text_begins_none() {
        let copied = record(8, "statement: SELECT 2").replace('"', "\"\"");
        let text = record(7, &format!("statement: SELECT '\n{copied}'"));
        let (statements, left_out, _) = read(&text);
        assert_eq!((statements.len(), left_out.len()), (1, 0));
    }
}
