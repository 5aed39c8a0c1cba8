// SPDX-License-Identifier: Apache-2.0
//! Limits that hold when a server takes huge pages: of its hugetlb cgroup and all groups above it, of version 1 or 2, and of locked memory.

use host::mounts::{MountEntry, mounts};
use ledger::huge_pages::HugeLimit;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Version 1 has no word for "no limit": the file then contains the largest number of pages.
const NO_LIMIT: u64 = 1 << 62;

/// The names of a version's files after `hugetlb.SIZE.`: limit and usage of touched pages, then limit and usage of reserved pages.
const V1: [&str; 4] = ["limit_in_bytes", "usage_in_bytes", "rsvd.limit_in_bytes", "rsvd.usage_in_bytes"];
const V2: [&str; 4] = ["max", "current", "rsvd.max", "rsvd.current"];

/// The cgroups that have a limit, the nearest first.
pub(super) fn of_cgroups(pid: u32) -> Vec<HugeLimit> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mounts = mounts().unwrap_or_default();
    mounts.iter().find_map(|mount| of_mount(mount, &groups)).unwrap_or_default()
}

/// `None`: the mount is of another hierarchy, or does not show the cgroup.
fn of_mount(mount: &MountEntry, groups: &str) -> Option<Vec<HugeLimit>> {
    let (controller, names) = match mount.fstype.as_str() {
        "cgroup" if mount.options.split(',').any(|option| option == "hugetlb") => ("hugetlb", &V1),
        "cgroup2" => ("", &V2),
        _ => return None,
    };
    let path = path_in(groups, controller)?;
    let inside = Path::new(path).strip_prefix(&mount.root).ok()?;
    inside.components().all(|part| matches!(part, Component::Normal(_))).then_some(())?;
    let folder = mount.target.join(inside);
    let levels = folder.ancestors().take_while(|above| above.starts_with(&mount.target)).enumerate();
    let named = |up: usize| Path::new(path).ancestors().nth(up).unwrap_or(Path::new("/")).to_path_buf();
    let found: Vec<HugeLimit> = levels.flat_map(|(up, folder)| of_folder(folder, &named(up), names)).collect();
    // When both hierarchies are mounted, only one of them has the controller. In version 2 a cgroup may be without it: those above it limit it all the same.
    let is_here = controller == "hugetlb" || !found.is_empty();
    is_here.then(|| found.into_iter().filter(has_limit).collect())
}

fn has_limit(limit: &HugeLimit) -> bool {
    limit.limit_bytes.is_some() || limit.reservation_limit_bytes.is_some()
}

fn path_in<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        names.split(',').any(|name| name == controller).then_some(path)
    })
}

fn of_folder(folder: &Path, path: &Path, names: &[&str; 4]) -> Vec<HugeLimit> {
    let of = |(size, page_bytes): (String, u64)| {
        let file = |name: &str| folder.join(format!("hugetlb.{size}.{name}"));
        let [limit, usage, reservation_limit, reservation_usage] = names.map(|name| number(&file(name)));
        let is_limit = |bytes: &u64| *bytes < NO_LIMIT;
        HugeLimit {
            path: path.display().to_string(),
            file: file(names[0]).display().to_string(),
            page_bytes,
            reservation_file: file(names[2]).display().to_string(),
            limit_bytes: limit.filter(is_limit),
            usage_bytes: usage,
            reservation_limit_bytes: reservation_limit.filter(is_limit),
            reservation_usage_bytes: reservation_usage,
        }
    };
    sizes(folder).into_iter().map(of).collect()
}

/// The page sizes in the names of files: `2MB`, `1GB`, `64KB`.
fn sizes(folder: &Path) -> BTreeSet<(String, u64)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter_map(|name| size(name.strip_prefix("hugetlb.")?.split_once('.')?.0)).collect()
}

fn size(word: &str) -> Option<(String, u64)> {
    let units = [("KB", 1 << 10), ("MB", 1 << 20), ("GB", 1 << 30)];
    let (number, unit) = units.iter().find_map(|(name, unit)| Some((word.strip_suffix(name)?, *unit)))?;
    Some((word.to_owned(), number.parse::<u64>().ok()?.checked_mul(unit)?))
}

