// SPDX-License-Identifier: Apache-2.0
//! `wringer matrix`: many settings of one experiment file, each run many times.

mod bench;
mod contents;
mod headline;
mod page;
mod plan;
mod ready;
mod run;
mod show;
mod status;
mod unlike;

pub(in crate::commands) use bench::run_cells;
pub(in crate::commands) use contents::Contents;
pub(in crate::commands) use ready::{id_of, programs_of};
pub(in crate::commands) use run::{fetch_servers, open};

use super::experiment_file::Require;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Output;
use clap::Subcommand;
use host::places::Places;
use std::path::{Path, PathBuf};
use std::time::Duration;
use sweep::Error;
use units::Span;

/// The longest wait: a host that is not quiet after it will not become quiet by itself.
pub const LONGEST_WAIT: Span = Span(Duration::from_secs(60));

#[derive(Debug, clap::Args)]
#[command(
    after_help = "One file, many settings: a section [matrix] names keys of the experiment and their values.\n\n  \
      [matrix]\n  \
      # each block runs every setting once, in an order of its own\n  \
      blocks = 5\n  \
      # each value with each value of the other keys\n  \
      [matrix.cross]\n  \
      \"squeeze.server_ram\" = [\"512M\", \"1G\", \"2G\"]\n  \
      \"load.threads\" = [1, 8]\n  \
      # computed in each setting\n  \
      [matrix.follow]\n  \
      \"server.options.innodb_buffer_pool_size\" = \"0.7x server_ram\"\n\n\
    A cell is one run of one setting. Each cell has a server of its own, started anew on a clone of the same data. More blocks make a \
    difference more certain: below three blocks there is no verdict; five show a difference of a few percent on a quiet host.\n\n\
    Examples:\n  \
      # a small file to start from\n  \
      wringer examples matrix-threads > my.toml\n  \
      # print the settings, their order, and the time that they take; change nothing\n  \
      wringer matrix plan my.toml\n  \
      # run it; the same command goes on after Ctrl-C, a kill, or a new value in the file\n  \
      wringer matrix run my.toml --to out\n  \
      # show how far it is\n  \
      wringer matrix status out\n\n\
    `wringer doc matrix` is the manual."
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print the settings, their order, and what they need; change nothing
    Plan(PlanArgs),
    /// Run the cells that are not done yet
    Run(RunArgs),
    /// Show how far a matrix is, and its results until now
    Status(status::Args),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer matrix plan memory.toml\n  \
    # how much is left of a sweep\n  \
    wringer matrix plan memory.toml --to memory-sweep\n\n\
    Exit codes: 0 the matrix would start; 2 the file is wrong (every problem is listed with its line); 3 something on this host is in the way.")]
pub struct PlanArgs {
    /// The experiment file, with a section [matrix]
    pub file: PathBuf,
    /// The folder of the results, to see which cells are done already [default: as for run]
    #[arg(long, value_name = "FOLDER")]
    pub to: Option<PathBuf>,
    #[command(flatten)]
    pub require: Require,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Leaves sweep.json and report.html in the folder, and below cells/ a recording, a result and a report of each attempt.\n\n\
    After Ctrl-C, a kill or a crash of the host, the same command goes on from where it was. A cell that is done is never run again; when the file \
    was changed, only the cells whose setting has changed are run. Before each cell the command waits until the host is quiet. A cell during which \
    the host had other work is run once more, and the second run counts, whatever its result is.\n\n\
    A server that is killed for want of RAM, or that cannot start, is a result of its cell. When Wringer itself cannot run a cell, the other cells \
    are run, and the same command tries the cell again.\n\n\
    Examples:\n  \
      wringer matrix run my.toml --to out\n  \
      wringer matrix run my.toml --to out -o json \\\n    | jq '.comparisons[] | select(.figures[0].verdict == \"lower\")'\n\n\
    Exit codes: 0 every cell is done, or a budget of the file is used up; 1 the same, and an assertion of the file failed; 2 the file is wrong; 3 something \
    is missing or in the way; 4 a cell failed, the others are done; 5 the host is not restored; 130 interrupted, everything undone."
)]
pub struct RunArgs {
    /// The experiment file, with a section [matrix]
    pub file: PathBuf,
    /// Folder for the results; where it has results of this matrix already, the command goes on from them [default: matrix-NAME below Wringer's recordings]
    #[arg(long, value_name = "FOLDER")]
    pub to: Option<PathBuf>,
    /// Squeeze the host's RAM even beside a running database that is no sandbox of this WRINGER_HOME
    #[arg(long)]
    pub yes: bool,
    /// Read every kept file of the data and compare its checksum before each cell
    #[arg(long)]
    pub verify: bool,
    /// How long to wait for a quiet host before each cell; 0s: not at all
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = wait)]
    pub wait: Span,
    /// When another process measures on this host, wait until it ends
    #[arg(long)]
    pub in_turn: bool,
    #[command(flatten)]
    pub require: Require,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

pub(in crate::commands) fn wait(text: &str) -> Result<Span, String> {
    let asked: Span = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    if asked > LONGEST_WAIT {
        return Err(format!(
            "at most {LONGEST_WAIT}: a host that is not quiet by then will not become quiet by itself"
        ));
    }
    Ok(asked)
}

pub fn main(args: Args) -> Outcome {
    match args.command {
        Command::Plan(args) => plan::main(args),
        Command::Run(args) => run::main(args),
        Command::Status(args) => status::main(&args),
    }
}

/// `wringer run` of a file with a matrix, whose text was read already.
pub fn run_as_run(args: RunArgs, text: String) -> Outcome {
    run::of_text(args, text)
}

/// `wringer plan` of such a file.
pub fn plan_as_plan(file: PathBuf, require: Require, output: Output) -> Outcome {
    plan::main(PlanArgs { file, to: None, require, output })
}

/// The folder for the results of a matrix: the same folder each time, so that the same command continues.
fn folder(asked: Option<&Path>, name: &str, places: &Places) -> PathBuf {
    asked.map_or_else(|| places.recordings.join(format!("matrix-{name}")), Path::to_owned)
}

pub fn failure(error: Error) -> Failure {
    let hint = error.hint();
    let failure = match (error.is_not_restored(), error.is_in_the_way()) {
        (true, _) => Failure::new(Exit::NotRestored, error),
        (false, true) => Failure::new(Exit::Missing, error),
        (false, false) => Failure::from(error),
    };
    hint.into_iter().fold(failure, Failure::hint)
}
