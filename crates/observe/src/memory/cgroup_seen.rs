// SPDX-License-Identifier: Apache-2.0
//! The memory cgroup of a process, of version 1 or 2.

use super::reading::Reading;
use host::mounts::{MountEntry, mounts};
use ledger::CgroupSeen;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Version 1 has no word for "no limit": the file then contains the largest number of pages.
const NO_LIMIT: u64 = 1 << 62;

/// `server`: the server's processes; all other processes in the cgroup are strangers.
pub(super) fn read(pid: u32, server: &[u32], reading: &mut Reading) -> Option<CgroupSeen> {
    let path = memory_cgroup(pid)?;
    let entries = mounts().ok()?;
    let found = entries.iter().rev().find_map(|mount| folder(mount, Path::new(&path)));
    let Some(Charged { folder, root, version, path }) = found else {
        reading.missing("memory cgroup", format!("{path} is outside of what is mounted here"), None);
        return None;
    };
    let (usage, limit) = match version {
        1 => ("memory.usage_in_bytes", "memory.limit_in_bytes"),
        _ => ("memory.current", "memory.max"),
    };
    let upwards = folder.ancestors().take_while(|above| above.starts_with(&root));
    let used = |above: &Path| Some(number(&above.join(usage))?.saturating_sub(page_cache(&stat(above))));
    let levels = upwards.map(|above| (used(above), number(&above.join(limit))));
    let tightest = tightest(levels);
    let oom_groups = oom_groups(&folder, &root, &path);
    // the server may not swap where a group of its own forbids it, wherever the limit of memory is
    let own_swap = least_swap(&folder, &root);
    let killed_whole =
        folder.ancestors().take_while(|above| above.starts_with(&root)).filter(|above| is_killed_whole(above));
    let killed_whole = killed_whole.last().map(Path::to_path_buf);
    // usage and processes are read from the group that has the least left, because all its processes use that up
    let up = tightest.map_or(0, |(_, up)| up);
    let folder = folder.ancestors().nth(up).unwrap_or(&folder).to_path_buf();
    let (limit, current) = (tightest.map(|(limit, _)| limit), number(&folder.join(usage)));
    let (swap_limit, swap_current) = match version {
        1 => swap_beside_memory(&folder, limit, current),
        _ => own_swap,
    };
    let path = path.ancestors().nth(up).unwrap_or(&path);
    Some(CgroupSeen {
        path: path.display().to_string(),
        version,
        current,
        limit,
        swap_limit,
        swap_current,
        stat: stat(&folder),
        oom_group: number(&folder.join("memory.oom.group")).map(|value| value != 0),
        oom_groups,
        strangers: strangers(killed_whole.as_ref().unwrap_or(&folder), server),
    })
}

/// The cgroups that the kernel kills whole, from `folder` up to `root`; `path`: the kernel's name of the first.
fn oom_groups(folder: &Path, root: &Path, path: &Path) -> Vec<String> {
    let upwards = folder.ancestors().take_while(|above| above.starts_with(root)).zip(path.ancestors());
    let whole = upwards.filter(|(above, _)| is_killed_whole(above));
    whole.map(|(_, path)| path.display().to_string()).collect()
}

/// The limit of swap, and the swap in use. Version 1 has files for memory and swap together: the memory is subtracted.
fn swap_beside_memory(folder: &Path, limit: Option<u64>, current: Option<u64>) -> (Option<u64>, Option<u64>) {
    let of = |file: &str| number(&folder.join(file));
    let most = of("memory.memsw.limit_in_bytes").filter(|both| *both < NO_LIMIT);
    let used = of("memory.memsw.usage_in_bytes").zip(current).map(|(both, current)| both.saturating_sub(current));
    (most.map(|both| both.saturating_sub(limit.unwrap_or(0))), used)
}

