// SPDX-License-Identifier: Apache-2.0
//! The meaning of a recording: summaries of the arms, and findings with evidence and doubt.
//!
//! In: an [`evidence::Evidence`]. Out: an [`Explained`]. Also here, and usable on any histogram: the mode finder [`modes`], and
//! [`histograms`], which reads what other tools write; [`driven`] reads the reports of other load programs;
//! [`sides`] compares two sides of runs, with [`figures`] of each.
//!
//! This crate shows nothing and stores nothing; `report` and `recording` do. No I/O, no clock, no randomness, so that the same build always explains
//! the same recording in the same way.
//!
//! Invariants: the mode finder gets the histogram, the delay in force and the times of reads; the counts of the server and of the slow layer only
//! check its answer. A value that is not known is `null` with a reason, never a guess.

pub mod busy;
mod conditions;
pub mod driven;
pub mod figures;
mod files_of_arms;
pub mod findings;
mod growth;
pub mod histograms;
pub mod joined;
pub mod leak;
pub mod limits;
mod memory;
mod reads;
mod recorded;
mod series;
pub mod sides;
pub mod stalled;
pub mod steady;
mod summary;
mod watched;
mod watched_seen;

use evidence::Evidence;
use serde::{Deserialize, Serialize};

pub use findings::{ArticleFigure, ArticleFigures, Doubt, Finding, FindingEvidence, figures_of_article};
pub use growth::{Course, Growth, LeafGrowth};
pub use memory::{ArmMemory, is_inventory, with_figures_alone, without_inventory};
pub use reads::{Reads, Reference, StatementModes};
pub use recorded::{figure_of_arm, figure_of_article};
pub use series::needs;
pub use summary::{ArmSummary, Percentiles};
pub use watched::WatchedArm;

/// A recording, explained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    pub schema: u32,
    /// The run's id.
    pub run: String,
    /// In the order of the recording; an arm that ended before its load has no figures.
    pub arms: Vec<ArmSummary>,
    /// The memory ledger over time, for arms that have inventories; empty when no arm has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<ArmMemory>,
    pub findings: Vec<Finding>,
}

/// Explains a recording, whole or broken off.
pub fn explain(evidence: &Evidence) -> Explained {
    let arms: Vec<ArmSummary> =
        evidence.arms.iter().map(|arm| summary::of(arm, &evidence.conditions, &evidence.measured)).collect();
    let memory = memory::of(evidence);
    let stalled = stalled::arms(evidence, &stalled::Wanted::default());
    let findings = findings::all(evidence, &arms, &memory, &stalled);
    Explained { schema: 1, run: evidence.run_id.clone(), arms, memory, findings }
}

/// Several recordings, explained together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Together {
    pub schema: u32,
    /// Each run by itself, in the order of the arguments; findings count the runs from 1.
    pub runs: Vec<Explained>,
    /// Findings about all of them: how the later ones compare with the first, cell by cell, and in which other conditions they differ.
    pub findings: Vec<Finding>,
}

/// Explains several recordings; the others are compared with the first.
pub fn explain_together(recordings: &[&Evidence]) -> Together {
    let runs = recordings.iter().map(|evidence| explain(evidence)).collect();
    Together { schema: 1, runs, findings: findings::of_runs(recordings) }
}
