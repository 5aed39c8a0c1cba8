// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's log: stderr with a prefix that has time and process, csvlog, jsonlog. It reads the messages of `log_statement` and
//! `log_min_duration_statement`; the values of prepared statements are in the detail.

use crate::clock::Moment;
use crate::databases::Databases;
use crate::entry::{Found, Gathered, Reader};
use crate::figures::{Figures, decimal};
use crate::lines::append;
use crate::lock_waits::LockWaits;
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
}

impl Connections {
    fn message(&mut self, message: Message, gathered: &mut Gathered) {
        let (line, from) = (message.line, message.from);
        if message.severity != "LOG" {
            if message.severity == "ERROR" || message.severity == "FATAL" {
                self.lock_waits.forget(&message.session);
            }
            let known = SEVERITIES.iter().find(|severity| message.severity.starts_with(*severity));
            return gathered.no_statement(line, known.unwrap_or(&"a message of another severity"));
        }
        if message.text.len().max(message.detail.len()) > gathered.most && !gathered.cuts {
            return gathered.trouble_from(from, line, TOO_LONG);
        }
        if let Some(name) = connected_to(&message.text) {
            self.databases.insert(&message.session, name);
            return gathered.no_statement(line, "a connection");
        }
        if message.text.starts_with("disconnection: ") {
            self.databases.remove(&message.session);
            self.lock_waits.forget(&message.session);
        }
        if self.lock_waits.hear(&message.session, &message.text) {
            return gathered.no_statement(line, "a wait for a lock");
        }
        let (took_us, sql) = match statement(&message.text) {
            Ok(found) => found,
            Err(reason) => {
                if reason == STEP {
                    self.lock_waits.forget(&message.session);
                }
                return gathered.no_statement(line, reason);
            }
        };
        let Some(at) = message.at else { return gathered.trouble_from(from, line, "a statement without a time") };
        if message.session.is_empty() {
            return gathered.trouble_from(from, line, "a statement without its process: log_line_prefix lacks %p");
        }
        match with_values(sql, &message.detail) {
            Ok(sql) => {
                let database = message.database.or_else(|| self.databases.of(&message.session));
                let took = i64::try_from(took_us.unwrap_or(0)).unwrap_or(0);
                let mut figures = Figures { took_us, step_us: step_of(at), ..Figures::default() };
                // the message at the begin of a statement has no duration
                if took_us.is_some() {
                    self.lock_waits.end(&message.session, &mut figures);
                }
                let at = at.minus_us(took);
                gathered.found(Found { session: &message.session, at, line, from, sql, database, figures });
            }
            Err(why) => gathered.trouble_from_with(from, line, "parameters that do not fit the statement", || why),
        }
    }
}

const TOO_LONG: &str = "a message that is too long";
/// The waits of such a step are not in the time of the statement that follows.
const STEP: &str = "parse or bind of a prepared statement";

/// `%m` has milliseconds, `%t` seconds. A moment at a full second may have either; it is taken for seconds, which is wrong for one in a thousand of
/// `%m`.
fn step_of(at: Moment) -> u64 {
    if at.us % 1_000_000 == 0 { 1_000_000 } else { 1000 }
}

fn connected_to(text: &str) -> Option<String> {
    let rest = text.strip_prefix("connection authorized: ")?.split_once("database=")?.1;
    Some(rest.split(' ').next()?.to_owned())
}

