// SPDX-License-Identifier: Apache-2.0
//! Wringer's own folders and files: private, written as a whole or not at all, deleted by manifest without following a link.

mod carried;
mod copy;
mod remove;
mod trust;
mod whole;
mod without_links;

pub use carried::carried_library;
pub use copy::{Copied, copy, copy_opened, head};
pub use remove::{Removed, remove_beginning, remove_manifested, remove_tree};
pub use trust::{SafeFolder, check_usable, check_usable_file, open_safe, own_folder, own_uid, safe_folder};
pub use whole::{NewFile, write_atomic, write_named};
pub use without_links::open_without_links;

pub use crate::distrust::Distrust;
pub use crate::user_names::user_name;

use crate::Error;
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, RenameFlags, renameat_with};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Makes a folder with exactly this mode (0700, 0711, 0755), and its missing parents (0755), unless it is there already. A link to a folder of the user
/// ([`is_own_folder`]) counts as one where others may read it; the folder behind it keeps its mode.
///
/// # Errors
/// The folder cannot be made; or there is something else at the path, or a folder of somebody else.
#[allow(clippy::disallowed_methods)]
pub fn private_dir(path: &Path, mode: u32) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|source| Error::path("make folder", parent, source))?;
    }
    match DirBuilder::new().mode(mode).create(path) {
        Err(source) if source.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::path("make folder", path, source));
        }
        _ => {}
    }
    check_own_folder(path)?;
    if path.is_symlink() {
        // what a link leads to, such as /tmp, may be for others, too: it keeps its mode, and holds nothing that is private
        let source = std::io::Error::new(
            std::io::ErrorKind::NotADirectory,
            "a link: what is private lies in a folder of its own",
        );
        return if mode & 0o077 == 0 { Err(Error::path("use folder", path, source)) } else { Ok(()) };
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|source| Error::path("set the mode of", path, source))
}

fn check_own_folder(path: &Path) -> Result<(), Error> {
    if is_own_folder(path).map_err(|source| Error::path("look at", path, source))? {
        return Ok(());
    }
    let source = std::io::Error::new(std::io::ErrorKind::NotADirectory, "not a folder of this user");
    Err(Error::path("use folder", path, source))
}

/// Whether it is a folder of this user; for root, of any user.
///
/// A link to a folder counts where the user has made the link and owns the folder: people move a cache to a larger disk. For root, too, both must be
/// root's: what another user has linked could lead to any folder of the system.
///
/// # Errors
/// It cannot be looked at.
pub fn is_own_folder(path: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::geteuid();
    let is_own = |metadata: &fs::Metadata| metadata.uid() == user.as_raw();
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_symlink() {
        return Ok(is_own(&metadata) && fs::metadata(path).is_ok_and(|folder| folder.is_dir() && is_own(&folder)));
    }
    Ok(metadata.is_dir() && (is_own(&metadata) || user.is_root()))
}

/// Makes the folder with this mode where it is missing. A folder that is there keeps its mode: a user has named it, and may share it with others.
///
/// # Errors
/// The errors of [`private_dir`].
pub fn own_dir(path: &Path, mode: u32) -> Result<(), Error> {
    if fs::symlink_metadata(path).is_ok() { check_own_folder(path) } else { private_dir(path, mode) }
}

/// As [`private_dir`] with mode 0755, for programs, libraries and settings that are used later. Nothing is made or changed where root may not use them.
///
/// # Errors
/// The errors of [`private_dir`] and of [`check_usable`].
pub fn usable_dir(path: &Path) -> Result<(), Error> {
    check_usable(path)?;
    private_dir(path, 0o755)?;
    // another user may have made it meanwhile
    check_usable(path)
}

/// Makes one new folder in an existing one; fails when the name is taken.
#[allow(clippy::disallowed_methods)]
pub fn new_private_dir(path: &Path) -> Result<(), Error> {
    DirBuilder::new().mode(0o700).create(path).map_err(|source| Error::path("make folder", path, source))?;
    sync_parent(path)
}

/// Makes the server's user the owner of one of Wringer's own files or folders. A link itself is changed, not its target.
#[allow(clippy::disallowed_methods)]
pub fn set_owner(path: &Path, uid: u32, gid: u32) -> Result<(), Error> {
    std::os::unix::fs::lchown(path, Some(uid), Some(gid))
        .map_err(|source| Error::path("change the owner of", path, source))
}

/// Sets the mode of one of Wringer's own files or folders.
#[allow(clippy::disallowed_methods)]
pub fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|source| Error::path("set the mode of", path, source))
}

/// Renames within Wringer's own folders, replacing a file of the new name.
#[allow(clippy::disallowed_methods)]
pub fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(|source| Error::path("rename", from, source))?;
    sync_parent(to)
}

/// Swaps two files or folders of Wringer's own in one step: a kill leaves both names in use. `false`: nothing has changed, because the file system or
/// the kernel cannot do it, or because one of the two is missing. The caller syncs their folders.
pub fn exchange(one: &Path, other: &Path) -> bool {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok()
}

