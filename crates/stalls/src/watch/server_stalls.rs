// SPDX-License-Identifier: Apache-2.0
//! Stalls of the whole server that are told even if no victim is known: the server was stopped, or it did not answer the canary.

use super::group::STILL;
use super::sample::Stop;
use super::side_evidence::Canary;
use crate::cause::{Cause, Evidence, ms};
use crate::explained::Stall;

/// What is to be said of a server that was stopped.
pub(super) fn stopped(stop: Stop, length_us: u64) -> String {
    let by = match stop {
        Stop::Signal => "a signal (SIGSTOP)",
        Stop::Tracer => "a tracer (a debugger)",
        Stop::Freezer => "the freezer of its cgroup",
    };
    format!("the server was stopped by {by} for {}", ms(length_us))
}

/// A time in which the whole server did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whole {
    pub(super) from_us: u64,
    pub(super) to_us: u64,
    /// `None`: only the canary has shown it.
    pub(super) stop: Option<Stop>,
    /// Whether it was not over when it was told.
    pub(super) is_open: bool,
}

impl Whole {
    fn length_us(&self) -> u64 {
        self.to_us.saturating_sub(self.from_us)
    }

    /// Whether a stall at that time has half of it or more.
    fn is_in(&self, from_us: u64, to_us: u64) -> bool {
        let both_us = to_us.min(self.to_us).saturating_sub(from_us.max(self.from_us));
        both_us.saturating_mul(2) >= self.length_us()
    }

    /// `started_unix_us`: when the watch began.
    pub(super) fn stall(self, started_unix_us: u64) -> Stall {
        let length_us = self.length_us();
        let mut evidence = match self.stop {
            Some(stop) => Evidence {
                speaks_for: vec![stopped(stop, length_us)],
                against: vec!["no connection is known whose client waited".to_owned()],
            },
            None => Evidence {
                // how long the canary took is added to every stall
                speaks_for: Vec::new(),
                against: vec!["no connection was seen waiting; perhaps this watch itself had no CPU".to_owned()],
            },
        };
        evidence.against.extend(self.is_open.then(|| STILL.to_owned()));
        Stall {
            started_us: i64::try_from(started_unix_us.saturating_add(self.from_us)).ok(),
            length_us,
            cause: Cause::Unknown,
            confidence: 0.0,
            lost_query_us: 0,
            ends_within_us: 0,
            goes_on: self.is_open,
            evidence,
            held_by: Vec::new(),
            victim_count: 0,
            victims: Vec::new(),
        }
    }
}

/// Times in which the whole server did nothing, until a stall is told that has them.
#[derive(Debug, Default)]
pub(super) struct Wholes {
    /// The stop that goes on.
    open: Option<Whole>,
    before_us: Option<u64>,
    untold: Vec<Whole>,
}

impl Wholes {
    /// Takes what one look has shown.
    pub(super) fn look(&mut self, at_us: u64, stop: Option<Stop>, least_us: u64) {
        let middle_us = self.before_us.replace(at_us).map_or(at_us, |before| before.midpoint(at_us));
        match (&mut self.open, stop) {
            (Some(open), Some(_)) => open.to_us = at_us,
            (None, Some(_)) => self.open = Some(Whole { from_us: middle_us, to_us: at_us, stop, is_open: true }),
            (Some(open), None) => {
                open.is_open = false;
                self.end(middle_us, least_us);
            }
            (None, None) => {}
        }
    }

    /// The watch or the stop ends.
    pub(super) fn end(&mut self, at_us: u64, least_us: u64) {
        let ended = self.open.take().map(|open| Whole { to_us: at_us.max(open.to_us), ..open });
        self.untold.extend(ended.filter(|it| it.length_us() >= least_us));
    }

    /// `is_open`: whether it has no answer yet.
    pub(super) fn canary(&mut self, run: Canary, least_us: u64, is_open: bool) {
        if run.took_us >= least_us {
            let to_us = run.from_us.saturating_add(run.took_us);
            self.untold.push(Whole { from_us: run.from_us, to_us, stop: None, is_open });
        }
    }

    /// A stall at that time is told: it has those of the same time in it.
    pub(super) fn told(&mut self, from_us: u64, to_us: u64) {
        self.untold.retain(|it| !it.is_in(from_us, to_us));
    }

    /// Takes those that no stall has in it, and will not have. `is_over`: no stall that is still to be told can have it. A stop has the canary's wait in it.
    pub(super) fn over(&mut self, is_over: impl Fn(&Whole) -> bool) -> Vec<Whole> {
        let mut over = Vec::new();
        self.untold.sort_by_key(|it| (it.stop.is_none(), it.from_us));
        while let Some(nth) = self.untold.iter().position(&is_over) {
            let whole = self.untold.remove(nth);
            self.told(whole.from_us, whole.to_us);
            over.push(whole);
        }
        over
    }

    /// The stop that goes on, if it has lasted so long.
    pub(super) fn going_on(&self, now_us: u64, least_us: u64) -> Option<Whole> {
        let so_far = self.open.map(|open| Whole { to_us: now_us.max(open.to_us), ..open });
        so_far.filter(|it| it.length_us() >= least_us)
    }
}

#[cfg(test)]
#[path = "whole_tests.rs"]
mod tests;
