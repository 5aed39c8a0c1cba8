// SPDX-License-Identifier: Apache-2.0
//! Splits a dump into statements, as `mariadb`, `mysql` and `psql` do it: at the delimiter, where it is outside of strings, quoted names and
//! comments. Of the clients' own commands, those are known that dumps use: DELIMITER; \connect, COPY's data, \restrict.

use crate::Flavour;
use sql::{Dialect, Inside, Scanner};
use std::io::{self, BufRead};

/// A part of a dump that is sent separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Sql(Vec<u8>),
    /// A COPY from standard input: its data follows, and must be read to its end by [`Script::copy_line`].
    Copy(Vec<u8>),
    /// Continue in this database.
    Connect(String),
    /// A command for the client that is not known here.
    Unknown(String),
}

pub struct Script<R> {
    input: R,
    is_postgresql: bool,
    /// The number of the last line read, from 1.
    pub line: u64,
    /// The dump has the comment by which mysqldump, mariadb-dump and pg_dump mark its end.
    pub(crate) is_complete: bool,
    is_of_cluster: bool,
    delimiter: Vec<u8>,
    rest: Vec<u8>,
}

/// The last words of a dump.
const LAST_WORDS: [&[u8]; 3] =
    [b"-- Dump completed", b"-- PostgreSQL database dump complete", b"-- PostgreSQL database cluster dump complete"];
/// The first words of pg_dumpall's.
const CLUSTER: &[u8] = b"-- PostgreSQL database cluster dump";

/// The state of one statement that is being read.
struct Progress {
    sql: Vec<u8>,
    /// The line on which the statement began.
    line: u64,
    scanner: Scanner,
    parentheses: i32,
    /// How many BEGIN ... END and CASE ... END are open in the body of a function; there semicolons only separate the body's statements.
    bodies: u32,
    /// The first words of the statement.
    words: Vec<Vec<u8>>,
    last_word: Vec<u8>,
}

/// At most this many words come up to the one that tells what CREATE makes, with `OR REPLACE DEFINER = name@host AGGREGATE`.
const WORDS_TO_KIND: usize = 8;

impl Progress {
    fn is_code(&self) -> bool {
        *self.scanner.inside() == Inside::Code
    }

    fn is_empty(&self) -> bool {
        self.sql.iter().all(u8::is_ascii_whitespace)
    }

    /// Counts the open bodies as psql does, which counts only in a CREATE FUNCTION or PROCEDURE. The clients of MySQL and MariaDB do not count, and
    /// need another DELIMITER; a script without another DELIMITER is understood here nevertheless.
    fn word(&mut self, word: &[u8], is_postgresql: bool) {
        // a dump has millions of words in its INSERTs
        if self.words.first().is_some_and(|first| !matches!(first.as_slice(), b"create" | b"begin")) {
            return;
        }
        let word = word.to_ascii_lowercase();
        let before = std::mem::replace(&mut self.last_word, word.clone());
        if self.words.len() < WORDS_TO_KIND {
            self.words.push(word.clone());
        }
        let after_end = before == b"end" && !is_postgresql;
        match word.as_slice() {
            b"begin" if self.makes_routine(is_postgresql) => self.bodies += 1,
            // MariaDB's BEGIN NOT ATOMIC ... END, outside of any function
            b"not" if !is_postgresql && self.words.len() == 2 && before == b"begin" => self.bodies += 1,
            b"case" if self.bodies > 0 && !after_end => self.bodies += 1,
            b"end" => self.bodies = self.bodies.saturating_sub(1),
            // the ends of these were counted, and their begins were not
            b"if" | b"loop" | b"while" | b"repeat" | b"for" if after_end => self.bodies += 1,
            _ => {}
        }
    }

    /// Whether this is a CREATE of something whose body has its own statements.
    fn makes_routine(&self, is_postgresql: bool) -> bool {
        let Some((first, others)) = self.words.split_first() else { return false };
        let has_body = |word: &Vec<u8>| match word.as_slice() {
            b"function" | b"procedure" => Some(true),
            b"trigger" | b"event" | b"package" => Some(!is_postgresql),
            b"table" | b"view" | b"index" | b"database" | b"schema" | b"user" => Some(false),
            _ => None,
        };
        first == b"create" && others.iter().find_map(has_body).unwrap_or(false)
    }

    fn is_copy(&self) -> bool {
        let words: Vec<String> =
            String::from_utf8_lossy(&self.sql).split_whitespace().map(str::to_ascii_lowercase).collect();
        words.first().is_some_and(|word| word == "copy")
            && words.windows(2).any(|pair| pair[0] == "from" && pair[1].trim_end_matches(';') == "stdin")
    }
}