/// The limit of swap that is reached first, and the swap in use below it, from the cgroup up to `root` (version 2). A group without a limit may lie in one
/// that may have no swap.
fn least_swap(folder: &Path, root: &Path) -> (Option<u64>, Option<u64>) {
    let upwards = folder.ancestors().take_while(|above| above.starts_with(root));
    let levels = upwards.map(|above| ["max", "current"].map(|it| number(&above.join(format!("memory.swap.{it}")))));
    let limited = levels.filter_map(|[limit, used]| Some((limit?, used)));
    let least = limited.min_by_key(|(limit, used)| limit.saturating_sub(used.unwrap_or(0)));
    least.map_or((None, None), |(limit, used)| (Some(limit), used))
}

/// What the kernel can take back before a limit is reached: pages of files. Version 1 counts those of the cgroups below in names of their own.
fn page_cache(stat: &BTreeMap<String, u64>) -> u64 {
    let of = |name: &str| stat.get(&format!("total_{name}")).or_else(|| stat.get(name)).copied().unwrap_or(0);
    of("inactive_file").saturating_add(of("active_file"))
}

/// The limit that is reached first, and how many levels up it is. `levels`: usage without page cache, and limit, of the cgroup, and of each one above it. A limit above may be larger
/// and have less left, because other cgroups use it up, too.
fn tightest(levels: impl Iterator<Item = (Option<u64>, Option<u64>)>) -> Option<(u64, usize)> {
    let limited = levels.enumerate().filter_map(|(up, (used, limit))| Some((up, used, limit?)));
    let limited = limited.filter(|(_, _, limit)| *limit < NO_LIMIT);
    let left = limited.map(|(up, used, limit)| (limit.saturating_sub(used.unwrap_or(0)), limit, up));
    left.min().map(|(_, limit, up)| (limit, up))
}

/// The folder of a process's memory cgroup, if it is visible here.
pub(super) fn folder_of(pid: u32) -> Option<PathBuf> {
    let path = memory_cgroup(pid)?;
    mounts().ok()?.iter().rev().find_map(|mount| folder(mount, Path::new(&path))).map(|found| found.folder)
}

/// The kernel's name of the cgroup: of version 1, otherwise of version 2.
pub(super) fn memory_cgroup(pid: u32) -> Option<String> {
    path_in(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
}

fn path_in(groups: &str) -> Option<String> {
    let path = |is_it: &dyn Fn(&str) -> bool| {
        groups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            is_it(controllers).then(|| path.to_owned())
        })
    };
    path(&|names| names.split(',').any(|name| name == "memory")).or_else(|| path(&str::is_empty))
}

/// The cgroup to which a process's memory is charged.
struct Charged {
    folder: PathBuf,
    /// The topmost visible folder.
    root: PathBuf,
    version: u8,
    /// The kernel's name of the cgroup.
    path: PathBuf,
}

