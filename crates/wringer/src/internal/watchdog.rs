// SPDX-License-Identifier: Apache-2.0
//! Releases a run when its controller dies.

use crate::exit::{Exit, Failure, Outcome};
use host::places::Places;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run to watch
    #[arg(long)]
    run: String,
    /// The folder of all journals
    #[arg(long)]
    journal: PathBuf,
}

pub fn main(args: Args) -> Outcome {
    let id = args.run.parse().map_err(|error: journal::Error| Failure::new(Exit::Usage, error))?;
    let places = Places { journal: args.journal, ..Places::from_environment() };
    run::watchdog::main(&places, &id).map_err(|error| Failure::new(Exit::NotRestored, error))
}
