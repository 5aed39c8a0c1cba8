// SPDX-License-Identifier: Apache-2.0
//! Whether a process is stopped or frozen. No clock of the kernel stops meanwhile, so a silent process either stands still or hangs: this module
//! tells which.

use super::identity::Stat;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Why a process cannot run at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standstill {
    /// A thread of the process is stopped by a signal, or by a tracer (state `T` or `t`).
    Stopped,
    /// The freezer of this cgroup holds the process, or is about to hold it (cgroup v1 `freezer.state`, v2 `cgroup.freeze`).
    Frozen { cgroup: PathBuf },
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("stopped"),
            Self::Frozen { cgroup } => write!(f, "frozen by the cgroup {}", cgroup.display()),
        }
    }
}

/// `None`: the process can run, or is gone, or its cgroups cannot be seen from here.
pub fn standstill(pid: u32) -> Option<Standstill> {
    if is_stopped(pid) {
        return Some(Standstill::Stopped);
    }
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let hierarchies: Vec<Hierarchy> = mounts.lines().filter_map(Hierarchy::parse).collect();
    let frozen = hierarchies.iter().find_map(|hierarchy| hierarchy.frozen_above(&cgroups));
    frozen.map(|cgroup| Standstill::Frozen { cgroup })
}

fn is_stopped(pid: u32) -> bool {
    Stat::of_threads(pid).any(|stat| matches!(stat.state, b'T' | b't'))
}

/// A mounted cgroup hierarchy that can freeze processes.
#[derive(Debug, PartialEq, Eq)]
struct Hierarchy {
    mounted_at: PathBuf,
    /// The part of the hierarchy that is mounted there: in a container it is not the whole.
    root: PathBuf,
    v2: bool,
}

impl Hierarchy {
    /// Reads a line of mountinfo: proc_pid_mountinfo(5). The kernel writes no blanks into these paths.
    fn parse(line: &str) -> Option<Self> {
        let (head, tail) = line.split_once(" - ")?;
        let head: Vec<&str> = head.split(' ').collect();
        let mut tail = tail.split(' ');
        let v2 = match tail.next()? {
            "cgroup2" => true,
            "cgroup" if tail.nth(1)?.split(',').any(|option| option == "freezer") => false,
            _ => return None,
        };
        Some(Self { root: head.get(3)?.into(), mounted_at: head.get(4)?.into(), v2 })
    }

    /// The nearest frozen cgroup of a process, up the tree; `cgroups` is the process's `/proc/PID/cgroup`.
    fn frozen_above(&self, cgroups: &str) -> Option<PathBuf> {
        let own = self.folder(cgroups)?;
        let up = own.ancestors().take_while(|folder| folder.starts_with(&self.mounted_at));
        up.map(Path::to_owned).find(|folder| self.freezes(folder))
    }

    /// The folder of a process's cgroup, from the line `N:freezer:/path`, or `0::/path` in version 2.
    fn folder(&self, cgroups: &str) -> Option<PathBuf> {
        let is_it = |controllers: &str| {
            if self.v2 { controllers.is_empty() } else { controllers.split(',').any(|name| name == "freezer") }
        };
        let path = cgroups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            is_it(controllers).then_some(path)
        })?;
        Some(self.mounted_at.join(Path::new(path).strip_prefix(&self.root).ok()?))
    }

    /// Whether the cgroup is frozen or is being frozen: in the second case some of its processes stand still already.
    fn freezes(&self, folder: &Path) -> bool {
        let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        if self.v2 {
            read("cgroup.freeze").trim() == "1" || read("cgroup.events").lines().any(|line| line == "frozen 1")
        } else {
            matches!(read("freezer.state").trim(), "FROZEN" | "FREEZING")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "31 24 0:27 / /sys/fs/cgroup/freezer rw,relatime shared:9 - cgroup cgroup rw,freezer";
    const V2_IN_A_CONTAINER: &str = "32 24 0:28 /docker/abc /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate";

    #[test]
    fn the_kernels_texts() {
        let v1 = Hierarchy::parse(V1).expect("freezes");
        assert_eq!(
            v1.folder("9:name=systemd:/\n6:cpu,freezer:/a/b\n0::/c\n"),
            Some("/sys/fs/cgroup/freezer/a/b".into())
        );
        assert_eq!(v1.folder("0::/c\n"), None);
        let v2 = Hierarchy::parse(V2_IN_A_CONTAINER).expect("freezes");
        assert_eq!(v2.folder("6:freezer:/a\n0::/docker/abc/d\n"), Some("/sys/fs/cgroup/d".into()));
        assert_eq!(v2.folder("0::/elsewhere\n"), None, "cannot be seen from here");
        assert_eq!(Hierarchy::parse("33 24 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"), None);
    }

    #[test]
    fn frozen_is_whom_a_cgroup_above_freezes() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("above/between/own");
        #[allow(clippy::disallowed_methods)] // takes the place of a hierarchy
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(&below).expect("made");
            std::fs::write(folder.path().join("above").join(name), text).expect("written");
        };
        let frozen = |v2| {
            let hierarchy = Hierarchy { mounted_at: folder.path().into(), root: "/".into(), v2 };
            hierarchy.frozen_above("6:freezer:/above/between/own\n0::/above/between/own\n")
        };
        let above = Some(folder.path().join("above"));
        write("freezer.state", "THAWED\n");
        write("cgroup.freeze", "0\n");
        write("cgroup.events", "populated 1\nfrozen 0\n");
        assert_eq!((frozen(false), frozen(true)), (None, None));
        write("freezer.state", "FREEZING\n");
        write("cgroup.events", "populated 1\nfrozen 1\n");
        assert_eq!((frozen(false), frozen(true)), (above.clone(), above));
    }

    #[test]
    fn a_stopped_process_is_told_from_one_that_runs() {
        #[allow(clippy::disallowed_methods)] // a process for the test
        let mut child = std::process::Command::new("sleep").arg("100").spawn().expect("starts");
        let process =
            super::super::Process::open(super::super::Identity::of(child.id()).expect("lives")).expect("opens");
        assert_eq!(standstill(child.id()), None);
        process.signal(rustix::process::Signal::STOP).expect("is ours");
        while Stat::read(child.id()).expect("lives").state != b'T' {
            std::thread::yield_now();
        }
        assert_eq!(standstill(child.id()), Some(Standstill::Stopped));
        process.signal(rustix::process::Signal::KILL).expect("is ours");
        child.wait().expect("ends");
        assert_eq!(standstill(child.id()), None);
    }
}
