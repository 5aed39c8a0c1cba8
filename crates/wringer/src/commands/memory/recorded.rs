// SPDX-License-Identifier: Apache-2.0
//! Reads inventories from a recording.

use super::recording_time::{self, Moment};
use crate::commands::report::is_recording_file;
use crate::exit::{Exit, Failure};
use crate::input;
use evidence::INVENTORY;
use host::clock::rfc3339;
use ledger::Inventory;
use recording::Snapshots;
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::Span;

/// An inventory, and the time at which it was taken.
pub(super) struct Taken {
    /// The time after the recording's start.
    pub(super) after_us: u64,
    pub(super) inventory: Inventory,
}

/// The recording at this path, or in this folder. `None`: the file is no recording; it may be a file that `--keep` or `memory bundle` wrote.
pub(super) fn recording_at(path: &Path) -> Option<PathBuf> {
    if path.is_dir() {
        let is_bundle = path.join(bundle::MANIFEST).is_file();
        return (!is_bundle).then(|| crate::commands::report::recording_in(path));
    }
    is_recording_file(path).then(|| path.to_owned())
}

/// The inventories of one recording.
pub(super) struct Recorded<'a> {
    path: &'a Path,
    snapshots: Snapshots<'a>,
    started_unix_us: u64,
}

impl<'a> Recorded<'a> {
    /// # Errors
    /// 3: the path does not exist, is no recording, or has no inventory.
    pub(super) fn open(path: &'a Path) -> Result<Self, Failure> {
        input::check_readable(path).map_err(|error| {
            Failure::new(Exit::Missing, input::named(error, path))
                .hint("name a recording.sqlite, the folder that holds it, or what --keep wrote")
        })?;
        let snapshots = Snapshots::of(path, INVENTORY).map_err(|error| Failure::new(Exit::Missing, error))?;
        if snapshots.moments().is_empty() {
            let message = format!("{} has no inventory of a server's memory", path.display());
            return Err(Failure::message(Exit::Missing, message).hint(
                "they are recorded by `wringer memory record`, by `wringer observe --memory`, and by observe.memory = \"10s\" in an experiment file",
            ));
        }
        let started_unix_us = recording_time::unix_us(snapshots.started()).unwrap_or_default();
        Ok(Self { path, snapshots, started_unix_us })
    }

    /// The last inventory that was taken before or at this moment.
    ///
    /// # Errors
    /// 3: there is no such inventory, the moment is after the recording's end, or the recording is damaged.
    pub(super) fn at(&self, moment: Moment) -> Result<Taken, Failure> {
        let moments = self.snapshots.moments();
        let found = match moment {
            Moment::First => moments.first(),
            Moment::Last => moments.last(),
            _ => self.within(moment).and_then(|until_us| moments.range(..=until_us).next_back()),
        };
        let after_us = *found.ok_or_else(|| self.no_such_time())?;
        let damaged = |why: String| {
            let at = self.time(after_us);
            Failure::message(Exit::Missing, format!("{}: the inventory of {at} is damaged: {why}", self.path.display()))
                .hint("--at TIME names another inventory")
        };
        let snapshot = self.snapshots.at(after_us).map_err(|error| damaged(host::chain(&error)))?;
        let content = snapshot.map(|snapshot| snapshot.content).unwrap_or_default();
        let inventory = serde_json::from_str(&content).map_err(|error| damaged(error.to_string()))?;
        Ok(Taken { after_us, inventory })
    }

    /// The end of the moment, in microseconds after the start, if it does not begin after the recording's end. If the recorder was interrupted, the end is not known, and every
    /// moment is accepted.
    fn within(&self, moment: Moment) -> Option<u64> {
        let meant = moment.after(self.started_unix_us)?;
        self.snapshots.elapsed_us().is_none_or(|end| *meant.start() <= end).then_some(*meant.end())
    }

    fn no_such_time(&self) -> Failure {
        let moments = self.snapshots.moments();
        let [first, last] = [moments.first(), moments.last()].map(|us| self.time(us.copied().unwrap_or_default()));
        let message = format!("{} has no inventory of that time", self.path.display());
        let hint = format!("inventories in it: {}; --at first is {first}, --at last {last}", moments.len());
        Failure::message(Exit::Missing, message).hint(hint)
    }

    /// A time of the recording for people: `1 min 20 s after the start (14:05:30Z)`.
    pub(super) fn time(&self, after_us: u64) -> String {
        let clock = rfc3339((self.started_unix_us + after_us) / 1_000_000);
        let clock = clock.split_once('T').map_or(clock.as_str(), |(_, clock)| clock).to_owned();
        format!("{} after the start ({clock})", span(after_us))
    }
}

/// The time, rounded down to a tenth of a second.
pub(super) fn span(us: u64) -> Span {
    Span(Duration::from_millis(us / 100_000 * 100))
}
