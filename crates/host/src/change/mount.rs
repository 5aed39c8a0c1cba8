// SPDX-License-Identifier: Apache-2.0
use crate::permit::Permit;
use crate::process::open_below;
use crate::{Error, interrupt, tool};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// One line of `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    /// `98:0`, of what is mounted; of a file system without a device a number of its own.
    pub device: String,
    pub target: PathBuf,
    pub fstype: String,
    pub source: String,
}

/// All mounts of our mount namespace, oldest first.
pub fn mounts() -> Result<Vec<MountEntry>, Error> {
    let path = "/proc/self/mountinfo";
    let text = fs::read_to_string(path).map_err(|source| Error::path("read", path, source))?;
    Ok(text.lines().filter_map(parse_line).collect())
}

/// Those at `target`, the topmost last.
pub fn mounts_at(target: &Path) -> Result<Vec<MountEntry>, Error> {
    Ok(mounts()?.into_iter().filter(|entry| entry.target == target).collect())
}

/// Unmounts the topmost mount at `target` when it is the one with this source and type; never lazily. Others have `patience` to
/// close their files. Returns whether it was there.
///
/// # Errors
/// [`Error::Busy`] with the processes that hold it open.
pub fn unmount(_permit: &Permit, target: &Path, source: &str, fstype: &str, patience: Duration) -> Result<bool, Error> {
    let deadline = Instant::now() + patience;
    loop {
        let top = mounts_at(target)?.pop();
        if !top.is_some_and(|entry| entry.source == source && entry.fstype == fstype) {
            return Ok(false);
        }
        match unmount_once(target) {
            Ok(()) => return Ok(true),
            Err(Errno::BUSY) if Instant::now() < deadline && !interrupt::impatient() => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(Errno::BUSY) => return Err(super::busy_by(target, open_below(target))),
            Err(errno) => return Err(Error::path("unmount", target, errno)),
        }
    }
}

/// An ordinary user's FUSE mount goes through the set-uid helper that made it.
fn unmount_once(target: &Path) -> Result<(), Errno> {
    match rustix::mount::unmount(target, UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => unmount_by_helper(target),
        other => other,
    }
}

fn unmount_by_helper(target: &Path) -> Result<(), Errno> {
    let helper = ["fusermount3", "fusermount"].iter().find_map(|name| tool::find(name)).ok_or(Errno::PERM)?;
    let output = tool::command(helper).arg("-u").arg(target).output().map_err(|_| Errno::PERM)?;
    let busy = String::from_utf8_lossy(&output.stderr).contains("busy");
    if output.status.success() { Ok(()) } else { Err(if busy { Errno::BUSY } else { Errno::PERM }) }
}

/// `36 35 98:0 /root /target rw,noatime master:1 - ext4 /dev/root rw,errors=continue`: the optional fields end with ` - `.
fn parse_line(line: &str) -> Option<MountEntry> {
    let (head, tail) = line.split_once(" - ")?;
    let (device, target) = (head.split(' ').nth(2)?, head.split(' ').nth(4)?);
    let mut tail = tail.split(' ');
    Some(MountEntry {
        device: device.to_owned(),
        target: PathBuf::from(OsString::from_vec(unescape(target))),
        fstype: tail.next()?.to_owned(),
        source: String::from_utf8_lossy(&unescape(tail.next()?)).into_owned(),
    })
}

/// The kernel writes blank, tab, newline and backslash as `\040` and so on.
fn unescape(text: &str) -> Vec<u8> {
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
        let line = r"36 35 98:0 / /mnt/a\040b rw,noatime shared:1 master:2 - fuse.wringer w-1 rw";
        let expected = MountEntry {
            device: "98:0".into(),
            target: "/mnt/a b".into(),
            fstype: "fuse.wringer".into(),
            source: "w-1".into(),
        };
        assert_eq!(parse_line(line), Some(expected));
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // a permit without a journal
    fn what_is_not_ours_is_not_unmounted() {
        let patience = Duration::ZERO;
        let was_there =
            unmount(&Permit::issue(1), Path::new("/proc"), "w-other", "fuse.wringer", patience).expect("looks");
        assert!(!was_there);
        assert!(Path::new("/proc/self").exists());
    }
}
