// SPDX-License-Identifier: Apache-2.0
//! Helper programs that change nothing outside Wringer's own folders: package clients that download into the cache, initdb in a sandbox, mkfs on our
//! own image. They need no permit, because there is nothing to undo. The caller must make sure that a helper keeps to this.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;

/// A command for such a helper. The caller promises that it writes only below Wringer's own folders.
#[allow(clippy::disallowed_methods)]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// The first place on `PATH`, and in the system's folders that an ordinary user's `PATH` often lacks, that holds `program`.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| rustix::fs::access(candidate, rustix::fs::Access::EXEC_OK).is_ok() && candidate.is_file())
}
