// SPDX-License-Identifier: Apache-2.0
//! The memory from which RAM can be hidden: the host's, or the rest within our memory cgroups.

use crate::Meminfo;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use units::Bytes;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    pub total_bytes: u64,
    pub available_bytes: u64,
    /// A memory cgroup is smaller than the host: a container.
    pub limited: bool,
}

impl Room {
    pub(crate) fn of_host(meminfo: &Meminfo) -> Self {
        Self { total_bytes: meminfo.total_bytes, available_bytes: meminfo.available_bytes, limited: false }
    }

    /// The room for memory that is charged to our own cgroup, as a process's memory is.
    pub(crate) fn of_own_cgroup(meminfo: &Meminfo) -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        folders(&groups, &mounts).iter().fold(Self::of_host(meminfo), |room, folder| room.within(folder))
    }

    /// The rest within this cgroup: its limit, minus the charged memory that cannot be dropped.
    fn within(self, folder: &Path) -> Self {
        let Some(limit) = number(folder, &["memory.max", "memory.limit_in_bytes"]) else { return self };
        if limit >= self.total_bytes {
            return self;
        }
        let used = number(folder, &["memory.current", "memory.usage_in_bytes"]).unwrap_or(0);
        let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let droppable: u64 = stat
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(name, _)| ["inactive_file", "active_file"].contains(name))
            .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
            .sum();
        let available = limit.saturating_sub(used.saturating_sub(droppable));
        Self { total_bytes: limit, available_bytes: self.available_bytes.min(available), limited: true }
    }

    /// The bytes that always stay available. On a host max(1 GiB, 5 %): below that the kernel may kill any process. In a container,
    /// where it kills only inside, max(64 MiB, 5 %).
    pub fn floor_bytes(&self) -> u64 {
        let least = if self.limited { 64 * Bytes::MIB } else { Bytes::GIB };
        least.max(self.total_bytes / 20)
    }
}

/// "max" is no limit.
fn number(folder: &Path, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok())
}

/// Our memory cgroup and the visible ones above it; in a container the root of the mount is our own cgroup.
fn folders(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for mount in mounts.lines() {
        let words: Vec<&str> = mount.split(' ').collect();
        let (Some(target), Some(kind), Some(options)) = (words.get(1), words.get(2), words.get(3)) else { continue };
        let controller = match *kind {
            "cgroup" if options.split(',').any(|option| option == "memory") => "memory",
            "cgroup2" => "",
            _ => continue,
        };
        let own = groups.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            controllers.split(',').any(|name| name == controller).then_some(path)
        });
        let root = PathBuf::from(target);
        let own = own.map(|path| root.join(path.trim_start_matches('/'))).find(|path| path.is_dir());
        let own = own.unwrap_or_else(|| root.clone());
        found.extend(own.ancestors().take_while(|folder| folder.starts_with(&root)).map(Path::to_owned));
    }
    found
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    fn cgroup(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        files.iter().for_each(|(name, text)| fs::write(folder.path().join(name), text).expect("writes"));
        folder
    }

    const HOST: Room = Room { total_bytes: 24 << 30, available_bytes: 20 << 30, limited: false };

    #[test]
    fn a_container_has_what_its_limit_leaves() {
        let v2 = cgroup(&[
            ("memory.max", "4294967296\n"),
            ("memory.current", "3221225472\n"),
            ("memory.stat", "anon 1\nfile 2\ninactive_file 1073741824\nactive_file 1073741824\n"),
        ]);
        let room = HOST.within(v2.path());
        assert_eq!(room, Room { total_bytes: 4 << 30, available_bytes: 3 << 30, limited: true });
        assert_eq!(room.floor_bytes(), (4 << 30) / 20);
        let v1 = cgroup(&[("memory.limit_in_bytes", "1073741824\n"), ("memory.usage_in_bytes", "0\n")]);
        assert_eq!(HOST.within(v1.path()).available_bytes, 1 << 30);
    }

    #[test]
    fn no_limit_is_the_host() {
        let none = cgroup(&[("memory.max", "max\n")]);
        assert_eq!(HOST.within(none.path()), HOST);
        let v1 = cgroup(&[("memory.limit_in_bytes", "9223372036854771712\n")]);
        assert_eq!(HOST.within(v1.path()), HOST);
        assert_eq!(HOST.floor_bytes(), (24 << 30) / 20);
    }

    #[test]
    fn our_cgroup_and_those_above_it() {
        let root = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(root.path().join("a/b")).expect("makes");
        let mounts = format!("cgroup {} cgroup rw,nosuid,memory 0 0\nx /x ext4 rw 0 0\n", root.path().display());
        let found = folders("5:devices:/\n4:memory:/a/b\n0::/\n", &mounts);
        assert_eq!(found, [root.path().join("a/b"), root.path().join("a"), root.path().to_owned()]);
        let hidden = folders("4:memory:/not/seen/here\n", &mounts);
        assert_eq!(hidden, [root.path().to_owned()], "a container sees its own cgroup as the root");
    }
}
