// SPDX-License-Identifier: Apache-2.0
//! Bursts: victims whose stalls ended together. Connections that wait for the same thing are released by the same event.

use crate::needs::Most;
use crate::victim::{Candidate, Stalled};
use std::collections::{BTreeMap, HashSet};

/// Ends within this time are together. Under `backoff` each victim ends at its own next try, at most 10 ms and a sleep's overhead after the release.
const TOGETHER_US: i64 = 15_000;
/// On a busy host, connections that are released together wait for a CPU, some for several turns of others. Ends that lie apart by this part of the time
/// that was waited, at most [`TOGETHER_BUSY_US`], are together too: connections that wait for different things seldom end so close.
const TOGETHER_PART: u64 = 20;
/// Some turns of a CPU's scheduler.
const TOGETHER_BUSY_US: i64 = 50_000;
/// So many victims that say nothing alone are a burst when they end together.
const COMPANY: usize = 3;
/// The coarsest step of a clock that tells which statements ended together.
const FINE_US: u64 = 1000;
const SECOND_US: i64 = 1_000_000;

#[derive(Debug, Clone)]
pub(crate) struct Burst {
    /// In the order of their ends. Never empty.
    pub(crate) victims: Vec<Stalled>,
}

impl Burst {
    pub(crate) fn began_us(&self) -> i64 {
        self.victims.iter().map(Stalled::began_us).min().unwrap_or(0)
    }

    pub(crate) fn ended_us(&self) -> i64 {
        self.victims.iter().map(|victim| victim.candidate.ended_us).max().unwrap_or(0)
    }

    fn first_end_us(&self) -> i64 {
        self.victims.iter().map(|victim| victim.candidate.ended_us).min().unwrap_or(0)
    }

    /// From the first begin to the last end. A clock of whole seconds does not tell these moments: then it is the longest time of a victim.
    pub(crate) fn length_us(&self) -> u64 {
        if self.step_us() > FINE_US {
            return self.victims.iter().map(|victim| victim.candidate.took_us).max().unwrap_or(0);
        }
        u64::try_from(self.ended_us().saturating_sub(self.began_us())).unwrap_or(0)
    }

    pub(crate) fn lost_us(&self) -> u64 {
        self.victims.iter().map(|victim| victim.lost_us).fold(0, u64::saturating_add)
    }

    /// From the first end to the last one.
    pub(crate) fn ends_within_us(&self) -> u64 {
        u64::try_from(self.ended_us().saturating_sub(self.first_end_us())).unwrap_or(0)
    }

    /// Whether the log says when it was.
    pub(crate) fn is_dated(&self) -> bool {
        self.victims.iter().all(Stalled::is_dated)
    }

    /// The step of the log's clock: the coarsest of all victims.
    pub(crate) fn step_us(&self) -> u64 {
        self.victims.iter().map(|victim| victim.candidate.figures.step_us).max().unwrap_or(1)
    }

    /// The time within which ends are together, for victims that waited as long as the one that waited least.
    fn together_us(&self) -> i64 {
        together_us(self.victims.iter().map(|victim| victim.lost_us).min().unwrap_or(0), self.step_us())
    }

    /// Whether several connections ended together as tries of `backoff` do, by a clock that is fine enough to tell. Where the log does not name connections, each entry counts as another
    /// connection.
    pub(crate) fn ends_together(&self) -> bool {
        let named: HashSet<&str> = self.victims.iter().map(|it| it.candidate.connection.as_str()).collect();
        let connections = if named.contains("") { self.victims.len() } else { named.len() };
        connections > 1
            && self.step_us() <= FINE_US
            && self.ends_within_us() <= TOGETHER_US.unsigned_abs() + self.step_us()
    }
}

/// The time within which ends are together, of victims that lost at least `lost_us`, by a clock with this step.
fn together_us(lost_us: u64, step_us: u64) -> i64 {
    let part = i64::try_from(lost_us / TOGETHER_PART).unwrap_or(i64::MAX);
    part.clamp(TOGETHER_US, TOGETHER_BUSY_US).saturating_add_unsigned(step_us)
}

