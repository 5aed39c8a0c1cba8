// SPDX-License-Identifier: Apache-2.0
//! `wringer matrix`: many settings of one experiment file, each run many times.

mod bench;
mod contents;
mod page;
mod plan;
mod ready;
mod run;
mod show;
mod status;

use super::experiment_file::Require;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Output;
use clap::Subcommand;
use host::places::Places;
use std::path::{Path, PathBuf};
use std::time::Duration;
use sweep::Error;
use units::Span;

/// Beyond it the host will not become quiet by itself.
pub const LONGEST_WAIT: Span = Span(Duration::from_secs(60));

#[derive(Debug, clap::Args)]
#[command(
    after_help = "One file, many settings: a section [matrix] names keys of the experiment and their values.\n\n  \
      [matrix]\n  \
      blocks = 5                                     each block runs every setting once, in an order of its own\n  \
      [matrix.cross]                                 each value with each value of the others\n  \
      \"squeeze.server_ram\" = [\"512M\", \"1G\", \"2G\"]\n  \
      \"load.threads\" = [1, 8]\n  \
      [matrix.follow]                                computed in each setting\n  \
      \"server.options.innodb_buffer_pool_size\" = \"0.7x server_ram\"\n\n\
    Each cell, one run of one setting, has a server of its own, started anew on a clone of the same data. How certain a difference is comes\n\
    from the blocks: below three there is no verdict, five show a difference of a few percent on a quiet host.\n\n\
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
    /// Run what is not done yet
    Run(RunArgs),
    /// How far a matrix is, and what it has shown until now
    Status(status::Args),
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 it would start; 2 the file is wrong (every problem is listed with its line); 3 something on this host is in the way."
)]
pub struct PlanArgs {
    /// The experiment file, with a section [matrix]
    pub file: PathBuf,
    /// The folder of its results, to see what is done already [default: as for run]
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
    The same command goes on where it was: after Ctrl-C, a kill, a crash of the host. A cell that is done is never run again; of a changed file\n\
    only those cells run whose setting has changed. Before a cell the host is waited for until it is quiet. A cell during which the host had other\n\
    work is run once more, and then that one counts, whatever it gives.\n\n\
    That a server is killed for want of RAM, or cannot start, is the result of its cell. Where Wringer itself could not run a cell, the others run,\n\
    and the same command tries it again.\n\n\
    Examples:\n  \
      wringer matrix run my.toml --to out\n  \
      wringer matrix run my.toml --to out -o json | jq '.comparisons[] | select(.figures[0].verdict == \"lower\")'\n\n\
    Exit codes: 0 every cell is done, or a budget of the file is used up; 1 so, and an assertion of the file failed; 2 the file is wrong; 3 something\n\
    is missing or in the way; 4 a cell failed, the others are done; 5 the host is not restored; 130 interrupted, everything undone."
)]
pub struct RunArgs {
    /// The experiment file, with a section [matrix]
    pub file: PathBuf,
    /// Folder for the results; one that has them already is gone on with [default: matrix-NAME below Wringer's recordings]
    #[arg(long, value_name = "FOLDER")]
    pub to: Option<PathBuf>,
    /// Squeeze the host's RAM even beside a running database that is not Wringer's
    #[arg(long)]
    pub yes: bool,
    /// Read every kept file of the data and compare its checksum before each cell
    #[arg(long)]
    pub verify: bool,
    /// How long a busy host is waited for before each cell; 0s: not at all
    #[arg(long, value_name = "TIME", default_value_t = LONGEST_WAIT, value_parser = wait)]
    pub wait: Span,
    /// Where another matrix runs on this host, wait for its end
    #[arg(long)]
    pub in_turn: bool,
    #[command(flatten)]
    pub require: Require,
    /// How to print what it came to
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

pub(in crate::commands) fn wait(text: &str) -> Result<Span, String> {
    let asked: Span = text.parse().map_err(|error: units::ParseError| error.to_string())?;
    if asked > LONGEST_WAIT {
        return Err(format!(
            "a host that is not quiet after {LONGEST_WAIT} will not become so by itself: at most {LONGEST_WAIT}"
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

/// Where the results of a matrix go: the same place each time, so that the same command goes on.
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
