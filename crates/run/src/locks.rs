// SPDX-License-Identifier: Apache-2.0
//! Locks that the kernel frees when their last holder dies: flock(2) on open file descriptions. Lock files are never removed: otherwise two processes
//! could hold "the same" lock on two files.

use crate::Error;
use crate::folder::{self, host_locks, locks};
use host::files;
use host::places::Places;
use host::process::holders_of;
use journal::RunId;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often a lock is tried before it counts as held.
const LOOKS: u32 = 5;

/// A resource that only one run may use at a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    HostRam,
    /// Pages of the pool that are for a server; a run that takes them holds [`Resource::HostRam`], too.
    HugePages,
    /// A directory whose storage is squeezed.
    Directory(PathBuf),
    /// A block device that is squeezed.
    Device(PathBuf),
    /// A file that is squeezed as a disk.
    Image(PathBuf),
    /// A sandbox, by name.
    Sandbox(String),
    /// The stalls that are planted in a sandbox, by its name: the run of its server holds the sandbox.
    Injection(String),
}

impl Resource {
    /// The path of its lock file. A sandbox belongs to its home; RAM and directories belong to the host.
    fn lock_path(&self, places: &Places) -> Result<PathBuf, Error> {
        let folder = match self {
            Self::HostRam | Self::HugePages | Self::Directory(_) | Self::Device(_) | Self::Image(_) => {
                host_locks(places)?
            }
            Self::Sandbox(_) | Self::Injection(_) => locks(places),
        };
        Ok(folder.join(self.lock_name()))
    }

    /// The name of the lock file. The device and inode identify a directory, so that a second path to it cannot bypass the lock.
    pub(crate) fn lock_name(&self) -> String {
        match self {
            Self::HostRam => "host-ram".to_owned(),
            Self::HugePages => "huge-pages".to_owned(),
            Self::Directory(path) => match std::fs::metadata(path) {
                Ok(metadata) => format!("directory-{:x}-{:x}", metadata.dev(), metadata.ino()),
                Err(_) => format!("directory-{}", plain(&path.to_string_lossy())),
            },
            Self::Device(path) => match std::fs::metadata(path) {
                Ok(metadata) => format!("device-{:x}", metadata.rdev()),
                Err(_) => format!("device-{}", plain(&path.to_string_lossy())),
            },
            Self::Image(path) => match std::fs::metadata(path) {
                Ok(metadata) => format!("image-{:x}-{:x}", metadata.dev(), metadata.ino()),
                Err(_) => format!("image-{}", plain(&path.to_string_lossy())),
            },
            Self::Sandbox(name) => format!("sandbox-{}", plain(name)),
            Self::Injection(name) => format!("injection-{}", plain(name)),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostRam => formatter.write_str("the host's RAM"),
            Self::HugePages => formatter.write_str("the host's huge pages"),
            Self::Directory(path) => write!(formatter, "directory {}", path.display()),
            Self::Device(path) => write!(formatter, "device {}", path.display()),
            Self::Image(path) => write!(formatter, "image {}", path.display()),
            Self::Sandbox(name) => write!(formatter, "sandbox {name}"),
            Self::Injection(name) => write!(formatter, "the planting of stalls in sandbox {name}"),
        }
    }
}

