// SPDX-License-Identifier: Apache-2.0
//! Small reads below `/proc`, and looks at files that never ask a file system, because it may hang.

use rustix::fs::{AtFlags, CWD, Statx, StatxFlags, statx};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Every process that `/proc` lists, in no order.
pub fn pids() -> impl Iterator<Item = u32> {
    fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// The value of a variable in the content of `/proc/PID/environ`.
pub(super) fn variable<'a>(environment: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut entries = environment.split(|byte| *byte == 0);
    entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// The entries below `/proc/PID/fd`, and what they link to.
///
/// # Errors
/// The process has ended, or this user may not see them.
pub fn links(pid: u32) -> io::Result<Vec<(PathBuf, PathBuf)>> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?;
    let paths = descriptors.flatten().map(|entry| entry.path());
    Ok(paths.filter_map(|path| fs::read_link(&path).ok().map(|link| (path, link))).collect())
}

/// Returns a function that answers whether a link below `/proc/PID/fd` is this lock file, open for writing. The path must be the same, or the device
/// and inode, because another mount may show the file under another path.
pub(super) fn lock_held(file: &Path) -> impl Fn(&Path, &Path) -> bool {
    let numbers = |it: Statx| (it.stx_dev_major, it.stx_dev_minor, it.stx_ino);
    let wanted = look_at(file).map(numbers);
    move |path: &Path, link: &Path| {
        let is_it = link == file
            || (link.file_name() == file.file_name() && wanted.is_some() && look_at(path).map(numbers) == wanted);
        is_it && is_open_for_writing(path)
    }
}

/// Whether an entry below `/proc/PID/fd` is open for writing: the kernel shows it in the mode of the link (proc_pid_fd(5)). A process of a run has
/// the run's lock files open for writing. A process that only checks whether such a lock is free opens the file for reading, and belongs to another
/// run or to none.
pub(super) fn is_open_for_writing(entry: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::symlink_metadata(entry).is_ok_and(|link| link.mode() & 0o200 != 0)
}

/// Whether an entry below `/proc/PID/fd` has a lock: `lock: 1: FLOCK  ADVISORY  WRITE 4711 fd:00:1234 0 EOF` (proc_pid_fdinfo(5)).
pub(super) fn is_locked(entry: &Path) -> bool {
    let (Some(number), Some(process)) = (entry.file_name(), entry.parent().and_then(Path::parent)) else {
        return false;
    };
    fs::read_to_string(process.join("fdinfo").join(number)).is_ok_and(|text| has_lock(&text))
}

fn has_lock(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("lock:") && line.contains("FLOCK") && line.contains("WRITE"))
}

/// What the kernel knows of a file without asking the file system, which may hang.
pub(crate) fn look_at(path: &Path) -> Option<Statx> {
    statx(CWD, path, AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_in_the_facts_about_a_descriptor() {
        assert!(has_lock("pos:\t0\nlock:\t1: FLOCK  ADVISORY  WRITE 4711 fd:00:1234 0 EOF\n"));
        assert!(!has_lock("pos:\t0\nflags:\t02100002\n"));
    }
}
