// SPDX-License-Identifier: Apache-2.0
//! Counts one operation that reached the disk, and holds it until it is due.

use super::files::Slow;
use super::sys::{self, File, Slept};
use crate::class::Class;
use crate::shared::Shared;
use crate::shared_model::Request;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// A sleep that is shorter than this always ends too late.
const SHORTEST_SLEEP_NS: u64 = 5_000;

/// One operation, and when it was asked for.
#[derive(Clone, Copy)]
pub(super) struct Done {
    pub(super) class: Class,
    pub(super) offset: u64,
    pub(super) bytes: usize,
    pub(super) arrived: u64,
}

/// Whether a model is in force. Then operations are counted, also when the delay is 0.
#[inline]
pub(super) fn in_force(slow: Slow) -> bool {
    slow.shared.in_force.load(Relaxed) != 0
}

/// Returns when the operation is due. Leaves `errno` alone.
pub(super) fn hold(slow: Slow, file: &File, done: Done) {
    let finished = sys::now();
    let shared = slow.shared;
    let word = shared.in_force.load(Acquire);
    if shared.bank(word).is_none() {
        return;
    }
    let Some(counted) = shared.classes.get(done.class as usize) else { return };
    counted.operations.fetch_add(1, Relaxed);
    counted.bytes.fetch_add(done.bytes as u64, Relaxed);
    let (start, takes) = due(shared, word, file, done, finished);
    let due = start.saturating_add(takes);
    if due > finished {
        counted.delayed.fetch_add(1, Relaxed);
        if shared.lease_until_ns.load(Relaxed) <= finished {
            shared.lapsed.fetch_add(1, Relaxed);
        } else {
            wait(shared, word, due, file, done, finished);
        }
    }
    let since = |moment: u64| moment.saturating_sub(done.arrived);
    counted.own.record(since(finished));
    counted.asked.record(since(due.max(finished)));
    counted.got.record(since(sys::now()));
}

/// The time from which the delay counts, and the delay.
fn due(shared: &Shared, word: u32, file: &File, done: Done, finished: u64) -> (u64, u64) {
    let Some(bank) = shared.bank(word) else { return (finished, 0) };
    let start = if bank.is_total() { done.arrived } else { finished };
    let Done { class, offset, bytes, .. } = done;
    let identity = file.inode ^ file.device.rotate_left(40);
    (start, bank.takes_ns(Request { class, file: identity, offset, bytes: bytes as u64 }, start))
}

/// Sleeps with the finest timer, wakes early by the known overshoot, and spins for the rest.
fn wait(shared: &Shared, mut word: u32, mut until: u64, file: &File, done: Done, finished: u64) {
    let slack = sys::timer_slack();
    sys::set_timer_slack(1);
    loop {
        let now = sys::now();
        if now >= until {
            break;
        }
        let lease = shared.lease_until_ns.load(Relaxed);
        if lease <= now {
            shared.lapsed.fetch_add(1, Relaxed);
            break;
        }
        let current = shared.in_force.load(Acquire);
        if current != word {
            // A new model may end the wait earlier, never later. Each model is asked once.
            word = current;
            let (start, takes) = due(shared, word, file, done, finished);
            until = until.min(start.saturating_add(takes));
            continue;
        }
        sleep(shared, word, now, until, lease);
    }
    sys::set_timer_slack(slack);
}

fn sleep(shared: &Shared, word: u32, now: u64, until: u64, lease: u64) {
    let left = until - now;
    let lead = shared.lead.of(left);
    if left <= lead + SHORTEST_SLEEP_NS {
        return spin(shared, word, now, until);
    }
    let target = until - lead;
    if target > lease {
        sys::sleep(&shared.in_force, word, lease);
    } else if let Slept::TimedOut = sys::sleep(&shared.in_force, word, target) {
        shared.lead.learn(left, sys::now().saturating_sub(target));
    }
}

/// Spins for the last microseconds. Only one thread of all processes spins; the others sleep, and are a little late.
fn spin(shared: &Shared, word: u32, now: u64, until: u64) {
    let spinning = shared.spinning_until_ns.load(Relaxed);
    let mine = spinning <= now && shared.spinning_until_ns.compare_exchange(spinning, until, Relaxed, Relaxed).is_ok();
    if !mine {
        sys::sleep(&shared.in_force, word, until);
        return;
    }
    while sys::now() < until && shared.in_force.load(Relaxed) == word {
        core::hint::spin_loop();
    }
    let _ = shared.spinning_until_ns.compare_exchange(until, 0, Relaxed, Relaxed);
}
