// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's log: stderr with a prefix that has time and process, csvlog, jsonlog. What `log_statement` and
//! `log_min_duration_statement` write; values of prepared statements stand in the detail.

use super::clock::Moment;
use super::event::Gathered;
use super::mysql::for_lines;
use sql::{Dialect, Inside, Piece, Scanner, piece};
use std::collections::BTreeMap;
use std::io::{self, BufRead};

/// One message of the log.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Message {
    line: u64,
    at: Option<Moment>,
    session: String,
    database: Option<String>,
    severity: String,
    text: String,
    detail: String,
}

#[derive(Default)]
struct Log {
    gathered: Gathered,
    databases: BTreeMap<String, String>,
}

impl Log {
    fn message(&mut self, message: Message) {
        if message.severity != "LOG" {
            return;
        }
        if let Some(name) = connected_to(&message.text) {
            self.databases.insert(message.session, name);
            return;
        }
        let Some((took_us, sql)) = statement(&message.text) else { return };
        let Some(at) = message.at else { return self.gathered.trouble(message.line, "a statement without a time") };
        if message.session.is_empty() {
            return self.gathered.trouble(message.line, "a statement without its process: log_line_prefix lacks %p");
        }
        match with_values(sql, &message.detail) {
            Ok(sql) => {
                let database = message.database.or_else(|| self.databases.get(&message.session).cloned());
                self.gathered.statement(&message.session, at.minus_us(took_us), message.line, sql, database);
            }
            Err(why) => self.gathered.trouble(message.line, why),
        }
    }
}

fn connected_to(text: &str) -> Option<String> {
    let rest = text.strip_prefix("connection authorized: ")?.split_once("database=")?.1;
    Some(rest.split(' ').next()?.to_owned())
}

