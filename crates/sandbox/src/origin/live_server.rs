// SPDX-License-Identifier: Apache-2.0
//! Whether a server uses a data directory now. This is checked before the copy and after it: if a server writes files meanwhile, the copied files are
//! of several moments.

use super::{Origin, refusal};
use crate::server::locked_file;
use crate::{Error, Flavour};
use host::in_use::User;
use std::path::Path;

/// # Errors
/// [`Error::Origin`] that names the server or file that prevents the copy.
pub(super) fn require_stopped(origin: &Origin) -> Result<(), Error> {
    let path = &origin.path;
    let stop = "stop that server first; or take a backup (mariabackup, pg_basebackup) or a dump, and --from that";
    let is_other = |user: &User| {
        let is_file = !user.only_stands() && !matches!(user, User::Mount { .. });
        is_file && user.process().is_none_or(|process| process.pid != std::process::id())
    };
    if let Some(user) = host::in_use::below(path)?.by.into_iter().find(is_other) {
        return Err(refusal(path, format!("it is in use by {user}"), stop));
    }
    if origin.flavour == Flavour::Postgresql {
        if let Some(pid) = postmaster(path).filter(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            let why = format!("its postmaster.pid names process {pid}, which is alive");
            return Err(refusal(path, why, stop));
        }
        return Ok(());
    }
    if let Some((name, pid)) = locked_file(path) {
        let who = if pid > 0 { format!(" by process {pid}") } else { " from another container".to_owned() };
        return Err(refusal(path, format!("a server uses it: its {name} is locked{who}"), stop));
    }
    Ok(())
}

/// The process that `postmaster.pid` of this data directory names.
fn postmaster(path: &Path) -> Option<u32> {
    named_by(&path.join("postmaster.pid"))
}

/// The process that this lock file of PostgreSQL names.
pub(crate) fn named_by(lock_file: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(lock_file).ok()?;
    text.lines().next()?.trim().parse().ok()
}
