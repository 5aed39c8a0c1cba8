// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};

/// A statement with evidence and doubt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// `latency.modes`: stable, for machines.
    pub id: String,
    /// The arm it speaks of; `None` for the whole run.
    pub arm: Option<String>,
    /// One sentence for people.
    pub statement: String,
    /// The figures behind it; the shape is documented with the finding's id in `docs/findings.md`.
    pub evidence: serde_json::Value,
    pub doubts: Vec<Doubt>,
}

/// Why the statement may be wrong, or weaker than it sounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Stable, for machines: `witness.disagrees`.
    pub id: String,
    pub text: String,
    /// What the reader could do about it.
    pub hint: Option<String>,
}
