// SPDX-License-Identifier: Apache-2.0
//! `wringer internal slowdisk`: serves one image as the file below a loop device.

use crate::exit::{Exit, Failure, Outcome};
use slowfs::Error;
use slowfs::disk::{Options, run};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// A file, or a block device
    #[arg(long)]
    image: PathBuf,
    /// The folder of the run: for the sockets to be controlled by
    #[arg(long)]
    folder: PathBuf,
    /// Of the file that is served
    #[arg(long)]
    name: String,
    #[arg(long, default_value_t = Options::THREADS)]
    threads: usize,
}

pub fn main(args: Args) -> Outcome {
    let Args { image, folder, name, threads } = args;
    run(&Options { image, folder, name, threads }).map_err(|error| match error {
        Error::Device { .. } | Error::Image { .. } | Error::Mount { .. } => {
            Failure::new(Exit::Missing, error).hint("`wringer doctor` says what this machine lacks")
        }
        error => Failure::new(Exit::Failed, error),
    })
}
