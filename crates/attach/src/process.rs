// SPDX-License-Identifier: Apache-2.0
//! A server's process, as the kernel shows it to everybody.

use crate::Error;
use host::process::{Identity, Process, server_program};
use std::fs;
use std::path::{Path, PathBuf};

/// The process, held so that a later process with its number is not mistaken for it.
///
/// # Errors
/// [`Error::NoProcess`].
pub(crate) fn open(pid: u32) -> Result<Process, Error> {
    Identity::of(pid).and_then(Process::open).ok_or(Error::NoProcess { pid })
}

/// Whether the process is a server to which Wringer can connect. For other servers Wringer has only squeezes.
pub fn is_server(pid: u32) -> bool {
    server_program(pid).is_some_and(|program| !program.starts_with("mongod") && !program.starts_with("oracle"))
}

/// Whether the process is a server with a process for each connection.
pub fn is_postgresql(pid: u32) -> bool {
    server_program(pid).is_some_and(|program| program == "postgres" || program == "postmaster")
}

/// The name of the program, such as `mariadbd`; empty where it is not known.
pub fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// The program's file; `None` where this user may not see it.
pub fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/exe")).ok()
}

/// A path that the server names, if it is the same file here. For a server in a container's mount namespace it is another file: `None`.
pub fn seen_from_here(pid: u32, path: &Path) -> Option<PathBuf> {
    (other_mount_namespace(pid).is_none() && path.is_dir()).then(|| path.to_owned())
}

/// The name of the process's mount namespace (`mnt:[4026532281]`), if that is another one than ours. `None` also where this user may not see it.
pub fn other_mount_namespace(pid: u32) -> Option<PathBuf> {
    let namespace = |who: &str| fs::read_link(format!("/proc/{who}/ns/mnt")).ok();
    let (ours, theirs) = (namespace("self")?, namespace(&pid.to_string())?);
    (ours != theirs).then_some(theirs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_no_server_and_is_there() {
        let own = std::process::id();
        assert!(!is_server(own) && !is_postgresql(own) && !name(own).is_empty());
        assert_eq!(open(own).unwrap().identity().pid, own);
        assert_eq!(program(own).unwrap(), std::env::current_exe().unwrap());
        assert_eq!(seen_from_here(own, Path::new("/proc")).as_deref(), Some(Path::new("/proc")));
        assert_eq!(seen_from_here(own, Path::new("/nowhere")), None);
    }
}
