// SPDX-License-Identifier: Apache-2.0
use host::places::Places;
use journal::RunId;
use std::path::{Path, PathBuf};

/// Where a run keeps its things: `<places.journal>/<id>/`, 0700.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
}

impl Folder {
    pub(crate) fn of(places: &Places, id: &RunId) -> Self {
        // Links in the way would make the token's path differ from what /proc shows.
        let journal = places.journal.canonicalize().unwrap_or_else(|_| places.journal.clone());
        Self { path: journal.join(id.as_str()) }
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.path.join("journal")
    }

    /// Locked by the controller, or by whoever undoes the run.
    pub(crate) fn owner(&self) -> PathBuf {
        self.path.join("owner.lock")
    }

    /// Open in every child.
    pub(crate) fn token(&self) -> PathBuf {
        self.path.join("token")
    }

    /// Why the watchdog ended the run: written by it, journaled by whoever releases the run.
    pub(crate) fn reason(&self) -> PathBuf {
        self.path.join("neutralised")
    }

    /// What stands there.
    pub(crate) fn read_reason(&self) -> Option<String> {
        std::fs::read_to_string(self.reason()).ok().filter(|reason| !reason.is_empty())
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.log"))
    }
}

/// All folders below `places.journal` whose name is a run's id, oldest first.
///
/// # Errors
/// The folder is there, and cannot be read: which runs there are is unknown.
pub(crate) fn all_runs(places: &Places) -> Result<Vec<RunId>, host::Error> {
    let failed = |source| host::Error::path("list the runs in", &places.journal, source);
    let entries = match std::fs::read_dir(&places.journal) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let names = entries.map(|entry| entry.map(|it| it.file_name())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let mut ids: Vec<RunId> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    ids.sort();
    Ok(ids)
}

/// Where the locks are of what belongs to these places alone.
pub(crate) fn locks(places: &Places) -> PathBuf {
    places.journal.join("locks")
}

/// Root's locks of what the host has once, whatever `WRINGER_HOME` says. Other users cannot write there; a boot clears it.
const HOST_LOCKS: &str = "/run/wringer/locks";

/// Where the locks are of what the host has once, such as its RAM. An ordinary user, and a root who may not write to `/run`
/// (inside a user namespace), squeezes nothing that root's runs use: their own folder does.
pub(crate) fn host_locks(places: &Places) -> Result<PathBuf, host::Error> {
    if !rustix::process::geteuid().is_root() {
        return Ok(locks(places));
    }
    match host::files::private_dir(Path::new(HOST_LOCKS), 0o700) {
        Ok(()) => Ok(HOST_LOCKS.into()),
        Err(error) if [libc::EROFS, libc::EACCES, libc::EPERM].map(Some).contains(&error.errno()) => Ok(locks(places)),
        Err(error) => Err(error),
    }
}

/// Appended to by watchdogs, whose run's folder goes away with the run.
pub(crate) fn watchdog_log(journal: &Path) -> PathBuf {
    journal.join("watchdog.log")
}
