// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's log: stderr with a prefix that has time and process, csvlog, jsonlog. It reads the messages of `log_statement` and
//! `log_min_duration_statement`, also where the first has the text and the second the duration; the values of prepared statements are in the detail.

use crate::clock::Moment;
use crate::databases::Databases;
use crate::entry::{Found, Gathered, Reader};
use crate::figures::{Figures, decimal};
use crate::lines::append;
use crate::lock_waits::LockWaits;
use crate::prefix::{SEVERITIES, stderr_line, time_and_session};
use crate::untimed::Untimed;
use sql::{Dialect, Inside, Piece, Scanner, piece};
use std::borrow::Cow;

/// One message of the log.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Message {
    line: u64,
    /// The offset of that line.
    from: u64,
    at: Option<Moment>,
    session: String,
    database: Option<String>,
    severity: String,
    text: String,
    detail: String,
}

/// The known facts about the connections.
#[derive(Default)]
struct Connections {
    databases: Databases,
    lock_waits: LockWaits,
    untimed: Untimed,
}

impl Connections {
    fn message(&mut self, message: Message, gathered: &mut Gathered) {
        let line = message.line;
        if message.severity != "LOG" {
            if message.severity == "ERROR" || message.severity == "FATAL" {
                self.is_over(&message.session, gathered);
            }
            let known = SEVERITIES.iter().find(|severity| message.severity.starts_with(*severity));
            return gathered.no_statement(line, known.unwrap_or(&"a message of another severity"));
        }
        if message.text.len().max(message.detail.len()) > gathered.most && !gathered.cuts {
            self.is_over(&message.session, gathered);
            return gathered.trouble_from(message.from, line, TOO_LONG);
        }
        if let Some(name) = connected_to(&message.text) {
            self.is_over(&message.session, gathered);
            self.databases.insert(&message.session, name);
            return gathered.no_statement(line, "a connection");
        }
        if message.text.starts_with("disconnection: ") {
            self.databases.remove(&message.session);
            self.is_over(&message.session, gathered);
        }
        if self.lock_waits.hear(&message.session, &message.text) {
            return gathered.no_statement(line, "a wait for a lock");
        }
        match said(&message.text) {
            Said::Statement(took_us, sql) => self.statement(&message, took_us, sql, gathered),
            Said::Duration(took_us) => match self.untimed.take(&message.session) {
                Some(mut entry) => {
                    entry.figures.took_us = Some(took_us);
                    self.lock_waits.end(&message.session, &mut entry.figures);
                    gathered.entries.push_back(entry);
                }
                None => {
                    self.lock_waits.forget(&message.session);
                    gathered.no_statement(line, "a duration without a statement");
                }
            },
            Said::Step(which) => {
                self.is_over(&message.session, gathered);
                gathered.no_statement(line, which);
            }
            Said::Other => gathered.no_statement(line, "a message without a statement"),
        }
    }

    /// `took_us`: `None` at the begin of a statement. Then its duration may follow.
    fn statement(&mut self, message: &Message, took_us: Option<u64>, sql: &str, gathered: &mut Gathered) {
        let Message { line, from, session, .. } = message;
        if took_us.is_none() {
            self.is_over(session, gathered);
        }
        gathered.entries.extend(self.untimed.take(session));
        let Some(at) = message.at else { return gathered.trouble_from(*from, *line, "a statement without a time") };
        if session.is_empty() {
            return gathered.trouble_from(*from, *line, "a statement without its process: log_line_prefix lacks %p");
        }
        let sql = match with_values(sql, &message.detail) {
            Ok(sql) => sql,
            Err(why) => {
                return gathered.trouble_from_with(*from, *line, "parameters that do not fit the statement", || why);
            }
        };
        let database = message.database.clone().or_else(|| self.databases.of(session));
        let took = i64::try_from(took_us.unwrap_or(0)).unwrap_or(0);
        let mut figures = Figures { took_us, step_us: step_of(at), ..Figures::default() };
        if took_us.is_some() {
            self.lock_waits.end(session, &mut figures);
        }
        let at = at.minus_us(took);
        let entry = gathered.entry(Found { session, at, line: *line, from: *from, sql, database, figures });
        match entry {
            Some(entry) if took_us.is_none() => gathered.entries.extend(self.untimed.keep(entry)),
            entry => gathered.entries.extend(entry),
        }
    }

