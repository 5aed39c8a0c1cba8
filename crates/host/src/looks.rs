// SPDX-License-Identifier: Apache-2.0
//! Which looks of a watcher count, when the watcher waits for a silence of others. This module reads no clock: the time is passed in.
//!
//! No clock of the kernel stops while a process is frozen (cgroup freezer, `docker pause`) or stopped (SIGSTOP), and some clocks go on while the
//! machine is suspended. So the time of a silence proves nothing when the watcher itself stood still meanwhile. Instead the silence is counted in
//! looks of the running watcher.

use std::time::Duration;

/// A look that comes after this many times the asked pause comes after a standstill.
const JUMP: u32 = 5;
/// This many looks after a jump do not count: a process that stood still together with the watcher may wake a little later.
const LOOKS_AFTER_A_JUMP: u32 = 3;

/// The looks of one watcher.
#[derive(Debug, Clone)]
pub struct Looks {
    every: Duration,
    last: Duration,
    /// The number of looks after a jump that are still to come and do not count.
    uncounted: u32,
}

impl Looks {
    /// A look is due after each `every`; `now` is the time of a clock that never goes back.
    pub fn new(every: Duration, now: Duration) -> Self {
        Self { every, last: now, uncounted: 0 }
    }

    /// Whether a silence that is found at this look counts. To be called once at each look.
    pub fn counts(&mut self, now: Duration) -> bool {
        let jumped = now.saturating_sub(self.last) > self.every * JUMP;
        self.last = now;
        if jumped {
            self.uncounted = LOOKS_AFTER_A_JUMP;
            return false;
        }
        let counts = self.uncounted == 0;
        self.uncounted = self.uncounted.saturating_sub(1);
        counts
    }
}

/// The length of a silence: the number of looks that count, one after the other.
#[derive(Debug, Clone)]
pub struct Silence {
    allowed: u32,
    looks: u32,
}

impl Silence {
    /// A silence of more than `allowed` looks is too long.
    pub fn of(allowed: u32) -> Self {
        Self { allowed, looks: 0 }
    }

    /// To be called at a sign of life: the silence ends.
    pub fn end(&mut self) {
        self.looks = 0;
    }

    /// To be called at a look that finds no sign of life; `counts` is the answer of [`Looks::counts`]. `Some`: the silence is too long now, with this
    /// number of looks.
    pub fn look(&mut self, counts: bool) -> Option<u32> {
        self.looks = self.looks.saturating_add(u32::from(counts));
        (self.looks > self.allowed).then_some(self.looks)
    }

    /// Whether there is no silence now.
    pub fn is_over(&self) -> bool {
        self.looks == 0
    }
}

/// How many looks fit into a time.
pub fn looks_in(time: Duration, every: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(every.as_millis().max(1))).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(seconds: &[u64]) -> Vec<bool> {
        let mut looks = Looks::new(Duration::from_secs(1), Duration::from_secs(1000));
        seconds.iter().map(|second| looks.counts(Duration::from_secs(*second))).collect()
    }

    #[test]
    fn after_a_jump_three_more_looks_do_not_count() {
        assert_eq!(counted(&[1001, 1002, 1006]), [true; 3], "a busy machine");
        assert_eq!(counted(&[1001, 1037, 1038, 1039, 1040, 1041]), [true, false, false, false, false, true]);
        assert_eq!(
            counted(&[1036, 1037, 1073, 1074, 1075, 1076, 1077]),
            [false, false, false, false, false, false, true]
        );
    }

    #[test]
    fn a_silence_is_too_long_after_what_is_allowed() {
        let mut silence = Silence::of(2);
        assert_eq!([true, false, true, true].map(|counts| silence.look(counts)), [None, None, None, Some(3)]);
        assert_eq!((silence.look(false), silence.is_over()), (Some(3), false));
        silence.end();
        assert_eq!((silence.is_over(), silence.look(true)), (true, None));
    }

    #[test]
    fn looks_of_a_time() {
        let of = |time_ms, every_ms| looks_in(Duration::from_millis(time_ms), Duration::from_millis(every_ms));
        assert_eq!((of(30_000, 1000), of(1500, 400), of(7, 0)), (30, 4, 7));
    }
}
