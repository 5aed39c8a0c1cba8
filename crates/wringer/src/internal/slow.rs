// SPDX-License-Identifier: Apache-2.0
//! The processes of slow disks.

use crate::exit::{Exit, Failure, Outcome};
use rustix::fd::{FromRawFd as _, OwnedFd};
use slowfs::Error;

pub fn directory(options: &slowfs::process::Options) -> Outcome {
    slowfs::process::run(options).map_err(told)
}

pub fn disk(options: &slowfs::disk::Options) -> Outcome {
    slowfs::disk::run(options).map_err(told)
}

fn told(error: Error) -> Failure {
    match error {
        Error::Device { .. }
        | Error::Namespace { .. }
        | Error::Mount { .. }
        | Error::Directory { .. }
        | Error::Image { .. } => {
            Failure::new(Exit::Missing, error).hint("`wringer doctor` says what this machine lacks")
        }
        error => Failure::new(Exit::Failed, error),
    }
}

pub fn preload(options: &::preload::keeper::Options) -> Outcome {
    // SAFETY: the call only asks whether the descriptor is open.
    if options.map <= 2 || unsafe { libc::fcntl(options.map, libc::F_GETFD) } < 0 {
        return Err(Failure::message(Exit::Usage, "the order names no descriptor"));
    }
    // SAFETY: the descriptor is open, as was just checked, and it is inherited for this one use.
    let descriptor = unsafe { OwnedFd::from_raw_fd(options.map) };
    let map = ::preload::Map::of(descriptor)?;
    Ok(::preload::keeper::run(map, &options.control)?)
}