    /// The session's last statement is over, and no duration of it follows: it failed, or the session has gone on.
    fn is_over(&mut self, session: &str, gathered: &mut Gathered) {
        self.lock_waits.forget(session);
        gathered.entries.extend(self.untimed.take(session));
    }

    /// The log is at its end.
    fn end(&mut self, gathered: &mut Gathered) {
        gathered.entries.extend(self.untimed.take_all());
    }
}

const TOO_LONG: &str = "a message that is too long";

/// `%m` has milliseconds, `%t` seconds. A moment at a full second may have either; it is taken for seconds, which is wrong for one in a thousand of
/// `%m`.
fn step_of(at: Moment) -> u64 {
    if at.us % 1_000_000 == 0 { 1_000_000 } else { 1000 }
}

fn connected_to(text: &str) -> Option<String> {
    let rest = text.strip_prefix("connection authorized: ")?.split_once("database=")?.1;
    Some(rest.split(' ').next()?.to_owned())
}

/// The part of a message that tells of statements.
enum Said<'a> {
    /// A statement with its duration, or at its begin.
    Statement(Option<u64>, &'a str),
    /// The duration of a statement whose text came before.
    Duration(u64),
    /// Another step, with or without its duration. Its waits are not in the time of the statement that follows.
    Step(&'static str),
    Other,
}

/// `statement: SELECT 1`, `execute s1: SELECT $1`, both with or without `duration: 0.123 ms  ` before. Parse and bind run no statement.
fn said(text: &str) -> Said<'_> {
    let (took_us, rest) = match text.strip_prefix("duration: ") {
        None => (None, text),
        Some(timed) => {
            let Some((ms, rest)) = timed.split_once(" ms") else { return Said::Other };
            let Some(took_us) = decimal(ms, 3) else { return Said::Other };
            if rest.trim().is_empty() {
                return Said::Duration(took_us);
            }
            (Some(took_us), rest.trim_start())
        }
    };
    if let Some(sql) = rest.strip_prefix("statement: ") {
        return Said::Statement(took_us, sql);
    }
    let begins = |words: &[&str]| words.iter().any(|word| rest.starts_with(word));
    if begins(&["parse ", "bind "]) {
        return Said::Step("parse or bind of a prepared statement");
    }
    // it goes on with a cursor, whose statement has been executed before
    if begins(&["execute fetch from "]) {
        return Said::Step("more rows of a statement that ran");
    }
    if begins(&["fastpath function call: "]) {
        return Said::Step("a function that was called without a statement");
    }
    let named = rest.strip_prefix("execute ").and_then(|named| named.split_once(": "));
    named.map_or(Said::Other, |(_, sql)| Said::Statement(took_us, sql))
}

/// The statement with the values of `parameters: $1 = '5', $2 = NULL` in their places.
fn with_values(sql: &str, detail: &str) -> Result<String, String> {
    let detail = detail.trim();
    let list = ["parameters: ", "Parameters: "].iter().find_map(|mark| detail.strip_prefix(mark));
    let Some(list) = list else { return Ok(sql.to_owned()) };
    let values = values_of(list).ok_or("parameters that are not understood")?;
    let mut out = String::with_capacity(sql.len() + list.len());
    let mut rest = sql;
    while !rest.is_empty() {
        let (piece, length) = piece(rest.as_bytes(), Dialect::Postgresql);
        let text = &rest[..length];
        if piece == Piece::Parameter {
            let number: usize = text[1..].parse().map_err(|_| "a parameter without a number")?;
            let value = number.checked_sub(1).and_then(|index| values.get(index));
            out.push_str(value.ok_or_else(|| format!("no value for {text}"))?);
        } else {
            out.push_str(text);
        }
        rest = &rest[length..];
    }
    Ok(out)
}

/// The values in order, each as SQL text. A value that was cut (`log_parameter_max_length`) ends with dots after its quote.
fn values_of(list: &str) -> Option<Vec<String>> {
    let mut values = Vec::new();
    let mut rest = list;
    loop {
        let (_, value) = rest.strip_prefix('$')?.split_once(" = ")?;
        let length = if value.starts_with("NULL") { 4 } else { quoted_length(value)? };
        values.push(value[..length].to_owned());
        rest = value[length..].trim_start();
        match rest.strip_prefix(", ") {
            Some(next) => rest = next,
            None if rest.is_empty() => return Some(values),
            None => return None,
        }
    }
}

