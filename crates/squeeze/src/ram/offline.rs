// SPDX-License-Identifier: Apache-2.0
//! Takes memory blocks offline: the only mechanism that makes `MemTotal` smaller, for servers that size themselves from it. A block
//! goes offline when all its pages can be moved elsewhere; a block with kernel memory refuses. No process holds the blocks: they
//! stay offline until they are undone or the machine boots.

use crate::ram::plan::Plan;
use crate::ram::taken_ram::Taken;
use crate::{Error, Meminfo};
use host::change::memory::{Blocks, Zone, computed_values, online_blocks, take_offline};
use journal::failpoint;
use run::{Computed, Run, Step};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use units::Bytes;

/// A block that is not offline by then waits for a page in use: other blocks may be faster.
const PATIENCE: Duration = Duration::from_secs(1);
/// The pause before refused blocks are tried again: their pages may have been freed meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn take(run: &mut Run, plan: &Plan) -> Result<Taken, Error> {
    let (started, candidates) = (Instant::now(), online_blocks());
    let list = |zone| Blocks(candidates.iter().filter(|it| it.1 == zone).map(|it| it.0).collect()).to_string();
    let values = computed_values().into_iter().map(|(path, before)| Computed { path, before }).collect();
    let step = Step::MemoryBlocks { kernel: list(Zone::Kernel), movable: list(Zone::Movable), values };
    let mut queue = in_order(&candidates);
    let (mut went, mut stopped) = (0, None);
    let (step, ()) = run.step(step, |permit| {
        let mut refused = 0;
        while went < plan.units && stopped.is_none() {
            let Some(block) = queue.pop_front() else { break };
            if take_offline(permit, block, patience(plan, started))? {
                (went, refused) = (went + 1, 0);
                failpoint("between two memory blocks");
            } else {
                queue.push_back(block);
                refused += 1;
            }
            if refused >= queue.len() {
                refused = 0;
                std::thread::sleep(PAUSE);
            }
            stopped = why_stop(plan, started);
        }
        Ok(())
    })?;
    Ok(Taken { stopped, ..Taken::without_process(step, went * plan.unit_bytes, started.elapsed()) })
}

/// How long to wait for the next block. Even at the deadline it is a short time, so that each block gets a try.
fn patience(plan: &Plan, started: Instant) -> Duration {
    let left = plan.options.deadline.saturating_sub(started.elapsed());
    left.clamp(Duration::from_millis(50), PATIENCE)
}

/// Movable blocks first; of the others the highest addresses, where the kernel has least memory of its own.
fn in_order(candidates: &[(u32, Zone)]) -> VecDeque<u32> {
    let of = |zone| candidates.iter().rev().filter(move |it| it.1 == zone).map(|it| it.0);
    of(Zone::Movable).chain(of(Zone::Kernel)).collect()
}

fn why_stop(plan: &Plan, started: Instant) -> Option<String> {
    if Meminfo::now().is_ok_and(|now| now.available_bytes < plan.stop_bytes()) {
        return Some(format!("floor: less than {} are available", Bytes(plan.stop_bytes())));
    }
    let late = started.elapsed() >= plan.options.deadline;
    late.then(|| "the other memory blocks hold pages that cannot be moved".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_easily_goes_first() {
        let blocks = [(1, Zone::Kernel), (2, Zone::Movable), (3, Zone::Movable), (9, Zone::Kernel)];
        assert_eq!(in_order(&blocks), [3, 2, 9, 1]);
    }
}