impl<R: BufRead> Script<R> {
    pub fn new(input: R, flavour: Flavour) -> Self {
        let is_postgresql = flavour == Flavour::Postgresql;
        Self {
            input,
            is_postgresql,
            line: 0,
            is_complete: false,
            is_of_cluster: false,
            delimiter: b";".to_vec(),
            rest: Vec::new(),
        }
    }

    /// The next piece and the line on which it begins; `None` at the end.
    ///
    /// # Errors
    /// The file cannot be read, or ends within a string or a comment.
    pub fn next_piece(&mut self) -> io::Result<Option<(u64, Piece)>> {
        let mut so_far = Progress {
            sql: Vec::new(),
            line: 0,
            scanner: Scanner::new(self.dialect()),
            parentheses: 0,
            bodies: 0,
            words: Vec::new(),
            last_word: Vec::new(),
        };
        loop {
            let line = if self.rest.is_empty() { self.read_line()? } else { Some(std::mem::take(&mut self.rest)) };
            let Some(line) = line else { return self.at_end(so_far) };
            if so_far.is_empty() && so_far.is_code() {
                so_far.line = self.line;
                if let Some(piece) = self.client_command(&line) {
                    match piece {
                        Some(piece) => return Ok(Some((self.line, piece))),
                        None => continue,
                    }
                }
            }
            if let Some(end) = self.scan(&line, &mut so_far) {
                let rest = &line[end..];
                self.rest = if rest.iter().all(u8::is_ascii_whitespace) { Vec::new() } else { rest.to_vec() };
                if so_far.is_empty() {
                    so_far.sql.clear();
                    continue;
                }
                let is_copy = self.is_postgresql && so_far.is_copy();
                let line = so_far.line;
                let sql = so_far.sql.trim_ascii().to_vec();
                return Ok(Some((line, if is_copy { Piece::Copy(sql) } else { Piece::Sql(sql) })));
            }
        }
    }

    /// One line of COPY's data with its line end; `None` after the last line.
    pub fn copy_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.read_line()? {
            Some(line) if line.trim_ascii_end() == b"\\." => Ok(None),
            Some(line) => Ok(Some(line)),
            None => Err(cut_short("the data of a COPY")),
        }
    }

    fn read_line(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut line = Vec::new();
        let count = self.input.read_until(b'\n', &mut line)?;
        self.line += u64::from(count > 0);
        if line.starts_with(CLUSTER) {
            self.is_of_cluster = true;
        }
        // each database of a cluster's dump ends with the words of a dump of one database
        let words = if self.is_of_cluster { &LAST_WORDS[LAST_WORDS.len() - 1..] } else { &LAST_WORDS[..] };
        self.is_complete |= words.iter().any(|words| line.starts_with(words));
        Ok((count > 0).then_some(line))
    }

    fn at_end(&self, so_far: Progress) -> io::Result<Option<(u64, Piece)>> {
        match so_far.scanner.inside() {
            Inside::Code if so_far.is_empty() => Ok(None),
            Inside::Code => Ok(Some((so_far.line, Piece::Sql(so_far.sql.trim_ascii().to_vec())))),
            Inside::Comment { .. } => Err(cut_short(&format!("a comment of the statement of line {}", so_far.line))),
            _ => Err(cut_short(&format!("a string of the statement of line {}", so_far.line))),
        }
    }

    /// Handles a line that is a command for the client. `Some(None)`: it is known, and nothing must be sent.
    fn client_command(&mut self, line: &[u8]) -> Option<Option<Piece>> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim();
        if !self.is_postgresql {
            let (word, rest) = text.split_once(char::is_whitespace)?;
            if !word.eq_ignore_ascii_case("delimiter") {
                return None;
            }
            self.delimiter = rest.trim().as_bytes().to_vec();
            return Some(None);
        }
        let command = text.strip_prefix('\\')?;
        let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match word {
            "restrict" | "unrestrict" | "set" | "encoding" => Some(None),
            "connect" | "c" => {
                Some(Some(database_of(rest).map_or_else(|| Piece::Unknown(text.into()), Piece::Connect)))
            }
            _ => Some(Some(Piece::Unknown(text.into()))),
        }
    }

    /// Adds a line to `so_far`; returns the place after the delimiter if the statement ends in this line.
    fn scan(&self, line: &[u8], so_far: &mut Progress) -> Option<usize> {
        let mut at = 0;
        while at < line.len() {
            let rest = &line[at..];
            if so_far.is_code() && self.is_at_end(rest, so_far) {
                return Some(at + self.delimiter.len());
            }
            let (kind, length) = so_far.scanner.next(rest);
            let mut run = &rest[..length];
            match kind {
                sql::Piece::LineComment => run = b"\n",
                // an IF behind `END;` begins a statement
                sql::Piece::Symbol if run == b";" => so_far.last_word.clear(),
                sql::Piece::Symbol if run == b"(" => so_far.parentheses += 1,
                sql::Piece::Symbol if run == b")" => so_far.parentheses -= 1,
                sql::Piece::Word | sql::Piece::Number if self.delimiter == b";" => so_far.word(run, self.is_postgresql),
                // a delimiter may be a word, or begin inside a word
                sql::Piece::Word | sql::Piece::Number => {
                    let begins = |at: &usize| rest[*at..].starts_with(&self.delimiter);
                    run = &run[..(1..length).find(begins).unwrap_or(length)];
                }
                _ => {}
            }
            so_far.sql.extend_from_slice(run);
            at += if kind == sql::Piece::LineComment { length } else { run.len() };
        }
        None
    }

    fn is_at_end(&self, rest: &[u8], so_far: &Progress) -> bool {
        let is_inside = so_far.bodies > 0 || (self.is_postgresql && so_far.parentheses > 0);
        rest.starts_with(&self.delimiter) && !is_inside
    }

    fn dialect(&self) -> Dialect {
        if self.is_postgresql { Dialect::Postgresql } else { Dialect::Mysql }
    }
}

