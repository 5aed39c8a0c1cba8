// SPDX-License-Identifier: Apache-2.0
//! The one context that every output is written from.

use crate::redact;
use evidence::{Arm, Conditions, Event, Evidence, Finding, LatencyHistogram, Phase, Snapshot, Span};
use explain::busy::Busy;

/// A run as a report shows it. Nothing in it is a secret.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    pub evidence: &'a Evidence,
    /// The experiment's own name, or the run's id.
    pub name: String,
    /// What the experiment says it is about; empty when it says nothing.
    pub description: String,
    /// The experiment asks how many reads a query needs: `question = "reads"`.
    pub asks_for_reads: bool,
    /// The experiment file.
    pub experiment: String,
    pub conditions: Conditions,
    pub events: Vec<Event>,
    pub snapshots: Vec<Snapshot>,
    pub spans: Vec<Span>,
    /// In the order they ran.
    pub arms: Vec<ArmView<'a>>,
    pub findings: Vec<Finding>,
}

/// An arm, and what was made of it.
#[derive(Debug, Clone)]
pub struct ArmView<'a> {
    pub arm: &'a Arm,
    /// Of service times, ascending; empty when the arm has no load.
    pub humps: Vec<Hump>,
    /// Why the humps say nothing of reads, or why there are no more of them.
    pub reason: Option<String>,
    /// What one read takes, as the humps show it.
    pub read_us: Option<f64>,
    pub reads: ReadsPerQuery,
    /// How busy the host was meanwhile; `None`: nobody looked.
    pub busy: Option<Busy>,
}

/// One hump of the latency histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hump {
    pub center_us: f64,
    pub low_us: f64,
    pub high_us: f64,
    pub count: u64,
    /// 0 to 1.
    pub share: f64,
    /// Reads that each of its queries needed; `None`: cannot be said.
    pub reads: Option<f64>,
}

/// The same question, asked of three.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ReadsPerQuery {
    pub by_modes: Option<f64>,
    pub by_server: Option<f64>,
    pub by_layer: Option<f64>,
    /// How far the humps are from each witness, as a share of what it counted.
    pub off_server: Option<f64>,
    pub off_layer: Option<f64>,
    /// Which witness counts: the layer, where the server also counts reads that the page cache answered.
    pub layer_counts: bool,
}

impl ReadsPerQuery {
    /// From the witness that counts.
    pub fn discrepancy(&self) -> Option<f64> {
        if self.layer_counts { self.off_layer } else { self.off_server.or(self.off_layer) }
    }
}

impl ArmView<'_> {
    /// The service times that the humps were found in; response times where there is nothing else. `None`: no latencies.
    pub fn histogram(&self) -> Option<&LatencyHistogram> {
        let both = &self.measured()?.transaction;
        [&both.service, &both.response].into_iter().find(|histogram| !histogram.is_empty())
    }

    /// What was measured, without the warm-up.
    pub fn measured(&self) -> Option<&Phase> {
        self.arm.load.as_ref().map(|load| &load.measured)
    }
}

impl<'a> Context<'a> {
    /// From views made by hand; [`Context::new`] makes them from what was explained.
    pub fn assemble(evidence: &'a Evidence, arms: Vec<ArmView<'a>>, findings: Vec<Finding>) -> Self {
        let said = |key: &str| experiment_text(&evidence.experiment, key);
        let events = evidence.events.iter().map(|event| Event { text: redact::text(&event.text), ..event.clone() });
        let snapshots = evidence.snapshots.iter();
        let snapshots = snapshots.map(|taken| Snapshot { content: redact::lines(&taken.content), ..taken.clone() });
        let spans = evidence.spans.iter();
        let spans = spans.map(|span| Span { attributes: redact::values(&span.attributes), ..span.clone() });
        Self {
            evidence,
            name: said("name").unwrap_or_else(|| evidence.run_id.clone()),
            description: said("description").unwrap_or_default(),
            asks_for_reads: said("question").is_some_and(|question| question == "reads"),
            experiment: redact::lines(&evidence.experiment),
            conditions: redact::conditions(&evidence.conditions),
            events: events.collect(),
            snapshots: snapshots.collect(),
            spans: spans.collect(),
            arms,
            findings,
        }
    }
}

fn experiment_text(experiment: &str, key: &str) -> Option<String> {
    let table: toml::Table = experiment.parse().ok()?;
    table.get(key)?.as_str().map(str::to_owned)
}
