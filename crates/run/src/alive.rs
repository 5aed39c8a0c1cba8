// SPDX-License-Identifier: Apache-2.0
//! Whether processes of a run live: the lock on the run's token answers that, not `/proc`. Every process of a run has inherited the open file
//! description of the token, and with it the lock; the kernel frees the lock when the last of these processes ends. Unlike a process, a lock can be
//! seen from every namespace, by every user who may open the file.

use crate::folder::Folder;
use crate::locks::look;
use host::process::{Identity, Namespaces, Sight, Unlisted, with_mark};
use journal::{RunId, State};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often to look: a process that ends disappears from `/proc` a moment before its files are closed, on a busy host half a second before.
const LOOKS: u32 = 8;
const BETWEEN_LOOKS: Duration = Duration::from_millis(60);

/// The tokens that stayed locked by an unseen process through all looks of this process: it does not wait for them again. A command asks about one
/// run several times, and would otherwise wait each time.
static WAITED_FOR: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// The answer to the question whether a run's processes live.
#[derive(Debug, Default)]
pub(crate) struct Alive {
    /// The processes that are seen, in the order of their start.
    pub(crate) seen: Vec<Identity>,
    /// Why the run has, or may have, processes that cannot be seen from here.
    pub(crate) unknown: Option<String>,
}

/// `sight`: the processes that had the run's mark a moment ago. `state`: the state of the run's journal, when the journal can be read.
pub(crate) fn alive(folder: &Folder, id: &RunId, mut sight: Sight, state: Option<&State>) -> Alive {
    let token = folder.token();
    let waited_for = || WAITED_FOR.lock().unwrap_or_else(PoisonError::into_inner);
    let most_looks = if waited_for().contains(&token) { 1 } else { LOOKS };
    let mut looks = 1;
    loop {
        let unknown = match look(&token) {
            Ok(false) => None,
            Ok(true) if takes_unseen_for_dead() => None,
            Ok(true) => hidden(&token, &sight, state),
            Err(error) => Some(format!("whether its processes live cannot be told: {}: {error}", token.display())),
        };
        if unknown.is_none() {
            return Alive { seen: sight.found, unknown };
        }
        if looks == most_looks {
            waited_for().insert(token);
            return Alive { seen: sight.found, unknown };
        }
        looks += 1;
        std::thread::sleep(BETWEEN_LOOKS);
        sight = with_mark(&token, id.as_str());
    }
}

/// For tests: processes that cannot be seen count as dead, as in an earlier version.
pub fn takes_unseen_for_dead() -> bool {
    journal::forgets_kind("unseen")
}

/// Why a process of the run may be hidden. To be called when the token is locked: then a process lives. `None`: all processes of the run are seen.
fn hidden(token: &Path, sight: &Sight, state: Option<&State>) -> Option<String> {
    let unseen = &sight.unseen;
    if unseen.unlisted == Some(Unlisted::OtherProc) {
        return Some(unseen.to_string());
    }
    // in another pid namespace the journal's pids name other processes; a user namespace only hides processes from those inside it
    let began_in = state.and_then(|state| state.begun.as_ref()?.namespaces);
    if let (Some(began_in), Some(own)) = (began_in, Namespaces::own())
        && began_in.pid != own.pid
    {
        return Some(format!("processes of it live in another pid namespace than ours (pid:[{}])", began_in.pid));
    }
    let recorded = state.into_iter().flat_map(|state| &state.steps).flat_map(|step| &step.processes);
    let missed: Vec<String> = recorded
        .filter(|process| !sight.found.contains(process) && process.is_alive() && !process.may_be_looked_into())
        .map(|process| process.pid.to_string())
        .collect();
    if !missed.is_empty() {
        return Some(format!("its process {} lives, and cannot be looked into from here", missed.join(", ")));
    }
    // the caller may be a process of the run: a squeezed command
    if !sight.is_empty() || (is_ours(token) && !unseen.may_hide_ours()) {
        return None;
    }
    Some(format!("processes of it live that cannot be seen from here ({unseen})"))
}

/// Whether this process holds the token itself.
fn is_ours(token: &Path) -> bool {
    let links = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    links.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|link| link == token)
}
