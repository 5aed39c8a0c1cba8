// SPDX-License-Identifier: Apache-2.0
//! The mounts as the kernel lists them: here, and in every other mount namespace that can be seen. Only reads below `/proc`: nothing here touches the
//! file systems themselves, which may hang.

mod all_namespaces;
mod overlay;
mod own_mount;
mod statmount;
mod users;

pub use crate::mounted_at::MountedAt;
pub use all_namespaces::{Everywhere, NamespaceMounts, mounted_anywhere, mounts_everywhere};
pub(crate) use own_mount::{Look, is_on_top};
pub use own_mount::{MARK_FILE, Mark, OwnMount};
pub use users::serves_files;
pub(crate) use users::users;

use crate::Error;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

/// One line of `/proc/PID/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MountEntry {
    /// The number of this mount, which is unique over all namespaces. The kernel gives it to another mount as soon as this one is gone.
    pub id: u64,
    /// The number of the mount on which this one lies; the topmost mount of a namespace has its own number here.
    pub parent: u64,
    /// The device number of the mounted file system: `98:0`. A file system without a device has a number of its own.
    pub device: String,
    /// The part of the file system that is mounted: `/`, or the folder that was bound.
    pub root: PathBuf,
    pub target: PathBuf,
    /// The number of a group of mounts: a mount that is made or removed below one of them is made or removed below all of them, and below the mounts
    /// that follow the group.
    pub shared: Option<u64>,
    /// The number of the group that this mount follows: a mount that is made or removed below one of that group is made or removed below this one,
    /// too.
    pub follows: Option<u64>,
    pub fstype: String,
    pub source: String,
    /// The options of the file system, not of the mount: the last field of the line.
    pub options: String,
}

impl MountEntry {
    /// The uid of the user who mounted a FUSE file system.
    pub fn user_id(&self) -> Option<u32> {
        self.options.split(',').find_map(|option| option.strip_prefix("user_id=")?.parse().ok())
    }
}

/// All mounts of our mount namespace, oldest first.
pub fn mounts() -> Result<Vec<MountEntry>, Error> {
    mounts_in("/proc/self/mountinfo")
}

/// All mounts of the mount namespace of a process, as that process sees them.
pub(crate) fn mounts_of(pid: u32) -> Result<Vec<MountEntry>, Error> {
    mounts_in(&format!("/proc/{pid}/mountinfo"))
}

fn mounts_in(path: &str) -> Result<Vec<MountEntry>, Error> {
    let text = fs::read(path).map_err(|source| Error::path("read", path, source))?;
    Ok(parse(&text))
}

/// The mounts at `target`, the topmost last.
pub fn mounts_at(target: &Path) -> Result<Vec<MountEntry>, Error> {
    Ok(mounts()?.into_iter().filter(|entry| entry.target == target).collect())
}

/// Lines may have bytes that are not UTF-8: file systems may put such bytes there.
fn parse(text: &[u8]) -> Vec<MountEntry> {
    text.split(|byte| *byte == b'\n').filter_map(|line| parse_line(&String::from_utf8_lossy(line))).collect()
}

/// `36 35 98:0 /root /target rw,noatime master:1 - ext4 /dev/root rw,errors=continue`: the optional fields end with ` - `.
fn parse_line(line: &str) -> Option<MountEntry> {
    let (head, tail) = line.split_once(" - ")?;
    let mut head = head.split(' ');
    let mut tail = tail.split(' ');
    let (id, parent) = (head.next()?.parse().ok()?, head.next()?.parse().ok()?);
    let device = head.next()?.to_owned();
    let (root, target) = (path(head.next()?), path(head.next()?));
    let optional: Vec<&str> = head.skip(1).collect();
    let group = |name: &str| optional.iter().find_map(|field| field.strip_prefix(name)?.parse().ok());
    Some(MountEntry {
        id,
        parent,
        device,
        root,
        target,
        shared: group("shared:"),
        follows: group("master:"),
        fstype: tail.next()?.to_owned(),
        source: String::from_utf8_lossy(&unescape(tail.next()?)).into_owned(),
        options: tail.next().unwrap_or_default().to_owned(),
    })
}

fn path(text: &str) -> PathBuf {
    PathBuf::from(OsString::from_vec(unescape(text)))
}

/// The kernel writes blank, tab, newline and backslash as `\040` and so on.
pub(crate) fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_a_blank_in_its_target() {
        let line = r"36 35 98:0 / /mnt/a\040b rw,noatime shared:1 master:2 - fuse.wringer w-1 rw,user_id=1000";
        let expected = MountEntry {
            id: 36,
            parent: 35,
            device: "98:0".into(),
            root: "/".into(),
            target: "/mnt/a b".into(),
            shared: Some(1),
            follows: Some(2),
            fstype: "fuse.wringer".into(),
            source: "w-1".into(),
            options: "rw,user_id=1000".into(),
        };
        assert_eq!(expected.user_id(), Some(1000));
        assert_eq!(parse_line(line), Some(expected));
    }

    #[test]
    fn a_line_that_is_no_text_hides_no_other() {
        let text = b"36 35 98:0 / /mnt/\xff rw - tmpfs one rw\n37 35 98:1 / /mnt/b rw - tmpfs two rw\n";
        let sources: Vec<String> = parse(text).into_iter().map(|entry| entry.source).collect();
        assert_eq!(sources, ["one", "two"]);
    }
}
