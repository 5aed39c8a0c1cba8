// SPDX-License-Identifier: Apache-2.0
//! Deletion that follows no link and crosses no mount: every name is opened or removed relative to an open folder.

use crate::Error;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::CStr;
use std::path::{Component, Path, PathBuf};

/// What a deletion by manifest left alone.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Removed {
    pub entries: u64,
    /// Names in the folder that are not in the manifest, and names that are links, other devices, or not below the folder.
    pub kept: Vec<PathBuf>,
}

/// Removes `names` (files, or folders with all they hold) from `folder`, then `folder` itself when nothing else is in it.
/// A missing name is fine. A name that is a symbolic link is removed as a link.
///
/// # Errors
/// `folder` is a link or cannot be opened; a name cannot be removed.
pub fn remove_manifested(folder: &Path, names: &[PathBuf]) -> Result<Removed, Error> {
    let mut removed = Removed::default();
    let Some(opened) = open_folder(folder)? else { return Ok(removed) };
    for name in names {
        if is_plain(name) {
            remove_below(&opened, name, folder, &mut removed)?;
        } else {
            removed.kept.push(name.clone());
        }
    }
    let rest = list(opened.as_fd(), folder)?;
    removed.kept.extend(rest.iter().map(|name| folder.join(name.to_string_lossy().as_ref())));
    if rest.is_empty() {
        super::remove_dir(folder)?;
        removed.entries += 1;
    }
    Ok(removed)
}

/// Removes `folder`, which must be Wringer's own, with all it holds; stops at mount points and follows no link.
pub fn remove_tree(folder: &Path) -> Result<Removed, Error> {
    let mut removed = Removed::default();
    if let Some(opened) = open_folder(folder)? {
        empty(&opened, folder, &mut removed)?;
        super::remove_dir(folder)?;
    }
    Ok(removed)
}

/// Relative, and without `..`.
fn is_plain(name: &Path) -> bool {
    name.components().count() > 0 && name.components().all(|part| matches!(part, Component::Normal(_)))
}

fn open_folder(folder: &Path) -> Result<Option<OwnedFd>, Error> {
    match rustix::fs::open(folder, FOLDER, Mode::empty()) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Error::path("open folder", folder, errno)),
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// `name` may have several parts: each but the last is opened as a folder, never through a link.
fn remove_below(folder: &OwnedFd, name: &Path, shown: &Path, removed: &mut Removed) -> Result<(), Error> {
    let mut parts = name.components().peekable();
    let mut parent: Option<OwnedFd> = None;
    while let Some(part) = parts.next() {
        let at = parent.as_ref().unwrap_or(folder).as_fd();
        if parts.peek().is_none() {
            let last = std::ffi::CString::new(part.as_os_str().as_encoded_bytes()).unwrap_or_default();
            return remove_entry(at, &last, &shown.join(name), removed);
        }
        match openat(at, part.as_os_str(), FOLDER, Mode::empty()) {
            Ok(next) => parent = Some(next),
            Err(Errno::NOENT) => return Ok(()),
            Err(_) => {
                removed.kept.push(shown.join(name));
                return Ok(());
            }
        }
    }
    Ok(())
}

fn remove_entry(at: BorrowedFd<'_>, name: &CStr, shown: &Path, removed: &mut Removed) -> Result<(), Error> {
    let fail = |errno: Errno| Error::path("remove", shown, errno);
    let stat = match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        other => other.map_err(fail)?,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        unlinkat(at, name, AtFlags::empty()).map_err(fail)?;
    } else if stat.st_dev != fstat(at).map_err(fail)?.st_dev {
        removed.kept.push(shown.to_owned());
        return Ok(());
    } else {
        let folder = openat(at, name, FOLDER, Mode::empty()).map_err(fail)?;
        empty(&folder, shown, removed)?;
        unlinkat(at, name, AtFlags::REMOVEDIR).map_err(fail)?;
    }
    removed.entries += 1;
    Ok(())
}

fn empty(folder: &OwnedFd, shown: &Path, removed: &mut Removed) -> Result<(), Error> {
    for name in list(folder.as_fd(), shown)? {
        let path = shown.join(name.to_string_lossy().as_ref());
        remove_entry(folder.as_fd(), &name, &path, removed)?;
    }
    Ok(())
}

fn list(folder: BorrowedFd<'_>, shown: &Path) -> Result<Vec<std::ffi::CString>, Error> {
    let fail = |errno: Errno| Error::path("list", shown, errno);
    let mut names = Vec::new();
    for entry in Dir::read_from(folder).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push(entry.file_name().to_owned());
        }
    }
    Ok(names)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::super::{private_dir, write_atomic};
    use super::*;

    #[test]
    fn a_link_is_removed_and_its_target_stays() {
        let home = tempfile::tempdir().expect("a folder");
        let (own, other) = (home.path().join("own"), home.path().join("other"));
        private_dir(&own.join("data/deep"), 0o700).expect("makes");
        private_dir(&other, 0o700).expect("makes");
        write_atomic(&other.join("precious"), b"1", 0o600).expect("writes");
        std::os::unix::fs::symlink(&other, own.join("data/deep/link")).expect("links");
        let removed = remove_manifested(&own, &["data".into()]).expect("removes");
        assert!(removed.kept.is_empty() && !own.exists());
        assert!(other.join("precious").exists());
    }

    #[test]
    fn what_is_not_in_the_manifest_stays() {
        let home = tempfile::tempdir().expect("a folder");
        let own = home.path().join("own");
        private_dir(&own, 0o700).expect("makes");
        write_atomic(&own.join("mine"), b"1", 0o600).expect("writes");
        write_atomic(&own.join("yours"), b"1", 0o600).expect("writes");
        let removed = remove_manifested(&own, &["mine".into(), "../x".into(), "/etc/passwd".into()]).expect("removes");
        assert_eq!(removed.kept.len(), 3);
        assert!(!own.join("mine").exists() && own.join("yours").exists());
    }

    #[test]
    fn a_linked_folder_on_the_way_is_not_followed() {
        let home = tempfile::tempdir().expect("a folder");
        let (own, other) = (home.path().join("own"), home.path().join("other"));
        private_dir(&own, 0o700).expect("makes");
        private_dir(&other, 0o700).expect("makes");
        write_atomic(&other.join("precious"), b"1", 0o600).expect("writes");
        std::os::unix::fs::symlink(&other, own.join("way")).expect("links");
        let removed = remove_manifested(&own, &["way/precious".into()]).expect("removes");
        assert!(other.join("precious").exists());
        assert!(!removed.kept.is_empty());
        assert!(remove_tree(&own.join("way")).is_err(), "a link is no folder");
    }
}
