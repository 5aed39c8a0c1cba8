// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;

/// The namespaces in which a process lives (namespaces(7)): the inode numbers of `/proc/PID/ns/*`. What is known of processes and mounts is valid in
/// these namespaces. 0: this kernel has no namespaces of that kind, so all processes are in the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Namespaces {
    pub pid: u64,
    pub user: u64,
    pub mount: u64,
}

impl Namespaces {
    /// `None` when `/proc` does not show them.
    pub fn own() -> Option<Self> {
        Some(Self { pid: inode("pid")?, user: inode("user")?, mount: inode("mnt")? })
    }
}

fn inode(kind: &str) -> Option<u64> {
    match fs::metadata(format!("/proc/self/ns/{kind}")) {
        Ok(metadata) => Some(metadata.ino()),
        Err(error) if error.kind() == ErrorKind::NotFound && fs::metadata("/proc/self/ns").is_ok() => Some(0),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_those_that_the_links_name() {
        let own = Namespaces::own().expect("/proc is there");
        let linked = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).expect("a link");
        assert_eq!(linked("pid").to_string_lossy(), format!("pid:[{}]", own.pid));
        assert_eq!(linked("user").to_string_lossy(), format!("user:[{}]", own.user));
        assert_eq!(linked("mnt").to_string_lossy(), format!("mnt:[{}]", own.mount));
    }
}
