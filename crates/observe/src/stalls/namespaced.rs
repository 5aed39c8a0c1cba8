// SPDX-License-Identifier: Apache-2.0
//! The threads of a server in a process namespace of its own, as in a container: the server tells the numbers that they have there, and `/proc` has the
//! numbers of this program's namespace. `NSpid` of `/proc/PID/status` has both (proc_pid_status(5), Linux 4.1).

use host::process::numbers_in_namespaces;
use std::collections::BTreeMap;
use std::path::Path;

/// The server's number of each thread, and the number here.
#[derive(Debug, Default)]
pub(super) struct Namespaced(BTreeMap<u32, u32>);

impl Namespaced {
    /// `None`: the server is in the namespace of this program, and the numbers are the same.
    pub(super) fn of(pid: u32) -> Option<Self> {
        let numbers = numbers(Path::new(&format!("/proc/{pid}")));
        (numbers.len() > 1).then(Self::default)
    }

    /// `folder`: of the thread, in `/proc`.
    pub(super) fn add(&mut self, thread: u32, folder: &Path) {
        if let Some(inside) = numbers(folder).last() {
            self.0.insert(*inside, thread);
        }
    }

    pub(super) fn remove(&mut self, thread: u32) {
        self.0.retain(|_, here| *here != thread);
    }

    pub(super) fn here(&self, inside: u32) -> Option<u32> {
        self.0.get(&inside).copied()
    }
}

/// The number in each namespace, the outermost first. Empty when it cannot be read.
fn numbers(folder: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
    numbers_in_namespaces(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    #[test]
    fn the_own_namespace_needs_no_numbers_of_another() {
        assert!(Namespaced::of(std::process::id()).is_none(), "the own namespace");
    }

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    /// A process that calls itself 1.
    #[test]
    #[allow(clippy::disallowed_methods)] // tests start their own processes
    fn a_process_in_a_namespace_of_its_own_is_found_by_its_number_there() {
        if !rustix::process::geteuid().is_root() {
            testkit::skip!("a process namespace needs root");
        }
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "sleep", "60"]);
        let unshare = Ended(command.spawn().unwrap());
        let outer = unshare.0.id();
        let child = || -> Option<u32> {
            let children = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children")).ok()?;
            children.split_ascii_whitespace().next()?.parse().ok()
        };
        let mut pid = None;
        assert!(testkit::wait_until(std::time::Duration::from_secs(20), || {
            pid = child();
            pid.is_some()
        }));
        let pid = pid.unwrap();
        let mut namespaced = Namespaced::of(pid).expect("a namespace of its own");
        namespaced.add(pid, Path::new(&format!("/proc/{pid}")));
        assert_eq!((namespaced.here(1), namespaced.here(pid)), (Some(pid), None));
        namespaced.remove(pid);
        assert_eq!(namespaced.here(1), None);
    }
}
