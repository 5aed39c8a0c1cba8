// SPDX-License-Identifier: Apache-2.0
//! Finds the users of a directory, by whatever path they use it: the directory is known by the device of its file system and by its place in that
//! file system, in every mount namespace that can be seen. Also finds the users of a file or a block device, known by its numbers. It only calls
//! `readlink`, reads below `/proc` and `/sys`, and makes looks that do not ask a file system, because a file system may hang.

mod file;

pub use file::{file, open_or_attached};

use crate::Error;
use crate::mounts::{Everywhere, MountEntry, mounts_of, unescape};
use crate::process::{Identity, Sight, Unseen, look_at, look_into};
use rustix::fs::{Mode, OFlags, open};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use units::MapsLine;

/// The users of a directory or a file, and the processes that could not be looked into.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InUse {
    pub by: Vec<User>,
    pub unseen: Unseen,
}

/// Something that uses a directory or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum User {
    /// `path`: the path as the process sees it.
    Process { process: Identity, program: String, path: PathBuf, how: How },
    /// A loop device whose file is there.
    Loop { device: PathBuf, file: PathBuf },
    /// A swap file.
    Swap { file: PathBuf },
    /// The directory, or something below it, is also mounted at this path, as process `pid` sees it.
    Mount { target: PathBuf, pid: u32 },
    /// An overlay that is made of the directory, or of something below it, as process `pid` sees it: the overlay's users have no file open here.
    Overlay { target: PathBuf, pid: u32 },
}

/// How a process uses the directory or file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    Open,
    Mapped,
    /// Its working directory or its root.
    Stands,
}

impl User {
    /// Whether it is a process that has only its working directory or its root there.
    pub fn only_stands(&self) -> bool {
        matches!(self, Self::Process { how: How::Stands, .. })
    }

    /// The command that ends the use. `None`: the user is a process, and only its owner knows whether it may end; or the use is in another mount
    /// namespace.
    pub fn end(&self) -> Option<String> {
        let own = std::process::id();
        Some(match self {
            Self::Process { .. } => return None,
            Self::Loop { device, .. } => format!("`losetup -d {}`", device.display()),
            Self::Swap { file } => format!("`swapoff {}`", file.display()),
            Self::Mount { target, pid } | Self::Overlay { target, pid } if *pid == own => {
                format!("`umount {}`", target.display())
            }
            Self::Mount { .. } | Self::Overlay { .. } => return None,
        })
    }

    pub fn process(&self) -> Option<Identity> {
        if let Self::Process { process, .. } = self { Some(*process) } else { None }
    }
}

/// The text after "in use by".
impl fmt::Display for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { process, program, path, how } => {
                let does = match how {
                    How::Open => "has open",
                    How::Mapped => "has mapped",
                    How::Stands => "stands in",
                };
                write!(formatter, "process {} ({program}), which {does} {}", process.pid, path.display())
            }
            Self::Loop { device, file } => {
                write!(formatter, "{}, to which {} is attached", device.display(), file.display())
            }
            Self::Swap { file } => write!(formatter, "the kernel, which swaps to {}", file.display()),
            Self::Mount { target, pid } if *pid == std::process::id() => {
                write!(formatter, "a second mount of it, or of a folder in it, at {}", target.display())
            }
            Self::Mount { target, pid } => write!(
                formatter,
                "a second mount of it, or of a folder in it, at {} in the mount namespace of process {pid}",
                target.display()
            ),
            Self::Overlay { target, pid } => {
                write!(formatter, "the overlay at {}, which is made of it", target.display())?;
                if *pid == std::process::id() {
                    Ok(())
                } else {
                    write!(formatter, ", in the mount namespace of process {pid}")
                }
            }
        }
    }
}

/// A mount of the file system in question.
struct Way {
    id: u64,
    /// The mount point, as a path from the root of its namespace.
    target: PathBuf,
    /// The part of the file system that is mounted there.
    root: PathBuf,
    /// A process that sees the mount, and the path by which it sees it.
    pid: u32,
    seen_at: PathBuf,
    is_own: bool,
}

