// SPDX-License-Identifier: Apache-2.0
//! The figures and outcomes of one recording that a sweep uses.

use crate::pair::hindering;
use crate::state::FigureOf;
use evidence::{Arm, ArmOutcome, DataHow, Evidence};
use explain::busy::Busy;
use explain::sides::{Conditions, conditions};
use explain::{figures, steady};
use std::collections::{BTreeMap, BTreeSet};
use verdict::Verdict;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) outcomes: BTreeMap<String, String>,
    pub(crate) figures: Vec<FigureOf>,
    pub(crate) conditions: Conditions,
    /// What else the host was busy with, in words; empty: it was quiet enough.
    pub(crate) busy: Vec<String>,
    /// Arms whose halves do not agree, in words.
    pub(crate) unsteady: Vec<String>,
    pub(crate) failed_assertions: Vec<String>,
    pub(crate) data_us: u64,
    pub(crate) cloned: bool,
}

impl Seen {
    pub(crate) fn of(evidence: &Evidence) -> Self {
        let data = evidence.conditions.data.as_ref();
        let figures = figures::by_arm(evidence)
            .into_iter()
            .flat_map(|(arm, figures)| figures.into_iter().map(move |figure| FigureOf { arm: arm.clone(), figure }));
        Self {
            outcomes: outcomes(evidence),
            figures: figures.collect(),
            conditions: hindering(conditions(evidence)),
            busy: busy(evidence),
            unsteady: unsteady(evidence),
            failed_assertions: failed_assertions(evidence),
            data_us: data.map_or(0, |data| data.elapsed_us),
            cloned: data.is_some_and(|data| data.how == DataHow::Cloned),
        }
    }
}

/// How each arm ended; of an arm with several turns, the worst outcome.
fn outcomes(evidence: &Evidence) -> BTreeMap<String, String> {
    let mut worst: BTreeMap<&str, ArmOutcome> = BTreeMap::new();
    for arm in &evidence.arms {
        let known = worst.entry(&arm.cell).or_default();
        *known = (*known).max(arm.outcome);
    }
    worst.into_iter().map(|(arm, outcome)| (arm.to_owned(), outcome.name().to_owned())).collect()
}

/// What else the host was busy with while arms were measured. The host's counters decide, never the arms' own figures.
fn busy(evidence: &Evidence) -> Vec<String> {
    let mechanisms = &evidence.conditions.mechanisms;
    let squeezes_memory = mechanisms.contains_key("ram") || mechanisms.contains_key("server_ram");
    let mut told = Vec::new();
    for arm in &evidence.arms {
        let Some(busy) = Busy::of(arm) else { continue };
        told.extend(busy.causes(squeezes_memory).into_iter().map(|cause| match evidence.arms.len() {
            1 => cause.words(&busy),
            _ => format!("{} in arm \"{}\"", cause.words(&busy), arm.name),
        }));
    }
    told
}

fn failed_assertions(evidence: &Evidence) -> Vec<String> {
    let verdicts = evidence.arms.iter().flat_map(|arm| arm.verdicts.iter().map(move |verdict| (arm, verdict)));
    let failed = verdicts.filter(|(_, verdict)| !verdict.passed);
    failed.map(|(arm, it)| format!("{} in arm \"{}\": it is {}", it.assertion, arm.name, it.measured_text())).collect()
}

fn unsteady(evidence: &Evidence) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut told = Vec::new();
    for arm in evidence.arms.iter().filter(|arm| arm.broke_off.is_none()) {
        let Some(changed) = changed(arm) else { continue };
        if seen.insert(&arm.name) {
            told.push(changed);
        }
    }
    told
}

/// Why the halves of an arm do not agree. `None`: they do, or it was too short to tell.
fn changed(arm: &Arm) -> Option<String> {
    if let Some(half) = steady::idle_half(arm) {
        return Some(format!("in the {half} half of arm \"{}\", no transaction ended", arm.name));
    }
    let halves = steady::halves(arm).filter(|halves| halves.verdict != Verdict::NoDifferenceShown)?;
    Some(format!(
        "the second half of arm \"{}\" had {:.2} times the throughput of its first half: it was still warming up, or something changed",
        arm.name, halves.ratio
    ))
}
