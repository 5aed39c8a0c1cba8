// SPDX-License-Identifier: Apache-2.0
//! Releases a run when its controller dies.

use crate::exit::{Exit, Failure, Outcome};
use host::places::Places;
use slowfs::control::Client;
use slowfs::disk::KEEPER_SOCKET;
use squeeze::directory::socket_name;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The run to watch
    #[arg(long)]
    run: String,
    /// The folder of all journals
    #[arg(long)]
    journal: PathBuf,
    /// Where sandboxes live
    #[arg(long)]
    storage: PathBuf,
    /// When to end a run whose controller lives, in JSON
    #[arg(long)]
    limits: String,
}

pub fn main(args: Args) -> Outcome {
    let id = args.run.parse().map_err(|error: journal::Error| Failure::new(Exit::Usage, error))?;
    let limits = serde_json::from_str(&args.limits).map_err(|error| Failure::new(Exit::Usage, error))?;
    let places = Places { journal: args.journal, sandboxes: args.storage, ..Places::from_environment() };
    run::watchdog::main(&places, &id, limits, layer_answers).map_err(|error| Failure::new(Exit::NotRestored, error))
}

/// Whether all layers answer. A layer whose socket does not exist yet, or any more, does not count. A slow disk has two processes,
/// and both must answer.
fn layer_answers(folder: &Path) -> bool {
    let sockets = (0..).map(|number| folder.join(socket_name(number))).take_while(|socket| socket.exists());
    let keeper = Some(folder.join(KEEPER_SOCKET)).filter(|socket| socket.exists());
    sockets.chain(keeper).all(|socket| Client::connect(&socket).and_then(|mut layer| layer.get()).is_ok())
}
