// SPDX-License-Identifier: Apache-2.0
//! Whether processes of a run live. The lock on the run's token says so, not `/proc`: every process of a run has inherited the token's open
//! file description, and with it the lock, which the kernel frees with the last of them. A lock is seen from every namespace, and by every
//! user who may open the file; processes are not.

use crate::folder::Folder;
use crate::locks::look;
use host::process::{Identity, Namespaces, Sight, Unlisted, with_mark};
use journal::{RunId, State};
use std::path::Path;
use std::time::Duration;

/// A process that ends is out of sight a moment before its files are closed.
const LOOKS: u32 = 10;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// What can be said of a run's processes.
#[derive(Debug, Default)]
pub(crate) struct Alive {
    /// That are seen, by their start.
    pub(crate) seen: Vec<Identity>,
    /// Why there are others, or may be, that cannot be seen from here.
    pub(crate) unknown: Option<String>,
}

/// `sight`: of its mark, a moment ago. `state`: what the run's journal says, when it can be read.
pub(crate) fn alive(folder: &Folder, id: &RunId, mut sight: Sight, state: Option<&State>) -> Alive {
    let token = folder.token();
    let mut looks = 1;
    loop {
        let unknown = match look(&token) {
            Ok(false) => None,
            Ok(true) if takes_unseen_for_dead() => None,
            Ok(true) => hidden(&token, &sight, state),
            Err(error) => Some(format!("whether its processes live cannot be told: {}: {error}", token.display())),
        };
        if unknown.is_none() || looks == LOOKS {
            return Alive { seen: sight.found, unknown };
        }
        looks += 1;
        std::thread::sleep(BETWEEN_LOOKS);
        sight = with_mark(&token, id.as_str());
    }
}

/// For tests: what a look does not reach counts as gone, as it once did.
pub fn takes_unseen_for_dead() -> bool {
    journal::forgets_kind("unseen")
}

/// The token is locked: somebody lives. `None`: all of them are seen.
fn hidden(token: &Path, sight: &Sight, state: Option<&State>) -> Option<String> {
    let unseen = &sight.unseen;
    if unseen.unlisted == Some(Unlisted::OtherProc) {
        return Some(unseen.to_string());
    }
    // in another pid namespace the journal's numbers are other processes; a user namespace only hides, and from outside hides nothing
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
    // we may be one of its processes: a squeezed command
    if !sight.is_empty() || (is_ours(token) && !unseen.may_hide_ours()) {
        return None;
    }
    Some(format!("processes of it live that cannot be seen from here ({unseen})"))
}

/// Whether we hold the token ourselves.
fn is_ours(token: &Path) -> bool {
    let links = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    links.filter_map(|entry| std::fs::read_link(entry.path()).ok()).any(|link| link == token)
}