/// Removes one file of Wringer's own, not a folder; a missing file is no error.
#[allow(clippy::disallowed_methods)]
pub fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::path("remove", path, source)),
        _ => Ok(()),
    }
}

/// Removes an empty folder of Wringer's own; a missing folder is no error.
#[allow(clippy::disallowed_methods)]
pub fn remove_dir(path: &Path) -> Result<(), Error> {
    match fs::remove_dir(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::path("remove", path, source)),
        _ => Ok(()),
    }
}

/// Opens a file that a user asked for, with the user's umask; it is made where it is missing, and keeps its content.
#[allow(clippy::disallowed_methods)]
pub fn open_for_writing(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}

/// Opens an existing file of Wringer's own, or a device node, to read and write. It makes no file and truncates none.
#[allow(clippy::disallowed_methods)]
pub fn open_existing(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path)
}

/// Opens a log to append to, 0600 when new. No link is followed.
#[allow(clippy::disallowed_methods)]
pub fn open_log(path: &Path) -> Result<File, Error> {
    let flags = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(flags)
        .open(path)
        .map_err(|source| Error::path("open log", path, source))
}

/// Makes a new file, 0600, of `size_bytes` that are reserved on the disk, so that a later write cannot fail because the disk is full.
///
/// # Errors
/// The name is taken; the disk is full.
#[allow(clippy::disallowed_methods)]
pub fn preallocate(path: &Path, size_bytes: u64) -> Result<File, Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|source| Error::path("make", path, source))?;
    reserve(&file, 0, size_bytes).map_err(|source| Error::path("reserve space in", path, source))?;
    file.sync_all().map_err(|source| Error::path("sync", path, source))?;
    sync_parent(path)?;
    Ok(file)
}

/// Makes a new file in `folder` that has no name: nobody else can open it, and it is gone when its last descriptor is closed, in whatever way. Where
/// the file system has no O_TMPFILE (open(2)), the file has a name (`.wringer-<pid>-<time>`) for a moment.
///
/// # Errors
/// The folder does not exist or may not be written.
#[allow(clippy::disallowed_methods)]
pub fn nameless(folder: &Path) -> Result<File, Error> {
    let mode = Mode::from_raw_mode(0o600);
    match rustix::fs::open(folder, OFlags::RDWR | OFlags::CLOEXEC | OFlags::TMPFILE, mode) {
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::NOSYS) => {}
        other => return other.map(File::from).map_err(|errno| Error::path("make a file in", folder, errno)),
    }
    let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let path = folder.join(format!(".wringer-{}-{moment}", std::process::id()));
    let made = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = made.map_err(|source| Error::path("make", &path, source))?;
    remove_file(&path).map(|()| file)
}

/// Reserves `size_bytes` from `offset_bytes`, which then read as zeros. Where the file system has no fallocate, zeros are written.
pub fn reserve(file: &File, offset_bytes: u64, size_bytes: u64) -> std::io::Result<()> {
    match rustix::fs::fallocate(file, FallocateFlags::empty(), offset_bytes, size_bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) => write_zeros(file, offset_bytes, size_bytes),
        other => Ok(other?),
    }
}

fn write_zeros(mut file: &File, offset_bytes: u64, size_bytes: u64) -> std::io::Result<()> {
    file.seek(SeekFrom::Start(offset_bytes))?;
    std::io::copy(&mut std::io::repeat(0).take(size_bytes), &mut file).map(|_| ())
}

/// Writes at `offset_bytes` and waits until it is on the disk.
pub fn write_synced_at(file: &File, content: &[u8], offset_bytes: u64) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    file.write_all_at(content, offset_bytes)?;
    file.sync_data()
}

/// Opens a file to take a lock on. It is made when missing (0600), and never truncated by the open. An existing file can be locked also on a disk
/// that has become read-only.
pub fn open_lock(path: &Path) -> Result<File, Error> {
    let mode = Mode::from_raw_mode(0o600);
    let flags = OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let opened = match rustix::fs::open(path, flags | OFlags::RDWR | OFlags::CREATE, mode) {
        Err(rustix::io::Errno::ROFS) => rustix::fs::open(path, flags | OFlags::RDONLY, mode),
        other => other,
    };
    opened.map(File::from).map_err(|errno| Error::path("open lock", path, errno))
}

/// Replaces the text in a lock file that we hold.
pub fn rewrite(file: &File, text: &str) -> std::io::Result<()> {
    use std::os::unix::fs::FileExt as _;
    file.set_len(0)?;
    file.write_all_at(text.as_bytes(), 0)
}

/// The last `lines` lines of a text file, from its last 16 KiB; empty when it cannot be read.
pub fn tail(path: &Path, lines: usize) -> Vec<String> {
    tail_from(path, 0, lines)
}

