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

/// The numbers of a process in the process namespaces that know it, the outermost one of the reader first: `NSpid` in the text of `/proc/PID/status`
/// (proc_pid_status(5), Linux 4.1). Empty where the kernel does not tell them.
pub fn numbers_in_namespaces(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    line.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_all_namespaces() {
        let numbers = numbers_in_namespaces("Name:\tmysqld\nPid:\t4711\nNSpid:\t4711\t1\nNSpgid:\t4711\t1\n");
        assert_eq!(numbers, [4711, 1]);
        assert_eq!(numbers_in_namespaces("Name:\tx\nNSpid:\tx\n"), [0_u32; 0]);
    }

    #[test]
    fn they_are_those_that_the_links_name() {
        let own = Namespaces::own().expect("/proc is there");
        let linked = |kind: &str| fs::read_link(format!("/proc/self/ns/{kind}")).expect("a link");
        assert_eq!(linked("pid").to_string_lossy(), format!("pid:[{}]", own.pid));
        assert_eq!(linked("user").to_string_lossy(), format!("user:[{}]", own.user));
        assert_eq!(linked("mnt").to_string_lossy(), format!("mnt:[{}]", own.mount));
    }
}
