// SPDX-License-Identifier: Apache-2.0
//! RAM that no process holds: pages of the huge-page pool, memory blocks. What of it is ours, and giving it back.

use host::change::loop_device::LoopDevice;
use host::change::memory::{Blocks, Zone, bring_online, is_online};
use host::change::{POOL, Shrunk, pool_pages, shrink_pool};
use host::permit::Permit;
use journal::{Outcome, Step, StepState};
use std::path::Path;

/// What a step has come to, read back after it: goes into its `done` record.
pub(crate) fn observe(step: &Step) -> Option<String> {
    match step {
        Step::Value { path, .. } => host::change::read_value(path).ok(),
        Step::HugePool { .. } => pool_pages().ok().map(|pages| pages.to_string()),
        Step::MemoryBlocks { kernel, movable } => {
            let listed = [kernel, movable].map(|list| Blocks::parse(list).unwrap_or_default().0);
            Some(Blocks(listed.into_iter().flatten().filter(|block| !is_online(*block)).collect()).to_string())
        }
        Step::LoopDevice { name, .. } => LoopDevice::find(name).map(|device| device.path.display().to_string()),
        _ => None,
    }
}

/// `None`: a step that takes no RAM. May be repeated.
pub(crate) fn give_back(permit: &Permit, step: &StepState) -> Result<Option<Outcome>, host::Error> {
    match &step.change {
        Step::HugePool { before, after } => {
            let observed = step.observed.as_deref().and_then(|text| text.parse().ok());
            let shrunk = shrink_pool(permit, *before, *after, observed)?;
            Ok(Some(pool_outcome(shrunk, *before, observed.unwrap_or(*after))))
        }
        Step::MemoryBlocks { kernel, movable } => {
            let went = step.observed.as_deref().and_then(Blocks::parse);
            let online = |list: &str, zone| bring_online(permit, &ours(list, went.as_ref()), zone);
            // both, also when the first fails
            let (kernel, movable) = (online(kernel, Zone::Kernel), online(movable, Zone::Movable));
            Ok(Some(if kernel? | movable? { Outcome::Restored } else { Outcome::Nothing }))
        }
        _ => Ok(None),
    }
}

/// Of the listed blocks those that went; all of them when the step was cut before that was written down.
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
            repair: crate::executor::repair_command(Path::new(POOL), &before.to_string()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_went_comes_back() {
        let went = Blocks::parse("33,40-41");
        assert_eq!(ours("32-35,41", went.as_ref()).to_string(), "33,41");
        assert_eq!(ours("32-35", None).to_string(), "32-35", "cut before it was written down");
        assert_eq!(ours("32-35", Some(&Blocks::default())).to_string(), "");
    }
}
