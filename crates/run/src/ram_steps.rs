// SPDX-License-Identifier: Apache-2.0
//! Giving back RAM that no process holds: pages of the huge-page pool, and memory blocks. Only the part that the step took is given back.

use crate::dismantle::repair_command;
use host::change::memory::{Blocks, Zone, bring_online};
use host::change::{POOL, PoolSize, Restored, Shrunk, restore_value, shrink_pool};
use host::permit::Permit;
use journal::{Computed, Outcome, Step, StepState};
use std::path::Path;

/// Gives back the RAM of a step. `None`: the step takes no RAM. May be repeated.
pub(crate) fn give_back(permit: &Permit, step: &StepState) -> Result<Option<Outcome>, host::Error> {
    match &step.change {
        Step::HugePool { before, after, nodes } => {
            let grown = step.observed.as_deref().and_then(PoolSize::parse);
            let shrunk = shrink_pool(permit, *before, *after, grown.as_ref(), nodes)?;
            Ok(Some(pool_outcome(shrunk, *before, grown.map_or(*after, |grown| grown.pages))))
        }
        Step::MemoryBlocks { kernel, movable, values } => {
            let went = step.observed.as_deref().and_then(Blocks::parse);
            let online = |list: &str, zone| bring_online(permit, &ours(list, went.as_ref()), zone);
            // both lists are tried, even when the first fails
            let (kernel, movable) = (online(kernel, Zone::Kernel), online(movable, Zone::Movable));
            let came = kernel? | movable?;
            // when no block went offline, the kernel has computed nothing: a value that differs was set by somebody else
            let values = if went.is_some_and(|went| went.0.is_empty()) { &[] } else { values.as_slice() };
            let put_back = put_values_back(permit, values)?;
            Ok(Some(if came | put_back { Outcome::Restored } else { Outcome::Nothing }))
        }
        _ => Ok(None),
    }
}

/// Restores each value, whatever it is now: a value that the kernel has computed looks like one that somebody has set meanwhile.
fn put_values_back(permit: &Permit, values: &[Computed]) -> Result<bool, host::Error> {
    let mut any = false;
    for Computed { path, before } in values {
        let found = host::change::read_value(path)?;
        any |= restore_value(permit, path, before, &[&found])? == Restored::Restored;
    }
    Ok(any)
}

/// The listed blocks that went offline; all listed blocks when the step was interrupted before it recorded which blocks went offline.
fn ours(list: &str, went: Option<&Blocks>) -> Blocks {
    let listed = Blocks::parse(list).unwrap_or_default();
    match went {
        Some(went) => Blocks(listed.0.intersection(&went.0).copied().collect()),
        None => listed,
    }
}

fn pool_outcome(shrunk: Shrunk, before: u64, expected: u64) -> Outcome {
    match shrunk {
        Shrunk::Restored => Outcome::Restored,
        Shrunk::Already => Outcome::Nothing,
        Shrunk::Foreign(found) => Outcome::Conflict {
            expected: expected.to_string(),
            found: found.to_string(),
            repair: repair_command(Path::new(POOL), &before.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods)] // of a file of the test's own
    fn what_the_kernel_made_of_a_value_is_put_back_once_blocks_went() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let undo = |found: &str, observed: Option<&str>| {
            std::fs::write(file.path(), found).expect("writes");
            let value = Computed { path: file.path().to_owned(), before: "61834".into() };
            let change = Step::MemoryBlocks { kernel: String::new(), movable: String::new(), values: vec![value] };
            let step = StepState {
                id: journal::StepId(1),
                change,
                oom_victim: journal::OomVictim::default(),
                phase: journal::Phase::Done,
                completed: observed.is_some(),
                processes: vec![],
                observed: observed.map(str::to_owned),
            };
            let outcome = give_back(&Permit::issue(1), &step).expect("undoes");
            (outcome, std::fs::read_to_string(file.path()).expect("reads"))
        };
        assert_eq!(undo("61324", Some("40")), (Some(Outcome::Restored), "61834".into()));
        assert_eq!(undo("61324", None), (Some(Outcome::Restored), "61834".into()), "cut before it was written down");
        assert_eq!(undo("61834", Some("40")), (Some(Outcome::Nothing), "61834".into()));
        assert_eq!(undo("7", Some("")), (Some(Outcome::Nothing), "7".into()), "no block went");
    }

    #[test]
    fn only_what_went_comes_back() {
        let went = Blocks::parse("33,40-41");
        assert_eq!(ours("32-35,41", went.as_ref()).to_string(), "33,41");
        assert_eq!(ours("32-35", None).to_string(), "32-35", "cut before it was written down");
        assert_eq!(ours("32-35", Some(&Blocks::default())).to_string(), "");
    }
}
