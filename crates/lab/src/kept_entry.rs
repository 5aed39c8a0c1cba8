// SPDX-License-Identifier: Apache-2.0
//! Filled data from the cache for a new sandbox without a run. Where there are none, they are filled and kept now.

use crate::cell::Cell;
use crate::error::Error;
use crate::hooks::Hooks;
use crate::kept_fill::{Keyed, TOO_MANY_FILES, key_of};
use crate::walk;
use fills::{Entry, Key, Looked, Store};
use host::files;
use host::places::Places;
use journal::RunId;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat};
use rustix::io::Errno;
use sandbox::Installation;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The beginning of the names of folders for recordings that nobody needs later; the run's id follows.
const FOLDER: &str = "fill-";
const RECORDING: &str = "recording.sqlite";

/// The kept data of the cell's fill. `None`: they cannot be kept, and `hooks` was told why.
///
/// # Errors
/// The fill failed, or was interrupted; an entry cannot be read.
pub fn kept_entry(
    cell: &Cell,
    installation: &Installation,
    places: &Places,
    hooks: Hooks<'_>,
) -> Result<Option<Arc<Entry>>, Error> {
    let key = match key_of(cell, installation, places)? {
        Keyed::By(key) => key,
        Keyed::Never => return Ok(None),
        Keyed::TooManyFiles => {
            hooks.progress.step("fill", &format!("not kept: {TOO_MANY_FILES}"));
            return Ok(None);
        }
    };
    let store = Store::open(places).map_err(sandbox::Error::from)?;
    if store.is_off() {
        hooks.progress.step("fill", &format!("{} is 0: nothing is kept", fills::LIMIT_VARIABLE));
        return Ok(None);
    }
    clear_recordings(places, false);
    if let Some(entry) = find(&store, &key)? {
        return Ok(Some(entry));
    }
    if !places.cache.exists() {
        files::private_dir(&places.cache, 0o755)?;
    }
    // this sandbox is not needed once the data are kept
    let run = walk::begin(cell, places, hooks)?;
    let (folder, lock) = recording_folder(places, run.run())?;
    let ended = run.fill(&folder.join(RECORDING));
    let removed = files::remove_tree(&folder);
    drop(lock);
    ended.outcome.into_result()?;
    removed?;
    find(&store, &key)
}

/// A new folder for the recording, which nobody needs later. Containers that share a cache may have the same process ids: the run's id tells them apart.
/// The lock tells others that the folder's maker lives. `None`: the file system has no locks.
fn recording_folder(places: &Places, run: &str) -> Result<(PathBuf, Option<OwnedFd>), host::Error> {
    let folder = places.cache.join(format!("{FOLDER}{run}"));
    files::new_private_dir(&folder)?;
    let lock = locked(&folder, FlockOperation::LockExclusive).ok();
    Ok((folder, lock))
}

fn locked(folder: &Path, operation: FlockOperation) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty())?;
    flock(&opened, operation)?;
    Ok(opened)
}

/// Removes the recordings of fills that were killed, and returns their folders. `pretend`: removes nothing, and says what would be removed. One that cannot
/// be removed hinders nothing, and is left out.
pub fn clear_recordings(places: &Places, pretend: bool) -> Vec<PathBuf> {
    if !files::safe_folder(&places.cache).is_ok_and(|folder| folder.is_some()) {
        return Vec::new();
    }
    let is_of_a_run = |name: &str| name.strip_prefix(FOLDER).is_some_and(|run| run.parse::<RunId>().is_ok());
    let entries = fs::read_dir(&places.cache).into_iter().flatten().flatten();
    let of_runs = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_of_a_run));
    let mut cleared: Vec<PathBuf> =
        of_runs.map(|entry| entry.path()).filter(|folder| is_cleared(folder, pretend)).collect();
    cleared.sort();
    cleared
}

/// A folder without a recording stays: its maker may not have its lock yet.
fn is_cleared(folder: &Path, pretend: bool) -> bool {
    let Ok(lock) = locked(folder, FlockOperation::NonBlockingLockExclusive) else { return false };
    let is_own = fstat(&lock).is_ok_and(|stat| stat.st_uid == files::own_uid());
    is_own && folder.join(RECORDING).exists() && (pretend || files::remove_tree(folder).is_ok())
}

fn find(store: &Store, key: &Key) -> Result<Option<Arc<Entry>>, Error> {
    Ok(match store.find(key, false, &host::interrupt::requested).map_err(sandbox::Error::from)? {
        Looked::Here(entry) => Some(Arc::from(entry)),
        Looked::Off | Looked::Nothing | Looked::ThrownAway(_) => None,
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests lay out folders of their own
mod tests {
    use super::*;

    #[test]
    fn the_recording_of_another_process_is_left_alone() {
        let home = tempfile::tempdir().expect("a folder");
        let places = Places { cache: home.path().into(), ..Places::below(home.path()) };
        let [one, other] = ["w-1", "w-2"].map(|run| recording_folder(&places, run).expect("a new folder").0);
        assert_ne!(one, other);
        recording_folder(&places, "w-1").expect_err("it is there, and so another process's");
    }

    #[test]
    fn only_recordings_whose_maker_has_ended_are_removed() {
        let home = tempfile::tempdir().expect("a folder");
        let places = Places { cache: home.path().into(), ..Places::below(home.path()) };
        let recorded = |run: &str| {
            let (folder, lock) = recording_folder(&places, run).expect("a new folder");
            fs::write(folder.join(RECORDING), "seen").expect("writes");
            (folder, lock.expect("is locked"))
        };
        let (used, lock) = recorded("w-20261120-201530-4f2a");
        let [left, not_ours] = ["w-20261120-201530-4f2b", "shop"].map(|run| recorded(run).0);
        let empty = recording_folder(&places, "w-20261120-201530-4f2c").expect("a new folder").0;
        let there = || [&used, &left, &not_ours, &empty].map(|folder| folder.exists());
        assert_eq!((clear_recordings(&places, true), there()), (vec![left.clone()], [true; 4]), "only told");
        assert_eq!((clear_recordings(&places, false), there()), (vec![left.clone()], [true, false, true, true]));
        drop(lock);
        assert_eq!((clear_recordings(&places, false), there()), (vec![used.clone()], [false, false, true, true]));
    }
}
