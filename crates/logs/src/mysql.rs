// SPDX-License-Identifier: Apache-2.0
//! The slow log and the general log of MySQL and MariaDB. Both write a prepared statement with its values at each execution.

use crate::clock::{Moment, Told};
use crate::databases::Databases;
use crate::entry::{Found, Gathered, Reader};
use crate::figures::Figures;
use crate::lines::append;
use crate::slow_time::Tells;
use crate::statement_end::StatementEnd;
use sql::{Dialect, Piece, piece};

/// A line of the header that a server writes when it opens a log.
pub(crate) fn is_header(line: &str) -> bool {
    line.contains(", Version: ") && line.contains("started with:")
        || line.starts_with("Tcp port:")
        || (line.starts_with("Time ") || line.starts_with("Time\t"))
            && line.contains("Command")
            && line.contains("Argument")
}

/// An entry of the slow log, while it is read.
#[derive(Default)]
struct Entry {
    line: u64,
    /// The offset of its first line.
    from: u64,
    session: Option<String>,
    /// What `Schema:` says, which MariaDB and Percona Server write: `Some(None)` is a connection without a database.
    schema: Option<Option<String>>,
    figures: Figures,
    /// The moment in the line `SET timestamp=`.
    timestamp: Option<Moment>,
    /// It has a line `# Thread_id: 7  Schema: shop  QC_hit: No`, which only MariaDB writes.
    is_of_mariadb: bool,
    /// No statement: `# administrator command: Quit`.
    is_command: bool,
    sql: String,
    /// Whether lines of the statement were left out because it is too long.
    is_cut: bool,
    end: StatementEnd,
}

impl Entry {
    /// Whether a line `SET timestamp=` would be the server's own. The second one is the statement.
    fn awaits_timestamp(&self) -> bool {
        self.sql.is_empty() && self.timestamp.is_none()
    }

    fn add(&mut self, number: u64, line: &str, gathered: &mut Gathered) {
        if self.sql.is_empty() {
            self.line = number;
            line.clone_into(&mut self.sql);
        } else if self.is_cut || !self.end.is_reached(&self.sql) {
            self.is_cut |= self.sql.len() > gathered.most;
            append(&mut self.sql, line, gathered.most);
        } else if !line.trim().is_empty() {
            gathered.trouble(number, "a line after the end of a statement");
        }
    }
}

#[derive(Default)]
pub(crate) struct Slow {
    /// The end of the entry, from the last `# Time:` line. MySQL's has microseconds.
    time: Option<Moment>,
    time_is_fine: bool,
    /// The last `# Time:` line is written as MariaDB and MySQL up to 5.6 write it: `240501 10:00:01`.
    time_is_old: bool,
    /// For entries of MariaDB.
    tells: Tells,
    entry: Option<Entry>,
    /// The database of the last `use` line. MySQL writes one where a statement's database is another than that of the statement before it, whichever
    /// connection that was of, and in each file anew.
    database: Option<String>,
}

impl Reader for Slow {
    fn line(&mut self, number: u64, line: &str, gathered: &mut Gathered) {
        if let Some(time) = line.strip_prefix("# Time: ") {
            self.end(gathered);
            let time = time.trim();
            let old = Moment::of_mariadb(time);
            let iso = Told::of_iso(time);
            iso.iter().for_each(|told| gathered.zone(&told.zone));
            let moment = old.or_else(|| iso.map(|told| told.at));
            if moment.is_none() {
                gathered.trouble_with(number, "no time", || format!("'{time}' is no time"));
            }
            self.time_is_old = old.is_some();
            self.time_is_fine = moment.is_some() && time.contains('.');
            self.time = moment;
        } else if line.starts_with("# User@Host: ") {
            self.end(gathered);
            let from = gathered.here.offset;
            self.entry = Some(Entry { line: number, from, session: field(line, "Id:"), ..Entry::default() });
        } else if is_header(line) {
            self.end(gathered);
            // the head has three lines, of which one tells the version
            self.tells = Tells::of_head(line).unwrap_or(self.tells);
            self.database = None;
            gathered.head(line);
        } else if let Some(entry) = &mut self.entry {
            if entry.sql.is_empty() && line.starts_with('#') {
                header(entry, line);
            } else if let Some(seconds) = entry.awaits_timestamp().then(|| timestamp(line)).flatten() {
                entry.timestamp = Moment::of_seconds(seconds);
            } else if let Some(name) = used(line).filter(|_| entry.sql.is_empty()) {
                self.database = Some(name);
            } else {
                entry.add(number, line, gathered);
            }
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            gathered.trouble(number, "a line outside of any entry");
        }
    }

