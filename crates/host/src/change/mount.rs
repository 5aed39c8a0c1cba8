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
    /// Of the file system, not of the mount: the last field of the line.
    pub options: String,
}

impl MountEntry {
    /// What a FUSE file system was mounted with: the uid of who mounted it.
    pub fn user_id(&self) -> Option<u32> {
        self.options.split(',').find_map(|option| option.strip_prefix("user_id=")?.parse().ok())
    }
}

/// The mounts of one mount namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamespaceMounts {
    /// The inode of `/proc/PID/ns/mnt`.
    pub namespace: u64,
    /// A process in it: `nsenter -t PID -m` enters it.
    pub pid: u32,
    /// Ours.
    pub is_own: bool,
    /// Oldest first; a target is as that process sees it.
    pub mounts: Vec<MountEntry>,
}

/// Every mount namespace that a visible process is in, ours first. One process of each is asked; the file systems are not.
pub fn mounts_everywhere() -> Result<Vec<NamespaceMounts>, Error> {
    let own = namespace_of("self").unwrap_or_default();
    let mut found = vec![NamespaceMounts { namespace: own, pid: std::process::id(), is_own: true, mounts: mounts()? }];
    let names =
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    for name in names {
        let Ok(pid) = name.parse::<u32>() else { continue };
        let Some(namespace) = namespace_of(&name) else { continue };
        if found.iter().any(|it| it.namespace == namespace) {
            continue;
        }
        // one that has ended meanwhile reads as nothing: another process of the same namespace is asked then
        if let Some(mounts) = mounts_of(&name).filter(|mounts| !mounts.is_empty()) {
            found.push(NamespaceMounts { namespace, pid, is_own: false, mounts });
        }
    }
    Ok(found)
}

fn mounts_of(process: &str) -> Option<Vec<MountEntry>> {
    let text = fs::read(format!("/proc/{process}/mountinfo")).ok()?;
    Some(String::from_utf8_lossy(&text).lines().filter_map(parse_line).collect())
}

/// The number in `mnt:[4026531832]`.
fn namespace_of(process: &str) -> Option<u64> {
    let link = fs::read_link(format!("/proc/{process}/ns/mnt")).ok()?;
    link.to_str()?.strip_prefix("mnt:[")?.strip_suffix(']')?.parse().ok()
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
        options: tail.next().unwrap_or_default().to_owned(),
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
        let line = r"36 35 98:0 / /mnt/a\040b rw,noatime shared:1 master:2 - fuse.wringer w-1 rw,user_id=1000";
        let expected = MountEntry {
            device: "98:0".into(),
            target: "/mnt/a b".into(),
            fstype: "fuse.wringer".into(),
            source: "w-1".into(),
            options: "rw,user_id=1000".into(),
        };
        assert_eq!(expected.user_id(), Some(1000));
        assert_eq!(parse_line(line), Some(expected));
    }

    /// A process that has left our mount namespace is found, and what it has mounted there.
    #[test]
    #[allow(clippy::disallowed_methods)] // a process for the test
    fn a_mount_in_another_namespace_is_seen() {
        let mount = "mount -t tmpfs seen-elsewhere /mnt && echo ready && read line";
        let spawned = std::process::Command::new("unshare")
            .args(["--mount", "--map-root-user", "sh", "-c", mount])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let mut child = spawned.expect("unshare is there");
        let mut said = [0; 5];
        let ready = std::io::Read::read_exact(child.stdout.as_mut().expect("piped"), &mut said).is_ok();
        let everywhere = mounts_everywhere().expect("reads");
        drop(child.stdin.take());
        let _ = child.wait();
        assert!(everywhere[0].is_own && everywhere.iter().filter(|it| it.is_own).count() == 1);
        if !ready {
            testkit::skip!("an ordinary user cannot mount here");
        }
        let is_it = |mount: &MountEntry| mount.source == "seen-elsewhere";
        let found: Vec<_> = everywhere.iter().filter(|it| it.mounts.iter().any(is_it)).collect();
        assert!(found.len() == 1 && !found[0].is_own && found[0].pid == child.id(), "{found:?}");
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