impl Way {
    /// The place in the file system of a path that leads through this mount.
    fn inside(&self, path: &Path) -> Option<PathBuf> {
        path.strip_prefix(&self.target).ok().map(|rest| self.root.join(rest))
    }
}

/// A directory, by its place in its file system. Its users are also found when something is mounted over its path after the look.
pub struct Place {
    inside: PathBuf,
    /// The device as in `mountinfo`: `98:0`.
    device: String,
    /// All mounts of that file system; of the other file systems' mounts, only their numbers and paths.
    ways: Vec<Way>,
    others: Vec<(u64, PathBuf, bool)>,
    overlays: Vec<Overlay>,
    own: u64,
}

/// A mount of an overlay, in any namespace.
struct Overlay {
    pid: u32,
    seen_at: PathBuf,
    /// The folders that it is made of, as paths from the root of its namespace.
    folders: Vec<PathBuf>,
}

impl Place {
    /// # Errors
    /// The directory is not there, or `/proc` does not show the mounts.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let path = path.canonicalize().map_err(|source| Error::path("look at", path, source))?;
        let everywhere = Everywhere::look()?;
        let own_mounts = &everywhere.namespaces[0].mounts;
        let by_number = look_at(&path).map(|it| it.stx_mnt_id);
        let mount = own_mounts
            .iter()
            .find(|mount| Some(mount.id) == by_number)
            .or_else(|| {
                own_mounts
                    .iter()
                    .filter(|mount| path.starts_with(&mount.target))
                    .max_by_key(|mount| depth(&mount.target))
            })
            .ok_or_else(|| Error::path("find the mount of", &path, std::io::ErrorKind::NotFound))?;
        let own = mount.id;
        let mut place = Self::on(mount.device.clone(), own);
        place.add_all(&everywhere);
        let way = place.ways.iter().find(|way| way.id == own);
        place.inside = way.and_then(|way| way.inside(&path)).unwrap_or(path);
        Ok(place)
    }

    /// Every user of the directory or of anything below it: by an open file, a mapping, a working directory or root, a loop device, a swap file, a second
    /// mount of it, or an overlay that is made of it. The caller is included.
    pub fn users(&self) -> InUse {
        self.users_with(&self.ways, &self.overlays)
    }

    /// The users of now, also when something is mounted over the directory since. Mounts and overlays are looked for anew; paths are still understood as
    /// they were at the first look.
    ///
    /// # Errors
    /// `/proc` does not show the mounts.
    pub fn users_again(&self) -> Result<InUse, Error> {
        let mut now = Self::on(self.device.clone(), self.own);
        now.add_all(&Everywhere::look()?);
        Ok(self.users_with(&now.ways, &now.overlays))
    }

    fn users_with(&self, ways: &[Way], overlays: &[Overlay]) -> InUse {
        let (processes, unseen) = users(&|pid| self.used_by(pid));
        let others = self.loops().chain(self.swaps()).chain(self.mounts(ways)).chain(self.overlays(overlays));
        InUse { by: processes.into_iter().chain(others).collect(), unseen }
    }

    /// A place in the file system of this device, without any mount yet.
    fn on(device: String, own: u64) -> Self {
        Self { inside: PathBuf::new(), device, ways: Vec::new(), others: Vec::new(), overlays: Vec::new(), own }
    }

    fn add_all(&mut self, everywhere: &Everywhere) {
        for namespace in &everywhere.namespaces {
            let base = root_of(namespace.pid);
            namespace.mounts.iter().for_each(|mount| self.add(mount, &base, namespace.pid, namespace.is_own));
        }
    }

    /// Whether a process stands in the directory. `link`: its `cwd` or `root` below `/proc`. A process that stands on a mount that was made after the look
    /// stands elsewhere.
    fn is_stood_in(&self, pid: u32, link: &Path, path: &Path) -> bool {
        let through = look_at(link).and_then(|it| self.leads_here(pid, it.stx_mnt_id, path));
        through.unwrap_or_else(|| self.is_by_path(path))
    }

    /// Whether a link of `/proc/PID` that goes through this mount leads to the directory or below it. `None`: the mount is in no table of that process.
    fn leads_here(&self, pid: u32, mount: u64, link: &Path) -> Option<bool> {
        self.is_through(mount, link).or_else(|| self.is_through_a_threads(pid, mount, link))
    }

    fn add(&mut self, mount: &MountEntry, base: &Path, pid: u32, is_own: bool) {
        let from_root = |path: &Path| base.join(path.strip_prefix("/").unwrap_or(path));
        let target = from_root(&mount.target);
        let folders: Vec<PathBuf> = mount.overlay_folders().iter().map(|folder| from_root(folder)).collect();
        if !folders.is_empty() {
            self.overlays.push(Overlay { pid, seen_at: mount.target.clone(), folders });
        }
        if mount.device == self.device {
            let (id, root) = (mount.id, mount.root.clone());
            self.ways.push(Way { id, target, root, pid, seen_at: mount.target.clone(), is_own });
        } else {
            self.others.push((mount.id, target, is_own));
        }
    }

    fn holds(&self, inside: &Path) -> bool {
        inside.starts_with(&self.inside)
    }

    /// The same for a mount of the look. `None`: it is none of them.
    fn is_through(&self, mount: u64, link: &Path) -> Option<bool> {
        match self.ways.iter().find(|way| way.id == mount) {
            Some(way) => Some(way.inside(link).is_some_and(|inside| self.holds(&inside))),
            None => self.others.iter().any(|(id, ..)| *id == mount).then_some(false),
        }
    }

    /// The same for a mount that was made after the look at the namespaces, or that a thread has in a namespace of its own.
    fn is_through_a_threads(&self, pid: u32, mount: u64, link: &Path) -> Option<bool> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let ids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
        ids.filter_map(|thread| {
            let found = mounts_of(thread).ok()?.into_iter().find(|entry| entry.id == mount)?;
            let rest = link.strip_prefix(root_of(thread).join(found.target.strip_prefix("/").ok()?)).ok()?;
            Some(found.device == self.device && self.holds(&found.root.join(rest)))
        })
        .next()
    }

    /// The same for a path whose mount is not known: through the mount with the longest matching path, of our namespace or of any other.
    fn is_by_path(&self, path: &Path) -> bool {
        let best = |is_own: bool| {
            let ways = self.ways.iter().filter(|way| way.is_own == is_own && path.starts_with(&way.target));
            let way = ways.max_by_key(|way| depth(&way.target))?;
            let others = self.others.iter().filter(|(_, target, own)| *own == is_own && path.starts_with(target));
            let is_covered = others.map(|(_, target, _)| depth(target)).max().is_some_and(|it| it > depth(&way.target));
            (!is_covered).then(|| way.inside(path)).flatten()
        };
        [true, false].into_iter().filter_map(best).any(|inside| self.holds(&inside))
    }

    fn is_device(&self, major: u32, minor: u32) -> bool {
        self.device == format!("{major}:{minor}")
    }

    /// The first use by a process.
    fn used_by(&self, pid: u32) -> std::io::Result<Option<(How, PathBuf)>> {
        for entry in fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
            let Ok(link) = fs::read_link(entry.path()) else { continue };
            if !link.is_absolute() {
                continue;
            }
            let number = entry.file_name().to_string_lossy().into_owned();
            let is_it = match mount_of(pid, &number) {
                None => self.is_by_path(&link),
                // the place of a lazily unmounted mount is not known
                Some(mount) => {
                    self.leads_here(pid, mount, &link).unwrap_or_else(|| self.is_of_unknown_mount(&entry.path()))
                }
            };
            if is_it {
                return Ok(Some((How::Open, link)));
            }
        }
        if let Some(path) = self.mapped_by(pid) {
            return Ok(Some((How::Mapped, path)));
        }
        for name in ["cwd", "root"] {
            let link = PathBuf::from(format!("/proc/{pid}/{name}"));
            let path = fs::read_link(&link)?;
            if self.is_stood_in(pid, &link, &path) {
                return Ok(Some((How::Stands, path)));
            }
        }
        Ok(None)
    }

    /// Whether the file of a descriptor, whose mount was in no table, is of this file system. By now the number of the descriptor may belong to another file:
    /// so the file is held while it is looked at, and where its mount is in a table, the mount decides.
    fn is_of_unknown_mount(&self, descriptor: &Path) -> bool {
        let is_here = |path: &Path| look_at(path).is_some_and(|it| self.is_device(it.stx_dev_major, it.stx_dev_minor));
        let Ok(held) = open(descriptor, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
            return is_here(descriptor);
        };
        let number = held.as_raw_fd().to_string();
        let file = Path::new("/proc/self/fd").join(&number);
        let mount = mount_of(std::process::id(), &number);
        let through = fs::read_link(&file).ok().zip(mount).and_then(|(link, mount)| self.is_through(mount, &link));
        through.unwrap_or_else(|| is_here(&file))
    }

    /// The first mapped file there.
    fn mapped_by(&self, pid: u32) -> Option<PathBuf> {
        let text = fs::read(format!("/proc/{pid}/maps")).ok()?;
        let mut last = PathBuf::new();
        String::from_utf8_lossy(&text).lines().find_map(|line| {
            let line = MapsLine::parse(line)?;
            let numbers = line.device_numbers()?;
            let path = PathBuf::from(line.path()?);
            let is_new = self.is_device(numbers.0, numbers.1) && path != last;
            last.clone_from(&path);
            (is_new && self.is_by_path(&path)).then_some(path)
        })
    }

    fn loops(&self) -> impl Iterator<Item = User> {
        let attached = crate::change::loop_device::backing_files().into_iter();
        attached.filter(|(_, file)| self.is_by_path(file)).map(|(device, file)| User::Loop { device, file })
    }

    fn swaps(&self) -> impl Iterator<Item = User> {
        swaps().into_iter().filter(|file| self.is_by_path(file)).map(|file| User::Swap { file })
    }

    /// Mounts of the directory, or of a folder in it. A mount of a folder above it does not count: every mount namespace has a mount of its root.
    fn mounts(&self, ways: &[Way]) -> impl Iterator<Item = User> {
        let ways = ways.iter().filter(|way| way.id != self.own && self.holds(&way.root));
        ways.map(|way| User::Mount { target: way.seen_at.clone(), pid: way.pid })
    }

    /// Overlays that are made of the directory, or of a folder in it.
    fn overlays(&self, overlays: &[Overlay]) -> impl Iterator<Item = User> {
        let made_of_it = |overlay: &&Overlay| overlay.folders.iter().any(|folder| self.is_by_path(folder));
        let overlays = overlays.iter().filter(made_of_it);
        overlays.map(|overlay| User::Overlay { target: overlay.seen_at.clone(), pid: overlay.pid })
    }
}

