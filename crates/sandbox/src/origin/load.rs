// SPDX-License-Identifier: Apache-2.0
//! Dumps: recognises their server by the first lines, and loads them into a running server, statement by statement, over one connection.

use super::script::{Piece, Script};
use super::{HEAD_BYTES, Kind, Origin, Packing, refusal};
use crate::{Error, Flavour, Progress, Version};
use host::{files, tool};
use load::Target;
use load::admin::Connection;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const PG_ARCHIVE: &[u8] = b"PGDMP";

pub(super) fn look(path: &Path) -> Result<Origin, Error> {
    let head = files::head(path, HEAD_BYTES).map_err(|source| Error::path("read", path, source))?;
    let found = |kind, flavour, version, why: &str| Origin {
        path: path.into(),
        kind,
        flavour,
        version,
        why: why.into(),
        recovers: false,
    };
    if head.starts_with(PG_ARCHIVE) {
        return Ok(found(Kind::Archive, Flavour::Postgresql, None, "its first bytes are PGDMP"));
    }
    if let Some((name, program)) = packed_otherwise(&head) {
        let hint = format!("unpack it first: {program} {}", path.display());
        return Err(refusal(path, format!("it is packed by {name}, which is not unpacked here"), &hint));
    }
    let packing = match () {
        () if head.starts_with(GZIP) => Packing::Gzip,
        () if head.starts_with(ZSTD) => Packing::Zstd,
        () => Packing::None,
    };
    let plain = if packing == Packing::None { head } else { unpacked_head(path, packing)? };
    if plain.starts_with(PG_ARCHIVE) {
        let hint = "unpack it first: pg_restore reads an archive that is not packed once more";
        return Err(refusal(path, "it is a packed archive of pg_dump", hint));
    }
    let text = String::from_utf8_lossy(&plain);
    match text.lines().find_map(sign) {
        Some((flavour, version, line)) => {
            Ok(found(Kind::Dump(packing), flavour, version, &format!("it begins with '{line}'")))
        }
        None => {
            let why =
                "it is no dump that is known here: its first lines name neither mysqldump, mariadb-dump nor pg_dump";
            let hint = "SQL without such a head: deploy a sandbox, start it, and `wringer sandbox use NAME < FILE`";
            Err(refusal(path, why, hint))
        }
    }
}

/// The other usual ways to pack a file, by its first bytes, and the program that unpacks it.
fn packed_otherwise(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let ways: [(&[u8], _, _); 4] = [
        (b"\xfd7zXZ\0", "xz", "unxz"),
        (b"BZh", "bzip2", "bunzip2"),
        (b"\x04\x22\x4d\x18", "lz4", "unlz4"),
        (b"PK\x03\x04", "zip", "unzip"),
    ];
    ways.into_iter().find(|(magic, ..)| head.starts_with(magic)).map(|(_, name, program)| (name, program))
}

/// The server whose dump has this line at its head. mysqldump: `-- MySQL dump 10.13  Distrib 8.0.36, for Linux`, then `-- Server version 8.0.36`;
/// mariadb-dump: `-- MariaDB dump 10.19  Distrib 10.11.19-MariaDB`.
fn sign(line: &str) -> Option<(Flavour, Option<Version>, String)> {
    let line = line.trim();
    let version = |mark: &str| line.split_once(mark).and_then(|(_, rest)| Version::of_package(rest.trim()));
    let is = |mark: &str| line.starts_with(mark);
    if is("-- MariaDB dump") || (is("-- MySQL dump") && line.contains("MariaDB")) {
        let between = || line.split('-').nth(3).and_then(Version::of_package);
        return Some((Flavour::Mariadb, version("Distrib ").or_else(between), line.into()));
    }
    if is("-- MySQL dump") || is("-- mysqldump") {
        return Some((Flavour::Mysql, version("Distrib "), line.into()));
    }
    let is_postgresql = is("-- PostgreSQL database dump") || is("-- PostgreSQL database cluster dump");
    is_postgresql.then(|| (Flavour::Postgresql, None, line.into()))
}

