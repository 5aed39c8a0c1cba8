// SPDX-License-Identifier: Apache-2.0
//! The time of attempts that were killed. Nobody was left to measure it, so it is read from the times of files: it goes from the attempt's start to its last
//! sign of life, which is the newest write of the state, of the attempt's recording, or of its server's data.

use crate::state::{STATE_FILE, State};
use crate::store::CELLS;
use host::places::Places;
use sandbox::Sandbox;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Adds the time of each attempt that has no end to the attempt and to the sweep. `folder`: that of the sweep, as the killed processes left it.
pub(crate) fn charge(state: &mut State, folder: &Path, places: &Places) {
    let mut spent_us = 0;
    for cell in &mut state.cells {
        for attempt in cell.attempts.iter_mut().filter(|attempt| attempt.end.is_none()) {
            let mut written =
                vec![folder.join(STATE_FILE), folder.join(format!("{CELLS}/{}/{}", cell.id, attempt.number))];
            written.extend(attempt.run.iter().flat_map(|run| data_of(run, places)));
            let last = written.iter().filter_map(|path| newest(path)).max();
            attempt.elapsed_us = last.and_then(|last| between_us(&attempt.started, last)).unwrap_or_default();
            spent_us += attempt.elapsed_us;
        }
    }
    state.spent_us = state.spent_us.saturating_add(spent_us);
}

/// The data directories of the run's sandboxes. Not their whole folders: `wringer undo` may have written there since.
fn data_of(run: &str, places: &Places) -> Vec<PathBuf> {
    let sandboxes = Sandbox::list(places).into_iter().filter_map(|(_, sandbox)| sandbox.ok());
    let theirs = sandboxes.filter(|sandbox| sandbox.manifest.run.as_deref() == Some(run));
    theirs.map(|sandbox| sandbox.data()).collect()
}

/// When the file, or a file below the folder, was last written. `None`: it is not there.
fn newest(path: &Path) -> Option<SystemTime> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let below = entries.filter_map(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => newest(&entry.path()),
        _ => entry.metadata().ok()?.modified().ok(),
    });
    let own = fs::symlink_metadata(path).and_then(|metadata| metadata.modified()).ok();
    below.chain(own).max()
}

fn between_us(started: &str, last: SystemTime) -> Option<u64> {
    let started: SystemTime = OffsetDateTime::parse(started, &Rfc3339).ok()?.into();
    let elapsed = last.duration_since(started).unwrap_or(Duration::ZERO);
    u64::try_from(elapsed.as_micros()).ok()
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::state::{Attempt, AttemptEnd, Cell};
    use std::fs::File;

    /// A sweep whose only cell has these attempts: each with its end, and its start as seconds behind 2026-01-01.
    fn sweep(attempts: &[(Option<AttemptEnd>, u32)]) -> State {
        let attempt = |(number, (end, second)): (u32, &(Option<AttemptEnd>, u32))| {
            let started = format!("2026-01-01T00:00:{second:02}Z");
            Attempt { number, end: *end, started, ..Attempt::default() }
        };
        let attempts = (1..).zip(attempts).map(attempt).collect();
        State { cells: vec![Cell { id: "a-1".into(), attempts, ..Cell::default() }], spent_us: 5, ..State::default() }
    }

    fn write(folder: &Path, name: &str, second: u64) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600 + second);
        File::create(&path).unwrap().set_modified(written).unwrap();
        File::open(path.parent().unwrap()).unwrap().set_modified(written).unwrap();
    }

    #[test]
    fn a_killed_attempt_took_the_time_to_its_last_write() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places::below(&folder.path().join("home"));
        write(folder.path(), STATE_FILE, 10);
        let mut state = sweep(&[(Some(AttemptEnd::Counts), 1), (None, 10)]);
        charge(&mut state, folder.path(), &places);
        assert_eq!(state.spent_us, 5, "it was killed at once");
        write(folder.path(), "cells/a-1/1/recording.sqlite", 40);
        write(folder.path(), "cells/a-1/2/recording.sqlite", 21);
        write(folder.path(), "cells/a-1/2/recording.sqlite-wal", 22);
        charge(&mut state, folder.path(), &places);
        let elapsed: Vec<u64> = state.cells[0].attempts.iter().map(|attempt| attempt.elapsed_us).collect();
        assert_eq!((elapsed, state.spent_us), (vec![0, 12_000_000], 12_000_005), "its own files alone");
        let mut early = sweep(&[(None, 59)]);
        charge(&mut early, folder.path(), &places);
        assert_eq!(early.spent_us, 5, "a clock that was set back gives no time");
    }
}
