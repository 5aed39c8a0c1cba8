// SPDX-License-Identifier: Apache-2.0
//! Folders and files that nobody but root and the caller can have written or can exchange. Only from such a place does Wringer read a file on which
//! it acts, such as a journal. Every folder from `/` down is opened relative to the one above it and checked by its descriptor. A link on the path is
//! read, and its target is walked in the same way.
//!
//! A folder is safe when it belongs to root or to the caller and nobody else can write in it. There are two exceptions. In a sticky folder, such as
//! `/tmp`, nobody can exchange what belongs to somebody else. And a folder may be writable for the caller's own private group (`umask 002`, as Debian
//! and Fedora set it up), which has no other member.

use crate::Error;
use crate::distrust::Distrust;
use crate::user_names::{entries, id};
use rustix::fd::{AsFd, AsRawFd as _, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

/// A safe folder that is open.
#[derive(Debug)]
pub struct SafeFolder {
    /// The path with every link resolved. Nobody but root and the caller can make it lead to another folder.
    pub path: PathBuf,
    pub owner: u32,
    folder: OwnedFd,
}

impl SafeFolder {
    /// Whether it belongs to the caller.
    pub fn is_own(&self) -> bool {
        self.owner == own_uid()
    }
}

/// Opens a folder that is safe. `None`: there is no such folder.
///
/// # Errors
/// [`Error::Untrusted`] names what is not safe: the folder itself, one above it, or a link on the path.
pub fn safe_folder(path: &Path) -> Result<Option<SafeFolder>, Error> {
    let walked = walk(path)?;
    if !walked.missing.is_empty() {
        return Ok(None);
    }
    walked.last(path).map(Some)
}

/// Whether programs, libraries and settings in this folder may be used: root uses none that another user can have put there. Any other user decides for
/// herself.
///
/// # Errors
/// The errors of [`safe_folder`], for root alone.
pub fn check_usable(folder: &Path) -> Result<(), Error> {
    if rustix::process::geteuid().is_root() { safe_folder(folder).map(drop) } else { Ok(()) }
}

/// As [`check_usable`], for one program or library, at a path without links.
///
/// # Errors
/// The errors of [`safe_folder`] and of [`open_safe`], for root alone.
pub fn check_usable_file(file: &Path) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    safe_folder(file.parent().unwrap_or(Path::new("/")))?;
    open_safe(file, false).map(drop)
}

/// As [`safe_folder`], but makes missing folders, the last one and those above it; the last one has exactly this mode then.
///
/// # Errors
/// The errors of [`safe_folder`]; the folder belongs to somebody else than the caller; it cannot be made.
pub fn own_folder(path: &Path, mode: u32) -> Result<SafeFolder, Error> {
    let mut walked = walk(path)?;
    while let Some(name) = walked.missing.pop_front() {
        let new = walked.path().join(&name);
        let mode = if walked.missing.is_empty() { mode } else { 0o755 };
        match mkdirat(walked.folder(), &name, Mode::from_raw_mode(mode)) {
            // another program made it first: the owner is checked below
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(Error::path("make folder", &new, errno)),
        }
        walked.enter(&name)?;
    }
    let own = walked.last(path)?;
    if !own.is_own() {
        return Err(Error::Untrusted { path: own.path, why: Distrust::Owner(own.owner) });
    }
    let fail = |errno: Errno| Error::path("set the mode of", path, errno);
    let folder = openat(&own.folder, c".", FOLDER, Mode::empty()).map_err(fail)?;
    fchmod(&folder, Mode::from_raw_mode(mode)).map_err(fail)?;
    Ok(own)
}