/// `statement: SELECT 1`, `execute s1: SELECT $1`, both with or without `duration: 0.123 ms  ` before. Parse and bind run no statement.
///
/// # Errors
/// What the text is instead of a statement.
fn statement(text: &str) -> Result<(Option<u64>, &str), &'static str> {
    const OTHER: &str = "a message without a statement";
    let (took_us, rest) = match text.strip_prefix("duration: ") {
        None => (None, text),
        Some(timed) => {
            let (ms, rest) = timed.split_once(" ms").ok_or(OTHER)?;
            (Some(decimal(ms, 3).ok_or(OTHER)?), rest.trim_start())
        }
    };
    if let Some(sql) = rest.strip_prefix("statement: ") {
        return Ok((took_us, sql));
    }
    let Some(named) = rest.strip_prefix("execute ") else {
        let step = ["parse ", "bind "].iter().find(|step| rest.starts_with(*step));
        return Err(step.map_or(OTHER, |_| STEP));
    };
    // `execute fetch from s1: ` goes on with a cursor, whose statement has been executed before
    if named.starts_with("fetch from ") {
        return Err("more rows of a statement that ran");
    }
    Ok((took_us, named.split_once(": ").ok_or(OTHER)?.1))
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

const SEVERITIES: [&str; 14] = [
    "LOG",
    "DETAIL",
    "ERROR",
    "FATAL",
    "PANIC",
    "WARNING",
    "NOTICE",
    "INFO",
    "HINT",
    "STATEMENT",
    "CONTEXT",
    "QUERY",
    "LOCATION",
    "DEBUG",
];

/// (prefix, severity, text).
fn stderr_line(line: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    // the severity may follow the prefix without a space
    while let Some(found) = line[from..].find(":  ") {
        let end = from + found;
        let severity = SEVERITIES.iter().find(|severity| line[..end].ends_with(*severity));
        if let Some(severity) = severity {
            return Some((&line[..end - severity.len()], severity, &line[end + 3..]));
        }
        from = end + 3;
    }
    None
}

pub(crate) fn is_stderr(line: &str) -> bool {
    stderr_line(line).is_some_and(|(prefix, _, _)| time_in(prefix).is_some())
}

/// `2026-11-21 22:51:56.629`, anywhere in the prefix (%m, %t).
fn time_in(prefix: &str) -> Option<Moment> {
    let starts = prefix.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at);
    starts.take(64).find_map(|at| Moment::of_iso(&prefix[at..]))
}

