// SPDX-License-Identifier: Apache-2.0
//! `wringer memory`: where a server's memory is, how much more it may become, and which process the OOM killer would kill. Only `profile` changes
//! something: it starts and stops a sandbox.

mod account;
mod bundle;
mod change;
#[cfg(test)]
mod dashboard_tests;
mod kept;
mod oom;
mod openmetrics;
mod profile;
mod record;
mod recorded;
mod recording_time;
mod tree;
mod watch;
mod worst_case;

use super::connection::{Connection, whose};
use crate::exit::{Exit, Failure, Outcome};
use crate::{output_file, terminal};
use ::bundle::{INVENTORY, MANIFEST};
use attach::Attached;
use clap::{Subcommand, ValueEnum};
use host::files::write_named;
use host::places::Places;
use ledger::{Inventory, Missing};
use observe::memory::{self, Options};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::Bytes;

/// Where a server's memory is, and which process the kernel would kill when there is none left
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer memory account --sandbox shop\n  \
    sudo wringer memory account --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=me\n  \
    # without an account on the server: only what the kernel knows\n  \
    sudo wringer memory account --pid \"$(pidof mariadbd)\"\n  \
    sudo wringer memory account -o json \\\n    --dsn 'postgresql://me@/postgres?socket=/run/postgresql/.s.PGSQL.5432' \\\n    | jq .explained_share\n  \
    wringer memory record --sandbox shop --time 10m --to out\n  \
    sudo wringer memory oom --pid \"$(pidof mysqld)\"\n  \
    wringer memory worst-case --sandbox shop\n  \
    wringer memory profile shop --repeat 'SELECT 1'\n\n\
    `profile` starts and stops a sandbox. The other commands change nothing, neither on the host nor in the server, and stop no thread. Run them as root, or as the user whom the \
    server runs as: other users may not look into its memory. Each thing that cannot be read is named, together with what would help.\n\n\
    What the leaves mean: docs/memory.md, or `wringer doc memory`.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Where the server's memory is, leaf by leaf; the leaves and the unexplained rest sum to the kernel's total
    Account(account::Args),
    /// Which processes the OOM killer would kill, in which order, and how much memory is left until then
    Oom(oom::Args),
    /// Record the host, the server and, again and again, the parts of its memory: `wringer observe` with inventories
    Record(record::Args),
    /// The account of the server's memory again and again, drawn in place, until Ctrl-C or the server's end
    Watch(watch::Args),
    /// Collect everything that shows where the server's memory is, without secrets, to look at it on another machine
    Bundle(bundle::Args),
    /// How much memory the server has now, how much it will probably have at its next peak, and how much its settings allow
    WorstCase(worst_case::Args),
    Profile(Box<profile::Args>),
}

/// Which server is looked at, and in which of the forms `O` the answer is printed.
#[derive(Debug, clap::Args)]
struct Looked<O = terminal::Output>
where
    O: ValueEnum + Clone + Send + Sync + 'static,
{
    /// The server's process; for PostgreSQL the first line of postmaster.pid [default: the one that listens at the socket, or the sandbox's]
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Read the whole memory map of every process, even if that holds up the server for long. Without it, some of many processes are read, and the others are
    /// estimated
    #[arg(long)]
    deep: bool,
    /// Write the raw data to this file, for `--from`; a server must be named
    #[arg(long, value_name = "FILE", conflicts_with = "from")]
    keep: Option<PathBuf>,
    /// Read a file that `--keep` or `memory bundle` wrote, here or on another machine; `-` is the standard input. `memory account` also takes a recording
    /// or its folder
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "deep", "Connection"])]
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
        Command::Bundle(args) => bundle::main(&args),
        Command::WorstCase(args) => worst_case::main(&args),
        Command::Profile(args) => profile::main(&args),
    }
}

/// Data that only some questions need.
#[derive(Debug, Clone, Copy, Default)]
struct Wanted {
    /// The other processes of the host. Nothing that holds the server is read then, unless the data are kept.
    candidates: bool,
    /// The settings that limit buffers, and high-water marks.
    limits: bool,
}

/// The data that were read, and a name for the server.
struct Read {
    of: String,
    /// The same at each reading, whether the server answers or not: the name of the sandbox, the server's socket or address, or where the process of
    /// `--pid` works, which is the data directory.
    server: String,
    inventory: Inventory,
}