    fn end(&mut self, gathered: &mut Gathered) {
        let Some(mut entry) = self.entry.take() else { return };
        let end = entry.sql.trim_end().trim_end_matches(';').len();
        entry.sql.truncate(end);
        if entry.figures.is_damaged {
            return gathered.trouble_from(
                entry.from,
                entry.line,
                "an entry with a field twice, or whose value is no number",
            );
        }
        if entry.sql.is_empty() {
            let why = "an entry without a statement";
            return if entry.is_command {
                gathered.no_statement(entry.line, why)
            } else {
                gathered.trouble_from(entry.from, entry.line, why)
            };
        }
        let told = self.told(&entry);
        let Some(session) = entry.session else {
            return gathered.trouble_from(
                entry.from,
                entry.line,
                "an entry without the connection's number (Id or Thread_id)",
            );
        };
        if told.is_none() && !gathered.cuts {
            return gathered.trouble_from(entry.from, entry.line, "an entry without a time");
        }
        entry.figures.step_us = match told {
            None => 0,
            Some((told, _)) if self.time_is_fine || told.us % 1_000_000 != 0 => 1,
            Some(_) => 1_000_000,
        };
        let took_us = entry.figures.took_us.and_then(|took| i64::try_from(took).ok()).unwrap_or(0);
        let at = told.map(|(told, is_end)| if is_end { told.minus_us(took_us) } else { told }).unwrap_or_default();
        let database = entry.schema.unwrap_or_else(|| self.database.clone());
        let Entry { line, from, figures, sql, .. } = entry;
        gathered.found(Found { session: &session, at, line, from, sql, database, figures });
    }
}

impl Slow {
    /// The moment that the log tells of this entry, and whether it is the statement's end.
    ///
    /// In whole seconds, it is the end in MySQL and Percona Server up to 5.6 and in old releases of MariaDB, and the begin in MySQL 8.0 and in MariaDB of today.
    fn told(&self, entry: &Entry) -> Option<(Moment, bool)> {
        let is_end = if entry.is_of_mariadb { self.tells == Tells::End } else { self.time_is_old };
        let time = self.time.map(|time| (time, self.time_is_fine || is_end));
        let timestamp = entry.timestamp.map(|told| (told, is_end));
        if self.time_is_fine { time.or(timestamp) } else { timestamp.or(time) }
    }
}

/// The value of `timestamp` in the line that a server writes before the statement: `SET last_insert_id=5,insert_id=7,timestamp=1763765036;`.
fn timestamp(line: &str) -> Option<&str> {
    let mut timestamp = None;
    for setting in line.strip_prefix("SET ")?.trim_end().trim_end_matches(';').split(',') {
        match setting.split_once('=')? {
            ("timestamp", seconds) => timestamp = Some(seconds),
            ("last_insert_id" | "insert_id", _) => {}
            _ => return None,
        }
    }
    timestamp
}

/// `# Thread_id: 12  Schema: sbtest  QC_hit: No`, `# Query_time: 0.000155  Lock_time: ...`.
fn header(entry: &mut Entry, line: &str) {
    if let Some(id) = field(line, "Thread_id:") {
        entry.session = Some(id);
        entry.is_of_mariadb |= line.starts_with("# Thread_id:") && line.contains("QC_hit:");
    }
    if line.contains("Schema:") {
        entry.schema = Some(field(line, "Schema:"));
    }
    entry.is_command |= line.starts_with("# administrator command");
    entry.figures.take(line);
}

/// The database of `USE name`, with or without comments before it.
fn used(sql: &str) -> Option<String> {
    let mut rest = sql;
    loop {
        let (piece, length) = piece(rest.as_bytes(), Dialect::Mysql);
        match piece {
            Piece::Word if rest[..length].eq_ignore_ascii_case("use") => rest = &rest[length..],
            Piece::Space | Piece::Comment | Piece::LineComment if length > 0 => {
                rest = &rest[length..];
                continue;
            }
            _ => return None,
        }
        break;
    }
    let name = rest.strip_prefix(|letter: char| letter.is_ascii_whitespace() || letter == '`').map(|_| rest.trim())?;
    let name = name.trim_end_matches(';').trim_end();
    let quoted = name.strip_prefix('`').and_then(|rest| rest.strip_suffix('`'));
    Some(quoted.map_or_else(|| name.to_owned(), |name| name.replace("``", "`")))
}

/// The word after `name`, unless the next field comes at once.
fn field(line: &str, name: &str) -> Option<String> {
    let rest = line.split_once(name)?.1.strip_prefix(' ')?;
    let word = rest.trim_start_matches(' ').split(' ').next()?.trim();
    (!word.is_empty() && !rest.starts_with("  QC_hit") && !word.ends_with(':')).then(|| word.to_owned())
}

