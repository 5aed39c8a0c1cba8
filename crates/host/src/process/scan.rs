// SPDX-License-Identifier: Apache-2.0
//! Finding processes by what they hold. Only `readlink` and small reads below `/proc`: nothing here touches the file systems
//! that the links point to, which may hang.

use super::RUN_VARIABLE;
use super::identity::{Identity, Stat};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Every live process that holds `token` open or carries `WRINGER_RUN=run_id`, except the caller and its forks. Sorted by start.
/// As an ordinary user, only one's own processes are seen.
pub fn with_mark(token: &Path, run_id: &str) -> Vec<Identity> {
    let own = std::process::id();
    let variable = format!("{RUN_VARIABLE}={run_id}");
    let mut found: Vec<Identity> = pids()
        // First the fork: what has executed its program since then holds the token because it was given it.
        .filter(|&pid| pid != own && !is_own_fork(pid, own))
        .filter(|&pid| holds(pid, &|link| link == token) || has_variable(pid, &variable))
        .filter_map(Identity::of)
        .collect();
    found.sort_by_key(|identity| (identity.start_time, identity.pid));
    found
}

/// A child of ours between fork and exec: it still has our descriptors, and loses them with exec unless it is given them.
fn is_own_fork(pid: u32, own: u32) -> bool {
    let arguments = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).ok();
    Stat::read(pid).is_some_and(|stat| stat.parent == own) && arguments(pid) == arguments(own)
}

/// Every live process that holds `file` open, except the caller.
pub fn holders_of(file: &Path) -> Vec<Identity> {
    let own = std::process::id();
    pids().filter(|&pid| pid != own && holds(pid, &|link| link == file)).filter_map(Identity::of).collect()
}

/// Every live process with an open file, a working directory or a root at or below `folder`.
pub fn open_below(folder: &Path) -> Vec<Identity> {
    let below = |link: &Path| link.starts_with(folder);
    pids().filter(|&pid| holds(pid, &below) || stands_in(pid, &below)).filter_map(Identity::of).collect()
}

/// Every live process that has the block device with this number open, under whatever name below `/dev`.
pub fn open_device(device: u64) -> Vec<Identity> {
    let is_it = |pid: u32| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        // a look at the file itself only where it cannot hang
        let mut paths = descriptors.flatten().map(|entry| entry.path());
        paths.any(|path| {
            fs::read_link(&path).is_ok_and(|link| link.starts_with("/dev/"))
                && fs::metadata(&path).is_ok_and(|it| it.file_type().is_block_device() && it.rdev() == device)
        })
    };
    pids().filter(|&pid| is_it(pid)).filter_map(Identity::of).collect()
}

/// Every live process with an open file at or below `folder`; one that only stands there is none.
pub fn files_open_below(folder: &Path) -> Vec<Identity> {
    let below = |link: &Path| link.starts_with(folder);
    pids().filter(|&pid| holds(pid, &below)).filter_map(Identity::of).collect()
}

/// Whether this is ourselves, or Wringer in one of its internal roles. Such a process never keeps a mount busy by itself: a slow
/// layer has the directory below its own mount open, under the same path.
pub fn is_helper(pid: u32) -> bool {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_internal = arguments.split(|byte| *byte == 0).nth(1) == Some(b"internal");
    let has_run = || {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environ| {
            environ.split(|byte| *byte == 0).any(|entry| entry.starts_with(format!("{RUN_VARIABLE}=").as_bytes()))
        })
    };
    pid == std::process::id() || (is_internal && has_run())
}

/// `roots` and every live process below them in the tree of parents.
pub fn descendants(roots: &[Identity]) -> BTreeSet<Identity> {
    let parents: BTreeMap<u32, u32> = pids().filter_map(|pid| Some((pid, Stat::read(pid)?.parent))).collect();
    let mut family: BTreeSet<u32> = roots.iter().filter(|root| root.is_alive()).map(|root| root.pid).collect();
    let mut size = 0;
    while size != family.len() {
        size = family.len();
        family.extend(
            parents.iter().filter(|(_, parent)| family.contains(parent)).map(|(pid, _)| *pid).collect::<Vec<_>>(),
        );
    }
    family.into_iter().filter_map(Identity::of).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

fn holds(pid: u32, wanted: &dyn Fn(&Path) -> bool) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|link| wanted(&link)))
}

fn stands_in(pid: u32, wanted: &dyn Fn(&Path) -> bool) -> bool {
    ["cwd", "root"].iter().any(|link| fs::read_link(format!("/proc/{pid}/{link}")).is_ok_and(|target| wanted(&target)))
}

fn has_variable(pid: u32, variable: &str) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes()))
}
