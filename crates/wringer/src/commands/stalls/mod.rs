// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls`: intervals in which queries that need little wait for one common cause.

mod explain;

use crate::exit::Outcome;
use clap::Subcommand;

/// Stalls: intervals in which queries that need little wait for one common cause
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer stalls explain slow.log\n  \
    wringer stalls explain --server percona@8.0.29 --wait-free 479 --victims 5\n\n\
    How to read the answer: docs/stalls-explain.md, or `wringer doc stalls-explain`.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The stalls of a log that was written, what they waited for, and what they cost; or what the counter alone says
    Explain(explain::Args),
}

pub fn main(args: Args) -> Outcome {
    match args.command {
        Command::Explain(args) => explain::main(&args),
    }
}