/// A file name for any text: a byte that is not a letter, digit, dot, dash or underscore becomes `%XX`.
fn plain(text: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    text.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// Takes the locks of `resources` in the given order, and writes the owner into each lock file.
pub(crate) fn take_resources(places: &Places, resources: &[Resource], owner: &RunId) -> Result<Vec<File>, Error> {
    resources.iter().map(|resource| take_resource(places, resource, owner)).collect()
}

fn take_resource(places: &Places, resource: &Resource, owner: &RunId) -> Result<File, Error> {
    take_with(places, resource, &format!("{owner}\n{resource}\n{}\n", places.journal.display()))
}

/// Takes the lock, and writes this text into its file.
fn take_with(places: &Places, resource: &Resource, text: &str) -> Result<File, Error> {
    let file = free(places, resource)?;
    files::rewrite(&file, text).map_err(|source| Error::Lock {
        operation: "write into lock",
        path: resource.lock_path(places).unwrap_or_default(),
        source,
    })?;
    Ok(file)
}

/// Refuses, before anything is started, if another run holds the resource.
///
/// # Errors
/// [`Error::Busy`] with the run that holds it.
pub fn require_free(places: &Places, resource: &Resource) -> Result<(), Error> {
    folder::make(places)?;
    free(places, resource).map(drop)
}

/// Resources that are held without a run, until this value is dropped.
#[derive(Debug)]
pub struct Held(#[allow(dead_code)] Vec<File>);

/// Holds resources without a run, for a change that nobody has to undo.
///
/// # Errors
/// [`Error::Busy`] with the run that holds one of them.
pub fn hold(places: &Places, resources: &[Resource]) -> Result<Held, Error> {
    folder::make(places)?;
    // an empty text: the run that held it before is not its holder now
    let hold = |resource| take_with(places, resource, "");
    Ok(Held(resources.iter().map(hold).collect::<Result<_, _>>()?))
}

/// Takes the lock. It tries several times: other processes hold the lock for a moment while they check it.
fn free(places: &Places, resource: &Resource) -> Result<File, Error> {
    let path = resource.lock_path(places)?;
    let mut file = files::open_lock(&path)?;
    for _ in 0..LOOKS {
        if try_lock(&file, &path)? {
            return Ok(file);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let (owner, journal) = written_owner(&mut file).unzip();
    Err(Error::Busy {
        resource: resource.to_string(),
        owner,
        journal: journal.filter(|journal| *journal != places.journal),
    })
}

/// A lock: as long as this value lives, nobody else on this host measures one run after another. The kernel frees the lock when its holder dies.
#[derive(Debug)]
pub struct Measuring(#[allow(dead_code)] File);

/// Takes the host's one lock for measurements that take hours. `who`: the text that a second caller gets.
///
/// # Errors
/// [`Error::Measured`] with the text of the holder.
pub fn measuring(places: &Places, who: &str) -> Result<Measuring, Error> {
    folder::make(places)?;
    only_one(&host_locks(places)?.join("measuring"), who)
}

fn only_one(path: &Path, who: &str) -> Result<Measuring, Error> {
    let mut file = files::open_lock(path)?;
    for _ in 0..LOOKS {
        if try_lock(&file, path)? {
            files::rewrite(&file, who).map_err(|source| Error::Lock {
                operation: "write into lock",
                path: path.to_owned(),
                source,
            })?;
            return Ok(Measuring(file));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(Error::Measured { who: written_name(&mut file) })
}

fn written_name(file: &mut File) -> String {
    let mut who = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut who));
    if who.is_empty() { "another one".into() } else { who }
}

/// Who holds the lock of [`measuring`], in the words of the holder. `None`: nobody, or it cannot be known.
pub fn measured_by(places: &Places) -> Option<String> {
    who_measures(&host_locks(places).ok()?.join("measuring"))
}

fn who_measures(path: &Path) -> Option<String> {
    look(path).ok().filter(|is_held| *is_held)?;
    Some(written_name(&mut File::open(path).ok()?))
}

/// The holder of the resource, in words; `None`: nobody. Holds the lock itself only for the moment of the check, and makes no file.
///
/// # Errors
/// It cannot be known.
pub fn holder(places: &Places, resource: &Resource) -> Result<Option<String>, Error> {
    let path = resource.lock_path(places)?;
    for _ in 0..LOOKS {
        if !look(&path).map_err(|source| Error::Lock { operation: "look at lock", path: path.clone(), source })? {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let owner = File::open(&path).ok().and_then(|mut file| written_owner(&mut file));
    Ok(Some(owner.map_or_else(|| "a run".to_owned(), |(run, _)| format!("run {run}"))))
}

/// The run, and the folder of its journal, as the lock file tells.
fn written_owner(file: &mut File) -> Option<(RunId, PathBuf)> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.read_to_string(&mut text).ok()?;
    let mut lines = text.lines();
    Some((lines.next()?.parse().ok()?, lines.nth(1)?.into()))
}

/// How long a command may take to begin a run before others that wait for it give up: it may have been stopped.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

/// The lock for beginning a run and for removing old folders: one process at a time does that. `give_up` ends the wait when it returns true; a second Ctrl-C
/// ends it in any case.
///
/// # Errors
/// [`Error::Refused`] with the process that holds it; [`host::Error::Interrupted`].
pub(crate) fn begin_lock(places: &Places, give_up: fn() -> bool) -> Result<File, Error> {
    begin_lock_within(&locks(places).join("begin"), BEGINS_WITHIN, give_up)
}

fn begin_lock_within(path: &Path, timeout: Duration, give_up: fn() -> bool) -> Result<File, Error> {
    if let Some(file) = lock_unless(files::open_lock(path)?, path, timeout, &mut || give_up())? {
        return Ok(file);
    }
    if give_up() || host::interrupt::impatient() {
        return Err(host::Error::Interrupted.into());
    }
    let pids: Vec<String> = holders_of(path).found.iter().map(|holder| holder.pid.to_string()).collect();
    let (who, hint) = match pids.as_slice() {
        [] => ("a process that cannot be seen from here".to_owned(), None),
        pids => (
            format!("process {}", pids.join(" ")),
            Some(format!("let it go on, or end it: kill -CONT {0}; kill {0}", pids.join(" "))),
        ),
    };
    let what = format!("another command has been beginning a run, or removing one, for {} s: {who}", timeout.as_secs());
    Err(Error::Refused { what, hint })
}

pub(crate) fn lock(file: &File, path: &Path) -> Result<(), Error> {
    loop {
        match flock(file, FlockOperation::LockExclusive) {
            Err(Errno::INTR) => {}
            other => return other.map_err(|errno| failed("lock", path, errno)),
        }
    }
}

/// Takes the lock if it is free; returns whether we hold it now.
pub(crate) fn try_lock(file: &File, path: &Path) -> Result<bool, Error> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(failed("lock", path, errno)),
    }
}

/// Takes the lock when it becomes free within `timeout`; a second Ctrl-C ends the wait.
pub(crate) fn lock_within(path: &Path, timeout: Duration) -> Result<Option<File>, Error> {
    opened(path)?.map_or(Ok(None), |file| lock_unless(file, path, timeout, &mut || false))
}

/// Opens the lock's file; `None` where its folder is gone.
pub(crate) fn opened(path: &Path) -> Result<Option<File>, Error> {
    match files::open_lock(path) {
        Err(error) if error.errno() == Some(libc::ENOENT) => Ok(None),
        other => Ok(Some(other?)),
    }
}

/// Takes the lock of an opened file. `give_up` is called again and again, and ends the wait when it returns true.
pub(crate) fn lock_unless(
    file: File,
    path: &Path,
    timeout: Duration,
    give_up: &mut dyn FnMut() -> bool,
) -> Result<Option<File>, Error> {
    let deadline = Instant::now() + timeout;
    while !try_lock(&file, path)? {
        if Instant::now() >= deadline || host::interrupt::impatient() || give_up() {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Some(file))
}

/// Whether somebody holds the lock. The check itself holds it only for a moment.
pub(crate) fn is_held(path: &Path) -> bool {
    look(path).unwrap_or(false)
}

/// The same; a missing file counts as not locked.
///
/// # Errors
/// It cannot be known: the file cannot be opened, or its file system has no locks.
pub(crate) fn look(path: &Path) -> std::io::Result<bool> {
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(false),
        Err(Errno::WOULDBLOCK) => Ok(true),
        Err(errno) => Err(errno.into()),
    }
}

fn failed(operation: &'static str, path: &Path, errno: Errno) -> Error {
    Error::Lock { operation, path: path.to_owned(), source: errno.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_owner_is_told_the_first() {
        let home = tempfile::tempdir().expect("a folder");
        let places = Places::below(home.path());
        files::private_dir(&locks(&places), 0o700).expect("makes");
        let first = RunId::new(1_795_205_730, 1);
        let directory = Resource::Directory(home.path().into());
        let held =
            take_resources(&places, &[directory.clone(), Resource::Sandbox("a/b".into())], &first).expect("free");
        let second = take_resources(&places, &[Resource::Sandbox("a/b".into())], &RunId::new(0, 2));
        assert!(matches!(second, Err(Error::Busy { owner: Some(owner), .. }) if owner == first));
        take_resources(&places, &[Resource::Sandbox("b".into())], &first).expect("another resource");
        let planting = [Resource::Injection("a/b".into())];
        let _plants = take_resources(&places, &planting, &first).expect("beside the run of its server");
        let message = take_resources(&places, &planting, &RunId::new(0, 2)).expect_err("one at a time").to_string();
        assert!(message.contains("the planting of stalls in sandbox a/b is held by run"), "{message}");
        drop(held);
        // a child that another test has just forked has the lock until it executes its program
        let lock = directory.lock_path(&places).expect("known");
        testkit::wait_until(Duration::from_secs(60), || !is_held(&lock));
        take_resources(&places, &[directory], &first).expect("free again");
    }

    #[test]
    fn one_at_a_time_measures_and_a_second_is_told_who() {
        // a lock of this test alone: root's own is the host's, which a sweep beside this test may hold
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("measuring");
        let held = only_one(&path, "the first").expect("free");
        let refused = only_one(&path, "the second").expect_err("held");
        assert!(refused.is_in_the_way() && refused.to_string().contains("the first"), "{refused}");
        assert_eq!(who_measures(&path).as_deref(), Some("the first"));
        assert_eq!(who_measures(&folder.path().join("nothing")), None);
        drop(held);
        // a child that another test has just forked has the lock until it executes its program
        assert!(testkit::wait_until(Duration::from_secs(60), || only_one(&path, "the third").is_ok()));
    }

    #[test]
    fn two_homes_of_root_share_what_the_host_has_once() {
        if !rustix::process::geteuid().is_root() {
            testkit::skip!("needs root");
        }
        let homes = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let [one, two] = homes.each_ref().map(|home| Places::below(home.path()));
        for places in [&one, &two] {
            files::private_dir(&locks(places), 0o700).expect("makes");
        }
        let (directory, sandbox) = (Resource::Directory(homes[0].path().into()), Resource::Sandbox("a".into()));
        let owner = RunId::new(1_795_205_730, 1);
        let _held = take_resources(&one, &[directory.clone(), sandbox.clone()], &owner).expect("free");
        let refused = require_free(&two, &directory).expect_err("held by another home");
        assert!(refused.is_in_the_way());
        let said = refused.to_string();
        assert!(said.contains(owner.as_str()) && said.contains(&*one.journal.to_string_lossy()), "{said}");
        take_resources(&two, &[sandbox], &owner).expect("a sandbox belongs to its home");
        require_free(&two, &Resource::Directory(homes[1].path().into())).expect("another directory");
    }

    #[test]
    fn who_waits_for_a_command_that_stands_still_is_told_which() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("begin");
        #[allow(clippy::disallowed_methods)] // processes of the test's own
        let with_it_open = |then: &str| {
            let script = format!("exec 9<>\"$0\"; {then} exec sleep 1000");
            std::process::Command::new("sh").args(["-c", &script]).arg(&path).spawn().expect("starts")
        };
        let mut holder = with_it_open("flock 9;");
        assert!(testkit::wait_until(Duration::from_secs(60), || is_held(&path)));
        let interrupted = begin_lock_within(&path, Duration::from_secs(600), || true).expect_err("held");
        assert!(interrupted.is_interrupted(), "{interrupted}");
        let refused = begin_lock_within(&path, Duration::from_millis(100), || false).expect_err("held");
        let pid = holder.id().to_string();
        assert!(refused.is_in_the_way() && refused.to_string().contains(&pid), "{refused}");
        // who only waits for the lock does not hold it
        let mut waits = with_it_open("");
        let has_it_open = || std::fs::read_link(format!("/proc/{}/fd/9", waits.id())).is_ok();
        assert!(testkit::wait_until(Duration::from_secs(60), has_it_open));
        let holders = || holders_of(&path).found.iter().map(|it| it.pid).collect::<Vec<_>>();
        // the program that took the lock may still be ending
        assert!(testkit::wait_until(Duration::from_secs(60), || holders() == [holder.id()]), "{:?}", holders());
        waits.kill().expect("ends");
        waits.wait().expect("is waited for");
        holder.kill().expect("ends");
        holder.wait().expect("is waited for");
    }

    #[test]
    #[allow(clippy::disallowed_methods)] // a link in a folder of its own
    fn two_paths_of_one_directory_are_one_resource() {
        let home = tempfile::tempdir().expect("a folder");
        let link = home.path().join("link");
        std::os::unix::fs::symlink(home.path(), &link).expect("links");
        assert_eq!(Resource::Directory(link).lock_name(), Resource::Directory(home.path().into()).lock_name());
    }
}
