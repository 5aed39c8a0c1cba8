// SPDX-License-Identifier: Apache-2.0
use super::own_mount::{command, mount_id};
use super::{Everywhere, Look};
use crate::Holder;
use crate::process::{is_helper, pids};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, open, statx};
use std::collections::BTreeSet;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use units::MapsLine;

/// The processes that have a file of this file system open or mapped, or their working directory or root in it, in any namespace; Wringer's helpers
/// are left out. The file system is not asked: it may hang.
pub(crate) fn users(look: &Look) -> Vec<Holder> {
    let visible: BTreeSet<u64> = Everywhere::look()
        .map(|it| it.namespaces.iter().flat_map(|it| it.mounts.iter().map(|entry| entry.id)).collect())
        .unwrap_or_default();
    let users = pids().filter(|pid| stands_in(*pid, look) || has_open(*pid, look, &visible) || has_mapped(*pid, look));
    users.filter(|pid| !is_helper(*pid)).map(|pid| Holder { pid, command: command(pid) }).collect()
}

/// Whether the process serves a FUSE file system, or is about to serve one: if it ended, every process with a file there would get an error.
pub fn serves_files(pid: u32) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors.into_iter().any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link == Path::new("/dev/fuse")))
}

fn stands_in(pid: u32, look: &Look) -> bool {
    ["cwd", "root"].iter().any(|link| {
        let Ok(file) = open(format!("/proc/{pid}/{link}"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
            return false;
        };
        mount_id(&format!("self/fdinfo/{}", file.as_raw_fd())).is_some_and(|id| look.ids.contains(&id))
    })
}

fn has_open(pid: u32, look: &Look, visible: &BTreeSet<u64>) -> bool {
    let folder = format!("/proc/{pid}/fd");
    fs::read_dir(&folder).into_iter().flatten().flatten().any(|entry| {
        let Some(number) = entry.file_name().to_str().map(str::to_owned) else { return false };
        let Some(id) = mount_id(&format!("{pid}/fdinfo/{number}")) else { return false };
        // a mount that was taken out of the tree (umount -l) is in no table, and exists as long as its files are open
        look.ids.contains(&id) || !visible.contains(&id) && is_on(&entry.path(), look)
    })
}

fn is_on(descriptor: &Path, look: &Look) -> bool {
    let has_path = fs::read_link(descriptor).is_ok_and(|link| link.starts_with("/") && !link.starts_with("/memfd:"));
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    has_path
        && statx(CWD, descriptor, flags, StatxFlags::TYPE)
            .is_ok_and(|it| look.device.as_deref() == Some(&format!("{}:{}", it.stx_dev_major, it.stx_dev_minor)))
}

/// Whether the process has a file mapped.
fn has_mapped(pid: u32, look: &Look) -> bool {
    let pair = |text: &str| {
        let (major, minor) = text.split_once(':')?;
        Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
    };
    let Some(device) = look.device.as_deref().and_then(pair) else { return false };
    let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let maps = String::from_utf8_lossy(&maps);
    maps.lines().filter_map(MapsLine::parse).any(|line| line.device_numbers() == Some(device))
}
