// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL's log: stderr with a prefix that has time and process, jsonlog; [`crate::csv`] has csvlog. It reads the messages of `log_statement` and
//! `log_min_duration_statement`, also where the first has the text and the second the duration; the values of prepared statements are in the detail.

use crate::clock::Told;
use crate::databases::Databases;
use crate::entry::{Entry, Found, Gathered, Reader};
use crate::figures::{Figures, decimal};
use crate::lines::append;
use crate::lock_waits::{Heard, LockWaits, heard};
use crate::prefix::{SEVERITIES, stderr_line, time_and_session};
use crate::untimed::Untimed;
use sql::{Dialect, Inside, Piece, Scanner, piece};

/// One message of the log.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) line: u64,
    /// The offset of that line.
    pub(crate) from: u64,
    pub(crate) told: Option<Told>,
    pub(crate) session: String,
    pub(crate) database: Option<String>,
    pub(crate) severity: String,
    pub(crate) text: String,
    pub(crate) detail: String,
    /// The statement that ran when the server wrote the message (`STATEMENT`), where it is not the message itself.
    pub(crate) statement: String,
}

/// The known facts about the connections.
#[derive(Default)]
pub(crate) struct Connections {
    databases: Databases,
    lock_waits: LockWaits,
    untimed: Untimed,
}

