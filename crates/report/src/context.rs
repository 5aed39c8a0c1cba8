// SPDX-License-Identifier: Apache-2.0
//! The one context from which every output is written.

use crate::redact;
use crate::width::{NARROWEST, WIDTH};
use evidence::{
    Arm, CANARY_MEANWHILE, Clock, Conditions, Event, Evidence, LOGGED, LatencyHistogram, PROBED_CALL, Phase,
    SERVER_COUNTED, SERVER_SAID, SLOW_STATEMENT, STALL, STALL_VICTIM, STALLS_WATCHED, Snapshot, Span, THREAD_WAIT,
    Times,
};
use explain::stalled::{ArmStalls, Wanted, arms as arms_stalls};
use explain::{ArmMemory, ArmSummary, Explained, Finding};
use modes::Mode;

/// A run as a report shows it. Nothing in it is a secret.
#[derive(Debug, Clone)]
pub struct Context<'a> {
    pub evidence: &'a Evidence,
    /// The name in the experiment, or the run's id.
    pub name: String,
    /// The description in the experiment; empty when there is none.
    pub description: String,
    /// The experiment asks how many reads a query needs: `question = "reads"`.
    pub asks_for_reads: bool,
    /// The experiment file.
    pub experiment: String,
    pub conditions: Conditions,
    pub events: Vec<Event>,
    /// Without inventories of memory, which are in [`Self::memory`], and without what a watch for stalls says about itself.
    pub snapshots: Vec<Snapshot>,
    /// Without slow statements and stalls, which are in [`Self::stalls`].
    pub spans: Vec<Span>,
    /// For each arm whose load kept its slow statements, or whose server was watched.
    pub stalls: Vec<ArmStalls>,
    /// In the order in which they ran.
    pub arms: Vec<ArmView<'a>>,
    /// The memory ledger over time; empty where no arm has inventories.
    pub memory: &'a [ArmMemory],
    pub findings: &'a [Finding],
    /// The columns of a text.
    pub width: usize,
}

/// An arm as it was recorded, and its summary.
#[derive(Debug, Clone, Copy)]
pub struct ArmView<'a> {
    pub arm: &'a Arm,
    pub summary: &'a ArmSummary,
}

impl<'a> ArmView<'a> {
    /// The service times in which the humps were found; response times where there are no service times. `None`: no latencies.
    pub fn histogram(&self) -> Option<&'a LatencyHistogram> {
        let both = &self.measured()?.transaction;
        [&both.service, &both.response].into_iter().find(|histogram| !histogram.is_empty())
    }

    /// The times of [`Self::histogram`], in words.
    pub fn times_of_histogram(&self) -> &'static str {
        if self.has_response_alone() { "response time" } else { "service time" }
    }

    /// Another program told response times, which begin when a transaction was due, and no service times.
    fn has_response_alone(&self) -> bool {
        let told = self.measured().map(|phase| &phase.transaction);
        told.is_some_and(|told| told.service.is_empty() && !told.response.is_empty())
    }

    /// The measured phase, without the warm-up.
    pub fn measured(&self) -> Option<&'a Phase> {
        self.arm.load.as_ref().map(|load| &load.measured)
    }

    /// Response times of the measured phase; a transaction that had not ended counts with the time for which it had waited. `None`: nothing was
    /// answered.
    pub fn response(&self) -> Option<Times<'a>> {
        let phase = self.measured().filter(|phase| !phase.transaction.response.is_empty())?;
        Some(phase.times(Clock::Response))
    }

    /// The modes of the service times, ascending; empty when the arm has no load.
    pub fn modes(&self) -> &'a [Mode] {
        self.summary.modes.as_ref().map_or(&[], |found| &found.modes)
    }

    /// The reason why the modes say nothing about reads, or why there are no more modes.
    pub fn reason(&self) -> Option<&'a str> {
        if self.has_response_alone() {
            return Some("the program of the load told response times alone, in which humps say nothing of reads");
        }
        self.summary.modes.as_ref()?.reason.as_deref()
    }
}

impl<'a> Context<'a> {
    /// For a reader whose window has so many columns; `None`: no window.
    #[must_use]
    pub fn within(self, columns: Option<usize>) -> Self {
        let width = columns.unwrap_or(WIDTH).clamp(NARROWEST, WIDTH);
        Self { width, ..self }
    }

    /// From a recording, and the result of [`explain::explain`]: it has a summary of each arm, in the same order.
    pub fn new(evidence: &'a Evidence, explained: &'a Explained) -> Self {
        let arms = evidence.arms.iter().zip(&explained.arms).map(|(arm, summary)| ArmView { arm, summary });
        let said = |key: &str| experiment_text(&evidence.experiment, key);
        let events = evidence.events.iter().map(|event| Event { text: redact::text(&event.text), ..event.clone() });
        let snapshots =
            evidence.snapshots.iter().filter(|taken| !explain::is_inventory(taken) && taken.source != STALLS_WATCHED);
        let snapshots = snapshots.map(|taken| Snapshot { content: redact::lines(&taken.content), ..taken.clone() });
        let raw = [CANARY_MEANWHILE, PROBED_CALL, SERVER_COUNTED, SERVER_SAID, THREAD_WAIT];
        let elsewhere = [LOGGED, SLOW_STATEMENT, STALL, STALL_VICTIM];
        let spans = evidence.spans.iter().filter(|span| !elsewhere.iter().chain(&raw).any(|it| *it == span.kind));
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
            stalls: arms_stalls(evidence, &Wanted::default()),
            arms: arms.collect(),
            memory: &explained.memory,
            findings: &explained.findings,
            width: WIDTH,
        }
    }
}

fn experiment_text(experiment: &str, key: &str) -> Option<String> {
    let table: toml::Table = experiment.parse().ok()?;
    table.get(key)?.as_str().map(str::to_owned)
}