/// `statement: SELECT 1`, `execute s1: SELECT $1`, both perhaps behind `duration: 0.123 ms  `. Parse and bind run nothing.
fn statement(text: &str) -> Option<(i64, &str)> {
    let (took_us, rest) = match text.strip_prefix("duration: ") {
        None => (0, text),
        Some(timed) => {
            let (ms, rest) = timed.split_once(" ms")?;
            let took = Moment::of_seconds(ms)?.us / 1000;
            (took, rest.trim_start())
        }
    };
    if let Some(sql) = rest.strip_prefix("statement: ") {
        return Some((took_us, sql));
    }
    let named = rest.strip_prefix("execute ")?;
    // `execute fetch from s1: ` goes on with a cursor, whose statement has been executed before
    if named.starts_with("fetch from ") {
        return None;
    }
    Some((took_us, named.split_once(": ")?.1))
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

/// In order; each as it is to stand in SQL. One that was cut (`log_parameter_max_length`) ends with dots behind its quote.
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

pub(super) fn is_stderr(line: &str) -> bool {
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

pub(super) fn read_stderr(input: impl BufRead, gathered: Gathered) -> io::Result<Gathered> {
    let mut log = Log { gathered, ..Log::default() };
    let mut open: Option<Message> = None;
    let mut in_detail = false;
    for_lines(input, |number, line| {
        // the lines of one message after its first begin with a tab
        if let Some(more) = line.strip_prefix('\t') {
            if let Some(message) = &mut open {
                let text = if in_detail { &mut message.detail } else { &mut message.text };
                text.push('\n');
                text.push_str(more);
            }
            return;
        }
        let Some((prefix, severity, text)) = stderr_line(line) else {
            if !line.trim().is_empty() {
                log.gathered.trouble(number, "a line without a severity (LOG, ERROR, ...)");
            }
            return;
        };
        let session = session_in(prefix).unwrap_or_default();
        if severity == "DETAIL" && open.as_ref().is_some_and(|message| message.session == session) {
            if let Some(message) = &mut open {
                message.detail = text.to_owned();
                in_detail = true;
            }
            return;
        }
        if let Some(message) = open.take() {
            log.message(message);
        }
        in_detail = false;
        let (severity, text) = (severity.to_owned(), text.to_owned());
        let at = time_in(prefix);
        open = Some(Message { line: number, at, session, database: None, severity, text, detail: String::new() });
    })?;
    if let Some(message) = open {
        log.message(message);
    }
    Ok(log.gathered)
}

pub(super) fn read_json(input: impl BufRead, gathered: Gathered) -> io::Result<Gathered> {
    let mut log = Log { gathered, ..Log::default() };
    for_lines(input, |number, line| {
        if line.trim().is_empty() {
            return;
        }
        let Ok(value) = serde_json::from_str::<serde_json::Value>(line) else {
            return log.gathered.trouble(number, "not a JSON object");
        };
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        log.message(Message {
            line: number,
            at: Moment::of_iso(&text("timestamp")),
            session: value["pid"].as_u64().map(|pid| pid.to_string()).unwrap_or_default(),
            database: value["dbname"].as_str().map(str::to_owned),
            severity: text("error_severity"),
            text: text("message"),
            detail: text("detail"),
        });
    })?;
    Ok(log.gathered)
}

/// Columns of csvlog ("Using CSV-Format Log Output"): the same in all versions, later ones append.
mod column {
    pub(super) const TIME: usize = 0;
    pub(super) const DATABASE: usize = 2;
    pub(super) const PROCESS: usize = 3;
    pub(super) const SEVERITY: usize = 11;
    pub(super) const MESSAGE: usize = 13;
    pub(super) const DETAIL: usize = 14;
    pub(super) const LEAST: usize = 23;
}

pub(super) fn is_csv(line: &str) -> bool {
    let fields = csv_fields(line);
    fields.len() > column::SEVERITY
        && Moment::of_iso(&fields[column::TIME]).is_some()
        && SEVERITIES.contains(&fields[column::SEVERITY].as_str())
}

pub(super) fn read_csv(input: impl BufRead, gathered: Gathered) -> io::Result<Gathered> {
    let mut log = Log { gathered, ..Log::default() };
    let mut record = String::new();
    let mut first = 0;
    for_lines(input, |number, line| {
        if record.is_empty() {
            first = number;
        } else {
            record.push('\n');
        }
        record.push_str(line);
        // a line end within quotes
        if record.bytes().filter(|byte| *byte == b'"').count() % 2 == 1 {
            return;
        }
        let fields = csv_fields(&std::mem::take(&mut record));
        if fields.len() < column::LEAST {
            let count = fields.len();
            return log
                .gathered
                .trouble(first, format!("{count} columns where a csvlog has {} or more", column::LEAST));
        }
        let text = |column: usize| fields[column].clone();
        log.message(Message {
            line: first,
            at: Moment::of_iso(&fields[column::TIME]),
            session: text(column::PROCESS),
            database: Some(text(column::DATABASE)).filter(|name| !name.is_empty()),
            severity: text(column::SEVERITY),
            text: text(column::MESSAGE),
            detail: text(column::DETAIL),
        });
    })?;
    if !record.is_empty() {
        log.gathered.trouble(first, "a record that does not end");
    }
    Ok(log.gathered)
}

fn csv_fields(record: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut characters = record.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if is_quoted && characters.peek() == Some(&'"') => {
                characters.next();
                fields.last_mut().into_iter().for_each(|field| field.push('"'));
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            c => fields.last_mut().into_iter().for_each(|field| field.push(c)),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::super::event::Recorded;
    use super::*;

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
        let found = read_stderr(text.as_bytes(), Gathered::default()).expect("reads").finish();
        let expected =
            [(0, 2, 0, "SELECT c\n FROM t", Some("shop")), (1, 7, 100_000, "SELECT 'it''s, $2', '$1', NULL", None)];
        assert_eq!(shown(&found), expected);
        assert_eq!(found.troubles, [(11, "a line without a severity (LOG, ERROR, ...)".to_owned())]);
    }

    #[test]
    fn csv_and_json() {
        let rest = ",,,,,,,,\"psql\",\"client backend\",,0";
        let text = format!(
            "2026-11-21 22:51:56.000 UTC,\"me\",\"shop\",7,\"[local]\",6a.7,1,\"idle\",2026-11-21 22:51:55 UTC,3/1,0,LOG,00000,\
             \"duration: 1000.000 ms  statement: SELECT \"\"a\"\",\n 1\",{rest}\nshort,line\n"
        );
        let found = read_csv(text.as_bytes(), Gathered::default()).expect("reads").finish();
        assert_eq!(shown(&found), [(0, 1, 0, "SELECT \"a\",\n 1", Some("shop"))]);
        assert_eq!(found.troubles[0].0, 3);
        assert!(is_csv(text.lines().next().expect("a line")));
        let text = "{\"timestamp\":\"2026-11-21 22:51:56.000 UTC\",\"dbname\":\"shop\",\"pid\":7,\"error_severity\":\"LOG\",\
                    \"message\":\"statement: SELECT 1\"}\n{bad\n";
        let found = read_json(text.as_bytes(), Gathered::default()).expect("reads").finish();
        assert_eq!((shown(&found), found.troubles[0].0), (vec![(0, 1, 0, "SELECT 1", Some("shop"))], 2));
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
