// SPDX-License-Identifier: Apache-2.0
//! A slow layer over any directory, in the host's own mount namespace: every program that opens a file below it from then on is delayed.
//!
//! For standing squeezes. The directory is the user's own, so the layer holds no written data back (no write-back cache). The mount
//! is recorded in the journal, and is removed before the layer ends.

use crate::Error;
use crate::files_in_use::{refuse_open_by_others, refuse_open_files, refuse_users_of};
use crate::imitation::{Probed, Reach, hold};
use crate::{accept, constant, probe, way};
use diskmodel::Model;
use evidence::{DiskMechanism, Measured};
use host::change::mounts;
use host::in_use::{self, Place};
use host::process::Server;
use run::{Child, ChildSpec, Role, Run, Step};
use slowfs::control::Client;
use slowfs::process::Options;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The layer's socket, in the run's folder.
pub const SOCKET: &str = "slowfs.sock";

/// The socket of each layer of a run, numbered from 0.
pub fn socket_name(number: u32) -> String {
    if number == 0 { SOCKET.to_owned() } else { format!("slowfs-{number}.sock") }
}

pub use host::namespace::FUSE_TYPE as FILE_SYSTEM;

/// A directory that is slow for all programs.
#[derive(Debug)]
pub struct SlowDirectory {
    pub directory: PathBuf,
    pub socket: PathBuf,
    pub child: Child,
}

/// Checks whether the directory can be slowed down; returns its canonical path.
///
/// # Errors
/// [`Error::Refused`]: it is no directory, a program uses it, something is mounted below it, a database's data is in it, or the user is not root.
pub fn check(directory: &Path, databases: &[Server]) -> Result<PathBuf, Error> {
    let refused = |what: String, hint: &str| Err(Error::Refused { what, hint: hint.to_owned() });
    let path = canonical(directory)?;
    let shown = path.display();
    if !path.is_dir() {
        return refused(
            format!("{shown} is neither a directory nor a block device"),
            "name the directory that holds the files, or an unmounted block device",
        );
    }
    if !rustix::process::geteuid().is_root() {
        return refused(
            "slowing a directory down for everybody needs root".into(),
            "run it with sudo; an experiment's own sandbox needs no root",
        );
    }
    if ["/", "/proc", "/sys", "/dev", "/run", "/usr", "/etc", "/var", "/boot"].iter().any(|it| path == Path::new(it)) {
        return refused(format!("{shown} is the host's own"), "name a directory that holds data");
    }
    refuse_databases_and_mounts(&path, databases)?;
    refuse_open_files(&path)?;
    Ok(path)
}

/// The same check for a layer that only one command will see. It needs no root, and the working directories of this process and its
/// parent may be below.
///
/// # Errors
/// [`Error::Refused`]: it is no directory, a program has files open below it, something is mounted there, or a database's data is in it.
pub fn check_for_command(directory: &Path, databases: &[Server]) -> Result<PathBuf, Error> {
    let path = canonical_directory(directory)?;
    refuse_databases_and_mounts(&path, databases)?;
    refuse_open_by_others(&path, &in_use::below(&path)?, &[])?;
    Ok(path)
}

/// The canonical path of a user's directory.
pub(crate) fn canonical_directory(directory: &Path) -> Result<PathBuf, Error> {
    let path = canonical(directory)?;
    if !path.is_dir() {
        return Err(Error::Refused {
            what: format!("{} is not a directory", path.display()),
            hint: "name the directory that holds the files".into(),
        });
    }
    let kernels = ["/proc", "/sys", "/dev", "/run"].iter().any(|it| path.starts_with(it));
    if kernels || path == Path::new("/") {
        return Err(Error::Refused {
            what: format!("{} is the host's own", path.display()),
            hint: "name a directory that holds data".into(),
        });
    }
    Ok(path)
}

fn canonical(directory: &Path) -> Result<PathBuf, Error> {
    let path = directory.canonicalize().map_err(|_| Error::Refused {
        what: format!("there is no directory {}", directory.display()),
        hint: "name one that exists".into(),
    })?;
    require_text(path)
}

/// Refuses a canonical path that is not UTF-8: a journal holds names as text, and a change that is not recorded cannot be undone.
pub(crate) fn require_text(path: PathBuf) -> Result<PathBuf, Error> {
    if path.to_str().is_some() {
        return Ok(path);
    }
    Err(Error::Refused {
        what: format!("the name of {} is not UTF-8, and a journal holds names as text", path.display()),
        hint: "rename it, or the folder above it whose name that is".into(),
    })
}

fn refuse_databases_and_mounts(path: &Path, databases: &[Server]) -> Result<(), Error> {
    let refused = |what: String, hint: &str| Err(Error::Refused { what, hint: hint.to_owned() });
    let lives_here = |it: &&Server| it.directory.as_deref().is_some_and(|data| overlap(data, path));
    if let Some(database) = databases.iter().find(lives_here) {
        return refused(
            format!("{} (process {}) lives in {}", database.program, database.pid, path.display()),
            "stop it first: storage is never swapped under a live server; better, squeeze a copy",
        );
    }
    let below = mounts()?.into_iter().find(|mount| mount.target.starts_with(path) && mount.target != Path::new("/"));
    if let Some(mount) = below {
        return refused(
            format!("{} is mounted at {}", mount.source, mount.target.display()),
            "unmount it, or name a directory without mounts",
        );
    }
    Ok(())
}

fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