/// The files and devices that the kernel swaps to, each by its path in `/proc/swaps`.
pub fn swaps() -> Vec<PathBuf> {
    let text = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let first = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    first.map(|path| PathBuf::from(OsString::from_vec(unescape(path)))).collect()
}

/// The root directory of a process or a thread.
fn root_of(pid: u32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/root")).unwrap_or_else(|_| "/".into())
}

fn depth(path: &Path) -> usize {
    path.components().count()
}

/// The number of the mount through which a file was opened: `mnt_id` in `/proc/PID/fdinfo/N`.
fn mount_of(pid: u32, number: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// The users of a directory at this moment.
///
/// # Errors
/// The directory is not there, or `/proc` does not show the mounts.
pub fn below(directory: &Path) -> Result<InUse, Error> {
    Place::of(directory).map(|place| place.users())
}

/// Every live process for which `used_by` returns a use, and those that could not be looked into.
fn users(used_by: &dyn Fn(u32) -> std::io::Result<Option<(How, PathBuf)>>) -> (Vec<User>, Unseen) {
    let uses: RefCell<BTreeMap<u32, (How, PathBuf)>> = RefCell::default();
    let Sight { found, unseen } = look_into(&|pid| {
        let used = used_by(pid)?;
        Ok(used.is_some_and(|used| uses.borrow_mut().insert(pid, used).is_none()))
    });
    let mut uses = uses.into_inner();
    let program = |pid: u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
    let processes = found.into_iter().filter_map(|process| {
        let (how, path) = uses.remove(&process.pid)?;
        Some(User::Process { process, program: program(process.pid), path, how })
    });
    (processes.collect(), unseen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::{MountPropagationFlags, mount_change};
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    use std::fs::File;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    #[allow(clippy::expect_used)]
    fn a_file_that_a_thread_opened_in_a_mount_namespace_of_its_own_uses_its_own_folder_alone() {
        let home = tempfile::tempdir().expect("a folder");
        let (used, other) = (home.path().join("used"), home.path().join("other"));
        for folder in [&used, &other] {
            crate::files::private_dir(folder, 0o700).expect("makes");
        }
        crate::files::write_atomic(&used.join("file"), b"1", 0o600).expect("writes");
        let in_thread = std::thread::spawn(move || {
            // SAFETY: the thread stops sharing the mount namespace, and with it the working directory, and nothing else
            if unsafe { unshare_unsafe(UnshareFlags::NEWNS) }.is_err() {
                testkit::skip!("no right to mount");
            }
            mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).expect("makes private");
            let opened = File::open(used.join("file")).expect("opens");
            let link = fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).expect("is open");
            let ours = |directory: &Path| {
                let users = below(directory).expect("looks").by;
                users.into_iter().find_map(|user| match user {
                    User::Process { process, path, .. } if process.pid == std::process::id() => Some(path),
                    _ => None,
                })
            };
            assert!(ours(&used).is_some(), "it has {opened:?} open");
            // another test of this process may have a file open whose mount is gone: such a file may lie anywhere
            assert_ne!(ours(&other), Some(link), "{opened:?} lies in another folder of the same file system");
        });
        in_thread.join().expect("no panic");
    }

    /// A browser opens and closes files all the time: its descriptor was of shared memory when its mount was looked up, and of a file on the disk afterwards.
    #[test]
    #[allow(clippy::expect_used)]
    fn a_descriptor_whose_number_belongs_to_another_file_meanwhile_uses_nothing() {
        const NAME: &str = "wringer-in-use";
        let home = tempfile::tempdir().expect("a folder");
        let used = home.path().join("used");
        crate::files::private_dir(&used, 0o700).expect("makes");
        let file = home.path().join("elsewhere");
        crate::files::write_atomic(&file, b"1", 0o600).expect("writes");
        let on_disk = File::open(&file).expect("opens");
        let memory = rustix::fs::memfd_create(NAME, rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        let mut slot = rustix::io::dup(&memory).expect("a descriptor");
        let place = Place::of(&used).expect("looks");
        let end = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    rustix::io::dup2(&on_disk, &mut slot).expect("the file");
                    rustix::io::dup2(&memory, &mut slot).expect("the memory");
                }
            });
            let began = Instant::now();
            let is_ours = |path: &Path| path.to_string_lossy().contains(NAME) || path == file;
            let mut found = None;
            while found.is_none() && began.elapsed() < Duration::from_millis(700) {
                let used = place.used_by(std::process::id()).expect("our own");
                found = used.filter(|(_, path)| is_ours(path));
            }
            end.store(true, Ordering::Relaxed);
            assert_eq!(found.map(|(_, path)| path), None, "neither of them is in the folder");
        });
    }
}