/// The number in a file. `None` for `max`, which means no limit.
fn number(file: &PathBuf) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// `Max locked memory 8388608 8388608 bytes`: the first number is the limit that is in force.
pub(super) fn locked_memory(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// The effective group: `Gid: real effective saved file-system`.
pub(super) fn group(pid: u32) -> Option<u32> {
    let text = fs::read(format!("/proc/{pid}/status")).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().find_map(|line| line.strip_prefix("Gid:"))?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;

    fn hierarchy(fstype: &str, options: &str, files: &[(&str, &str)]) -> (tempfile::TempDir, MountEntry) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("db/pg")).unwrap();
        files.iter().for_each(|(name, value)| fs::write(root.path().join(name), value).unwrap());
        let (target, options) = (root.path().to_path_buf(), options.to_owned());
        let mount = MountEntry { root: "/".into(), target, fstype: fstype.into(), options, ..MountEntry::default() };
        (root, mount)
    }

    #[test]
    fn of_version_1_the_own_one_and_those_above_it() {
        let files = [
            ("db/pg/hugetlb.2MB.limit_in_bytes", "9223372036852678656\n"),
            ("db/hugetlb.2MB.limit_in_bytes", "419430400\n"),
            ("db/hugetlb.2MB.usage_in_bytes", "2097152\n"),
            ("db/hugetlb.2MB.rsvd.limit_in_bytes", "9223372036852678656\n"),
        ];
        let (_root, mount) = hierarchy("cgroup", "rw,hugetlb", &files);
        let limits = of_mount(&mount, "9:cpu:/x\n8:hugetlb:/db/pg\n0::/y\n").unwrap();
        assert_eq!(limits.len(), 1);
        let limit = &limits[0];
        assert_eq!((limit.path.as_str(), limit.page_bytes, limit.limit_bytes), ("/db", 2 << 20, Some(400 << 20)));
        assert_eq!((limit.usage_bytes, limit.reservation_limit_bytes), (Some(2 << 20), None));
        assert!(of_mount(&mount, "0::/db/pg\n").is_none(), "not in this hierarchy");
    }

    #[test]
    fn of_version_2() {
        let files = [
            ("db/pg/hugetlb.1GB.max", "max\n"),
            ("db/pg/hugetlb.2MB.max", "0\n"),
            ("db/pg/hugetlb.2MB.rsvd.max", "4194304\n"),
        ];
        let (_root, mount) = hierarchy("cgroup2", "rw", &files);
        let limits = of_mount(&mount, "0::/db/pg\n").unwrap();
        assert!(limits[0].file.ends_with("db/pg/hugetlb.2MB.max"), "{limits:?}");
        assert!(limits[0].reservation_file.ends_with("db/pg/hugetlb.2MB.rsvd.max"), "{limits:?}");
        let of = |it: &HugeLimit| (it.page_bytes, it.limit_bytes, it.reservation_limit_bytes);
        assert_eq!(limits.iter().map(of).collect::<Vec<_>>(), [(2 << 20, Some(0), Some(4 << 20))]);
        let above = [("hugetlb.2MB.max", "max\n"), ("db/hugetlb.2MB.max", "0\n")];
        let (_root, mount) = hierarchy("cgroup2", "rw", &above);
        let limits = of_mount(&mount, "0::/db/pg\n").unwrap();
        assert_eq!(limits.iter().map(|it| (it.path.as_str(), it.limit_bytes)).collect::<Vec<_>>(), [("/db", Some(0))]);
        let (_empty, without) = hierarchy("cgroup2", "rw", &[]);
        assert!(of_mount(&without, "0::/db/pg\n").is_none(), "the controller is in the other hierarchy");
    }

    #[test]
    fn of_this_process() {
        let own = std::process::id();
        assert!(locked_memory(own).is_some() && group(own).is_some());
        assert_eq!(
            (size("2MB").map(|it| it.1), size("64KB").map(|it| it.1), size("x")),
            (Some(2 << 20), Some(64 << 10), None)
        );
    }
}
