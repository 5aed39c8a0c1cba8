// SPDX-License-Identifier: Apache-2.0
//! `wringer internal probe`: direct reads of one file, by a process in the server's mount namespace.

use crate::exit::Outcome;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Opened once, before any delay is changed
    #[arg(long)]
    file: PathBuf,
    /// The socket to be asked at
    #[arg(long)]
    socket: PathBuf,
}

pub fn main(args: Args) -> Outcome {
    Ok(squeeze::probe::serve(&args.file, &args.socket)?)
}