impl Connections {
    pub(crate) fn message(&mut self, message: Message, gathered: &mut Gathered) {
        let line = message.line;
        message.told.iter().for_each(|told| gathered.zone(&told.zone));
        if message.severity != "LOG" {
            if message.severity == "ERROR" || message.severity == "FATAL" {
                self.failed(&message, gathered);
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
        if let Some(heard) = heard(&message.text) {
            self.waited(&message, &heard, gathered);
            return gathered.no_statement(line, "a wait for a lock");
        }
        match said(&message.text) {
            Said::Statement(took_us, sql) => self.statement(&message, took_us, sql, gathered),
            Said::Duration(took_us) => self.duration(&message, took_us, gathered),
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
        let sql = match with_values(sql, &message.detail) {
            Ok(sql) => sql,
            Err(why) => {
                return gathered.trouble_from_with(*from, *line, "parameters that do not fit the statement", || why);
            }
        };
        let mut figures = Figures { took_us, ..Figures::default() };
        if let Some(took_us) = took_us {
            self.ended(message, took_us, &mut figures, gathered);
        }
        let entry = self.entry(message, sql, figures, gathered);
        match entry {
            Some(entry) if took_us.is_none() => gathered.entries.extend(self.untimed.keep(entry)),
            entry => gathered.entries.extend(entry),
        }
    }

    /// A duration without a text: it is that of the statement that the session began, or of one that is not in the log.
    fn duration(&mut self, message: &Message, took_us: u64, gathered: &mut Gathered) {
        let begun = self.untimed.take(&message.session);
        let mut figures = begun.as_ref().map(|entry| entry.figures).unwrap_or_default();
        figures.took_us = Some(took_us);
        let text = self.ended(message, took_us, &mut figures, gathered);
        match begun {
            Some(entry) => gathered.entries.push_back(Entry { figures, ..entry }),
            None if gathered.cuts => {
                let entry = self.entry(message, text.unwrap_or_default(), figures, gathered);
                gathered.entries.extend(entry);
            }
            None => gathered.no_statement(message.line, "a duration without a statement"),
        }
    }

    /// The entry of a statement that ends with this message, if `figures` has its time, and otherwise begins with it.
    fn entry(
        &mut self,
        message: &Message,
        sql: String,
        mut figures: Figures,
        gathered: &mut Gathered,
    ) -> Option<Entry> {
        let Message { line, from, session, .. } = message;
        let Some(told) = &message.told else {
            gathered.trouble_from(*from, *line, "a statement without a time");
            return None;
        };
        if session.is_empty() {
            gathered.trouble_from(*from, *line, "a statement without its process: log_line_prefix lacks %p");
            return None;
        }
        figures.step_us = step_of(told);
        let at = told.at.minus_us(figures.took_us.and_then(|took| i64::try_from(took).ok()).unwrap_or(0));
        let database = message.database.clone().or_else(|| self.databases.of(session));
        gathered.entry(Found { session, at, line: *line, from: *from, sql, database, figures })
    }

    /// The message tells of a wait. It is kept until the log tells the end of its statement; a reader of statements alone needs no waits.
    fn waited(&mut self, message: &Message, heard: &Heard<'_>, gathered: &mut Gathered) {
        let Some(told) = message.told.as_ref().filter(|_| gathered.cuts) else { return };
        let Some(mut figures) = heard.figures() else { return };
        figures.step_us = step_of(told);
        let session = if message.session.is_empty() { heard.process } else { &message.session };
        let at = told.at.minus_us(i64::try_from(heard.us).unwrap_or(0));
        let database = message.database.clone().or_else(|| self.databases.of(session));
        let (line, from, sql) = (message.line, message.from, message.statement.clone());
        let entry = gathered.entry(Found { session, at, line, from, sql, database, figures });
        if let Some(entry) = entry {
            gathered.entries.extend(self.lock_waits.keep(entry, heard.goes_on()));
        }
    }

    /// The session's statement has ended. The waits in its time are its own, and their text is returned; earlier ones are entries.
    fn ended(
        &mut self,
        message: &Message,
        took_us: u64,
        figures: &mut Figures,
        gathered: &mut Gathered,
    ) -> Option<String> {
        let began = message.told.as_ref().map(|told| told.at.minus_us(i64::try_from(took_us).unwrap_or(0)));
        let (others, text) = self.lock_waits.end(&message.session, began, figures);
        gathered.entries.extend(others);
        text
    }

    /// The session's statement failed: no duration of it follows, and the wait that went on is over.
    fn failed(&mut self, message: &Message, gathered: &mut Gathered) {
        let at = message.told.as_ref().map(|told| told.at);
        gathered.entries.extend(self.lock_waits.over(&message.session, at));
        gathered.entries.extend(self.untimed.take(&message.session));
    }

    /// The session's last statement is over, and no duration of it follows: the session has gone on.
    fn is_over(&mut self, session: &str, gathered: &mut Gathered) {
        gathered.entries.extend(self.lock_waits.over(session, None));
        gathered.entries.extend(self.untimed.take(session));
    }

    /// The log is at its end.
    pub(crate) fn end(&mut self, gathered: &mut Gathered) {
        gathered.entries.extend(self.lock_waits.take_all());
        gathered.entries.extend(self.untimed.take_all());
    }
}

const TOO_LONG: &str = "a message that is too long";

/// `%m` has milliseconds, `%t` seconds.
fn step_of(told: &Told) -> u64 {
    if told.is_fine { 1000 } else { 1_000_000 }
}

fn connected_to(text: &str) -> Option<String> {
    let rest = text.strip_prefix("connection authorized: ")?.split_once("database=")?.1;
    Some(rest.split(' ').next()?.to_owned())
}

/// The part of a message that tells of statements.
enum Said<'a> {
    /// A statement with its duration, or at its begin.
    Statement(Option<u64>, &'a str),
    /// The duration of a statement whose text came before, or is not in the log.
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
    // `appendStringInfoStringQuoted` puts the dots before the quote (`log_parameter_max_length`)
    if values.iter().any(|value| value.ends_with("...'")) {
        return Err("a parameter that ends with dots, as one that the server cut (log_parameter_max_length)".to_owned());
    }
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

/// The values in order, each as SQL text.
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
    part: Part,
}

/// The part of a message to which its next line belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Part {
    #[default]
    Text,
    Detail,
    Statement,
    /// `HINT`, `QUERY`, `CONTEXT`, `LOCATION`.
    Other,
}

impl Part {
    /// `None`: a message begins.
    fn of(severity: &str) -> Option<Self> {
        match severity {
            "DETAIL" => Some(Self::Detail),
            "STATEMENT" => Some(Self::Statement),
            "HINT" | "QUERY" | "CONTEXT" | "LOCATION" => Some(Self::Other),
            _ => None,
        }
    }

    fn text(self, message: &mut Message) -> Option<&mut String> {
        match self {
            Self::Text => Some(&mut message.text),
            Self::Detail => Some(&mut message.detail),
            Self::Statement => Some(&mut message.statement),
            Self::Other => None,
        }
    }
}

impl Reader for Stderr {
    fn line(&mut self, number: u64, line: &str, gathered: &mut Gathered) {
        // the lines of one part after its first begin with a tab
        if let Some(more) = line.strip_prefix('\t') {
            if let Some(text) = self.open.as_mut().and_then(|message| self.part.text(message)) {
                append(text, more, gathered.most);
            }
            return;
        }
        let Some((prefix, severity, text)) = stderr_line(line) else {
            if !line.trim().is_empty() {
                gathered.trouble(number, "a line without a severity (LOG, ERROR, ...)");
            }
            return;
        };
        let (told, session) = time_and_session(prefix);
        let session = session.unwrap_or_default();
        let open = self.open.as_mut().filter(|message| message.session == session);
        if let (Some(part), Some(message)) = (Part::of(severity), open) {
            self.part = part;
            if let Some(kept) = part.text(message) {
                text.clone_into(kept);
            }
            if part != Part::Detail {
                gathered.no_statement(number, severity);
            }
            return;
        }
        self.close(gathered);
        self.part = Part::Text;
        let (severity, text) = (severity.to_owned(), without_sqlstate(text).to_owned());
        let from = gathered.here.offset;
        self.open = Some(Message { line: number, from, told, session, severity, text, ..Message::default() });
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

/// With `log_error_verbosity=verbose`, a message begins with its SQLSTATE: `00000: duration: ...`.
fn without_sqlstate(text: &str) -> &str {
    let is_sqlstate = |state: &str| {
        state.len() == 5
            && state.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
            && state.bytes().any(|byte| byte.is_ascii_digit())
    };
    text.split_once(": ").filter(|(state, _)| is_sqlstate(state)).map_or(text, |(_, message)| message)
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
            told: Told::of_iso(&text("timestamp")),
            session: value["pid"].as_u64().map(|pid| pid.to_string()).unwrap_or_default(),
            database: value["dbname"].as_str().map(str::to_owned),
            severity: text("error_severity"),
            text: text("message"),
            detail: text("detail"),
            statement: text("statement"),
        };
        self.connections.message(message, gathered);
    }

    fn end(&mut self, gathered: &mut Gathered) {
        self.connections.end(gathered);
    }
}

#[cfg(test)]
#[path = "postgresql_tests.rs"]
mod tests;
