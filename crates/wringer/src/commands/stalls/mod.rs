// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls`: intervals in which queries that need little wait for one common cause.

mod algorithm;
mod explain;
mod reproduce;
mod simulate;

use crate::exit::Outcome;
use clap::Subcommand;

/// Stalls: intervals in which queries that need little wait for one common cause
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer stalls explain slow.log\n  \
    wringer stalls explain --server percona@8.0.29 --wait-free 479 --victims 5\n  \
    wringer stalls reproduce annex-3 --dry-run\n  \
    wringer stalls simulate --server percona@8.0.29 --pause 60s\n\n\
    How to read the answers: docs/stalls-explain.md, docs/stalls-reproduce.md and docs/stalls.md, or `wringer doc stalls-explain`, \
    `wringer doc stalls-reproduce`, `wringer doc stalls`.")]
pub struct Args {
    #[command(subcommand)]
    command: Stalls,
}

#[derive(Debug, Subcommand)]
enum Stalls {
    /// The stalls of a log that was written, what they waited for, and what they cost; or what the counter alone says
    Explain(Box<explain::Args>),
    /// Run an experiment of the article on these stalls, and put article, predictions and measurement side by side
    Reproduce(Box<reproduce::Args>),
    /// Predict the stalls on InnoDB's empty free list: which there would be, how long, what they would cost; asks no server
    Simulate(Box<simulate::Args>),
}

pub fn main(args: Args) -> Outcome {
    match args.command {
        Stalls::Explain(args) => explain::main(&args),
        Stalls::Reproduce(args) => reproduce::main(&args),
        Stalls::Simulate(args) => simulate::main(&args),
    }
}
