// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls`: intervals in which queries that need little wait for one common cause.

mod advise;
mod algorithm;
mod explain;
mod inject;
mod lost;
mod reproduce;
mod simulate;
pub(in crate::commands) mod watch;

use crate::exit::Outcome;
use clap::Subcommand;

/// Stalls: intervals in which queries that need little wait for one common cause
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wringer stalls explain slow.log\n  \
    wringer stalls explain --server percona@8.0.29 --wait-free 479 --victims 5\n  \
    wringer stalls simulate --server percona@8.0.29 --pause 60s\n  \
    wringer stalls advise --mysql-socket=/run/mysqld/mysqld.sock --mysql-user=me\n  \
    wringer stalls watch --sandbox shop --for 30s\n  \
    wringer stalls inject --sandbox shop --cause row_lock --length 400ms\n  \
    wringer stalls reproduce annex-3 --dry-run\n\n\
    How to read the answers: `wringer doc stalls` (simulate), `wringer doc stalls-explain`, and so on.")]
pub struct Args {
    #[command(subcommand)]
    command: Stalls,
}

#[derive(Debug, Subcommand)]
enum Stalls {
    /// Whether this server's queries can stall on InnoDB's empty free list, what its counters mean, and what other settings would gain and cost
    Advise(Box<advise::Args>),
    /// The stalls of a log: what statements waited for, and what it cost; or the stalls that the counter alone shows
    Explain(Box<explain::Args>),
    /// Make a stall of a known cause and length happen in a sandbox, and check whether it took effect
    Inject(Box<inject::Args>),
    /// Run an experiment of the article on these stalls, and show the article's figures, predictions and measurement side by side
    Reproduce(Box<reproduce::Args>),
    /// Predict the stalls on InnoDB's empty free list: how many, how long, and what they would cost; asks no server
    Simulate(Box<simulate::Args>),
    /// The stalls of a server that runs, as they happen: how long they were, which statements waited, for what, and what it cost; changes nothing
    Watch(Box<watch::Args>),
}

pub fn main(args: Args) -> Outcome {
    match args.command {
        Stalls::Advise(args) => advise::main(&args),
        Stalls::Explain(args) => explain::main(&args),
        Stalls::Inject(args) => inject::main(&args),
        Stalls::Reproduce(args) => reproduce::main(&args),
        Stalls::Simulate(args) => simulate::main(&args),
        Stalls::Watch(args) => watch::main(&args),
    }
}