impl<O: ValueEnum + Clone + Send + Sync + 'static> Looked<O> {
    /// # Errors
    /// Usage: no server is named. Missing: no such process, no connection, no file. Failed: the process ended while it was read.
    fn read(&self, wanted: Wanted) -> Result<Read, Failure> {
        let read = match &self.from {
            Some(file) => Read {
                of: format!("{}, as it was kept", file.display()),
                server: file.display().to_string(),
                inventory: kept::read(file)?,
            },
            None => self.live(wanted)?,
        };
        if let Some(file) = &self.keep {
            let in_bundle = |from: &PathBuf| [from.clone(), from.join(INVENTORY), from.join(MANIFEST)];
            output_file::refuse_input(file, self.from.iter().flat_map(in_bundle))?;
            keep(&read.inventory, file)?;
        }
        Ok(read)
    }

    /// The same; where neither a server nor a process is named, the host alone. What is kept is always a server's.
    fn read_or_host(&self, wanted: Wanted) -> Result<Read, Failure> {
        if self.from.is_some() || self.keep.is_some() {
            return self.read(wanted);
        }
        match self.named()? {
            Some(found) => self.of(found, wanted),
            None => Ok(Read {
                of: "no server is named: the processes of this host".to_owned(),
                server: String::new(),
                inventory: memory::inventory(None, None, None, &self.options(wanted)),
            }),
        }
    }

    fn live(&self, wanted: Wanted) -> Result<Read, Failure> {
        self.of(self.attached()?, wanted)
    }

    fn of(&self, (mut attached, unasked): (Attached, Option<Missing>), wanted: Wanted) -> Result<Read, Failure> {
        let mut inventory = attached.inventory(self.options(wanted));
        inventory.missing.extend(unasked);
        alive(&attached, &inventory)?;
        Ok(Read { of: attached.describe(), server: self.connection.label(self.pid)?, inventory })
    }

    /// Reads the data for all questions, and the files that people usually collect by hand.
    fn collect(&self) -> Result<(Read, BTreeMap<String, String>), Failure> {
        let (mut attached, unasked) = self.attached()?;
        let mut inventory = attached.inventory(Options {
            deep: self.deep,
            candidates: true,
            lightly: false,
            limits: true,
            ..Options::default()
        });
        inventory.missing.extend(unasked);
        let texts = attached.collected(&inventory);
        alive(&attached, &inventory)?;
        Ok((Read { of: attached.describe(), server: self.connection.label(self.pid)?, inventory }, texts))
    }

    /// The named server, its process, or both; and the reason if a server was named but cannot be asked.
    fn attached(&self) -> Result<(Attached, Option<Missing>), Failure> {
        self.named()?.ok_or_else(|| whose("memory"))
    }

    /// `None`: neither a server nor a process is named.
    fn named(&self) -> Result<Option<(Attached, Option<Missing>)>, Failure> {
        let found = self.connection.attach_or_process(self.pid, &Places::from_environment())?;
        Ok(Some(found).filter(|(attached, _)| attached.pid().is_some()))
    }

    /// The options of a reading. The OOM killer's rule needs no mappings. Data that are kept must suffice for all questions.
    fn options(&self, wanted: Wanted) -> Options {
        let for_all = self.keep.is_some();
        Options {
            deep: self.deep,
            candidates: wanted.candidates || for_all,
            lightly: wanted.candidates && !for_all,
            limits: wanted.limits || for_all,
            ..Options::default()
        }
    }
}

/// A server that stopped answering may be about to end: then its process is given a moment.
fn alive(attached: &Attached, inventory: &Inventory) -> Outcome {
    let is_silent = inventory.missing.iter().any(|it| it.what == Missing::OWN_ROWS);
    let patience = if is_silent { Duration::from_secs(1) } else { Duration::ZERO };
    if attached.process().is_some_and(|process| process.wait(patience)) {
        return Err(Failure::message(Exit::Failed, format!("{} ended while it was read", attached.describe())));
    }
    Ok(())
}

/// How far a figure may be off.
fn within(uncertainty_bytes: u64) -> String {
    match uncertainty_bytes {
        0 => String::new(),
        bytes => format!(", give or take {}", Bytes(bytes)),
    }
}

/// So many things that are missing for one reason are named.
const NAMED: usize = 3;

/// Things that are missing for the same reason are named together.
fn missing(text: &mut String, missing: &[Missing]) {
    let mut groups: Vec<(&Missing, Vec<&str>)> = Vec::new();
    for one in missing {
        match groups.iter_mut().find(|(first, _)| first.why == one.why && first.remedy == one.remedy) {
            Some((_, names)) => names.push(&one.what),
            None => groups.push((one, vec![&one.what])),
        }
    }
    for (first, names) in groups {
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let _ = writeln!(text, "not read: {}{more}: {}", names[..names.len().min(NAMED)].join(", "), first.why);
        if let Some(remedy) = &first.remedy {
            let _ = writeln!(text, "  would help: {remedy}");
        }
    }
}

/// Writes the file so that only its owner can read it: it names accounts and settings.
fn keep(inventory: &Inventory, file: &Path) -> Outcome {
    let text = serde_json::to_vec(inventory).map_err(|error| Failure::new(Exit::Failed, error))?;
    write_named(file, &text, 0o600).map_err(|error| Failure::new(Exit::Missing, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_for_the_same_reason_is_told_once() {
        let one = |what: &str, why: &str, remedy: Option<&str>| Missing {
            what: what.into(),
            why: why.into(),
            remedy: remedy.map(Into::into),
        };
        let all = [
            one("process 1", "it has ended", None),
            one("mappings", "not for this user", Some("root")),
            one("process 2", "it has ended", None),
            one("process 3", "it has ended", None),
            one("process 4", "it has ended", None),
        ];
        let mut text = String::new();
        missing(&mut text, &all);
        let ended = "not read: process 1, process 2, process 3 and 1 more: it has ended\n";
        assert_eq!(text, format!("{ended}not read: mappings: not for this user\n  would help: root\n"));
    }
}