fn quoted_length(text: &str) -> Option<usize> {
    let mut scanner = Scanner::new(Dialect::Postgresql);
    let length = text.starts_with('\'').then(|| scanner.next(text.as_bytes()).1)?;
    (*scanner.inside() == Inside::Code).then_some(length)
}

/// The log as `log_destination = stderr` writes it.
#[derive(Default)]
pub(crate) struct Stderr {
    connections: Connections,
    open: Option<Message>,
    in_detail: bool,
}

impl Reader for Stderr {
    fn line(&mut self, number: u64, line: &str, gathered: &mut Gathered) {
        // the lines of one message after its first begin with a tab
        if let Some(more) = line.strip_prefix('\t') {
            if let Some(message) = &mut self.open {
                append(if self.in_detail { &mut message.detail } else { &mut message.text }, more, gathered.most);
            }
            return;
        }
        let Some((prefix, severity, text)) = stderr_line(line) else {
            if !line.trim().is_empty() {
                gathered.trouble(number, "a line without a severity (LOG, ERROR, ...)");
            }
            return;
        };
        let (at, session) = time_and_session(prefix);
        let session = session.unwrap_or_default();
        if severity == "DETAIL"
            && let Some(message) = self.open.as_mut().filter(|message| message.session == session)
        {
            text.clone_into(&mut message.detail);
            self.in_detail = true;
            return;
        }
        self.close(gathered);
        self.in_detail = false;
        let (severity, text) = (severity.to_owned(), text.to_owned());
        let from = gathered.here.offset;
        self.open = Some(Message { line: number, from, at, session, severity, text, ..Message::default() });
    }

    fn end(&mut self, gathered: &mut Gathered) {
        self.close(gathered);
        self.connections.end(gathered);
    }
}

impl Stderr {
    /// The open message has no more lines.
    fn close(&mut self, gathered: &mut Gathered) {
        if let Some(message) = self.open.take() {
            self.connections.message(message, gathered);
        }
    }
}

#[derive(Default)]
pub(crate) struct Json {
    connections: Connections,
}

impl Reader for Json {
    fn line(&mut self, number: u64, line: &str, gathered: &mut Gathered) {
        if line.trim().is_empty() {
            return;
        }
        if line.len() > gathered.most {
            return gathered.trouble(number, TOO_LONG);
        }
        let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else {
            return gathered.trouble(number, "not a JSON object");
        };
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let message = Message {
            line: number,
            from: gathered.here.offset,
            at: Moment::of_iso(&text("timestamp")),
            session: value["pid"].as_u64().map(|pid| pid.to_string()).unwrap_or_default(),
            database: value["dbname"].as_str().map(str::to_owned),
            severity: text("error_severity"),
            text: text("message"),
            detail: text("detail"),
        };
        self.connections.message(message, gathered);
    }

    fn end(&mut self, gathered: &mut Gathered) {
        self.connections.end(gathered);
    }
}

/// Columns of csvlog ("Using CSV-Format Log Output"): the same in all versions; later versions append columns.
mod column {
    pub(crate) const TIME: usize = 0;
    pub(crate) const DATABASE: usize = 2;
    pub(crate) const PROCESS: usize = 3;
    pub(crate) const SEVERITY: usize = 11;
    pub(crate) const MESSAGE: usize = 13;
    pub(crate) const DETAIL: usize = 14;
    pub(crate) const LEAST: usize = 23;
}

pub(crate) fn is_csv(line: &str) -> bool {
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
        self.fields.split(&record);
        let count = self.fields.count;
        if count < column::LEAST {
            let what = || format!("{count} columns where a csvlog has {} or more", column::LEAST);
            return gathered.trouble_with(first, "fewer columns than a csvlog has", what);
        }
        let text = |column: usize| self.fields.text(column).into_owned();
        let message = Message {
            line: first,
            from,
            at: Moment::of_iso(&text(column::TIME)),
            session: text(column::PROCESS),
            database: Some(text(column::DATABASE)).filter(|name| !name.is_empty()),
            severity: text(column::SEVERITY),
            text: text(column::MESSAGE),
            detail: text(column::DETAIL),
        };
        self.connections.message(message, gathered);
    }

    fn end(&mut self, gathered: &mut Gathered) {
        if let Some((first, from, _)) = self.open.take() {
            gathered.trouble_from(from, first, "a record that does not end");
        }
        self.connections.end(gathered);
    }
}

#[cfg(test)]
#[path = "postgresql_tests.rs"]
mod tests;
