// SPDX-License-Identifier: Apache-2.0
use host::files::{self, Distrust, SafeFolder};
use host::places::Places;
use journal::RunId;
use std::path::{Path, PathBuf};

/// The folder of a run: `<places.journal>/<id>/`, 0700.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

impl Folder {
    pub(crate) fn of(places: &Places, id: &RunId) -> Self {
        // Links in the path would make the token's path differ from the one that /proc shows.
        let journal = places.journal.canonicalize().unwrap_or_else(|_| places.journal.clone());
        Self { path: journal.join(id.as_str()) }
    }

    /// Checks that the folder is the caller's own.
    ///
    /// # Errors
    /// [`host::Error::Untrusted`].
    pub(crate) fn require_own(&self) -> Result<(), host::Error> {
        match files::safe_folder(&self.path)? {
            Some(safe) if !safe.is_own() => Err(foreign(&safe)),
            _ => Ok(()),
        }
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    /// The lock file that the run's controller locks, or the process that undoes the run.
    pub(crate) fn owner(&self) -> PathBuf {
        self.path.join("owner.lock")
    }

    /// The file that every child has open.
    pub(crate) fn token(&self) -> PathBuf {
        self.path.join("token")
    }

    /// The file with the reason why the watchdog ended the run: the watchdog writes it, and the process that releases the run journals the reason.
    pub(crate) fn reason(&self) -> PathBuf {
        self.path.join("neutralised")
    }

    /// The reason in that file.
    pub(crate) fn read_reason(&self) -> Option<String> {
        std::fs::read_to_string(self.reason()).ok().filter(|reason| !reason.is_empty())
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.log"))
    }
}

/// All folders below `places.journal` whose name is a run's id, in any order.
///
/// # Errors
/// Somebody else can have written to the folder; or it cannot be read.
pub(crate) fn all_runs(places: &Places) -> Result<Vec<RunId>, host::Error> {
    let Some(safe) = files::safe_folder(&places.journal)? else { return Ok(Vec::new()) };
    let fail = |source: std::io::Error| match source.kind() {
        std::io::ErrorKind::PermissionDenied if !safe.is_own() => foreign(&safe),
        _ => host::Error::path("list", &places.journal, source),
    };
    ids_in(&safe.path).map_err(fail)
}

/// The runs whose journals are in this folder.
pub(crate) fn ids_in(journals: &Path) -> std::io::Result<Vec<RunId>> {
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(journals)? {
        ids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RunId>().ok()));
    }
    Ok(ids)
}

/// Makes the folder of all runs, owned by the caller.
///
/// # Errors
/// Somebody else could write to the folder; or it cannot be made.
pub(crate) fn make(places: &Places) -> Result<(), host::Error> {
    files::own_folder(&places.journal, 0o700)?;
    files::own_folder(&locks(places), 0o700).map(drop)
}

/// Checks that the journals are the caller's own. Other users may read root's journals, if root lets them, but must never act on them.
///
/// # Errors
/// [`host::Error::Untrusted`].
pub(crate) fn require_own(places: &Places) -> Result<(), host::Error> {
    match files::safe_folder(&places.journal)? {
        Some(safe) if !safe.is_own() => Err(foreign(&safe)),
        _ => Ok(()),
    }
}

fn foreign(safe: &SafeFolder) -> host::Error {
    host::Error::Untrusted { path: safe.path.clone(), why: Distrust::Owner(safe.owner) }
}

/// The folder of locks for resources that belong to these places alone.
pub(crate) fn locks(places: &Places) -> PathBuf {
    locks_in(&places.journal)
}

pub(crate) fn locks_in(journals: &Path) -> PathBuf {
    journals.join("locks")
}

/// Root's folder of locks for resources of the whole host, whatever `WRINGER_HOME` is. Other users cannot write there; a boot clears it.
pub(crate) const HOST_LOCKS: &str = "/run/wringer/locks";

/// The folder of locks for resources of the whole host, such as its RAM. An ordinary user, and root in a user namespace, may not write to `/run`, and
/// squeezes nothing that root's runs use: for such a user it is a folder of their own.
pub(crate) fn host_locks(places: &Places) -> Result<PathBuf, host::Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(locks(places));
    }
    match files::own_folder(Path::new(HOST_LOCKS), 0o700) {
        Ok(_) => Ok(HOST_LOCKS.into()),
        Err(error) if [libc::EROFS, libc::EACCES, libc::EPERM].map(Some).contains(&error.errno()) => Ok(locks(places)),
        Err(error) => Err(error),
    }
}

/// Removes the folder of a run, and the journal last: while the journal is there, it shows that the run has ended.
pub(crate) fn remove_folder(folder: &Path) -> Result<(), crate::Error> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into()).filter(|name: &PathBuf| name.as_os_str() != "journal");
    let names: Vec<PathBuf> = names.chain(["journal".into()]).collect();
    files::remove_manifested(folder, &names)?;
    Ok(())
}

/// The log to which watchdogs append. It is not in a run's folder, because that is removed with the run.
pub(crate) fn watchdog_log(journal: &Path) -> PathBuf {
    journal.join("watchdog.log")
}
