// SPDX-License-Identifier: Apache-2.0
//! Runs SQL in a sandbox, and prints how other programs connect to it.

use super::{Export, ExportAs, Output, Use};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use attach::option_file::written;
use host::places::Places;
use load::Target;
use load::admin::{Connection, Rows};
use sandbox::{Flavour, Piece, Sandbox, Script};
use serde_json::json;
use std::io::{IsTerminal as _, Read as _};
use std::os::unix::process::CommandExt as _;

/// What the clients of the MySQL family read in the folder that `MYSQL_HOME` names.
const OPTION_FILE: &str = "my.cnf";

/// The account and the database of every sandbox.
struct Access {
    user: String,
    password: String,
    database: String,
    socket: String,
    port: u16,
}

impl Access {
    /// The connection to the server itself.
    fn of(sandbox: &Sandbox) -> Result<Self, Failure> {
        let target = sandbox.connection()?;
        Ok(Self {
            user: target.user,
            password: target.password.reveal().to_owned(),
            database: target.database.unwrap_or_default(),
            socket: sandbox.socket().display().to_string(),
            port: sandbox.manifest.port,
        })
    }

    /// The connection through the pooler, if there is one.
    fn through_pooler(self, sandbox: &Sandbox) -> Self {
        match (&sandbox.manifest.pooler, sandbox.pooler_socket()) {
            (Some(pooler), Some(socket)) => Self { port: pooler.port, socket: socket.display().to_string(), ..self },
            _ => self,
        }
    }
}

pub(super) fn use_sandbox(args: &Use) -> Outcome {
    let places = Places::from_environment();
    let sandbox = Sandbox::open_running(&args.name, &places)?;
    if args.sql.is_none() && std::io::stdin().is_terminal() {
        return open_client(&sandbox);
    }
    let sql = match &args.sql {
        Some(sql) => sql.clone().into_bytes(),
        None => {
            let mut script = Vec::new();
            std::io::stdin().read_to_end(&mut script)?;
            script
        }
    };
    let mut session = Session::open(&args.name, sandbox.connection()?, args.format.output)?;
    let mut script = Script::new(sql.as_slice(), sandbox.flavour());
    let cut = |error| Failure::new(Exit::Usage, anyhow::Error::new(error).context("take the SQL apart"));
    while let Some((line, piece)) = script.next_piece().map_err(cut)? {
        session.run(piece, &mut script).map_err(|failure| Failure {
            error: match sql.contains(&b'\n') {
                true => failure.error.context(format!("line {line}")),
                false => failure.error,
            },
            ..failure
        })?;
    }
    Ok(())
}

/// The connection of a script to a sandbox's server.
struct Session<'a> {
    name: &'a str,
    target: Target,
    connection: Connection,
    output: Output,
}

impl<'a> Session<'a> {
    fn open(name: &'a str, target: Target, output: Output) -> Result<Self, Failure> {
        let connection = Connection::open_anywhere(&target)
            .map_err(|source| sandbox::Error::Talk { name: name.to_owned(), source })?;
        Ok(Self { name, target, connection, output })
    }

    fn run(&mut self, piece: Piece, script: &mut Script<&[u8]>) -> Outcome {
        let talk = |source| sandbox::Error::Talk { name: self.name.to_owned(), source };
        match piece {
            Piece::Sql(sql) => {
                let sql = String::from_utf8(sql).map_err(|_| Failure::message(Exit::Usage, "SQL that is not UTF-8"))?;
                let mut results = self.connection.query_each(&sql).map_err(talk)?;
                if results.is_empty() {
                    results.push(Rows::default());
                }
                results.iter().for_each(|rows| self.print(rows));
            }
            Piece::Copy(sql) => {
                let mut data: Vec<Vec<u8>> = Vec::new();
                while let Some(line) = script.copy_line()? {
                    data.push(line);
                }
                let mut lines = data.into_iter();
                let mut more = |out: &mut Vec<u8>| {
                    lines.next().is_some_and(|line| {
                        out.extend_from_slice(&line);
                        true
                    })
                };
                let sql = String::from_utf8_lossy(&sql).into_owned();
                let rows = self.connection.copy_in(&sql, &mut more).map_err(talk)?;
                terminal::say(format_args!("copied {}", units::counted(rows, "row")));
            }
            Piece::Connect(database) => {
                let target = Target { database: Some(database), ..self.target.clone() };
                *self = Self::open(self.name, target, self.output)?;
            }
            Piece::Unknown(command) => {
                return Err(Failure::message(Exit::Usage, format!("'{command}' is a command of psql's own, not SQL"))
                    .hint(format!("`wringer sandbox use {}` in a terminal opens psql itself", self.name)));
            }
        }
        Ok(())
    }

    fn print(&self, rows: &Rows) {
        match self.output {
            Output::Text => print_table(rows),
            Output::Json => terminal::json(&as_json(rows)),
        }
    }
}

fn as_json(rows: &Rows) -> serde_json::Value {
    let row = |row: usize| (0..rows.columns.len()).map(|column| rows.text(row, column)).collect::<Vec<_>>();
    json!({"schema": 1, "columns": rows.columns, "rows": (0..rows.len()).map(row).collect::<Vec<_>>()})
}

