// SPDX-License-Identifier: Apache-2.0
//! Finds processes by the files that they hold. It only uses `readlink`, small reads below `/proc`, and looks that never ask a file system, because a
//! file system may hang.

use super::RUN_VARIABLE;
use super::census::{Census, Mark};
use super::found_processes::{Look, Sight};
use super::identity::{Identity, Stat};
use super::proc_files::{is_locked, links, lock_held, look_at, pids, variable};
use rustix::fs::FileType;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

/// Every live process that carries this mark, except the caller and its forks. Sorted by start.
pub fn with_mark(token: &Path, run_id: &str) -> Sight {
    Census::take().with_mark(&Mark { token: token.to_owned(), run_id: run_id.to_owned() })
}

/// Whether this process carries the mark. Looks at no other process.
pub fn carries_mark(process: &Identity, token: &Path, run_id: &str) -> bool {
    let mark = Mark { token: token.to_owned(), run_id: run_id.to_owned() };
    Census::of([process.pid].into_iter()).with_mark(&mark).found.contains(process)
}

/// Every live process for which `look` returns true.
pub(crate) fn look_into(look: &dyn Fn(u32) -> io::Result<bool>) -> Sight {
    Sight::of(|pid| Look::of(look(pid)))
}

/// Every live process that holds the lock of this file, except the caller. A process that waits for the lock has the file open, and does not hold it.
pub fn holders_of(file: &Path) -> Sight {
    let own = std::process::id();
    let is_open = lock_held(file);
    let is_it = |entry: &Path, link: &Path| is_open(entry, link) && is_locked(entry);
    Sight::of(|pid| if pid == own { Look::Other } else { Look::of(holds(pid, &is_it)) })
}

/// Every live process with an open file, a working directory or a root at or below `folder`.
pub fn open_below(folder: &Path) -> Sight {
    Sight::of(|pid| look_below(pid, folder))
}

/// The live process that started first of those that `is_it` accepts and that [`open_below`] finds. Only their open files are listed: a busy host has
/// thousands of others.
pub fn oldest_below(folder: &Path, is_it: &dyn Fn(u32) -> bool) -> Option<Identity> {
    let mut accepted: Vec<Identity> = pids().filter(|pid| is_it(*pid)).filter_map(Identity::of).collect();
    accepted.sort_by_key(|process| process.start_time);
    accepted.into_iter().find(|process| look_below(process.pid, folder) == Look::Wanted && process.is_alive())
}

/// Every live process that has the block device with this number open, by whatever device file.
pub fn open_device(device: u64) -> Sight {
    let numbers = (rustix::fs::major(device), rustix::fs::minor(device));
    Sight::of(|pid| {
        Look::of(holds(pid, &|path, link| {
            link.is_absolute()
                && look_at(path).is_some_and(|it| {
                    FileType::from_raw_mode(it.stx_mode.into()) == FileType::BlockDevice
                        && (it.stx_rdev_major, it.stx_rdev_minor) == numbers
                })
        }))
    })
}

/// Every live process that has this file mapped, whether or not it has it open, too.
pub fn mapped_by(device: u64, inode: u64) -> Sight {
    // `7f1c2000-7f1c3000 rw-s 00000000 00:1a 1053 /dev/shm/name`
    let device = format!("{:02x}:{:02x}", rustix::fs::major(device), rustix::fs::minor(device));
    let inode = inode.to_string();
    let is_it = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == b' ').skip(3);
        words.next() == Some(device.as_bytes()) && words.next() == Some(inode.as_bytes())
    };
    Sight::of(|pid| {
        let maps = fs::read(format!("/proc/{pid}/maps"));
        Look::of(maps.map(|maps| maps.split(|byte| *byte == b'\n').any(is_it)))
    })
}

/// Whether this is the caller, or Wringer in an internal role. Such a process does not count as a user of a mount: a slow layer has the
/// directory below its own mount open, under the same path.
pub fn is_helper(pid: u32) -> bool {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_internal = arguments.split(|byte| *byte == 0).nth(1) == Some(b"internal");
    let has_run = || {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| variable(&environment, RUN_VARIABLE).is_some())
    };
    pid == std::process::id() || (is_internal && has_run())
}

/// `roots` and every live process below them in the tree of parents.
pub fn descendants(roots: &[Identity]) -> BTreeSet<Identity> {
    let children = children_by_parent();
    let mut family = BTreeSet::new();
    let mut next: Vec<u32> = roots.iter().filter(|root| root.is_alive()).map(|root| root.pid).collect();
    while let Some(pid) = next.pop() {
        if family.insert(pid) {
            next.extend(children.get(&pid).into_iter().flatten());
        }
    }
    family.into_iter().filter_map(Identity::of).collect()
}

/// The children of a process, by the parent that each process of this host names.
pub fn children_of(pid: u32) -> Vec<u32> {
    children_by_parent().remove(&pid).unwrap_or_default()
}

/// The pids of the children of each process that has some.
pub(super) fn children_by_parent() -> BTreeMap<u32, Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, parent) in pids().filter_map(|pid| Some((pid, Stat::read(pid)?.parent))) {
        children.entry(parent).or_default().push(pid);
    }
    children
}

/// `wanted` is called with an entry below `/proc/PID/fd`, and the path to which it links.
fn holds(pid: u32, wanted: &dyn Fn(&Path, &Path) -> bool) -> io::Result<bool> {
    Ok(links(pid)?.iter().any(|(path, link)| wanted(path, link)))
}

/// Whether the process has an open file, its working directory or its root below `folder`.
pub(super) fn uses_below(pid: u32, folder: &Path) -> bool {
    look_below(pid, folder) == Look::Wanted
}

/// Servers stand in their data directory: that is asked first, because it is a single link.
fn look_below(pid: u32, folder: &Path) -> Look {
    let below = |link: &Path| link.starts_with(folder);
    match Look::of(stands_in(pid, &below)) {
        Look::Wanted => Look::Wanted,
        look => look.or(Look::of(holds(pid, &|_, link| below(link)))),
    }
}

fn stands_in(pid: u32, wanted: &dyn Fn(&Path) -> bool) -> io::Result<bool> {
    let target = |link: &str| fs::read_link(format!("/proc/{pid}/{link}"));
    Ok(wanted(&target("cwd")?) || wanted(&target("root")?))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // files and processes of the test's own
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    struct Killed(Child);

    impl Drop for Killed {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn the_oldest_of_those_that_are_accepted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().canonicalize().expect("is there");
        let file = || Stdio::from(fs::File::create(path.join("file")).expect("makes"));
        let sleep = |change: &dyn Fn(&mut Command)| {
            // start times are told in hundredths of a second
            std::thread::sleep(Duration::from_millis(20));
            let mut command = Command::new("sleep");
            change(command.arg("100"));
            Killed(command.spawn().expect("starts"))
        };
        let elsewhere = sleep(&|_| {});
        let with_file = sleep(&|command| {
            command.stdin(file());
        });
        let inside = sleep(&|command| {
            command.current_dir(&path);
        });
        let of = |accepted: &[&Killed]| {
            let is_it = |pid| accepted.iter().any(|it| it.0.id() == pid);
            oldest_below(&path, &is_it).map(|process| process.pid)
        };
        assert_eq!(of(&[&inside, &with_file, &elsewhere]), Some(with_file.0.id()));
        assert_eq!(of(&[&inside, &elsewhere]), Some(inside.0.id()));
        assert_eq!((of(&[&elsewhere]), of(&[])), (None, None));
    }
}
