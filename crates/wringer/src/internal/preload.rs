// SPDX-License-Identifier: Apache-2.0
//! `wringer internal preload`: keeps the memory of one preload layer.

use crate::exit::{Exit, Failure, Outcome};
use rustix::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The descriptor of the memory, as it was inherited
    #[arg(long)]
    map: RawFd,
    /// The socket to be controlled by
    #[arg(long)]
    control: PathBuf,
}

pub fn main(args: Args) -> Outcome {
    // SAFETY: asks only whether the number is open.
    if args.map <= 2 || unsafe { libc::fcntl(args.map, libc::F_GETFD) } < 0 {
        return Err(Failure::message(Exit::Usage, "--map names no descriptor"));
    }
    // SAFETY: open, as we have just seen, and inherited for this one use.
    let descriptor = unsafe { OwnedFd::from_raw_fd(args.map) };
    let map = ::preload::Map::of(descriptor)?;
    Ok(::preload::keeper::run(map, &args.control)?)
}
