// SPDX-License-Identifier: Apache-2.0
//! The body of `wringer internal watchdog`: waits for the end of its controller, and then undoes the run, unless the controller has released it or
//! has left its server running.
//!
//! While the controller lives, the watchdog looks for dangers: a controller that hangs (a lease), memory or disk that runs out, a slow layer that
//! hangs. It counts silence in its own looks, never by a clock: see [`looks`]. At any danger it neutralises the run at once, records why, asks the
//! controller to release, and replaces a controller that does not release.

mod guards;
mod heartbeat;
mod inquiry;
mod kept_journal;
mod layer;
mod lease;
mod limits;
mod watch;

pub(crate) use heartbeat::Heartbeat;
pub use limits::{LIMITS_VARIABLE, Limits};

use crate::Error;
use crate::folder::{Folder, watchdog_log};
use crate::locks::lock;
use crate::undo::undo_read;
use host::files;
use host::places::Places;
use host::process::{self, ChildSpec, lifeline, report_ready};
use journal::{CRASH_VARIABLE, Reading, RunId};
use kept_journal::KeptJournal;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use watch::Watch;

/// The pauses between two tries of the undo. A mount stays in use as long as a process has a file of it open: so the undo is tried without end, with
/// the last of these pauses.
const RETRY_PAUSES_S: [u64; 5] = [1, 2, 5, 15, 30];
/// The number of tries when something else than a step of the undo fails.
const OTHER_TROUBLES: u32 = 40;
/// How long each try waits until others stop using mounts and devices. It is short: the controller may have waited already, and `wringer undo` waits
/// for us.
const PATIENCE: Duration = Duration::from_secs(1);

/// For tests: the value of [`CRASH_VARIABLE`] for the watchdog. It does not inherit the controller's value.
pub const CRASH_WATCHDOG_VARIABLE: &str = "WRINGER_CRASH_WATCHDOG";

/// Whether the slow layer of the run with this folder answers: this crate does not know the layer's protocol. May block as long as the layer hangs;
/// `true` when there is no layer to ask.
pub type LayerProbe = fn(&Path) -> bool;

/// The order that a watchdog gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Order {
    pub run: RunId,
    /// The folder of all journals.
    pub journal: PathBuf,
    /// The folder of the sandboxes.
    pub sandboxes: PathBuf,
    /// When to end a run whose controller lives.
    pub limits: Limits,
}

impl process::Order for Order {
    const ROLE: &'static str = "watchdog";
    type Ready = ();
}

/// How a run starts its watchdog.
pub(crate) fn spec(id: &RunId, places: &Places, limits: Limits) -> Result<ChildSpec, Error> {
    let Places { journal, sandboxes, .. } = places.clone();
    let mut spec =
        ChildSpec { ready: true, ..ChildSpec::internal(&Order { run: id.clone(), journal, sandboxes, limits })? };
    if let Some(point) = std::env::var_os(CRASH_WATCHDOG_VARIABLE) {
        spec.env.push((CRASH_VARIABLE.into(), point));
    }
    Ok(spec)
}

/// Runs until the run has ended.
///
/// # Errors
/// The run is not undone; the reason is also in `<journal>/watchdog.log`.
pub fn main(order: Order, layer_answers: LayerProbe) -> Result<(), Error> {
    let Order { run, journal, sandboxes, limits } = order;
    let (id, places) = (&run, &Places { journal, sandboxes, ..Places::from_environment() });
    let lifeline = lifeline();
    // kept open, so that the run can be undone when its folder is gone
    let kept = KeptJournal::open(Folder::of(places, id));
    // As far as this user may, so that the undo works on a host that has run out of memory.
    host::namespace::protect_self();
    report_ready::<Order>(&());
    let ended_by_us = lifeline
        .is_some_and(|lifeline| Watch::new(places, id, &kept, limits, layer_answers).until_the_end_of(&lifeline));
    let cause = if ended_by_us { "ended by its watchdog" } else { "its controller died" };
    let mut pauses = RETRY_PAUSES_S.iter();
    let mut pause = Duration::ZERO;
    let (mut told, mut other_troubles) = (String::new(), 0);
    loop {
        let outcome = undo_once(places, id, &kept, cause, &mut told);
        match outcome {
            Err(Error::NotRestored { .. }) => {}
            // a journal or a lock that cannot be opened now will hardly open later
            Err(_) if other_troubles < OTHER_TROUBLES => other_troubles += 1,
            settled => return settled,
        }
        pause = pauses.next().map_or(pause, |seconds| Duration::from_secs(*seconds));
        std::thread::sleep(pause);
    }
}

/// Tries the undo once. Between two tries the owner lock is free, so that `wringer undo` need not wait for us.
fn undo_once(places: &Places, id: &RunId, kept: &KeptJournal, cause: &str, told: &mut String) -> Result<(), Error> {
    let folder = kept.folder();
    // When the folder is gone, the lock is gone, too: nobody else can find the run any more, and its controller has ended.
    let owner = folder.owner().exists().then(|| files::open_lock(&folder.owner())).transpose()?;
    if let Some(owner) = &owner {
        lock(owner, &folder.owner())?;
    }
    let (file, reading) = kept.read_to_undo();
    let is_over = match &reading {
        Reading::Whole(content) | Reading::TornTail(content) => {
            let never_began = content.state.begun.is_none() && !folder.path.exists();
            content.state.ended || content.state.left || never_began
        }
        // the user has called the run settled, and its folder was moved aside
        Reading::Damaged(content, _) => content.state.left || !folder.path.exists() && kept.is_aside(),
        Reading::Unknown(..) | Reading::Unreadable(_) => false,
    };
    if is_over {
        return Ok(());
    }
    let outcome = undo_read(places, id, (file, &reading), PATIENCE, &mut |_| {});
    let text = describe(cause, &outcome);
    // logged once, not at every try
    if *told != text {
        note(places, id, &text);
        *told = text;
    }
    outcome.map(drop)
}

fn describe(cause: &str, outcome: &Result<Option<crate::Released>, Error>) -> String {
    match outcome {
        Ok(Some(released)) => {
            let unsure: String =
                released.unsure.iter().map(|unsure| format!("; {}; {}", unsure.why, unsure.cure)).collect();
            let conflicts: String = released
                .conflicts
                .iter()
                .map(|it| format!("; {} is now '{}', repair: {}", it.step, it.found, it.repair))
                .collect();
            format!("{cause}; {} undone{conflicts}{unsure}", units::counted(released.restored.len() as u64, "step"))
        }
        Ok(None) => format!("{cause} before it changed anything"),
        Err(error) => format!("{cause}; {error}"),
    }
}

/// The lines that watchdogs logged within the last `seconds`: runs that they ended, and runs whose controller died. Oldest first.
pub fn last_words(places: &Places, seconds: u64) -> Vec<String> {
    let since = host::clock::rfc3339(host::clock::unix_seconds().saturating_sub(seconds));
    let lines = files::tail(&watchdog_log(&places.journal), 20);
    // times in this form can be compared as text
    lines.into_iter().filter(|line| line.as_str() >= since.as_str()).collect()
}

/// Logs the outcome outside of the run's folder, because that folder is removed with the run.
fn note(places: &Places, id: &RunId, text: &str) {
    if let Ok(mut log) = files::open_log(&watchdog_log(&places.journal)) {
        let now = host::clock::rfc3339(host::clock::unix_seconds());
        let _ = writeln!(log, "{now} {id}: {text}");
    }
}
