// SPDX-License-Identifier: Apache-2.0
//! A slow layer over any directory, in the host's own mount namespace: whoever opens a file below it from now on is delayed.
//!
//! For standing squeezes. The layer keeps no written data back (no write-back cache), because the directory is the user's own. The
//! mount goes through the journal, and is taken away before the layer ends.

use crate::Error;
use crate::files_in_use::{refuse_open_by_others, refuse_open_files};
use crate::imitation::{Probed, Reach, hold};
use crate::mechanism::Mechanism;
use crate::{accept, constant, databases::Database, probe, way};
use diskmodel::Model;
use evidence::Measured;
use host::change::mounts;
use run::{Child, ChildSpec, Role, Run, Step};
use slowfs::control::Client;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The layer's socket, in the run's folder.
pub const SOCKET: &str = "slowfs.sock";

/// That of each of several layers.
pub fn socket_name(number: u32) -> String {
    if number == 0 { SOCKET.to_owned() } else { format!("slowfs-{number}.sock") }
}

pub use host::namespace::FUSE_TYPE as FILE_SYSTEM;

/// A directory that is slow for everybody.
#[derive(Debug)]
pub struct SlowDirectory {
    pub directory: PathBuf,
    pub socket: PathBuf,
    pub child: Child,
}

/// Looks whether the directory can be slowed down; returns its canonical path.
///
/// # Errors
/// [`Error::Refused`]: it is no directory, somebody uses it, something is mounted below it, a database lives in it, or we are not root.
pub fn check(directory: &Path, databases: &[Database]) -> Result<PathBuf, Error> {
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

/// The same for a layer that one command alone will see: needs no root, and neither its own nor its parent's working directory is in
/// the way.
///
/// # Errors
/// [`Error::Refused`]: it is no directory, somebody has files open below it, something is mounted there, or a database lives in it.
pub fn check_for_command(directory: &Path, databases: &[Database]) -> Result<PathBuf, Error> {
    let path = canonical_directory(directory)?;
    refuse_databases_and_mounts(&path, databases)?;
    refuse_open_by_others(&path)?;
    Ok(path)
}

/// A directory of the user's, with its canonical path.
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

/// Without links. A journal holds names as text: what cannot be written down cannot be undone.
pub(crate) fn require_text(path: PathBuf) -> Result<PathBuf, Error> {
    if path.to_str().is_some() {
        return Ok(path);
    }
    Err(Error::Refused {
        what: format!("the name of {} is not UTF-8, and a journal holds names as text", path.display()),
        hint: "rename it, or the folder above it whose name that is".into(),
    })
}

fn refuse_databases_and_mounts(path: &Path, databases: &[Database]) -> Result<(), Error> {
    let refused = |what: String, hint: &str| Err(Error::Refused { what, hint: hint.to_owned() });
    let lives_here = |it: &&Database| it.directory.as_deref().is_some_and(|data| overlap(data, path));
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
    /// Mounts the layer, without a delay yet, over a directory that [`check`] let pass.
    ///
    /// # Errors
    /// The layer cannot be started; what there is of it is undone with the run.
    pub fn start(run: &mut Run, directory: &Path) -> Result<Self, Error> {
        refuse_open_files(directory)?;
        let socket = run.folder().join(SOCKET);
        let mount = Step::Mount {
            target: directory.to_owned(),
            source: format!("wringer-{}", run.id()),
            fstype: FILE_SYSTEM.to_owned(),
        };
        // The layer mounts itself: what is applied here is the word that it may.
        run.step(mount, |_| Ok(()))?;
        let spec = ChildSpec { ready: true, ..ChildSpec::internal("slowfs", arguments(run, directory, &socket)) };
        let child = run.spawn(Role::SlowLayer, spec)?;
        Ok(Self { directory: directory.to_owned(), socket, child })
    }
}

fn arguments(run: &Run, directory: &Path, socket: &Path) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["--public", "--no-writeback-cache", "--directory"].map(OsString::from).to_vec();
    args.extend([directory.into(), "--control".into(), socket.into(), "--run".into(), run.id().as_str().into()]);
    args
}

/// A smaller file is soon read whole.
pub const PROBE_FILE_BYTES: u64 = 1 << 20;

/// What a probe reads: the largest file below the directory, unless that is too small as well.
pub fn probe_file(directory: &Path) -> Option<PathBuf> {
    largest_file(directory, &|_| true).filter(|(_, bytes)| *bytes >= PROBE_FILE_BYTES).map(|(file, _)| file)
}

/// Looks whether this host can imitate such a disk at all, before anything is changed. Without a file of 1 MiB nobody can say.
///
/// # Errors
/// [`Error::Refused`], with the floor that was measured: it takes more than twice as long, or carries less than half; with `strict`, at
/// all.
pub fn check_reach(directory: &Path, model: &Model, strict: bool) -> Result<(), Error> {
    let Some(file) = probe_file(directory).filter(|_| model.profile.is_some()) else { return Ok(()) };
    let opened = probe::open(&file)?;
    Reach::below_the_layer(|task| probe::read(&opened, &file, task))?.refuse(model, strict)
}

/// Sets the disk model of a layer that serves; reaches files that are open. Leaves it in force, with what a probe of the largest file
/// below the directory got. Without a file of 1 MiB there is no measure.
///
/// # Errors
/// The layer is gone, or the file cannot be read. [`Error::OutOfTolerance`]: less than half or more than twice of it came on; with `strict`,
/// anything out of tolerance. [`Error::Refused`]: this host cannot imitate such a disk. The delay that was in force before is in force again
/// then.
pub fn set_and_measure(socket: &Path, directory: &Path, model: &Model, strict: bool) -> Result<Vec<Measured>, Error> {
    let mut measured = or_as_before(socket, |client| measure(client, directory, model, strict))?;
    measured.extend(way::measured(&mut Client::connect(socket)?, Mechanism::Fuse.in_results())?);
    Ok(measured)
}

/// What a layer's delay was is in force again when `change` fails.
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

/// The largest file below `folder` and its size, on the folder's own file system, without following links; nothing whose name
/// `is_wanted` refuses, nor below such a folder.
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