/// Opens a regular file to read, or to read and write. It must belong to root or to the caller, nobody else may be able to write it, and it must be
/// no link. A FIFO or a device in its place does not make the open wait.
///
/// # Errors
/// [`Error::Untrusted`]; the file is missing, or cannot be opened.
pub fn open_safe(path: &Path, write: bool) -> Result<File, Error> {
    let access = if write { OFlags::RDWR } else { OFlags::RDONLY };
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let fail = |errno: Errno| Error::path("open", path, errno);
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(fail)?);
    let stat = fstat(&file).map_err(fail)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(fail(Errno::INVAL));
    }
    let why = match (owner_trouble(stat.st_uid, false), stat.st_mode) {
        (Some(why), _) => Some(why),
        (None, mode) if mode & 0o002 != 0 => Some(Distrust::Everybody),
        (None, mode) if mode & 0o020 != 0 && !is_private_group(&file, &stat) => Some(Distrust::Group(stat.st_gid)),
        (None, _) => None,
    };
    match why {
        Some(why) => Err(Error::Untrusted { path: path.to_owned(), why }),
        None => Ok(file),
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The same limit as the kernel's (path_resolution(7)).
const LINKS_MAX: u32 = 40;

/// The part of a path that exists.
struct Walked {
    /// The folders from `/` down, each with its name.
    folders: Vec<(OwnedFd, OsString, Stat)>,
    links: u32,
    /// The names that are not there, from the first missing one on.
    missing: VecDeque<OsString>,
}

fn walk(path: &Path) -> Result<Walked, Error> {
    let absolute = std::path::absolute(path).map_err(|source| Error::path("look at", path, source))?;
    let root = rustix::fs::open("/", LOOK | OFlags::DIRECTORY, Mode::empty())
        .map_err(|errno| Error::path("open folder", "/", errno))?;
    let stat = check_folder(&root, Path::new("/"))?;
    let mut walked =
        Walked { folders: vec![(root, OsString::new(), stat)], links: 0, missing: names(&absolute).collect() };
    while let Some(name) = walked.missing.pop_front() {
        if !walked.enter(&name)? {
            walked.missing.push_front(name);
            break;
        }
    }
    // a name `..` after a missing one cannot be resolved
    if walked.missing.iter().any(|name| name == "..") {
        return Err(Error::path("look at", path, Errno::NOENT));
    }
    Ok(walked)
}

/// The names of a path, without `/` and `.`.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    };
    path.components().filter_map(name)
}

impl Walked {
    fn path(&self) -> PathBuf {
        let names: PathBuf = self.folders.iter().skip(1).map(|(_, name, _)| name).collect();
        Path::new("/").join(names)
    }

    fn folder(&self) -> rustix::fd::BorrowedFd<'_> {
        self.folders[self.folders.len() - 1].0.as_fd()
    }

    /// Goes one name further; `false` when the name is not there. The target of a link is put before the names that are still to be walked.
    fn enter(&mut self, name: &OsStr) -> Result<bool, Error> {
        if name == ".." {
            self.folders.truncate((self.folders.len() - 1).max(1));
            return Ok(true);
        }
        let path = self.path().join(name);
        let fail = |errno: Errno| Error::path("look at", &path, errno);
        let found = match openat(self.folder(), name, LOOK, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(false),
            other => other.map_err(fail)?,
        };
        let stat = fstat(&found).map_err(fail)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let stat = check_folder(&found, &path)?;
                self.folders.push((found, name.to_owned(), stat));
                Ok(true)
            }
            FileType::Symlink => {
                if let Some(why) = owner_trouble(stat.st_uid, true) {
                    return Err(Error::Untrusted { path, why });
                }
                self.links += 1;
                if self.links > LINKS_MAX {
                    return Err(fail(Errno::LOOP));
                }
                let target = readlinkat(&found, c"", Vec::new()).map_err(fail)?;
                let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
                if target.is_absolute() {
                    self.folders.truncate(1);
                }
                names(&target).rev().for_each(|name| self.missing.push_front(name));
                Ok(true)
            }
            _ => Err(fail(Errno::NOTDIR)),
        }
    }

    /// The folder to which the path leads. Files in it count as the owner's because of their place, so the folder must be closed to others even if it
    /// is sticky, and its owner must be known.
    fn last(mut self, path: &Path) -> Result<SafeFolder, Error> {
        let whole = self.path();
        let Some((folder, _, stat)) = self.folders.pop() else {
            return Err(Error::path("look at", path, Errno::NOENT));
        };
        let why = match owner_trouble(stat.st_uid, false) {
            Some(why) => Some(why),
            None if stat.st_mode & 0o002 != 0 => Some(Distrust::Everybody),
            None => None,
        };
        match why {
            Some(why) => Err(Error::Untrusted { path: whole, why }),
            None => Ok(SafeFolder { path: whole, owner: stat.st_uid, folder }),
        }
    }
}

/// Checks whether anybody but root and the caller can rename or exchange the content of this folder.
fn check_folder(folder: &OwnedFd, path: &Path) -> Result<Stat, Error> {
    let stat = fstat(folder).map_err(|errno| Error::path("look at", path, errno))?;
    let is_sticky = stat.st_mode & 0o1000 != 0;
    let why = match owner_trouble(stat.st_uid, true) {
        Some(why) => Some(why),
        None if is_sticky => None,
        None if stat.st_mode & 0o002 != 0 => Some(Distrust::Everybody),
        None if stat.st_mode & 0o020 != 0 && !is_private_group(folder, &stat) => Some(Distrust::Group(stat.st_gid)),
        None => None,
    };
    match why {
        Some(why) => Err(Error::Untrusted { path: path.to_owned(), why }),
        None => Ok(stat),
    }
}

