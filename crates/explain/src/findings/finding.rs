// SPDX-License-Identifier: Apache-2.0
//! The type of a finding.

use super::figures::{
    ArmsCompare, ArticleFigures, HostBusy, LatencyModes, LoadErrors, LoadOverload, MemoryGrowth, ObserveCost,
    ObserveJoined, ObserveServer, RunsCompare, RunsConditions, SqueezeForeignCache, SqueezeGot, StallsAccount,
    StallsEvents,
};
use crate::limits::Limits;
use serde::{Deserialize, Serialize};

/// A statement with evidence and doubt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The figures of the finding; their kind gives the finding's id.
    #[serde(flatten)]
    pub evidence: FindingEvidence,
    /// The arm of the finding; `None` for the whole run.
    pub arm: Option<String>,
    /// One sentence for people.
    pub statement: String,
    pub doubts: Vec<Doubt>,
}

impl Finding {
    /// `latency.modes`: stable, for machines.
    pub fn id(&self) -> &'static str {
        self.evidence.id()
    }
}

/// Why the statement may be wrong, or weaker than it sounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Stable, for machines: `witness.disagrees`.
    pub id: String,
    pub text: String,
    /// How the reader could remove the doubt.
    pub hint: Option<String>,
}

/// Defines the enum, its ids, and the id of each variant from one table.
macro_rules! findings {
    ($($id:tt => $variant:ident($figures:ty),)+) => {
        /// The figures of each kind of finding; `docs/findings.md` says what they mean.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "id", content = "evidence")]
        pub enum FindingEvidence {
            $(#[serde(rename = $id)] $variant($figures),)+
        }

        impl FindingEvidence {
            pub const IDS: &[&'static str] = &[$($id),+];

            pub fn id(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $id,)+
                }
            }
        }
    };
}

findings! {
    "latency.modes" => LatencyModes(LatencyModes),
    "arms.compare" => ArmsCompare(ArmsCompare),
    "runs.compare" => RunsCompare(RunsCompare),
    "runs.conditions" => RunsConditions(RunsConditions),
    "limit.by" => LimitBy(Limits),
    "squeeze.got" => SqueezeGot(SqueezeGot),
    "squeeze.foreign_cache" => SqueezeForeignCache(SqueezeForeignCache),
    "load.overload" => LoadOverload(LoadOverload),
    "load.errors" => LoadErrors(LoadErrors),
    "host.busy" => HostBusy(HostBusy),
    "observe.server" => ObserveServer(ObserveServer),
    "observe.joined" => ObserveJoined(ObserveJoined),
    "stalls.events" => StallsEvents(StallsEvents),
    "stalls.account" => StallsAccount(StallsAccount),
    "memory.growth" => MemoryGrowth(MemoryGrowth),
    "observe.cost" => ObserveCost(ObserveCost),
    "article.figures" => ArticleFigures(ArticleFigures),
}

#[cfg(test)]
mod tests {
    use super::FindingEvidence;

    #[test]
    fn the_page_of_findings_has_a_section_for_each() {
        let page = include_str!("../../../../docs/findings.md");
        let sections = page.lines().filter_map(|line| line.strip_prefix("## `")?.strip_suffix('`'));
        assert_eq!(sections.collect::<Vec<_>>(), FindingEvidence::IDS);
    }
}
