// SPDX-License-Identifier: Apache-2.0
//! Bursts: victims whose stalls ended together. Connections that wait for the same thing are released by the same event.

use crate::needs::Most;
use crate::victim::Stalled;
use std::collections::{BTreeMap, HashSet};

/// Ends within this time are together. Under `backoff` each victim ends at its own next try, at most 10 ms and a sleep's overhead after the release.
const TOGETHER_US: i64 = 15_000;
/// So many victims that say nothing alone are a burst when they end together.
const COMPANY: usize = 3;

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

    pub(crate) fn length_us(&self) -> u64 {
        u64::try_from(self.ended_us().saturating_sub(self.began_us())).unwrap_or(0)
    }

    pub(crate) fn lost_us(&self) -> u64 {
        self.victims.iter().map(|victim| victim.lost_us).fold(0, u64::saturating_add)
    }

    /// From the first end to the last one.
    pub(crate) fn ends_within_us(&self) -> u64 {
        let first = self.victims.iter().map(|victim| victim.candidate.ended_us).min().unwrap_or(0);
        u64::try_from(self.ended_us().saturating_sub(first)).unwrap_or(0)
    }

    /// Whether the log says when it was.
    pub(crate) fn is_dated(&self) -> bool {
        self.victims.iter().all(Stalled::is_dated)
    }

    /// The step of the log's clock: the coarsest of all victims.
    pub(crate) fn step_us(&self) -> u64 {
        self.victims.iter().map(|victim| victim.candidate.figures.step_us).max().unwrap_or(1)
    }

    /// Whether several connections ended together, by a clock that is fine enough to tell. Where the log does not name connections, each entry counts as another
    /// connection.
    pub(crate) fn ends_together(&self) -> bool {
        let named: HashSet<&str> = self.victims.iter().map(|it| it.candidate.connection.as_str()).collect();
        let connections = if named.contains("") { self.victims.len() } else { named.len() };
        connections > 1
            && self.step_us() <= 1000
            && self.ends_within_us() <= TOGETHER_US.unsigned_abs() + self.step_us()
    }
}

/// Groups victims by the ends of their stalls. Victims that say nothing alone, and in whose burst there are too few others, are left out.
///
/// A clock of whole seconds cannot separate ends within one second: with such a clock, victims that waited for different things are in different bursts.
pub(crate) fn bursts(victims: Vec<Stalled>) -> Vec<Burst> {
    let mut apart: BTreeMap<Option<Most>, Vec<Stalled>> = BTreeMap::new();
    for victim in victims {
        let is_coarse = victim.candidate.figures.step_us > 1000;
        apart.entry(is_coarse.then(|| victim.parts.most())).or_default().push(victim);
    }
    let mut found: Vec<Burst> = apart.into_values().flat_map(by_their_ends).collect();
    found.sort_by_key(Burst::ended_us);
    found.retain(|burst| burst.victims.len() >= COMPANY || burst.victims.iter().any(|it| !it.needs_company()));
    without_the_usual(found)
}

fn by_their_ends(mut victims: Vec<Stalled>) -> Vec<Burst> {
    victims.sort_by_key(|victim| (victim.candidate.ended_us, victim.candidate.took_us));
    let mut found: Vec<Burst> = Vec::new();
    for victim in victims {
        let gap = TOGETHER_US.saturating_add_unsigned(victim.candidate.figures.step_us.min(1_000_000));
        match found.last_mut() {
            Some(burst)
                if victim.is_dated()
                    && burst.is_dated()
                    && victim.candidate.ended_us.saturating_sub(burst.ended_us()) <= gap
                    && overlaps(burst, &victim) =>
            {
                burst.victims.push(victim);
            }
            _ => found.push(Burst { victims: vec![victim] }),
        }
    }
    found
}

/// Whether the victim began before the first victim of the burst had ended, as far as the clock tells.
fn overlaps(burst: &Burst, victim: &Stalled) -> bool {
    burst.victims.first().is_some_and(|first| {
        victim.began_us() <= first.candidate.ended_us.saturating_add_unsigned(victim.candidate.figures.step_us)
    })
}

/// Removes victims of classes that are slow most of the time and have no quick statement: their statements are slow, and not stalled.
fn without_the_usual(mut bursts: Vec<Burst>) -> Vec<Burst> {
    let unknown = |burst: &Burst| burst.victims.iter().all(|victim| !victim.has_usual);
    let (first, last) = (bursts.iter().map(Burst::began_us).min(), bursts.iter().map(Burst::ended_us).max());
    let span = last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
    let busy: u64 = bursts.iter().filter(|burst| unknown(burst)).map(Burst::length_us).fold(0, u64::saturating_add);
    let longest = bursts.iter().map(Burst::length_us).max().unwrap_or(0);
    let span = u64::try_from(span).unwrap_or(0);
    if span > longest.saturating_mul(10) && busy > span / 2 {
        bursts.retain(|burst| !unknown(burst));
    }
    bursts
}