/// Groups victims by the ends of their stalls. Returns also the victims that are in no burst: those that say nothing alone, where too few others ended with
/// them, and those of classes that are slow most of the time.
///
/// A clock of whole seconds cannot separate ends within one second: with such a clock, victims that waited for different things are in different bursts.
pub(crate) fn bursts(victims: Vec<Stalled>) -> (Vec<Burst>, Vec<Stalled>) {
    let mut fine = Vec::new();
    let mut coarse: BTreeMap<Most, Vec<Stalled>> = BTreeMap::new();
    for victim in victims {
        if victim.candidate.figures.step_us > FINE_US {
            coarse.entry(victim.parts.most()).or_default().push(victim);
        } else {
            fine.push(victim);
        }
    }
    fine.sort_by_key(|victim| (victim.candidate.ended_us, victim.candidate.took_us));
    let mut found = grouped(fine, ended_together);
    // a log has its entries in the order in which their statements ended
    found.extend(coarse.into_values().flat_map(|victims| grouped(victims, may_have_ended_together)));
    found.sort_by_key(Burst::ended_us);
    let says_enough =
        |burst: &Burst| burst.victims.len() >= COMPANY || burst.victims.iter().any(|it| !it.needs_company());
    let (found, alone): (Vec<Burst>, Vec<Burst>) = found.into_iter().partition(says_enough);
    let (found, usual) = without_the_usual(found);
    (found, alone.into_iter().chain(usual).flat_map(|burst| burst.victims).collect())
}

/// `is_of`: whether a victim belongs to the burst before it.
fn grouped(victims: Vec<Stalled>, is_of: fn(&Burst, &Stalled) -> bool) -> Vec<Burst> {
    let mut found: Vec<Burst> = Vec::new();
    for victim in victims {
        match found.last_mut() {
            Some(burst) if victim.is_dated() && burst.is_dated() && is_of(burst, &victim) => burst.victims.push(victim),
            _ => found.push(Burst { victims: vec![victim] }),
        }
    }
    found
}

/// By a clock that tells the moment: the victim ended soon after the burst, and began before the first victim of the burst had ended.
fn ended_together(burst: &Burst, victim: &Stalled) -> bool {
    let step_us = victim.candidate.figures.step_us;
    let gap = burst.together_us().min(together_us(victim.lost_us, step_us));
    let overlaps = burst
        .victims
        .first()
        .is_some_and(|first| victim.began_us() <= first.candidate.ended_us.saturating_add_unsigned(step_us));
    victim.candidate.ended_us.saturating_sub(burst.ended_us()) <= gap && overlaps
}

/// By a clock of whole seconds: one moment may be the end of all of them. A connection waits once at a time: its next statement is in another burst.
fn may_have_ended_together(burst: &Burst, victim: &Stalled) -> bool {
    let Candidate { connection, ended_us, figures, .. } = &victim.candidate;
    let is_again = !connection.is_empty() && burst.victims.iter().any(|it| it.candidate.connection == *connection);
    let spread = burst.ended_us().max(*ended_us).saturating_sub(burst.first_end_us().min(*ended_us));
    // where the log tells the second of the end, only ends in the same second; where it tells the second of the begin, the end is known to a second
    let is_second = |us: i64| us.rem_euclid(SECOND_US) == 0;
    let allowed = if is_second(*ended_us) && is_second(burst.ended_us()) { 0 } else { TOGETHER_US };
    !is_again && spread < allowed.saturating_add_unsigned(figures.step_us)
}

/// Separates victims of classes that are slow most of the time and have no quick statement: their statements are slow, and not stalled.
fn without_the_usual(bursts: Vec<Burst>) -> (Vec<Burst>, Vec<Burst>) {
    let unknown = |burst: &Burst| burst.victims.iter().all(|victim| !victim.has_usual && !victim.is_told_to_wait());
    let (first, last) = (bursts.iter().map(Burst::began_us).min(), bursts.iter().map(Burst::ended_us).max());
    let span = last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
    let busy: u64 = bursts.iter().filter(|burst| unknown(burst)).map(Burst::length_us).fold(0, u64::saturating_add);
    let longest = bursts.iter().map(Burst::length_us).max().unwrap_or(0);
    let span = u64::try_from(span).unwrap_or(0);
    if span > longest.saturating_mul(10) && busy > span / 2 {
        return bursts.into_iter().partition(|burst| !unknown(burst));
    }
    (bursts, Vec::new())
}