fn unpacked_head(path: &Path, packing: Packing) -> Result<Vec<u8>, Error> {
    let mut reader = open(path, Kind::Dump(packing), None)?;
    let mut head = Vec::new();
    let read = reader.input.by_ref().take(HEAD_BYTES).read_to_end(&mut head);
    reader.end();
    read.map_err(|source| Error::path("read", path, source))?;
    if head.is_empty() {
        return Err(refusal(path, "it cannot be unpacked, or holds nothing", "try `gzip -t` or `zstd -t` on it"));
    }
    Ok(head)
}

/// A dump's text, from the file itself or from the program that unpacks it.
struct Reader {
    input: BufReader<Box<dyn Read>>,
    child: Option<(String, Child)>,
}

impl Reader {
    /// Ends the unpacking program, for a dump that was not read to its end.
    fn end(mut self) {
        if let Some((_, child)) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// `own`: the server's own program for this kind of file, if it has one.
fn open(path: &Path, kind: Kind, own: Option<Command>) -> Result<Reader, Error> {
    let file = File::open(path).map_err(|source| Error::path("open", path, source))?;
    let (program, arguments): (&str, &[&str]) = match kind {
        Kind::Dump(Packing::Gzip) => ("gzip", &["-dc"]),
        Kind::Dump(Packing::Zstd) => ("zstd", &["-dcq"]),
        // it reads standard input and writes SQL to standard output
        Kind::Archive => ("pg_restore", &["-f", "-"]),
        _ => return Ok(Reader { input: BufReader::new(Box::new(file)), child: None }),
    };
    let found = own.filter(|_| kind == Kind::Archive).or_else(|| tool::find(program).map(tool::command));
    let mut command = found.ok_or_else(|| host::Error::MissingProgram {
        program: format!("{program}, which reads {},", path.display()),
    })?;
    command.args(arguments).stdin(file).stdout(Stdio::piped()).stderr(Stdio::piped()).env("LC_ALL", "C");
    let mut child = command.spawn().map_err(|source| Error::path("start", program, source))?;
    let output: Option<ChildStdout> = child.stdout.take();
    let input: Box<dyn Read> = match output {
        Some(output) => Box::new(output),
        None => Box::new(std::io::empty()),
    };
    Ok(Reader { input: BufReader::with_capacity(1 << 20, input), child: Some((program.into(), child)) })
}

/// The result of loading a dump: what it made, and what was left out.
#[derive(Debug, Default)]
pub(super) struct Loaded {
    pub statements: u64,
    /// Roles that the dump names and this server lacks: they were made, without the right to log in.
    pub roles: BTreeSet<String>,
    /// Statements that this server cannot execute and that are not needed, with the line.
    pub passed_over: Vec<String>,
    /// The dump did not end with the words that mark a complete dump.
    pub may_be_cut: bool,
}

/// Runs the whole dump on the server at `target`.
pub(super) fn load(
    origin: &Origin,
    target: &Target,
    pg_restore: Option<Command>,
    progress: &mut dyn Progress,
) -> Result<Loaded, Error> {
    let total = origin.path.metadata().map_or(0, |metadata| metadata.len());
    let mut reader = open(&origin.path, origin.kind, pg_restore)?;
    let mut loader = Loader { origin, target: target.clone(), connection: connect(target)?, loaded: Loaded::default() };
    let mut script = Script::new(&mut reader.input, origin.flavour);
    let mut read_bytes = 0;
    let outcome = loop {
        match script.next_piece() {
            Ok(None) => break Ok(()),
            Ok(Some((line, piece))) => {
                if let Piece::Sql(sql) | Piece::Copy(sql) = &piece {
                    read_bytes += sql.len() as u64;
                }
                let has_data = matches!(piece, Piece::Copy(_));
                if let Err(error) = loader.run(line, piece, &mut script) {
                    break Err(error);
                }
                loader.loaded.statements += 1;
                // for a packed file the position is not known, and the data of a COPY is not counted either
                if !has_data && origin.kind == Kind::Dump(Packing::None) {
                    progress.bytes(read_bytes, total);
                }
                if host::interrupt::requested() {
                    break Err(Error::Interrupted);
                }
            }
            Err(source) => break Err(Error::path("read", &origin.path, source)),
        }
    };
    let is_complete = script.is_complete;
    if outcome.is_err() {
        reader.end();
        return outcome.map(|()| Loaded::default());
    }
    if let Some((program, child)) = reader.child.take() {
        drop(reader.input);
        let output = child.wait_with_output().map_err(|source| Error::path("wait for", &program, source))?;
        if !output.status.success() {
            let log = String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect();
            return Err(Error::Program { program, doing: "reading the dump", status: output.status.to_string(), log });
        }
    }
    loader.loaded.may_be_cut = !is_complete;
    Ok(loader.loaded)
}

fn connect(target: &Target) -> Result<Connection, Error> {
    let talk = |source| Error::Talk { name: "of the dump".into(), source };
    let mut connection = Connection::open(target).map_err(talk)?;
    if target.protocol == load::Protocol::Postgresql {
        // this is our setting, not the dump's: the dump's own settings come after it
        connection.execute("SET synchronous_commit = off").map_err(talk)?;
    }
    Ok(connection)
}

struct Loader<'a> {
    origin: &'a Origin,
    target: Target,
    connection: Connection,
    loaded: Loaded,
}

impl Loader<'_> {
    fn run<R: std::io::BufRead>(&mut self, line: u64, piece: Piece, script: &mut Script<R>) -> Result<(), Error> {
        match piece {
            Piece::Sql(sql) => self.statement(line, &sql),
            Piece::Copy(sql) => self.copy(line, &sql, script),
            Piece::Connect(database) => {
                self.target.database = Some(database);
                self.connection = connect(&self.target)?;
                Ok(())
            }
            Piece::Unknown(command) => {
                let why = format!("line {line} is a command for psql that is not known here: {command}");
                Err(refusal(&self.origin.path, why, "take it out of the dump"))
            }
        }
    }

