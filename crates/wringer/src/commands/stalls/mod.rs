// SPDX-License-Identifier: Apache-2.0
//! `wringer stalls`: queries that wait for one common cause.

mod simulate;

use crate::exit::Outcome;
use clap::Subcommand;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Stalls,
}

#[derive(Debug, Subcommand)]
enum Stalls {
    /// Predict the stalls on InnoDB's empty free list: which there would be, how long, what they would cost; asks no server
    Simulate(Box<simulate::Args>),
}

pub fn main(args: Args) -> Outcome {
    match args.command {
        Stalls::Simulate(args) => simulate::main(&args),
    }
}