/// The database in `\connect name`, `\connect "a name"`, `\connect -reuse-previous=on "dbname='a name'"`.
fn database_of(rest: &str) -> Option<String> {
    let rest = rest.trim();
    let rest = rest.strip_prefix("-reuse-previous=on").unwrap_or(rest).trim();
    let name = rest
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'))
        .map_or(rest.to_owned(), |name| name.replace("\"\"", "\""));
    let Some(conninfo) = name.strip_prefix("dbname=") else {
        return Some(name).filter(|name| !name.is_empty() && !name.contains('='));
    };
    let value = conninfo.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(conninfo);
    Some(value.replace("\\'", "'").replace("\\\\", "\\"))
}

fn cut_short(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("the dump ends within {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(flavour: Flavour, text: &str) -> Vec<(u64, String)> {
        let mut script = Script::new(text.as_bytes(), flavour);
        let mut all = Vec::new();
        while let Some((line, piece)) = script.next_piece().expect("is whole") {
            let shown = match piece {
                Piece::Sql(sql) => String::from_utf8_lossy(&sql).into_owned(),
                Piece::Copy(sql) => {
                    let mut rows = 0;
                    while script.copy_line().expect("is whole").is_some() {
                        rows += 1;
                    }
                    format!("{} <{rows}>", String::from_utf8_lossy(&sql))
                }
                Piece::Connect(name) => format!("connect {name}"),
                Piece::Unknown(text) => format!("unknown {text}"),
            };
            all.push((line, shown));
        }
        all
    }

    fn texts(flavour: Flavour, text: &str) -> Vec<String> {
        pieces(flavour, text).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn strings_names_and_comments_hide_delimiters() {
        let text = "-- a; b\nSELECT ';', \"x;\\\";\", `a;b` /* ; */;\n/*!40101 SET NAMES utf8 */;# c;\nINSERT INTO t VALUES ('it''s;','\\';');SELECT 1\n";
        let found = pieces(Flavour::Mariadb, text);
        assert_eq!(found.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 3, 4, 4]);
        assert_eq!(found[0].1, "SELECT ';', \"x;\\\";\", `a;b` /* ; */");
        assert_eq!(found[1].1, "/*!40101 SET NAMES utf8 */");
        assert_eq!(found[2].1, "INSERT INTO t VALUES ('it''s;','\\';')");
        assert_eq!(found[3].1, "SELECT 1");
    }

    #[test]
    fn a_delimiter_is_changed_for_a_trigger() {
        let text = "DELIMITER ;;\n/*!50003 CREATE TRIGGER x BEGIN SELECT 1; END */;;\nDELIMITER ;\nSELECT 2;\n";
        assert_eq!(texts(Flavour::Mysql, text), ["/*!50003 CREATE TRIGGER x BEGIN SELECT 1; END */", "SELECT 2"]);
        let text = "delimiter $$\ncreate procedure p() begin select 1; end$$\ndelimiter ;\n";
        assert_eq!(texts(Flavour::Mysql, text), ["create procedure p() begin select 1; end"]);
    }

    #[test]
    fn a_body_without_another_delimiter_is_one_statement() {
        for body in [
            "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
            "CREATE OR REPLACE DEFINER = root@localhost TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN\n IF NEW.a THEN SET NEW.b = 1; END IF; SET NEW.c = IF(1, 2, 3); END",
            "CREATE FUNCTION f() RETURNS INT BEGIN DECLARE i INT DEFAULT 0; l: LOOP SET i = i + 1; IF i > 3 THEN LEAVE l; END IF; END LOOP l; RETURN i; END",
            "CREATE PROCEDURE p() BEGIN CASE 1 WHEN 1 THEN SELECT CASE 2 WHEN 2 THEN 'END' END; END CASE; END",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN DELETE FROM x; END",
            "CREATE PROCEDURE p(x INT) BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; END; IF x > 0 THEN SELECT 1; END IF; END",
            "CREATE PROCEDURE p(x INT) BEGIN BEGIN SELECT 1; END; CASE x WHEN 1 THEN SELECT 2; END CASE; END",
            "CREATE PROCEDURE p(x INT) BEGIN SET y = CASE x WHEN 1 THEN 2 END; IF x > 0 THEN SELECT 1; END IF; END",
            "BEGIN NOT ATOMIC SELECT 1; SELECT 2; END",
            "CREATE TABLE begin_end (event INT, a INT AS (CASE WHEN event THEN 1 ELSE 2 END))",
            "CREATE TRIGGER t BEFORE INSERT ON x FOR EACH ROW SET NEW.a = 1",
        ] {
            let text = format!("{body};\nBEGIN; SELECT 3; COMMIT;\n");
            assert_eq!(texts(Flavour::Mariadb, &text), [body, "BEGIN", "SELECT 3", "COMMIT"]);
        }
    }

    #[test]
    fn copy_functions_and_connect() {
        let text = "\\restrict abc\nCREATE FUNCTION f() AS $_$ SELECT 1; $_$ LANGUAGE sql;\nCOPY public.t (a) FROM stdin;\n1;\n'\n\\.\n\n\
                    \\connect -reuse-previous=on \"dbname='my db'\"\nCREATE OR REPLACE FUNCTION g() RETURNS int\n BEGIN ATOMIC\n SELECT CASE WHEN true THEN 1 END;\n SELECT 2;\nEND;\n\
                    SELECT E'\\';', '\\', 1; /* a /* b; */ ; */ SELECT 3;\n\\! ls\n";
        let found = texts(Flavour::Postgresql, text);
        assert_eq!(found[0], "CREATE FUNCTION f() AS $_$ SELECT 1; $_$ LANGUAGE sql");
        assert_eq!(found[1], "COPY public.t (a) FROM stdin <2>");
        assert_eq!(found[2], "connect my db");
        assert!(found[3].ends_with("END") && found[3].contains("SELECT 2;"), "{}", found[3]);
        assert_eq!(found[4], "SELECT E'\\';', '\\', 1");
        assert!(found[5].ends_with("SELECT 3"));
        assert_eq!(found[6], "unknown \\! ls");
    }

    #[test]
    fn a_dump_that_was_cut_short_is_found_out() {
        for (flavour, text) in [
            (Flavour::Mariadb, "INSERT INTO t VALUES ('a"),
            (Flavour::Mariadb, "SELECT 1 /* x"),
            (Flavour::Postgresql, "CREATE FUNCTION f() AS $$ x"),
        ] {
            let mut script = Script::new(text.as_bytes(), flavour);
            assert_eq!(script.next_piece().expect_err("is cut").kind(), io::ErrorKind::UnexpectedEof, "{text}");
        }
        let is_complete = |text: &str| {
            let mut script = Script::new(text.as_bytes(), Flavour::Postgresql);
            while script.next_piece().expect("reads").is_some() {}
            script.is_complete
        };
        let of_all =
            "-- PostgreSQL database cluster dump\nSELECT 1;\n-- PostgreSQL database dump complete\nSELECT 2;\n";
        assert!(!is_complete(of_all), "the first database alone is complete");
        assert!(is_complete(&format!("{of_all}-- PostgreSQL database cluster dump complete\n")));
        assert!(is_complete("SELECT 1;\n-- PostgreSQL database dump complete\n"));
        let mut script = Script::new("COPY t FROM stdin;\n1\n".as_bytes(), Flavour::Postgresql);
        assert!(matches!(script.next_piece().expect("reads"), Some((1, Piece::Copy(_)))));
        assert!(script.copy_line().expect("reads").is_some() && script.copy_line().is_err());
    }
}