/// The user with whose rights the program acts.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// In a user namespace that does not map root, files of root and of every other unmapped user show the overflow uid. A folder above the wanted one
/// that shows the overflow uid counts as root's, as `/` does. Outside of such a namespace the overflow uid is a user like any other.
fn owner_trouble(uid: u32, in_the_way: bool) -> Option<Distrust> {
    if uid == 0 || uid == own_uid() {
        return None;
    }
    match is_unmapped(uid) {
        Some(false) => Some(Distrust::Owner(uid)),
        Some(true) => (!in_the_way).then_some(Distrust::UnknownOwner),
        None => Some(Distrust::UnknownOwner),
    }
}

/// Whether this uid stands for all users that this user namespace does not map. `None`: unknown, because `/proc` cannot be read.
fn is_unmapped(uid: u32) -> Option<bool> {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let overflow = read("/proc/sys/kernel/overflowuid").trim().parse().unwrap_or(65_534);
    let maps = |line: &str| {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().unwrap_or_default());
        let (first, count) = (numbers.next().unwrap_or_default(), numbers.nth(1).unwrap_or_default());
        (first..first + count).contains(&u64::from(uid))
    };
    if uid != overflow {
        return Some(false);
    }
    let map = read("/proc/self/uid_map");
    (!map.is_empty()).then(|| !map.lines().any(maps))
}

/// Whether the group that can write this file or folder is the caller's alone: it is the caller's own first group, it has the caller's name, it has
/// no other member, and no access list lets others in (the mask of such a list shows as the group's permission). A group that is not in `/etc/group`,
/// because it comes from a directory service, counts as private when its number is that of the user.
fn is_private_group(file: impl AsFd, stat: &Stat) -> bool {
    let (uid, gid) = (own_uid(), rustix::process::getegid().as_raw());
    if stat.st_gid != gid || has_access_list(file) {
        return false;
    }
    let users = entries("/etc/passwd");
    let own: Vec<&str> = users.iter().filter(|it| id(it) == Some(uid)).map(|it| it[0].as_str()).collect();
    let others = users.iter().any(|it| it.get(3).and_then(|gid| gid.parse().ok()) == Some(gid) && id(it) != Some(uid));
    let groups = entries("/etc/group");
    let mut of_gid = groups.iter().filter(|it| id(it) == Some(gid)).peekable();
    if of_gid.peek().is_none() {
        return !others && uid == gid;
    }
    let is_own = |name: &str| own.contains(&name);
    let members = |group: &Vec<String>| {
        let members = group.get(3).map(String::as_str).unwrap_or_default();
        members.split(',').filter(|name| !name.is_empty()).all(is_own)
    };
    !others && of_gid.all(|group| is_own(&group[0]) && members(group))
}

