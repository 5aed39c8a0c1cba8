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
use sandbox::Installation;
use std::path::PathBuf;
use std::sync::Arc;

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
    if let Some(entry) = find(&store, &key)? {
        return Ok(Some(entry));
    }
    if !places.cache.exists() {
        files::private_dir(&places.cache, 0o755)?;
    }
    // this sandbox is not needed once the data are kept
    let run = walk::begin(cell, places, hooks)?;
    let folder = recording_folder(places, run.run())?;
    let ended = run.fill(&folder.join("recording.sqlite"));
    let removed = files::remove_tree(&folder);
    ended.outcome.into_result()?;
    removed?;
    find(&store, &key)
}

/// A new folder for the recording, which nobody needs later. Containers that share a cache may have the same process ids: the run's id tells them apart.
fn recording_folder(places: &Places, run: &str) -> Result<PathBuf, host::Error> {
    let folder = places.cache.join(format!("fill-{run}"));
    files::new_private_dir(&folder)?;
    Ok(folder)
}

fn find(store: &Store, key: &Key) -> Result<Option<Arc<Entry>>, Error> {
    Ok(match store.find(key, false, &host::interrupt::requested).map_err(sandbox::Error::from)? {
        Looked::Here(entry) => Some(Arc::from(entry)),
        Looked::Off | Looked::Nothing | Looked::ThrownAway(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recording_of_another_process_is_left_alone() {
        let home = tempfile::tempdir().expect("a folder");
        let places = Places { cache: home.path().into(), ..Places::below(home.path()) };
        let [one, other] = ["w-1", "w-2"].map(|run| recording_folder(&places, run).expect("a new folder"));
        assert_ne!(one, other);
        recording_folder(&places, "w-1").expect_err("it is there, and so another process's");
    }
}