/// A line of the general log that begins an entry: its time, if it has one; connection, command, argument.
fn general_entry(line: &str) -> Option<(Option<&str>, &str, &'static str, &str)> {
    let (head, argument) = match line.rsplit_once('\t') {
        // the argument itself may have tabs: cut at the first tab after the command
        Some(_) => split_general(line)?,
        None => return None,
    };
    let (before, command) = head;
    let before = before.trim_end_matches(' ');
    let before_id = before.trim_end_matches(|c: char| c.is_ascii_digit());
    let id = &before[before_id.len()..];
    let time = before_id.trim_matches(['\t', ' ']);
    let known = COMMANDS.contains(&command);
    (known && !id.is_empty()).then_some((Some(time).filter(|time| !time.is_empty()), id, command, argument))
}

/// ((time and id, command), argument).
fn split_general(line: &str) -> Option<((&str, &'static str), &str)> {
    let bytes = line.as_bytes();
    let mut tabs = (0..bytes.len()).filter(|&at| bytes[at] == b'\t');
    tabs.find_map(|tab| {
        let head = &line[..tab];
        let command = COMMANDS.iter().find(|command| head.ends_with(*command))?;
        let before = head[..head.len() - command.len()].strip_suffix(' ')?;
        before.ends_with(|c: char| c.is_ascii_digit()).then_some(((before, *command), &line[tab + 1..]))
    })
}

/// `Command_names` in MySQL's and MariaDB's sources: of two that end alike, the longer one comes first.
const COMMANDS: [&str; 32] = [
    "Query",
    "Execute",
    "Bulk_execute",
    "Prepare",
    "Connect",
    "Quit",
    "Init DB",
    "Close stmt",
    "Reset stmt",
    "Ping",
    "Statistics",
    "Field List",
    "Change user",
    "Long Data",
    "Fetch",
    "Shutdown",
    "Binlog Dump GTID",
    "Binlog Dump",
    "Reset connection",
    "Reset Connection",
    "Register Slave",
    "Register Replica",
    "Connect Out",
    "Table Dump",
    "Kill",
    "Refresh",
    "Processlist",
    "Debug",
    "Create DB",
    "Drop DB",
    "Daemon",
    "Delayed insert",
];

#[derive(Default)]
pub(crate) struct General {
    time: Option<Moment>,
    databases: Databases,
    /// The number of the first line, its offset, the session, and the statement so far.
    open: Option<(u64, u64, String, String)>,
}

pub(crate) fn is_general(line: &str) -> bool {
    general_entry(line).is_some()
}

impl Reader for General {
    fn line(&mut self, number: u64, line: &str, gathered: &mut Gathered) {
        if is_header(line) {
            return self.end(gathered);
        }
        let Some((time, session, command, argument)) = general_entry(line) else {
            match &mut self.open {
                Some((.., sql)) => append(sql, line, gathered.most),
                None if line.trim().is_empty() => {}
                None => gathered.trouble(number, "a line outside of any entry"),
            }
            return;
        };
        self.end(gathered);
        if let Some(time) = time {
            match Moment::of_iso(time).or_else(|| Moment::of_mariadb(time)) {
                Some(moment) => self.time = Some(moment),
                None => gathered.trouble_with(number, "no time", || format!("'{time}' is no time")),
            }
        }
        match command {
            "Query" | "Execute" | "Bulk_execute" => {
                self.open = Some((number, gathered.here.offset, session.to_owned(), argument.to_owned()));
            }
            "Init DB" => {
                self.databases.insert(session, argument.trim().into());
            }
            // `me@localhost on shop using Socket`
            "Connect" | "Change user" => {
                let name =
                    argument.split_once(" on ").map(|(_, rest)| rest.split(" using ").next().unwrap_or(rest).trim());
                match name.filter(|name| !name.is_empty()) {
                    Some(name) => self.databases.insert(session, name.into()),
                    None => self.databases.remove(session),
                };
            }
            "Quit" => self.databases.remove(session),
            _ => {}
        }
        if self.open.is_none() {
            gathered.no_statement(number, command);
        }
    }

    fn end(&mut self, gathered: &mut Gathered) {
        let Some((line, from, session, mut sql)) = self.open.take() else { return };
        let Some(at) = self.time else {
            return gathered.trouble_from(from, line, "a statement before the log's first time");
        };
        let database = self.databases.of(&session);
        if let Some(name) = used(sql.trim_end()) {
            self.databases.insert(&session, name);
        }
        let end = sql.trim_end().trim_end_matches(';').len();
        sql.truncate(end);
        gathered.found(Found { session: &session, at, line, from, sql, database, figures: Figures::default() });
    }
}

#[cfg(test)]
#[path = "mysql_tests.rs"]
mod tests;