    fn statement(&mut self, line: u64, sql: &[u8]) -> Result<(), Error> {
        if sql.get(..OWN_ROLE.len()).is_some_and(|head| head.eq_ignore_ascii_case(OWN_ROLE)) {
            // with the password of another sandbox we could not connect again
            self.loaded.passed_over.push(format!("line {line}: {}", excerpt(sql)));
            return Ok(());
        }
        let mut last = None;
        // each try has one more role than the one before
        for _ in 0..16 {
            let Err(error) = self.connection.execute_bytes(sql) else { return Ok(()) };
            if is_unneeded(error.code(), sql) {
                self.loaded.passed_over.push(format!("line {line}: {}", excerpt(sql)));
                return Ok(());
            }
            let role = missing_role(&error).filter(|role| !self.loaded.roles.contains(role));
            last = Some(error);
            let Some(role) = role else { break };
            self.make_role(line, role)?;
        }
        Err(last.map_or(Error::Interrupted, |source| self.failed(line, sql, source)))
    }

    fn make_role(&mut self, line: u64, role: String) -> Result<(), Error> {
        let sql = format!("CREATE ROLE \"{}\" NOLOGIN", role.replace('"', "\"\""));
        self.connection.execute(&sql).map_err(|source| self.failed(line, sql.as_bytes(), source))?;
        self.loaded.roles.insert(role);
        Ok(())
    }

    fn copy<R: std::io::BufRead>(&mut self, line: u64, sql: &[u8], script: &mut Script<R>) -> Result<(), Error> {
        let text = String::from_utf8_lossy(sql).into_owned();
        let mut trouble = None;
        let mut more = |out: &mut Vec<u8>| match script.copy_line() {
            Ok(Some(row)) => {
                out.extend_from_slice(&row);
                !host::interrupt::requested()
            }
            Ok(None) => false,
            Err(error) => {
                trouble = Some(error);
                false
            }
        };
        let copied = self.connection.copy_in(&text, &mut more);
        if let Some(source) = trouble {
            return Err(Error::path("read", &self.origin.path, source));
        }
        copied.map(|_| ()).map_err(|source| self.failed(line, sql, source))
    }

    fn failed(&self, line: u64, sql: &[u8], source: load::Error) -> Error {
        Error::Dump { path: self.origin.path.clone(), line, statement: excerpt(sql), source }
    }
}