impl SlowDirectory {
    /// Mounts the layer, without a delay yet, over a directory that [`check`] has accepted.
    ///
    /// # Errors
    /// The layer cannot be started, or somebody began to use the directory meanwhile; finished parts are undone with the run.
    pub fn start(run: &mut Run, directory: &Path) -> Result<Self, Error> {
        let place = Place::of(directory)?;
        refuse_users_of(directory, &place.users(), &[])?;
        let socket = run.folder().join(SOCKET);
        let mount = Step::Mount {
            target: directory.to_owned(),
            source: format!("wringer-{}", run.id()),
            fstype: FILE_SYSTEM.to_owned(),
        };
        // The layer mounts itself: this step only records that it may.
        run.step(mount, |_| Ok(()))?;
        let order =
            Options { private: false, writeback_cache: false, ..Options::over(directory, &socket, run.id().as_str()) };
        let spec = ChildSpec { ready: true, ..ChildSpec::internal(&order)? };
        host::pause_point("before a layer is mounted");
        let child = run.spawn(Role::SlowLayer, spec)?;
        // a server may have come since the first look, and what it has open leads past the layer
        refuse_users_of(directory, &place.users_again()?, &[child.pid])?;
        Ok(Self { directory: directory.to_owned(), socket, child })
    }
}

/// A smaller file would soon be read completely.
pub const PROBE_FILE_BYTES: u64 = 1 << 20;

/// The file for a probe: the largest file below the directory, if it is large enough.
pub fn probe_file(directory: &Path) -> Option<PathBuf> {
    largest_file(directory, &|_| true).filter(|(_, bytes)| *bytes >= PROBE_FILE_BYTES).map(|(file, _)| file)
}

/// Checks whether this host can imitate this disk, before anything is changed. Without a file of 1 MiB it is unknown, and nothing is refused.
///
/// # Errors
/// [`Error::Refused`], with the measured floor: this host takes more than twice as long, or carries less than half. With `strict`:
/// it is slower at all.
pub fn check_reach(directory: &Path, model: &Model, strict: bool) -> Result<(), Error> {
    let Some(file) = probe_file(directory).filter(|_| model.profile.is_some()) else { return Ok(()) };
    let opened = probe::open(&file)?;
    Reach::below_the_layer(|task| probe::read(&opened, &file, task))?.refuse(model, strict)
}

/// Sets the disk model of a running layer, also for open files, and leaves it in force. Returns the results of a probe of the
/// largest file below the directory; without a file of 1 MiB there are none.
///
/// # Errors
/// The layer is gone, or the file cannot be read. [`Error::OutOfTolerance`]: the result is missed (`Measured::is_missed`); with
/// `strict`, anything out of tolerance. [`Error::Refused`]: this host cannot imitate such a disk. After an error the earlier delay is in force again.
pub(crate) fn set_and_measure(
    socket: &Path,
    directory: &Path,
    model: &Model,
    strict: bool,
) -> Result<Vec<Measured>, Error> {
    let mut measured = or_as_before(socket, |client| measure(client, directory, model, strict))?;
    measured.extend(way::measured(&mut Client::connect(socket)?, DiskMechanism::Fuse.in_results())?);
    Ok(measured)
}

/// When `change` fails, puts the earlier model of the layer in force again.
pub(crate) fn or_as_before<T>(socket: &Path, change: impl FnOnce(&mut Client) -> Result<T, Error>) -> Result<T, Error> {
    let mut client = Client::connect(socket)?;
    let before = client.model()?;
    let changed = change(&mut client);
    if changed.is_err() {
        client.set_model(&before)?;
    }
    changed
}

fn measure(client: &mut Client, directory: &Path, model: &Model, strict: bool) -> Result<Vec<Measured>, Error> {
    let delay = model.delay();
    let Some(path) = probe_file(directory).filter(|_| delay.read_us > 0 || delay.varies) else {
        client.set_model(model)?;
        return Ok(Vec::new());
    };
    let file = &probe::open(&path)?;
    let mut probed = Probed { client, file, path: &path };
    if delay.varies {
        return hold(&mut probed, model)?.accept(model, strict);
    }
    let of_what = "of a file that was open before the delay was set";
    accept(vec![constant::hold(&mut probed, delay, of_what)?], strict)
}

/// The largest file below `folder` with its size, on the folder's own file system, without following links. Skips files and folders
/// whose names `is_wanted` refuses.
pub fn largest_file(folder: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Option<(PathBuf, u64)> {
    largest_on(fs::metadata(folder).ok()?.dev(), folder, is_wanted)
}

fn largest_on(device: u64, folder: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Option<(PathBuf, u64)> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let wanted = entries.filter(|entry| is_wanted(&entry.file_name().to_string_lossy()));
    let files = wanted.filter_map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() && metadata.dev() == device => largest_on(device, &entry.path(), is_wanted),
        Ok(metadata) if metadata.is_file() => Some((entry.path(), metadata.len())),
        _ => None,
    });
    files.max_by_key(|(_, size)| *size)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;

    #[test]
    fn the_largest_file_that_is_wanted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("pg_wal")).expect("makes");
        fs::create_dir_all(path("base/1")).expect("makes");
        for (name, size) in [("pg_wal/0001", 300), ("base/1/2", 200), ("small", 100)] {
            fs::write(path(name), vec![0; size]).expect("writes");
        }
        std::os::unix::fs::symlink(path("pg_wal"), path("base/link")).expect("links");
        assert_eq!(largest_file(folder.path(), &|_| true), Some((path("pg_wal/0001"), 300)));
        assert_eq!(largest_file(folder.path(), &|name| name != "pg_wal"), Some((path("base/1/2"), 200)));
        assert_eq!(largest_file(&path("nothing"), &|_| true), None);
    }
}
