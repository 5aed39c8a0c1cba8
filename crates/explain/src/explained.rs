// SPDX-License-Identifier: Apache-2.0
//! A recording, explained: per arm the humps and the reads they tell of, with the witnesses beside them, and the findings.

use crate::modes::{self, Modes, ReadDelay};
use evidence::{Arm, Evidence, Finding};
use serde::{Deserialize, Serialize};

/// What was made of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// In the order of the recording's arms, one for each.
    pub arms: Vec<ExplainedArm>,
    pub findings: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainedArm {
    pub name: String,
    /// `None` when the arm has no latencies.
    pub modes: Option<Modes>,
    /// From the histogram and the delay alone. `None`: cannot be said.
    pub reads_per_query_by_modes: Option<f64>,
    /// From the server's own count of physical reads. `None`: not counted.
    pub reads_per_query_by_server: Option<f64>,
    /// From the slow layer's count of read requests. `None`: no layer.
    pub reads_per_query_by_layer: Option<f64>,
}

/// Explains a whole recording.
pub fn explain(evidence: &Evidence) -> Explained {
    Explained { arms: evidence.arms.iter().map(arm).collect(), findings: Vec::new() }
}

fn arm(arm: &Arm) -> ExplainedArm {
    let response = arm.load.as_ref().map(|load| &load.measured.transaction.response).filter(|response| !response.is_empty());
    let modes = response.map(|response| modes::find(&modes::bins_of(response), ReadDelay::of(arm.delay)));
    ExplainedArm {
        name: arm.name.clone(),
        reads_per_query_by_modes: modes.as_ref().and_then(|modes| modes.reads_per_query),
        reads_per_query_by_server: witnessed(arm, "server", &["Innodb_buffer_pool_reads", "pg_stat_database.blks_read"]),
        reads_per_query_by_layer: witnessed(arm, "layer", &["slow layer reads"]),
        modes,
    }
}

fn witnessed(arm: &Arm, of: &str, counters: &[&str]) -> Option<f64> {
    let queries = arm.load.as_ref().map(|load| load.measured.queries()).filter(|queries| *queries > 0)?;
    let witness = arm.witnesses.iter().find(|witness| witness.of == of && counters.contains(&witness.counter.as_str()))?;
    Some(witness.delta() as f64 / queries as f64)
}