/// As [`tail`], without the text before `offset_bytes`: in a shared log that is another process's part.
pub fn tail_from(path: &Path, offset_bytes: u64, lines: usize) -> Vec<String> {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(16 << 10).max(offset_bytes)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map(|_| bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].iter().map(ToString::to_string).collect()
}

/// Makes a new name in `path`'s folder durable. The folder of a bare name is the working directory.
pub fn sync_parent(path: &Path) -> Result<(), Error> {
    let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|folder| folder.sync_all()).map_err(|source| Error::path("sync folder", parent, source))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::os::unix::fs::{MetadataExt as _, chown, lchown, symlink};

    #[test]
    fn a_folder_that_its_user_has_moved_and_linked_is_used() {
        let disk = tempfile::tempdir().expect("a folder");
        let (moved, link) = (disk.path().join("moved"), disk.path().join("cache"));
        fs::create_dir(&moved).expect("makes");
        symlink(&moved, &link).expect("links");
        fs::set_permissions(&moved, fs::Permissions::from_mode(0o751)).expect("sets");
        private_dir(&link, 0o711).expect("the folder behind the link");
        assert_eq!(fs::metadata(&moved).expect("is there").mode() & 0o777, 0o751, "it keeps its mode");
        private_dir(&link, 0o700).expect_err("what is private is in no linked folder");
        private_dir(&link.join("new"), 0o700).expect("a folder in it");
        assert_eq!(fs::metadata(link.join("new")).expect("is there").mode() & 0o777, 0o700);
        if rustix::process::geteuid().is_root() {
            let stranger = Some(12_345);
            lchown(&link, stranger, None).expect("gives the link away");
            private_dir(&link, 0o755).expect_err("what another user has linked");
            lchown(&link, Some(0), None).expect("takes it back");
            chown(&moved, stranger, None).expect("gives the folder away");
            private_dir(&link, 0o755).expect_err("another user's folder behind a link");
            private_dir(&moved, 0o711).expect("root uses it where it is no link");
        }
    }

    #[test]
    fn a_bare_name_lies_in_the_working_directory() {
        sync_parent(Path::new("name")).expect("the working directory is synced");
        sync_parent(Path::new("/name")).expect("the root is synced");
    }

    #[test]
    fn a_folder_and_a_link_swap_their_names_or_nothing_changes() {
        let folder = tempfile::tempdir().expect("a folder");
        let [one, other, missing] = ["one", "other", "missing"].map(|name| folder.path().join(name));
        fs::create_dir(&one).expect("makes");
        std::os::unix::fs::symlink("nowhere", &other).expect("links");
        assert!(!exchange(&one, &missing) && one.is_dir());
        match exchange(&one, &other) {
            true => assert!(one.is_symlink() && other.is_dir()),
            // the fall-back of callers is for this file system
            false => assert!(other.is_symlink() && one.is_dir()),
        }
    }

    #[test]
    fn a_folder_that_a_user_shares_keeps_its_mode() {
        let folder = tempfile::tempdir().expect("a folder");
        let [shared, new] = ["shared", "new"].map(|name| folder.path().join(name));
        fs::create_dir(&shared).expect("makes");
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o1777)).expect("sets");
        own_dir(&shared, 0o755).expect("is there");
        own_dir(&new, 0o750).expect("is made");
        let mode = |path: &Path| fs::metadata(path).expect("is there").permissions().mode() & 0o7777;
        assert_eq!([&shared, &new].map(|path| mode(path)), [0o1777, 0o750]);
    }

    #[test]
    fn root_makes_and_changes_nothing_where_another_user_may_write() {
        let folder = tempfile::tempdir().expect("a folder");
        let [theirs, ours] = ["theirs", "ours"].map(|name| folder.path().join(name));
        usable_dir(&ours.join("new")).expect("a folder of our own");
        fs::create_dir(&theirs).expect("makes");
        fs::set_permissions(&theirs, fs::Permissions::from_mode(0o1777)).expect("sets");
        if !rustix::process::geteuid().is_root() {
            return usable_dir(&theirs).expect("any other user decides for herself");
        }
        usable_dir(&theirs).expect_err("everybody may write in it");
        chown(&theirs, Some(12_345), None).expect("gives it away");
        usable_dir(&theirs.join("new")).expect_err("its owner may exchange what is in it");
        assert!(!theirs.join("new").exists());
        assert_eq!(fs::metadata(&theirs).expect("is there").mode() & 0o7777, 0o1777);
    }

    #[test]
    fn a_nameless_file_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut file = nameless(folder.path()).expect("makes");
        file.write_all(b"here").expect("writes");
        assert_eq!(file.metadata().expect("is there").len(), 4);
        assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 0);
    }

    #[test]
    fn tail_takes_the_last_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("log");
        write_atomic(&path, b"a\nb\nc\n", 0o600).expect("writes");
        assert_eq!(tail(&path, 2), ["b", "c"]);
        assert_eq!(tail_from(&path, 4, 9), ["c"]);
        assert!(tail(&folder.path().join("none"), 2).is_empty());
    }
}
