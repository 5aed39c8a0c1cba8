// SPDX-License-Identifier: Apache-2.0
//! Deletion that follows no link and crosses no mount: every name is opened or removed relative to an open folder, and the kernel refuses to open a
//! mounted folder (openat2(2)). A mounted file system keeps its files.

use crate::Error;
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

/// The result of a deletion by manifest, with the names that it left alone.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Removed {
    pub entries: u64,
    /// Names in the folder that are not in the manifest, and names that are links or not below the folder.
    pub kept: Vec<PathBuf>,
}

/// Removes `names` (files, or folders with their content) from `folder`, then `folder` itself when nothing else is in it. A missing name is no error.
/// A name that is a symbolic link is removed as a link.
///
/// # Errors
/// `folder` is a link or cannot be opened; a name cannot be removed. [`Error::MountBelow`]: something is mounted there; nothing was removed, unless
/// the mount was made during the deletion.
pub fn remove_manifested(folder: &Path, names: &[PathBuf]) -> Result<Removed, Error> {
    let mut removed = Removed::default();
    refuse_mounts(folder)?;
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

/// Removes `folder`, which must be Wringer's own, with its content; follows no link.
///
/// # Errors
/// As [`remove_manifested`].
pub fn remove_tree(folder: &Path) -> Result<Removed, Error> {
    let mut removed = Removed::default();
    refuse_mounts(folder)?;
    if let Some(opened) = open_folder(folder)? {
        empty(&opened, folder, &mut removed)?;
        super::remove_dir(folder)?;
    }
    Ok(removed)
}

/// Removes the files of `folder` whose names begin with `beginning`: a program that is not Wringer's left them there when it was killed. Folders
/// stay. A missing folder is no error.
///
/// # Errors
/// `folder` is a link or cannot be opened; a file cannot be removed.
pub fn remove_beginning(folder: &Path, beginning: &str) -> Result<u64, Error> {
    let Some(opened) = open_folder(folder)? else { return Ok(0) };
    let mut removed = 0;
    for name in list(opened.as_fd(), folder)? {
        if !name.to_bytes().starts_with(beginning.as_bytes()) {
            continue;
        }
        match unlinkat(&opened, &name, AtFlags::empty()) {
            Ok(()) => removed += 1,
            // removed meanwhile, or a folder
            Err(Errno::NOENT | Errno::ISDIR) => {}
            Err(errno) => return Err(Error::path("remove", folder.join(name.to_string_lossy().as_ref()), errno)),
        }
    }
    Ok(removed)
}

/// Whether the name is relative and without `..`.
fn is_plain(name: &Path) -> bool {
    name.components().count() > 0 && name.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Refuses a folder with mounts, before anything is removed. A mount that is made later makes [`enter`] fail.
fn refuse_mounts(folder: &Path) -> Result<(), Error> {
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    match crate::mounts::mounts()?.into_iter().find(|entry| entry.target.starts_with(&folder)) {
        Some(entry) => Err(Error::MountBelow { path: entry.target }),
        None => Ok(()),
    }
}

/// Opens the folder from the one above it, so that a mount on the folder is noticed.
fn open_folder(folder: &Path) -> Result<Option<OwnedFd>, Error> {
    let fail = |errno: Errno| Error::path("open folder", folder, errno);
    let name = folder.file_name().ok_or(fail(Errno::INVAL))?;
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let above = match rustix::fs::open(above, ABOVE, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        other => other.map_err(fail)?,
    };
    match enter(above.as_fd(), name) {
        Ok(opened) => Ok(Some(opened)),
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::XDEV) => Err(Error::MountBelow { path: folder.to_owned() }),
        Err(errno) => Err(fail(errno)),
    }
}

/// Opens a folder by its name in another one. A link is refused, and so is a mount on the folder, with EXDEV.
fn enter(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let resolve =
        ResolveFlags::NO_XDEV | ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match openat2(at, name, FOLDER, Mode::empty(), resolve) {
            // Linux before 5.6, or a container whose filter does not know the call
            Err(Errno::NOSYS | Errno::PERM) => return enter_by_mount_id(at, name),
            // somebody renames a folder at the same moment
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
}

/// Does the same by comparing the mount numbers of the two descriptors (proc_pid_fdinfo(5)).
fn enter_by_mount_id(at: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    let opened = openat(at, name, FOLDER, Mode::empty())?;
    let (above, here) = (mount_id(at)?, mount_id(opened.as_fd())?);
    if above == here { Ok(opened) } else { Err(Errno::XDEV) }
}

fn mount_id(descriptor: BorrowedFd<'_>) -> Result<u64, Errno> {
    let path = format!("/proc/thread-self/fdinfo/{}", descriptor.as_raw_fd());
    let text = std::fs::read_to_string(path).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    id.ok_or(Errno::NOSYS)
}

/// For a folder that is not read: the right to pass through is enough to open it.
const ABOVE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Removes `name`, which may have several parts: each part but the last is opened as a folder, never through a link.
fn remove_below(folder: &OwnedFd, name: &Path, shown: &Path, removed: &mut Removed) -> Result<(), Error> {
    let mut parts = name.components().peekable();
    let mut parent: Option<OwnedFd> = None;
    while let Some(part) = parts.next() {
        let at = parent.as_ref().unwrap_or(folder).as_fd();
        if parts.peek().is_none() {
            let last = CString::new(part.as_os_str().as_encoded_bytes()).unwrap_or_default();
            return remove_entry(at, &last, &shown.join(name), removed);
        }
        match enter(at, part.as_os_str()) {
            Ok(next) => parent = Some(next),
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::XDEV) => return Err(Error::MountBelow { path: shown.join(name) }),
            Err(_) => {
                removed.kept.push(shown.join(name));
                return Ok(());
            }
        }
    }
    Ok(())
}

fn remove_entry(at: BorrowedFd<'_>, name: &CStr, shown: &Path, removed: &mut Removed) -> Result<(), Error> {
    let fail = |errno: Errno| match errno {
        // EBUSY: something is mounted on the file or the empty folder
        Errno::XDEV | Errno::BUSY => Error::MountBelow { path: shown.to_owned() },
        errno => Error::path("remove", shown, errno),
    };
    let stat = match statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        other => other.map_err(fail)?,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        unlinkat(at, name, AtFlags::empty()).map_err(fail)?;
    } else {
        let folder = enter(at, OsStr::from_bytes(name.to_bytes())).map_err(fail)?;
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

fn list(folder: BorrowedFd<'_>, shown: &Path) -> Result<Vec<CString>, Error> {
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
    use std::fs;
    use std::time::Duration;

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

    /// Runs the test in a mount namespace of its own, which ends with the thread.
    fn with_mounts(test: impl FnOnce() + Send + 'static) {
        use rustix::mount::{MountPropagationFlags, mount_change};
        use rustix::thread::{UnshareFlags, unshare_unsafe};
        let in_thread = std::thread::spawn(move || {
            // SAFETY: the thread stops sharing the mount namespace, and with it the working directory, and nothing else
            if unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.is_err() {
                testkit::skip!("no right to mount");
            }
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).expect("makes private");
            test();
        });
        if let Err(panic) = in_thread.join() {
            std::panic::resume_unwind(panic);
        }
    }

    fn bind(from: &Path, to: &Path) {
        rustix::mount::mount_bind(from, to).expect("binds");
    }

    /// The mount is busy while a child that another test has just forked has a file of it open: until that child executes its program.
    fn unmount(point: &Path) {
        let mut tried = Err(Errno::BUSY);
        testkit::wait_until(Duration::from_secs(60), || {
            tried = rustix::mount::unmount(point, rustix::mount::UnmountFlags::empty());
            tried != Err(Errno::BUSY)
        });
        tried.expect("unmounts");
    }

    /// `own/data` with `deep/file` and `file`, and beside it `other/precious`.
    fn own_and_other(home: &Path) -> (PathBuf, PathBuf) {
        let (own, other) = (home.join("own"), home.join("other"));
        private_dir(&own.join("data/deep"), 0o700).expect("makes");
        private_dir(&other.join("folder"), 0o700).expect("makes");
        for file in
            [own.join("data/deep/file"), own.join("data/file"), other.join("precious"), other.join("folder/precious")]
        {
            write_atomic(&file, b"1", 0o600).expect("writes");
        }
        (own, other)
    }

    fn is_mount_below<T: std::fmt::Debug>(result: &Result<T, Error>, path: &Path) -> bool {
        matches!(result, Err(Error::MountBelow { path: found }) if found == path)
    }

    #[test]
    fn what_is_mounted_keeps_its_files() {
        with_mounts(|| {
            for (case, on) in ["data/deep", "data", "", "data/file"].into_iter().enumerate() {
                let home = tempfile::tempdir().expect("a folder");
                let (own, other) = own_and_other(home.path());
                let point = own.join(on);
                let point = if on.is_empty() { own.clone() } else { point };
                match on {
                    "data/file" => bind(&other.join("precious"), &point),
                    "data/deep" => {
                        let flags = rustix::mount::MountFlags::empty();
                        rustix::mount::mount("none", &point, "tmpfs", flags, None).expect("mounts");
                        write_atomic(&point.join("theirs"), b"1", 0o600).expect("writes");
                    }
                    // of the same device: the device number alone does not show this mount
                    _ => bind(&other, &point),
                }
                let tried = if case % 2 == 0 { remove_tree(&own) } else { remove_manifested(&own, &["data".into()]) };
                // the check beforehand looks at the namespace of the process; here the kernel refuses
                assert!(is_mount_below(&tried, &point), "{on}: {tried:?}");
                assert!(other.join("precious").exists() && other.join("folder/precious").exists(), "{on}");
                assert!(on != "data/deep" || point.join("theirs").exists());
                unmount(&point);
                remove_tree(&own).expect("removes");
                assert!(!own.exists());
            }
        });
    }

    /// Covers a kernel without openat2(2).
    #[test]
    fn a_mount_is_told_by_its_number_too() {
        with_mounts(|| {
            let home = tempfile::tempdir().expect("a folder");
            let (own, other) = own_and_other(home.path());
            let opened = open_folder(&own).expect("opens").expect("is there");
            enter_by_mount_id(opened.as_fd(), OsStr::new("data")).expect("nothing is mounted there");
            bind(&other, &own.join("data"));
            let tried = enter_by_mount_id(opened.as_fd(), OsStr::new("data"));
            assert_eq!(tried.map(drop), Err(Errno::XDEV));
            unmount(&own.join("data"));
        });
    }

    /// Somebody mounts and unmounts in a loop during the deletion.
    #[test]
    fn a_mount_in_the_middle_keeps_its_files() {
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        struct Stop<'a>(&'a AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        with_mounts(|| {
            let home = tempfile::tempdir().expect("a folder");
            let (own, other) = own_and_other(home.path());
            let (point, stop) = (own.join("data/deep"), AtomicBool::new(false));
            std::thread::scope(|scope| {
                let _stop = Stop(&stop);
                scope.spawn(|| {
                    while !stop.load(Relaxed) {
                        if rustix::mount::mount_bind(&other, &point).is_ok() {
                            let _ = rustix::mount::unmount(&point, rustix::mount::UnmountFlags::DETACH);
                        }
                    }
                });
                let (mut removed, mut met) = (0, 0);
                for _ in 0..100_000 {
                    match remove_tree(&own) {
                        Ok(_) => removed += 1,
                        Err(Error::MountBelow { .. }) => met += 1,
                        Err(error) => panic!("{error}"),
                    }
                    assert!(other.join("precious").exists() && other.join("folder/precious").exists());
                    if removed >= 5 && met >= 5 {
                        break;
                    }
                    fs::create_dir_all(&point).expect("makes");
                    let _ = fs::write(point.join("file"), "1");
                }
                assert!(removed > 0 && met > 0, "{removed} removed, {met} met a mount");
            });
        });
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

    #[test]
    fn only_files_of_that_beginning_go() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("own");
        private_dir(&folder, 0o700).expect("makes");
        private_dir(&folder.join("vgdb-folder"), 0o700).expect("makes");
        for name in ["vgdb-pipe", "vgdb-", "massif.out"] {
            write_atomic(&folder.join(name), b"1", 0o600).expect("writes");
        }
        std::os::unix::fs::symlink(folder.join("massif.out"), folder.join("vgdb-link")).expect("links");
        assert_eq!(remove_beginning(&folder, "vgdb-").expect("removes"), 3, "the link itself is one");
        assert!(folder.join("massif.out").exists() && folder.join("vgdb-folder").exists());
        assert_eq!(remove_beginning(&home.path().join("none"), "vgdb-").expect("is fine"), 0);
        std::os::unix::fs::symlink(&folder, home.path().join("way")).expect("links");
        assert!(remove_beginning(&home.path().join("way"), "massif").is_err(), "a link is no folder");
    }
}
