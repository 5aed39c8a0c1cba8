// SPDX-License-Identifier: Apache-2.0
use super::value::write;
use crate::Error;
use crate::permit::Permit;
use crate::process::{Identity, StopRequest, stop};
use rustix::io::Errno;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A cgroup stays busy for a moment after its last process has ended.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes one cgroup: a folder in a mounted hierarchy. Its name must tell whose it is: `wringer-<run id>`.
///
/// # Errors
/// EEXIST when it is there already: it is then not ours.
#[allow(clippy::disallowed_methods)]
pub fn make_cgroup(_permit: &Permit, path: &Path) -> Result<(), Error> {
    fs::create_dir(path).map_err(|source| Error::path("make cgroup", path, source))
}

/// Moves a process, with its threads, into the cgroup. What it has been charged for stays where it was charged.
pub fn attach(_permit: &Permit, path: &Path, pid: u32) -> Result<(), Error> {
    write(&path.join("cgroup.procs"), &pid.to_string())
}

/// The live processes in the cgroup itself.
pub fn members(path: &Path) -> Vec<Identity> {
    let text = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| Identity::of(line.parse().ok()?)).collect()
}

/// Removes a cgroup of ours with those below it. Processes in it that are `ours` are killed, others are moved to its parent.
/// Returns whether there was one.
///
/// # Errors
/// It stays busy.
pub fn remove_cgroup(permit: &Permit, path: &Path, ours: &[Identity]) -> Result<bool, Error> {
    if !path.is_dir() {
        return Ok(false);
    }
    for child in children(path) {
        remove_cgroup(permit, &child, ours)?;
    }
    let (kill, keep): (Vec<_>, Vec<_>) = members(path).into_iter().partition(|member| ours.contains(member));
    stop(permit, &kill, StopRequest::KILL)?;
    if let Some(parent) = path.parent() {
        // A process that ended in between (ESRCH) needs no move; anything else shows as a busy cgroup below.
        keep.iter().for_each(|member| drop(attach(permit, parent, member.pid)));
    }
    remove_when_idle(path)
}

fn children(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

#[allow(clippy::disallowed_methods)]
fn remove_when_idle(path: &Path) -> Result<bool, Error> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match fs::remove_dir(path) {
            Ok(()) => return Ok(true),
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => return Ok(false),
            Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(source) => return Err(Error::path("remove cgroup", path, source)),
        }
    }
}
