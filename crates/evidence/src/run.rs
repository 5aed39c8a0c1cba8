// SPDX-License-Identifier: Apache-2.0
use crate::{Conditions, Driven, LatencyHistogram, LoadResult, Measured, Series, Snapshot, Span, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One whole recording, read back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// `w-20261120-201530-4f2a`.
    pub run_id: String,
    /// RFC 3339, UTC.
    pub started: String,
    pub elapsed_us: u64,
    /// The experiment file, as it was written.
    pub experiment: String,
    pub conditions: Conditions,
    /// In the order they ran.
    pub arms: Vec<Arm>,
    pub measured: Vec<Measured>,
    pub samples: Vec<Series>,
    /// In the order they were taken. Of very many large ones of a source, such as [`crate::INVENTORY`], evenly spread ones.
    #[serde(default)]
    pub snapshots: Vec<Snapshot>,
    /// In the order they ended.
    #[serde(default)]
    pub spans: Vec<Span>,
    pub events: Vec<Event>,
}

/// One named variation of the experiment, run on the same data as the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// No two of a recording have the same. Of an arm that is repeated its turn stands in it, too, for people: `10 ms #2`.
    pub name: String,
    /// What it is one turn of: arms of the same cell are repeats of each other. `10 ms`.
    #[serde(default)]
    pub cell: String,
    /// Which of the cell's turns, from 1.
    #[serde(default = "first")]
    pub repeat: u32,
    /// What this arm sets, flat: `squeeze.disk.read` -> `10 ms`.
    pub settings: BTreeMap<String, String>,
    /// The delay in force; `None` when no slow layer was under the server.
    pub delay: Option<Delay>,
    /// `None` when the arm did not get as far as its load, or only observed.
    pub load: Option<LoadResult>,
    /// What ran in place of Wringer's own load; [`Self::load`] then holds its own numbers, as far as they were understood.
    #[serde(default)]
    pub driven: Option<Driven>,
    /// Counters read when the measured phase started and ended, with nothing in flight.
    pub witnesses: Vec<Witness>,
    /// How long the slow layer took to answer each read of the measured phase, from the arrival of the request to its reply: the delay and the disk
    /// below, without the kernel's way to the layer and back. `None`: no layer, or one that cannot tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer_reads: Option<LatencyHistogram>,
    /// What the result was held to; empty where nothing was asserted, and of an arm that was cut short.
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
    /// Why it did not get to its end, in one line; all else is what was measured until then. `None`: it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broke_off: Option<String>,
    /// What it came to. [`ArmOutcome::Measured`] exactly when [`Self::broke_off`] is `None`.
    #[serde(default)]
    pub outcome: ArmOutcome,
    pub started_us: u64,
    pub ended_us: u64,
}

/// What an arm came to, as one word. All but [`Self::Measured`] have a reason in [`Arm::broke_off`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArmOutcome {
    /// It came to its end.
    #[default]
    Measured,
    /// It was not measured, because its squeeze did not come on. The arms after it ran.
    Missed,
    /// The kernel killed the server because RAM ran out: that of its cgroup, or of the host. The arms after it ran on a server that was
    /// started anew.
    OutOfMemory,
    /// The server did not become ready with what the arm starts it with. The arms after it ran.
    CannotStart,
    /// Anything else; the run ended with it.
    BrokeOff,
}

impl ArmOutcome {
    pub const ALL: [Self; 5] = [Self::Measured, Self::Missed, Self::OutOfMemory, Self::CannotStart, Self::BrokeOff];

    /// As it stands in recordings and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Missed => "missed",
            Self::OutOfMemory => "out_of_memory",
            Self::CannotStart => "cannot_start",
            Self::BrokeOff => "broke_off",
        }
    }

    /// `None`: a word of a later version, or none of these.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

fn first() -> u32 {
    1
}

/// What an arm sets that nothing of ours was the load of; no experiment can say it.
const NO_LOAD: (&str, &str) = ("load.workload", "none");

impl Arm {
    /// Looks on at what others do: no load of ours, nothing squeezed.
    pub fn observed(started_us: u64) -> Self {
        let settings = BTreeMap::from([(NO_LOAD.0.to_owned(), NO_LOAD.1.to_owned())]);
        Self { settings, ..Self::begun("observed", started_us) }
    }

    /// Of its own cell; nothing is set, and nothing measured yet.
    pub fn begun(name: &str, started_us: u64) -> Self {
        Self {
            name: name.to_owned(),
            cell: name.to_owned(),
            repeat: first(),
            settings: BTreeMap::new(),
            delay: None,
            load: None,
            driven: None,
            witnesses: Vec::new(),
            layer_reads: None,
            verdicts: Vec::new(),
            broke_off: None,
            outcome: ArmOutcome::Measured,
            started_us,
            ended_us: 0,
        }
    }

    /// As [`Self::observed`] makes it.
    pub fn is_observed(&self) -> bool {
        self.settings.get(NO_LOAD.0).is_some_and(|workload| workload == NO_LOAD.1)
    }
}

/// What the slow layer adds to each operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delay {
    pub read_us: u64,
    pub write_us: u64,
    pub sync_us: u64,
    pub mode: DelayMode,
    /// The three are only medians: the times are drawn from distributions, or limits come on top.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub varies: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayMode {
    /// Asked plus the device's own latency, as device-mapper's delay target does.
    #[default]
    Add,
    /// The reply leaves at the asked time, or when the device is done if that is later.
    Total,
}

/// A counter that was read at both ends of the measured phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// `server`, `layer`, `limits`; `host`: read when the arm began and when it ended.
    pub of: String,
    /// `Innodb_buffer_pool_reads`, `pg_stat_database.blks_read`, `slow layer reads`, ...
    pub counter: String,
    pub before: u64,
    pub after: u64,
}

impl Witness {
    pub fn delta(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// Something that happened once: a step, a warning, a process that died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    pub at_us: u64,
    /// `plan`, `sandbox`, `fill`, `squeeze`, `load`, `observe`, `release`.
    pub station: String,
    pub text: String,
}

/// What the event of a run that did not get to its end begins with; why stands behind it.
pub const ENDED_EARLY: &str = "ending early: ";
