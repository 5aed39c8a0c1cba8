// SPDX-License-Identifier: Apache-2.0
//! The body of `wringer internal watchdog`: waits for the end of its controller, and then undoes the run, unless the controller
//! has released it or left it standing.

use crate::Error;
use crate::folder::{Folder, watchdog_log};
use crate::locks::lock;
use crate::undo::undo_owned;
use host::files;
use host::places::Places;
use host::process::{ChildSpec, lifeline, report_ready};
use journal::{CRASH_VARIABLE, RunId};
use rustix::fd::OwnedFd;
use std::ffi::OsString;
use std::io::Write as _;
use std::time::Duration;

/// A mount may be busy for as long as somebody has a file open below it: ten minutes of tries, then it is left to `wringer undo`.
const RETRY_PAUSES_S: [u64; 8] = [1, 2, 5, 15, 30, 60, 180, 300];

/// For tests: [`CRASH_VARIABLE`] of the watchdog. The controller's is not inherited.
pub const CRASH_WATCHDOG_VARIABLE: &str = "WRINGER_CRASH_WATCHDOG";

/// How a run starts its watchdog.
pub(crate) fn spec(id: &RunId, places: &Places) -> ChildSpec {
    let journal = places.journal.as_os_str().to_owned();
    let args: [OsString; 4] = ["--run".into(), id.as_str().into(), "--journal".into(), journal];
    let mut spec = ChildSpec { ready: true, ..ChildSpec::internal("watchdog", args) };
    if let Some(point) = std::env::var_os(CRASH_WATCHDOG_VARIABLE) {
        spec.env.push((CRASH_VARIABLE.into(), point));
    }
    spec
}

/// Runs until the controller ends. `places` needs its journal alone.
///
/// # Errors
/// The run is not undone; the reason is also in `<journal>/watchdog.log`.
pub fn main(places: &Places, id: &RunId) -> Result<(), Error> {
    let lifeline = lifeline();
    // As far as this user may: so that a host without memory can still be given back.
    host::namespace::protect_self();
    report_ready(&serde_json::json!({ "watching": id }));
    if let Some(lifeline) = lifeline {
        await_end(&lifeline);
    }
    let folder = Folder::of(places, id);
    let mut outcome = undo_once(places, id, &folder);
    for pause in RETRY_PAUSES_S {
        if outcome.is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_secs(pause));
        outcome = undo_once(places, id, &folder);
    }
    outcome
}

/// Between two tries the owner lock is free, so that `wringer undo` need not wait for us.
fn undo_once(places: &Places, id: &RunId, folder: &Folder) -> Result<(), Error> {
    if !folder.owner().exists() {
        return Ok(());
    }
    let owner = files::open_lock(&folder.owner())?;
    lock(&owner, &folder.owner())?;
    let settled = journal::read(&folder.journal()).is_ok_and(|reading| reading.state.ended || reading.state.left);
    if settled || !folder.owner().exists() {
        return Ok(());
    }
    let outcome = undo_owned(places, id, &mut |_| {});
    note(places, id, &outcome);
    outcome.map(drop)
}

/// The run's folder has gone with the run: what came of it goes beside it.
fn note(places: &Places, id: &RunId, outcome: &Result<Option<crate::Released>, Error>) {
    let text = match outcome {
        Ok(Some(released)) => {
            let conflicts: String = released
                .conflicts
                .iter()
                .map(|it| format!("; {} is now '{}', repair: {}", it.step, it.found, it.repair))
                .collect();
            format!("its controller died; {} steps undone{conflicts}", released.restored.len())
        }
        Ok(None) => "its controller died before it changed anything".to_owned(),
        Err(error) => format!("its controller died; {error}"),
    };
    if let Ok(mut log) = files::open_log(&watchdog_log(&places.journal)) {
        let now = host::clock::rfc3339(host::clock::unix_seconds());
        let _ = writeln!(log, "{now} {id}: {text}");
    }
}

fn await_end(lifeline: &OwnedFd) {
    let mut byte = [0];
    while !matches!(rustix::io::read(lifeline, &mut byte), Ok(0)) {}
}
