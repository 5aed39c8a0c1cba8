// SPDX-License-Identifier: Apache-2.0
//! Checks whether a fill fits the disk, when the server is on this machine.

use crate::exit::{Exit, Failure, Outcome};
use load::fill::DataFolder;
use load::{Endpoint, Target};
use std::path::Path;
use units::Bytes;

/// Checks that the disk has room for the tables: when the disk of a server is full, the server may go down, or be unable to drop the tables again.
///
/// # Errors
/// The disk has fewer free bytes than the tables need. When the free space is unknown, there is no error.
pub fn require(need_bytes: u64, target: &Target) -> Outcome {
    let Some((folder, free_bytes)) = free(target) else { return Ok(()) };
    if need_bytes <= free_bytes {
        return Ok(());
    }
    let message = format!(
        "the tables need about {}, and {} are free on the disk of {}",
        Bytes(need_bytes),
        Bytes(free_bytes),
        folder.path.display()
    );
    Err(Failure::message(Exit::Missing, message)
        .hint("ask for less, or make room; --no-space-check fills all the same, as on a disk that compresses"))
}

fn free(target: &Target) -> Option<(DataFolder, u64)> {
    if !is_here(&target.endpoint) {
        return None;
    }
    let folder = DataFolder::read(target)?;
    // behind a tunnel, or for a container, a folder of the same name on this machine is another folder
    let written = std::fs::read_to_string(&folder.pid_file).ok()?;
    let pid: u32 = written.lines().next()?.trim().parse().ok()?;
    if !Path::new("/proc").join(pid.to_string()).exists() {
        return None;
    }
    let disk = rustix::fs::statvfs(&folder.path).ok()?;
    Some((folder, disk.f_bavail.saturating_mul(disk.f_frsize)))
}

fn is_here(endpoint: &Endpoint) -> bool {
    match endpoint {
        Endpoint::Socket(_) => true,
        Endpoint::Tcp(host, _) => {
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_this_machine() {
        let here = |host: &str| is_here(&Endpoint::Tcp(host.into(), 3306));
        assert!(["localhost", "127.0.0.1", "127.1.2.3", "::1"].into_iter().all(here));
        assert!(!["db.local", "10.0.0.1", "127.example.org"].into_iter().any(here));
        assert!(is_here(&Endpoint::Socket("/run/mysqld/mysqld.sock".into())));
    }
}