/// A mount shows a part of its hierarchy, from its root down. In version 2 a cgroup may be without the controller (`cgroup.subtree_control` of the one
/// above it); then the nearest cgroup above that has it is charged.
fn folder(mount: &MountEntry, path: &Path) -> Option<Charged> {
    let version = match mount.fstype.as_str() {
        "cgroup" if mount.options.split(',').any(|option| option == "memory") => 1,
        "cgroup2" => 2,
        _ => return None,
    };
    let inside = path.strip_prefix(&mount.root).ok()?;
    let is_below = inside.components().all(|part| matches!(part, Component::Normal(_)));
    let (own, root) = (mount.target.join(inside), mount.target.clone());
    let is_charged = |(up, above): &(usize, &Path)| {
        above.join("memory.stat").is_file() && (*up == 0 || version == 2 && above.join("memory.current").is_file())
    };
    let is_visible = is_below && own.is_dir();
    let upwards = own.ancestors().take_while(|above| above.starts_with(&root)).enumerate();
    let (up, folder) = is_visible.then_some(upwards)?.find(is_charged)?;
    Some(Charged { folder: folder.to_path_buf(), root, version, path: path.ancestors().nth(up)?.to_path_buf() })
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn stat(folder: &Path) -> BTreeMap<String, u64> {
    stat_in(&fs::read_to_string(folder.join("memory.stat")).unwrap_or_default())
}

fn stat_in(text: &str) -> BTreeMap<String, u64> {
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    text.lines().filter_map(pair).collect()
}

fn is_killed_whole(group: &Path) -> bool {
    number(&group.join("memory.oom.group")) == Some(1)
}

/// The processes of the group that are not the server's. In version 2 they mostly lie in groups below it.
fn strangers(folder: &Path, server: &[u32]) -> u32 {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let pids = text.lines().filter_map(|line| line.trim().parse::<u32>().ok());
    let own = u32::try_from(pids.filter(|pid| !server.contains(pid)).count()).unwrap_or(u32::MAX);
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
    below.fold(own, |sum, entry| sum.saturating_add(strangers(&entry.path(), server)))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn processes_of_groups_below_are_strangers_too() {
        let root = tempfile::tempdir().unwrap();
        for (group, pids) in [("", ""), ("mysql", "7\n8\n"), ("exporter", "9\n"), ("exporter/sub", "10\n")] {
            fs::create_dir_all(root.path().join(group)).unwrap();
            fs::write(root.path().join(group).join("cgroup.procs"), pids).unwrap();
        }
        assert_eq!(strangers(root.path(), &[7, 8]), 2);
        assert_eq!(strangers(&root.path().join("mysql"), &[7, 8]), 0);
    }

    /// The server's own group, one between, and the one with the limit: only those with a 1 count.
    #[test]
    fn each_group_that_is_killed_whole_is_found_up_to_the_topmost_visible_one() {
        let root = tempfile::tempdir().unwrap();
        let server = root.path().join("db/pg");
        fs::create_dir_all(&server).unwrap();
        fs::write(server.join("memory.oom.group"), "1\n").unwrap();
        fs::write(root.path().join("db/memory.oom.group"), "0\n").unwrap();
        let found = || oom_groups(&server, root.path(), Path::new("/box/db/pg"));
        assert_eq!(found(), ["/box/db/pg"]);
        fs::write(root.path().join("memory.oom.group"), "1\n").unwrap();
        assert_eq!(found(), ["/box/db/pg", "/box"]);
    }

    proptest! {
        #[test]
        fn any_text_of_the_kernel_is_taken(groups in "(?s).{0,200}", stat in "(?s).{0,200}") {
            path_in(&groups);
            prop_assert!(stat_in(&stat).len() <= stat.lines().count());
        }

        #[test]
        fn damaged_files_are_taken(cut in 0..60_usize, with in "[ -~\n]{0,9}") {
            let (mut groups, mut stat) = ("9:name=systemd:/\n4:cpu,memory:/a/b\n0::/c/d\n".to_owned(), "anon 7\nfile 18446744073709551615\n".to_owned());
            groups.insert_str(cut.min(groups.len()), &with);
            stat.insert_str(cut.min(stat.len()), &with);
            path_in(&groups);
            stat_in(&stat);
        }

        /// With any paths of a mount and a cgroup, nothing outside of the mount is read.
        #[test]
        fn a_folder_is_below_its_mount(root in "(/[a-z.]{1,3}){0,3}", path in "(/[a-z.]{1,3}){0,4}") {
            let seen = tempfile::tempdir().unwrap();
            fs::write(seen.path().join("memory.stat"), "").unwrap();
            let mount = MountEntry { root: root.into(), target: seen.path().into(), fstype: "cgroup2".into(), ..MountEntry::default() };
            if let Some(Charged { folder, .. }) = folder(&mount, Path::new(&path)) {
                prop_assert!(folder.starts_with(seen.path()) && !folder.components().any(|it| it == Component::ParentDir));
            }
        }
    }

    #[test]
    fn the_path_of_either_version() {
        assert_eq!(path_in("9:name=systemd:/\n4:cpu,memory:/a\n0::/b\n").as_deref(), Some("/a"));
        assert_eq!((path_in("0::/b\n").as_deref(), path_in("4:cpu:/a\n")), (Some("/b"), None));
    }

    #[test]
    fn the_limit_that_is_reached_first_is_the_one_with_the_least_left() {
        let of = |levels: &[(u64, u64)]| tightest(levels.iter().map(|(used, limit)| (Some(*used), Some(*limit))));
        assert_eq!(of(&[(1, 4), (7, 16)]), Some((4, 0)));
        assert_eq!(of(&[(1, 4), (15, 16)]), Some((16, 1)), "its neighbours have used it up");
        assert_eq!(of(&[(1, 4), (1, 4)]), Some((4, 0)), "the nearest one, where two have the same left");
        assert_eq!(of(&[(1, u64::MAX), (15, NO_LIMIT)]), None);
        let stat = stat_in("inactive_file 5\nactive_file 2\ntotal_inactive_file 9\nanon 7\n");
        assert_eq!((page_cache(&stat), page_cache(&BTreeMap::new())), (11, 0));
        assert_eq!(tightest([(Some(3), None), (None, Some(9))].into_iter()), Some((9, 1)));
    }

    #[test]
    fn a_mount_may_show_a_part_of_the_hierarchy() {
        let seen = tempfile::tempdir().unwrap();
        fs::create_dir(seen.path().join("db")).unwrap();
        fs::write(seen.path().join("db/memory.stat"), "anon 7\nfile 8\n").unwrap();
        fs::write(seen.path().join("db/cgroup.procs"), "1\n2\n3\n").unwrap();
        let mount = MountEntry {
            root: "/docker/x".into(),
            target: seen.path().into(),
            fstype: "cgroup2".into(),
            ..MountEntry::default()
        };
        let of = |path: &str| folder(&mount, Path::new(path));
        let Charged { folder: found, root, version, path } = of("/docker/x/db").unwrap();
        assert_eq!((root.as_path(), version, stat(&found)["file"], strangers(&found, &[2])), (seen.path(), 2, 8, 2));
        assert_eq!(path, Path::new("/docker/x/db"));
        assert!(of("/elsewhere").is_none());
        // a service whose own cgroup is without the controller: the slice above it is charged
        fs::create_dir_all(seen.path().join("db/slice/service")).unwrap();
        assert!(of("/docker/x/db/slice/service").is_none(), "not even the one above tells its memory");
        fs::write(seen.path().join("db/memory.current"), "7\n").unwrap();
        let above = of("/docker/x/db/slice/service").unwrap();
        assert_eq!((above.folder, above.path.as_path()), (found, Path::new("/docker/x/db")));
        assert!(of("/docker/x/db/gone").is_none());
    }

    #[test]
    fn the_swap_of_either_version() {
        let seen = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| fs::write(seen.path().join(file), text).unwrap();
        let inner = seen.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let least = || least_swap(&inner, seen.path());
        assert_eq!(least(), (None, None));
        fs::write(inner.join("memory.swap.max"), "90\n").unwrap();
        fs::write(inner.join("memory.swap.current"), "30\n").unwrap();
        assert_eq!(least(), (Some(90), Some(30)));
        write("memory.swap.max", "max\n");
        write("memory.swap.current", "500\n");
        assert_eq!(least(), (Some(90), Some(30)));
        write("memory.swap.max", "540\n");
        assert_eq!(least(), (Some(540), Some(500)), "what lies above has less left");
        write("memory.memsw.limit_in_bytes", "9223372036854771712\n");
        write("memory.memsw.usage_in_bytes", "45\n");
        assert_eq!(swap_beside_memory(seen.path(), Some(70), Some(40)), (None, Some(5)));
        write("memory.memsw.limit_in_bytes", "100\n");
        assert_eq!(swap_beside_memory(seen.path(), Some(70), Some(40)), (Some(30), Some(5)));
        assert_eq!(swap_beside_memory(seen.path(), Some(70), None), (Some(30), None));
    }

    #[test]
    fn of_this_process() {
        let mut reading = Reading::begin(super::super::Options::default());
        let own = std::process::id();
        if let Some(seen) = read(own, &[own], &mut reading) {
            assert!(seen.path.starts_with('/') && [1, 2].contains(&seen.version) && !seen.stat.is_empty());
        } else {
            assert!(reading.end().2.iter().all(|it| it.what == "memory cgroup"));
        }
    }
}
