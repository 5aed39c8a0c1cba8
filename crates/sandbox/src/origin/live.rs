// SPDX-License-Identifier: Apache-2.0
//! Whether a server uses a data directory now. Asked before the copy and after it: files that a server writes meanwhile would make
//! a copy of several moments.

use super::{Origin, refusal};
use crate::{Error, Flavour};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::fs::File;
use std::path::Path;

/// InnoDB and Aria lock these for writing while they run (fcntl(2)).
const LOCKED_WHILE_RUNNING: [&str; 2] = ["ibdata1", "aria_log_control"];

/// # Errors
/// [`Error::Origin`] that names what is in the way.
pub(super) fn require_stopped(origin: &Origin) -> Result<(), Error> {
    let path = &origin.path;
    let stop = "stop that server first; or take a backup (mariabackup, pg_basebackup) or a dump, and --from that";
    if let Some(process) = host::process::files_open_below(path).into_iter().find(|it| it.pid != std::process::id()) {
        let why = format!("process {} has files in it open", process.pid);
        return Err(refusal(path, why, stop));
    }
    if origin.flavour == Flavour::Postgresql {
        if let Some(pid) = postmaster(path).filter(|pid| Path::new(&format!("/proc/{pid}")).exists()) {
            let why = format!("its postmaster.pid names process {pid}, which is alive");
            return Err(refusal(path, why, stop));
        }
        return Ok(());
    }
    for name in LOCKED_WHILE_RUNNING {
        let file = path.join(name);
        if let Some(pid) = File::open(&file).ok().and_then(|file| locked_by(&file)) {
            let who = if pid > 0 { format!(" by process {pid}") } else { " from another container".to_owned() };
            return Err(refusal(path, format!("a server uses it: its {name} is locked{who}"), stop));
        }
    }
    Ok(())
}

fn postmaster(path: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(path.join("postmaster.pid")).ok()?;
    text.lines().next()?.trim().parse().ok()
}

/// The process that holds a lock for writing; 0 when it is not to be seen from here.
fn locked_by(file: &File) -> Option<i32> {
    let asked = Flock::from(FlockType::ReadLock);
    let lock = fcntl_getlk(file, &asked).ok()??;
    Some(lock.pid.map_or(0, |pid| pid.as_raw_nonzero().get()))
}