/// What pg_dumpall writes of a sandbox's own account.
const OWN_ROLE: &[u8] = b"ALTER ROLE WRINGER ";

/// Whether an error is ignored: of statements that set the original's replication position (1227 and 3546 of MySQL, 1231 and 1193 of MariaDB),
/// because a sandbox does not use that position; and of a role (42710), the schema `public` (42P06) or the database `sbtest` (42P04) that is there already.
fn is_unneeded(code: Option<&str>, sql: &[u8]) -> bool {
    let head = String::from_utf8_lossy(&sql[..sql.len().min(200)]).to_ascii_uppercase();
    match code {
        Some("1193" | "1227" | "1231" | "3546" | "1781" | "1840") => {
            ["GTID_PURGED", "SQL_LOG_BIN", "GTID_SLAVE_POS"].iter().any(|word| head.contains(word))
        }
        Some("42710") => head.starts_with("CREATE ROLE"),
        // pg_dump -n public, and a dump of a server with a database of our name
        Some("42P06") => head.starts_with("CREATE SCHEMA PUBLIC"),
        Some("42P04") => head.starts_with("CREATE DATABASE SBTEST"),
        _ => false,
    }
}

/// The name in an error such as `role "alice" does not exist`.
fn missing_role(error: &load::Error) -> Option<String> {
    let load::Error::Server { code, message } = error else { return None };
    let rest = (code == "42704").then(|| message.strip_prefix("role \"")).flatten()?;
    rest.strip_suffix("\" does not exist").map(str::to_owned)
}

/// The beginning of a statement, on one line.
fn excerpt(sql: &[u8]) -> String {
    let text = String::from_utf8_lossy(&sql[..sql.len().min(400)]);
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = words.join(" ");
    let short: String = line.chars().take(100).collect();
    if short.len() < line.len() { format!("{short} ...") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_of_dumps() {
        let flavour = |line| sign(line).map(|(flavour, version, _)| (flavour, version.map(|it| it.to_string())));
        let is = |line, expected, version: &str| {
            assert_eq!(flavour(line), Some((expected, Some(version.to_owned()))), "{line}");
        };
        is(
            "-- MariaDB dump 10.19  Distrib 10.11.19-MariaDB, for debian-linux-gnu (x86_64)",
            Flavour::Mariadb,
            "10.11.19",
        );
        is("-- MariaDB dump 10.19-11.4.5-MariaDB, for Linux", Flavour::Mariadb, "11.4.5");
        is("-- MySQL dump 10.19  Distrib 10.3.39-MariaDB, for debian-linux-gnu", Flavour::Mariadb, "10.3.39");
        is("-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)", Flavour::Mysql, "8.0.36");
        is("-- MySQL dump 10.13  Distrib 9.7.4, for Linux (x86_64)", Flavour::Mysql, "9.7.4");
        assert_eq!(flavour("-- PostgreSQL database dump"), Some((Flavour::Postgresql, None)));
        assert_eq!(flavour("SELECT 1;"), None);
    }

    #[test]
    fn what_a_sandbox_need_not_take() {
        assert!(is_unneeded(Some("1193"), b"SET @@GLOBAL.GTID_PURGED=/*!80000 '+'*/ 'x:1-5'"));
        assert!(!is_unneeded(Some("1193"), b"SET GLOBAL no_such = 1"));
        assert!(is_unneeded(Some("42710"), b"CREATE ROLE wringer"));
        assert!(
            is_unneeded(Some("42P06"), b"CREATE SCHEMA public") && !is_unneeded(Some("42P06"), b"CREATE SCHEMA crm")
        );
        assert!(is_unneeded(Some("42P04"), b"CREATE DATABASE sbtest WITH TEMPLATE = template0"));
        assert!(!is_unneeded(Some("1064"), b"SET @@GLOBAL.GTID_PURGED=''") && !is_unneeded(None, b""));
        let error = load::Error::Server { code: "42704".into(), message: "role \"a b\" does not exist".into() };
        assert_eq!(missing_role(&error).as_deref(), Some("a b"));
    }
}
