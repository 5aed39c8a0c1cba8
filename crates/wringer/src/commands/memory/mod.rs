// SPDX-License-Identifier: Apache-2.0
//! `wringer memory`: where a server's memory is, and whom the OOM killer would kill. Nothing is changed.

mod account;
mod change;
#[cfg(test)]
mod dashboard_tests;
mod moment;
mod oom;
mod openmetrics;
mod record;
mod recorded;
mod tree;
mod watch;

use super::connection::Connection;
use crate::exit::{Exit, Failure, Outcome};
use crate::{input, terminal};
use attach::Attached;
use clap::{Subcommand, ValueEnum};
use host::files::write_atomic;
use host::places::Places;
use ledger::{Inventory, Missing};
use observe::memory::Options;
use std::path::{Path, PathBuf};

/// Where a server's memory is, and whom the kernel would kill when there is none left
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer memory account --sandbox shop\n  \
    sudo wringer memory account --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=me\n  \
    sudo wringer memory account --pid \"$(pidof mariadbd)\"        without an account on the server: what the kernel alone knows\n  \
    sudo wringer memory account --dsn postgresql://me@/postgres?socket=/run/postgresql/.s.PGSQL.5432 -o json | jq .explained_share\n  \
    sudo wringer memory record --sandbox shop --time 10m --to out\n  \
    sudo wringer memory oom --pid \"$(pidof mysqld)\"\n\n\
    Nothing is changed, neither on the host nor in the server, and no thread is stopped. Run it as root, or as the user the server runs as: others may \
    not look into its memory. What cannot be read is told, with what would help.\n\n\
    What the leaves mean: docs/memory.md, or `wringer doc memory`.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Where the server's memory is, leaf by leaf; the leaves and what is unexplained sum to what the kernel says
    Account(account::Args),
    /// Whom the OOM killer would kill, in which order, and how much memory is left until then
    Oom(oom::Args),
    /// Record the host, the server and, again and again, what its memory is made of: `wringer observe` with inventories
    Record(record::Args),
    /// The account again and again, drawn in place, until Ctrl-C or the server's end
    Watch(watch::Args),
}

/// What is looked at, and in which of the forms `O` it is printed.
#[derive(Debug, clap::Args)]
struct Looked<O = terminal::Output>
where
    O: ValueEnum + Clone + Send + Sync + 'static,
{
    /// The server's process; of PostgreSQL the first line of postmaster.pid [default: the one that listens at the socket, or the sandbox's]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Read all of every process, however long that holds up the server. Without it, of many processes some are read and the others estimated
    #[arg(long)]
    deep: bool,
    /// Write what was read to this file, raw, for `--from`
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    keep: Option<PathBuf>,
    /// Look at what `--keep` wrote, also on another machine; `-` reads the standard input. `memory account` takes a recording, too, or its folder
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "deep"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    connection: Connection,
    /// How to print
    #[arg(short, long, value_enum, default_value = "text")]
    output: O,
}

pub fn main(args: Args) -> Outcome {
    match args.command {
        Command::Account(args) => account::main(&args),
        Command::Oom(args) => oom::main(&args),
        Command::Record(args) => record::main(&args),
        Command::Watch(args) => watch::main(&args),
    }
}

/// What was read, and of whom, in words.
struct Read {
    of: String,
    inventory: Inventory,
}

impl<O: ValueEnum + Clone + Send + Sync + 'static> Looked<O> {
    /// # Errors
    /// Usage: nobody is named. Missing: no such process, no connection, no file. Failed: the process ended while it was read.
    fn read(&self, candidates: bool) -> Result<Read, Failure> {
        let read = match &self.from {
            Some(file) => kept(file)?,
            None => self.live(candidates)?,
        };
        if let Some(file) = &self.keep {
            keep(&read.inventory, file)?;
        }
        Ok(read)
    }

    fn live(&self, candidates: bool) -> Result<Read, Failure> {
        let places = Places::from_environment();
        let (mut attached, unasked) = attach(&self.connection, self.pid, &places)?;
        if attached.pid().is_none() {
            let message = "whose memory? Neither a server nor a process is named";
            return Err(Failure::message(Exit::Usage, message)
                .hint("--sandbox NAME, a connection (--dsn, --mysql-socket, --pgsql-host, ...), or --pid"));
        }
        // the killer's rule needs no mappings; what is kept is for both questions
        let lightly = candidates && self.keep.is_none();
        let mut inventory = attached.inventory(Options {
            deep: self.deep,
            candidates: candidates || self.keep.is_some(),
            lightly,
            others_us: None,
        });
        inventory.missing.extend(unasked);
        if attached.process().is_some_and(|process| !process.is_alive()) {
            return Err(Failure::message(Exit::Failed, format!("{} ended while it was read", attached.describe())));
        }
        Ok(Read { of: attached.describe(), inventory })
    }
}

/// Where the process is known and the server does not answer, or refuses, the process alone.
fn attach(connection: &Connection, pid: Option<u32>, places: &Places) -> Result<(Attached, Option<Missing>), Failure> {
    let failure = match connection.attach(pid, places) {
        Ok(attached) => return Ok((attached, None)),
        Err(failure) => failure,
    };
    let pid = pid.or_else(|| connection.process_of_sandbox(places));
    let Some(pid) = pid.filter(|_| failure.exit == Exit::Missing) else { return Err(failure) };
    let unasked = Missing {
        what: "what the server says of itself".into(),
        why: format!("{:#}", failure.error),
        remedy: Some("an account that may log in, on a server that answers".into()),
    };
    Ok((Connection::attach_process(pid, places)?, Some(unasked)))
}

fn kept(file: &Path) -> Result<Read, Failure> {
    let bytes = match file.to_str() {
        Some("-") => input::read_stdin(),
        _ => input::read_bytes(file),
    };
    let bytes = bytes.map_err(|error| Failure::new(Exit::Missing, error))?;
    let damaged = |error: serde_json::Error| {
        Failure::message(Exit::Missing, format!("{}: not what `wringer memory --keep` writes: {error}", file.display()))
    };
    let inventory: Inventory = serde_json::from_slice(&bytes).map_err(damaged)?;
    Ok(Read { of: format!("{}, as it was kept", file.display()), inventory })
}

/// What processes call themselves, and what a kept file says, may hold anything; on a terminal only text is shown.
fn printable(text: &str) -> String {
    text.trim_end().replace(|c: char| c.is_control() && c != '\n', "\u{fffd}")
}

/// For its owner only: it names accounts and settings.
fn keep(inventory: &Inventory, file: &Path) -> Outcome {
    let text = serde_json::to_vec(inventory).map_err(|error| Failure::new(Exit::Failed, error))?;
    write_atomic(file, &text, 0o600).map_err(|error| Failure::new(Exit::Missing, error))
}
