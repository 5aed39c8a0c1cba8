// SPDX-License-Identifier: Apache-2.0
//! Recognises a process whose slow layer has died: every call to its files fails (ENOTCONN), and it cannot end cleanly.

use super::descriptors::without_descriptors;
use super::scan::{uses_below, with_mark};
use crate::mounts::{MountEntry, mounts_of};
use rustix::io::Errno;
use std::ffi::OsString;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

/// How long the kernel may take to answer that a file system is dead.
const DEADLINE: Duration = Duration::from_millis(500);

/// Whether the process uses the mount of a dead slow layer: with an open file, its working directory or its root.
pub(super) fn is_cut_off(pid: u32) -> bool {
    let mounts = mounts_of(pid).unwrap_or_default();
    let mut layers = mounts.iter().filter(|mount| mount.fstype == "fuse.wringer" && uses_below(pid, &mount.target));
    layers.any(|mount| !has_layer(mount) && is_dead(pid, &mount.target))
}

/// Whether the layer of the mount lives. It is checked first, because a live layer may hang, and then a question about its files hangs, too.
fn has_layer(mount: &MountEntry) -> bool {
    let run = mount.source.strip_prefix("wringer-").unwrap_or(&mount.source);
    with_mark(Path::new(""), run).found.iter().any(|process| is_layer(process.pid))
}

fn is_layer(pid: u32) -> bool {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    arguments.split(|byte| *byte == 0).skip(1).take(2).eq([b"internal".as_slice(), b"slowfs"])
}

/// Asks in a thread of its own: a layer whose process cannot be seen from here may live, and hang.
fn is_dead(pid: u32, target: &Path) -> bool {
    let mut path = OsString::from(format!("/proc/{pid}/root"));
    path.push(target);
    let (answer, heard) = channel();
    let ask = move || {
        without_descriptors();
        let _ = answer.send(rustix::fs::statfs(Path::new(&path)).err() == Some(Errno::NOTCONN));
    };
    let asked = std::thread::Builder::new().name("ask the layer".into()).spawn(ask);
    asked.is_ok() && heard.recv_timeout(DEADLINE) == Ok(true)
}
