// SPDX-License-Identifier: Apache-2.0
//! Finds cgroups by their name. Mounts, loop devices and mapped devices are listed by
//! [`crate::mounts::mounts_everywhere`], [`crate::change::loop_device::backing_files`] and [`crate::mapper::present`].

use crate::change::CgroupVersion;
use crate::mounts::MountEntry;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// A cgroup that was found by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedCgroup {
    pub path: PathBuf,
    pub version: CgroupVersion,
    /// The owner of the folder, who made it.
    pub uid: u32,
}

/// All cgroups, in every mounted hierarchy, whose names begin with `prefix`; without the cgroups below these. A hierarchy that is mounted twice
/// counts once.
pub fn cgroups(mounts: &[MountEntry], prefix: &str) -> Vec<NamedCgroup> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for mount in mounts {
        let version = match mount.fstype.as_str() {
            "cgroup" => CgroupVersion::V1,
            "cgroup2" => CgroupVersion::V2,
            _ => continue,
        };
        below(&mount.target, version, prefix, &mut seen, &mut found);
    }
    found
}

fn below(
    folder: &Path,
    version: CgroupVersion,
    prefix: &str,
    seen: &mut BTreeSet<(u64, u64)>,
    found: &mut Vec<NamedCgroup>,
) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        let Ok(metadata) = entry.metadata() else { continue };
        if !seen.insert((metadata.dev(), metadata.ino())) {
            continue;
        }
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(NamedCgroup { path, version, uid: metadata.uid() });
        } else {
            below(&path, version, prefix, seen, found);
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    #[test]
    fn found_at_any_depth_and_once() {
        let root = tempfile::tempdir().expect("a folder");
        for name in ["a/wringer-w-1/inner", "wringer-w-2-memory", "other"] {
            fs::create_dir_all(root.path().join(name)).expect("makes");
        }
        let mount =
            |fstype: &str| MountEntry { target: root.path().into(), fstype: fstype.into(), ..MountEntry::default() };
        let mut found: Vec<PathBuf> = cgroups(&[mount("tmpfs"), mount("cgroup2"), mount("cgroup2")], "wringer-")
            .into_iter()
            .map(|it| it.path)
            .collect();
        found.sort();
        assert_eq!(found, [root.path().join("a/wringer-w-1"), root.path().join("wringer-w-2-memory")]);
    }
}