/// `[1234]` (%p), or `6a01.b2c3` (%c), of the prefix.
fn session_in(prefix: &str) -> Option<String> {
    let in_brackets = prefix.split('[').skip(1).filter_map(|rest| {
        let word = rest.split([']', ':', '-']).next()?;
        (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())).then(|| word.to_owned())
    });
    let hex = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_session =
        |word: &&str| word.split_once('.').is_some_and(|(one, other)| one.len() >= 6 && hex(one) && hex(other));
    let mut words = prefix.split([' ', '[', ']', '(', ')', ',', '|']);
    in_brackets.into_iter().next().or_else(|| words.find(is_session).map(str::to_owned))
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
        let session = session_in(prefix).unwrap_or_default();
        if severity == "DETAIL"
            && let Some(message) = self.open.as_mut().filter(|message| message.session == session)
        {
            text.clone_into(&mut message.detail);
            self.in_detail = true;
            return;
        }
        self.end(gathered);
        self.in_detail = false;
        let (severity, text) = (severity.to_owned(), text.to_owned());
        let at = time_in(prefix);
        let from = gathered.here.offset;
        self.open = Some(Message { line: number, from, at, session, severity, text, ..Message::default() });
    }

    fn end(&mut self, gathered: &mut Gathered) {
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

    fn end(&mut self, _: &mut Gathered) {}
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, Log, Recorded};

    fn read(format: Format, text: &str) -> Recorded {
        Recorded::of(Log::of(format, text.as_bytes())).expect("reads")
    }

    fn shown(recorded: &Recorded) -> Vec<(usize, u64, u64, &str, Option<&str>)> {
        let sessions = recorded.sessions.iter().enumerate();
        sessions
            .flat_map(|(session, it)| {
                it.statements
                    .iter()
                    .map(move |it| (session, it.line, it.at_us, it.sql.as_str(), it.database.as_deref()))
            })
            .collect()
    }

    #[test]
    fn stderr() {
        let text = "2026-11-21 22:51:56.629 UTC [28490] LOG:  connection authorized: user=me database=shop application_name=x\n\
            2026-11-21 22:51:57.002 UTC [28490] me@shopLOG:  duration: 2.000 ms  statement: SELECT c\n\t FROM t\n\
            2026-11-21 22:51:57.100 UTC [28491] LOG:  duration: 0.006 ms  parse s1: SELECT $1\n\
            2026-11-21 22:51:57.110 UTC [28491] LOG:  duration: 0.006 ms  bind s1: SELECT $1\n\
            2026-11-21 22:51:57.110 UTC [28491] DETAIL:  parameters: $1 = '1'\n\
            2026-11-21 22:51:57.120 UTC [28491] LOG:  duration: 20.000 ms  execute s1: SELECT $1, '$1', $2\n\
            2026-11-21 22:51:57.120 UTC [28491] DETAIL:  parameters: $1 = 'it''s, $2', $2 = NULL\n\
            2026-11-21 22:51:57.130 UTC [28491] ERROR:  no\n2026-11-21 22:51:57.130 UTC [28491] STATEMENT:  SELECT no\n\
            what is this\n";
        let found = read(Format::PostgresqlStderr, text);
        let expected =
            [(0, 2, 0, "SELECT c\n FROM t", Some("shop")), (1, 7, 100_000, "SELECT 'it''s, $2', '$1', NULL", None)];
        assert_eq!(shown(&found), expected);
        assert_eq!(found.skipped.lines, [(11, "a line without a severity (LOG, ERROR, ...)".to_owned())]);
    }

    #[test]
    fn csv_and_json() {
        let rest = ",,,,,,,,\"psql\",\"client backend\",,0";
        let text = format!(
            "2026-11-21 22:51:56.000 UTC,\"me\",\"shop\",7,\"[local]\",6a.7,1,\"idle\",2026-11-21 22:51:55 UTC,3/1,0,LOG,00000,\
             \"duration: 1000.000 ms  statement: SELECT \"\"a\"\",\n 1\",{rest}\nshort,line\n"
        );
        let found = read(Format::PostgresqlCsv, &text);
        assert_eq!(shown(&found), [(0, 1, 0, "SELECT \"a\",\n 1", Some("shop"))]);
        assert_eq!(found.skipped.lines[0].0, 3);
        assert!(is_csv(text.lines().next().expect("a line")));
        let text = "{\"timestamp\":\"2026-11-21 22:51:56.000 UTC\",\"dbname\":\"shop\",\"pid\":7,\"error_severity\":\"LOG\",\
                    \"message\":\"statement: SELECT 1\"}\n{bad\n";
        let found = read(Format::PostgresqlJson, text);
        assert_eq!((shown(&found), found.skipped.lines[0].0), (vec![(0, 1, 0, "SELECT 1", Some("shop"))], 2));
    }

    #[test]
    fn parameters_are_found_behind_comments_and_quotes_of_all_kinds() {
        let sql = "SELECT $1 -- it's\n , $x$ $2 ' $x$, /* ' */ $2";
        let with = with_values(sql, "parameters: $1 = '1', $2 = NULL");
        assert_eq!(with.as_deref(), Ok("SELECT '1' -- it's\n , $x$ $2 ' $x$, /* ' */ NULL"));
    }

    #[test]
    fn prefixes() {
        assert_eq!(session_in("2026-11-21 22:51:56 UTC [123-4] ").as_deref(), Some("123"));
        assert_eq!(session_in("2026-11-21 22:51:56 UTC [123]: [4-1] user=a ").as_deref(), Some("123"));
        assert_eq!(session_in("2026-11-21 22:51:56 UTC 6920e1d3.6f4a ").as_deref(), Some("6920e1d3.6f4a"));
        assert_eq!(session_in("2026-11-21 22:51:56.123 UTC "), None);
        assert!(is_stderr("user=a 2026-11-21 22:51:56 UTC LOG:  x") && !is_stderr("LOG:  x"));
    }
}