fn has_access_list(file: impl AsFd) -> bool {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    rustix::fs::getxattr(&path, c"system.posix_acl_access", &mut [0_u8; 0]).is_ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

    /// Another user, whose number has no name on this machine.
    const STRANGER: u32 = 12_345;

    fn home() -> tempfile::TempDir {
        tempfile::Builder::new().prefix("wringer-trust-").tempdir_in("/tmp").expect("a folder in a sticky one")
    }

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("sets the mode");
    }

    fn why(path: &Path) -> Option<Distrust> {
        match safe_folder(path) {
            Err(Error::Untrusted { why, .. }) => Some(why),
            Ok(_) => None,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn what_is_missing_is_made_and_is_our_own() {
        let home = home();
        let wanted = home.path().join("a/b/c");
        assert!(safe_folder(&wanted).expect("looks").is_none());
        let made = own_folder(&wanted, 0o700).expect("makes");
        assert!(made.is_own() && made.path.ends_with("a/b/c"));
        let bits = |path: &Path| fs::metadata(path).expect("is there").mode() & 0o7777;
        assert_eq!(bits(&wanted), 0o700);
        assert_eq!(bits(&home.path().join("a/b")) & 0o022, 0);
        own_folder(&wanted, 0o711).expect("is there");
        assert_eq!(bits(&wanted), 0o711);
        fs::write(home.path().join("file"), "x").expect("writes");
        assert!(own_folder(&home.path().join("file/below"), 0o700).is_err(), "a file is no folder");
    }

    #[test]
    fn others_may_write_in_no_folder_on_the_way() {
        let home = home();
        let way = home.path().join("way");
        own_folder(&way.join("journal"), 0o700).expect("makes");
        mode(&way, 0o777);
        assert_eq!(why(&way.join("journal")), Some(Distrust::Everybody));
        assert!(matches!(own_folder(&way.join("new"), 0o700), Err(Error::Untrusted { .. })));
        assert!(!way.join("new").exists(), "nothing was made there");
        mode(&way, 0o1777);
        assert_eq!(why(&way.join("journal")), None, "sticky: nobody else can exchange what is ours");
        mode(&way, 0o755);
        mode(&way.join("journal"), 0o1777);
        assert_eq!(why(&way.join("journal")), Some(Distrust::Everybody), "others could put a journal into it");
    }

    #[test]
    fn a_link_of_ours_is_followed_and_looked_at() {
        let home = home();
        let [real, open] = ["real", "open"].map(|name| home.path().join(name));
        own_folder(&real.join("journal"), 0o700).expect("makes");
        own_folder(&open.join("journal"), 0o700).expect("makes");
        mode(&open, 0o777);
        symlink("real/../real", home.path().join("relative")).expect("links");
        symlink(&open, home.path().join("absolute")).expect("links");
        symlink("circle", home.path().join("circle")).expect("links");
        symlink("real/none", home.path().join("dangling")).expect("links");
        let found = safe_folder(&home.path().join("relative/journal")).expect("looks").expect("is there");
        assert_eq!(found.path, fs::canonicalize(real.join("journal")).expect("resolves"));
        assert_eq!(why(&home.path().join("absolute/journal")), Some(Distrust::Everybody));
        assert!(safe_folder(&home.path().join("circle")).is_err());
        assert!(safe_folder(&home.path().join("dangling")).expect("looks").is_none());
        own_folder(&home.path().join("dangling/journal"), 0o700).expect("makes the link's target");
        assert!(real.join("none/journal").is_dir());
    }

    #[test]
    fn a_stranger_s_folder_link_or_file_is_not_acted_upon() {
        if !rustix::process::geteuid().is_root() {
            testkit::skip!("needs root");
        }
        let home = home();
        let theirs = home.path().join("theirs");
        own_folder(&theirs.join("journal"), 0o700).expect("makes");
        chown(&theirs, Some(STRANGER), Some(STRANGER)).expect("gives away");
        let owner = Some(Distrust::Owner(STRANGER));
        assert_eq!(why(&theirs.join("journal")), owner, "they could exchange it");
        assert!(own_folder(&theirs.join("new"), 0o700).is_err() && !theirs.join("new").exists());
        mode(&theirs, 0o1777);
        assert_eq!(why(&theirs.join("journal")), owner, "the owner of a sticky folder can exchange what is in it");
        let link = home.path().join("link");
        symlink(home.path(), &link).expect("links");
        assert_eq!(why(&link), None);
        std::os::unix::fs::lchown(&link, Some(STRANGER), Some(STRANGER)).expect("gives away");
        assert_eq!(why(&link), owner, "they could point it elsewhere");
        // in the first user namespace the overflow uid is a user like any other
        chown(&theirs, Some(65_534), None).expect("gives away");
        assert_eq!(why(&theirs.join("journal")), Some(Distrust::Owner(65_534)));

        let file = home.path().join("file");
        fs::write(&file, "x").expect("writes");
        open_safe(&file, true).expect("ours");
        symlink(&file, home.path().join("to-file")).expect("links");
        assert!(open_safe(&home.path().join("to-file"), false).is_err());
        mode(&file, 0o666);
        assert!(matches!(open_safe(&file, false), Err(Error::Untrusted { why: Distrust::Everybody, .. })));
        mode(&file, 0o600);
        chown(&file, Some(STRANGER), None).expect("gives away");
        assert!(matches!(open_safe(&file, false), Err(Error::Untrusted { why: Distrust::Owner(STRANGER), .. })));
        rustix::fs::mkfifoat(rustix::fs::CWD, home.path().join("fifo"), Mode::from_raw_mode(0o600)).expect("makes");
        assert!(open_safe(&home.path().join("fifo"), false).is_err(), "and it does not wait for a writer");
    }

    #[test]
    fn a_group_that_others_are_in_may_not_write() {
        let home = home();
        let way = home.path().join("way");
        own_folder(&way.join("journal"), 0o700).expect("makes");
        mode(&way, 0o775);
        // only root is in root's group, and only the user in a private one; the user nobody has a group of its own on Debian, too
        let own = fs::metadata(&way).expect("is there").gid();
        if rustix::process::geteuid().is_root() {
            assert_eq!((own, why(&way.join("journal"))), (0, None));
            chown(&way, None, Some(STRANGER)).expect("gives away");
            assert_eq!(why(&way.join("journal")), Some(Distrust::Group(STRANGER)));
        }
    }
}
