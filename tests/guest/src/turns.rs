// SPDX-License-Identifier: Apache-2.0
//! Limits how many guests run at the same time: two, if the machine has room for them, else one. A guest spends half of its time waiting for its
//! disks and its own clock. Of the waiting guests, the one with the longest limit is next, so that no long one runs alone at the end.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The memory of the machine that each guest needs: its RAM, the emulator, and its disks in the page cache.
const MIB_OF_A_GUEST: u64 = 5 << 10;

static TURNS: Turns = Turns::new();

#[derive(Debug)]
struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    running: usize,
    waiting: Vec<Duration>,
}

/// The turn of one guest; it ends when this is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    const fn new() -> Self {
        Self { state: Mutex::new(State { running: 0, waiting: Vec::new() }), changed: Condvar::new() }
    }

    /// Waits until fewer than `most` guests run, and no guest with a longer limit than `limit` waits.
    fn take(&self, limit: Duration, most: usize) -> Turn<'_> {
        let mut state = self.state();
        state.waiting.push(limit);
        let is_next = |state: &State| state.running < most && state.waiting.iter().max() == Some(&limit);
        while !is_next(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.running += 1;
        let own = state.waiting.iter().position(|waiting| *waiting == limit);
        own.map(|own| state.waiting.swap_remove(own));
        // a further guest may have room
        self.changed.notify_all();
        Turn(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.state().running -= 1;
        self.0.changed.notify_all();
    }
}

/// Waits for the turn of a guest that may need `limit`.
pub fn turn(limit: Duration) -> Turn<'static> {
    TURNS.take(limit, side_by_side())
}

/// The number of guests that fit into this machine, with its free memory now.
fn side_by_side() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let mib = available.and_then(|kib| kib.trim().parse::<u64>().ok()).unwrap_or(0) >> 10;
    fitting(processors, mib)
}

fn fitting(processors: usize, available_mib: u64) -> usize {
    if processors >= 2 && available_mib >= 2 * MIB_OF_A_GUEST { 2 } else { 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::thread;

    #[test]
    fn a_small_machine_runs_one() {
        assert_eq!((fitting(2, 20 << 10), fitting(1, 20 << 10), fitting(8, 6 << 10)), (2, 1, 1));
    }

    #[test]
    fn who_may_last_longest_is_next_and_no_more_run_than_may() {
        let turns = Turns::new();
        let (told, order) = channel();
        thread::scope(|scope| {
            let first = turns.take(Duration::from_secs(1), 1);
            for seconds in [2, 9, 5] {
                let (turns, told) = (&turns, told.clone());
                scope.spawn(move || {
                    let _turn = turns.take(Duration::from_secs(seconds), 1);
                    assert_eq!(turns.state().running, 1);
                    told.send(seconds).unwrap();
                });
            }
            while turns.state().waiting.len() < 3 {
                thread::yield_now();
            }
            drop(first);
        });
        assert_eq!(order.try_iter().collect::<Vec<_>>(), [9, 5, 2]);
    }
}