/// Columns as wide as their widest value.
fn print_table(rows: &Rows) {
    if rows.columns.is_empty() {
        return terminal::say("done");
    }
    let cell = |row: usize, column: usize| rows.text(row, column).unwrap_or_else(|| "NULL".into());
    let width = |column: usize| {
        let cells = (0..rows.len()).map(|row| cell(row, column).chars().count());
        cells.chain([rows.columns[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..rows.columns.len()).map(width).collect();
    let line = |cells: Vec<String>| {
        let padded = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join(" | ").trim_end().to_owned()
    };
    terminal::data(line(rows.columns.clone()));
    terminal::data(widths.iter().map(|&width| "-".repeat(width)).collect::<Vec<_>>().join("-+-"));
    for row in 0..rows.len() {
        terminal::data(line((0..rows.columns.len()).map(|column| cell(row, column)).collect()));
    }
    terminal::say(format_args!("({})", units::counted(rows.len() as u64, "row")));
}

/// Replaces this process by the server's own client; the password is passed in the environment, which `ps` does not show.
fn open_client(sandbox: &Sandbox) -> Outcome {
    let installation = &sandbox.manifest.installation;
    let Some(mut command) = installation.client() else {
        let message = format!("this machine has no client for {}", sandbox.flavour());
        return Err(
            Failure::message(Exit::Missing, message).hint("give a statement: wringer sandbox use NAME 'SELECT 1'")
        );
    };
    let access = Access::of(sandbox)?;
    match sandbox.flavour() {
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => {
            let socket = format!("--socket={}", access.socket);
            let user = format!("--user={}", access.user);
            command.args(["--no-defaults", &socket, &user, &access.database]).env("MYSQL_PWD", access.password)
        }
        Flavour::Postgresql => command.envs(pg_variables(sandbox, &access)),
    };
    let error = command.exec();
    Err(Failure::new(Exit::Failed, error))
}

fn pg_variables(sandbox: &Sandbox, access: &Access) -> [(&'static str, String); 5] {
    [
        ("PGHOST", sandbox.manifest.socket_folder.display().to_string()),
        ("PGPORT", access.port.to_string()),
        ("PGUSER", access.user.clone()),
        ("PGPASSWORD", access.password.clone()),
        ("PGDATABASE", access.database.clone()),
    ]
}

pub(super) fn export(args: &Export) -> Outcome {
    let sandbox = Sandbox::open(&args.name, &Places::from_environment())?;
    let direct = Access::of(&sandbox)?;
    let access = if args.direct { direct } else { direct.through_pooler(&sandbox) };
    let text = match (args.form, sandbox.flavour()) {
        (ExportAs::Env, flavour @ Flavour::Postgresql) => {
            let own = pg_variables(&sandbox, &access).into_iter();
            variables(&own.chain([("WRINGER_DSN", dsn(flavour, &access))]).collect::<Vec<_>>())
        }
        (ExportAs::Env, Flavour::Mariadb | Flavour::Mysql | Flavour::Percona) => {
            variables(&my_variables(&sandbox, &access)?)
        }
        (ExportAs::MyCnf, Flavour::Mariadb | Flavour::Mysql | Flavour::Percona) => option_file(&access),
        (ExportAs::Pgpass, Flavour::Postgresql) => password_file(&sandbox, &access),
        (ExportAs::Dsn, flavour) => dsn(flavour, &access),
        (ExportAs::MyCnf | ExportAs::Pgpass, flavour) => {
            return Err(
                Failure::message(Exit::Usage, format!("{flavour} has no such file")).hint("env and dsn fit both")
            );
        }
    };
    terminal::data(text);
    Ok(())
}

/// Clients read option files, too, which come before variables (Debian's names the socket of the machine's own server); the file that is written here comes
/// after those.
fn my_variables(sandbox: &Sandbox, access: &Access) -> Result<Vec<(&'static str, String)>, Failure> {
    let mut variables = vec![
        ("MYSQL_UNIX_PORT", access.socket.clone()),
        ("MYSQL_TCP_PORT", access.port.to_string()),
        ("MYSQL_PWD", access.password.clone()),
        ("WRINGER_DSN", dsn(sandbox.flavour(), access)),
    ];
    // the sandbox of an earlier version would keep the file when it is deleted
    if sandbox.manifest.contents.iter().any(|known| known.as_os_str() == OPTION_FILE) {
        host::files::write_atomic(&sandbox.folder.join(OPTION_FILE), option_file(access).as_bytes(), 0o600)?;
        variables.push(("MYSQL_HOME", sandbox.folder.display().to_string()));
    }
    Ok(variables)
}

fn variables(pairs: &[(&str, String)]) -> String {
    let quote = |value: &str| format!("'{}'", value.replace('\'', "'\\''"));
    pairs.iter().map(|(name, value)| format!("export {name}={}", quote(value))).collect::<Vec<_>>().join("\n")
}

fn option_file(access: &Access) -> String {
    let Access { user, password, database, socket, port } = access;
    let [user, password, database, socket] = [user, password, database, socket].map(|value| written(value));
    format!(
        "[client]\nhost = localhost\nsocket = {socket}\nport = {port}\nuser = {user}\npassword = {password}\n\n[mysql]\ndatabase = {database}"
    )
}

/// One line for TCP and one for the socket; for the socket, libpq looks for the socket's folder in the file.
fn password_file(sandbox: &Sandbox, access: &Access) -> String {
    let escape = |text: &str| text.replace('\\', "\\\\").replace(':', "\\:");
    let rest = format!("{}:*:{}:{}", access.port, access.user, access.password);
    format!("127.0.0.1:{rest}\n{}:{rest}", escape(&sandbox.manifest.socket_folder.display().to_string()))
}

fn dsn(flavour: Flavour, access: &Access) -> String {
    let Access { user, password, database, port, .. } = access;
    format!("{}://{user}:{password}@127.0.0.1:{port}/{database}", flavour.protocol().name())
}
