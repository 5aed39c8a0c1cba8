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
    /// The recording has no end: its writer was killed, could not write, or still writes. [`Self::elapsed_us`] is then the last time in it.
    #[serde(default)]
    pub is_cut_off: bool,
    /// The experiment file, as it was written.
    pub experiment: String,
    /// The texts of the files that it names, by the names there: workloads, scripts of the program that is the load.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    pub conditions: Conditions,
    /// In the order in which they ran.
    pub arms: Vec<Arm>,
    pub measured: Vec<Measured>,
    pub samples: Vec<Series>,
    /// In the order in which they were taken. When a source such as [`crate::INVENTORY`] has very many large snapshots, only some of them, spread
    /// evenly.
    #[serde(default)]
    pub snapshots: Vec<Snapshot>,
    /// In the order in which they ended.
    #[serde(default)]
    pub spans: Vec<Span>,
    pub events: Vec<Event>,
}

impl Evidence {
    /// When this arm ended. An arm that was only observed and was cut off went on until the last time in the recording; any other arm that was cut off
    /// has no time.
    pub fn end_of(&self, arm: &Arm) -> u64 {
        let is_open = arm.ended_us == 0 && arm.is_observed();
        let ended_us = if is_open { self.elapsed_us } else { arm.ended_us };
        ended_us.max(arm.started_us)
    }
}

/// One named variation of the experiment, run on the same data as the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Unique in a recording. The name of a repeated arm contains its turn, for people: `10 ms #2`.
    pub name: String,
    /// The cell: arms of the same cell are repeats of each other. `10 ms`.
    #[serde(default)]
    pub cell: String,
    /// The number of this turn of the cell, from 1.
    #[serde(default = "first")]
    pub repeat: u32,
    /// What this arm sets, flat: `squeeze.disk.read` -> `10 ms`.
    pub settings: BTreeMap<String, String>,
    /// The delay that was in force; `None` when the server had no slow layer.
    pub delay: Option<Delay>,
    /// `None` when the arm ended before its load, or only observed.
    pub load: Option<LoadResult>,
    /// The program that ran in place of Wringer's own load; [`Self::load`] then holds the program's figures, as far as they were understood.
    #[serde(default)]
    pub driven: Option<Driven>,
    /// Counters read when the measured phase started and ended, with nothing in flight.
    pub witnesses: Vec<Witness>,
    /// How long the slow layer took to answer each read of the measured phase, from the arrival of the request to the layer's reply. This includes
    /// the delay and the disk below, and not the kernel's way to the layer and back. `None`: there was no layer, or it cannot report these times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer_reads: Option<LatencyHistogram>,
    /// The assertions on the result and their outcome; empty when nothing was asserted, and for an arm that was cut short.
    #[serde(default)]
    pub verdicts: Vec<Verdict>,
    /// Why the arm ended early, in one line; all other fields hold what was measured until then. `None`: the arm ran to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broke_off: Option<String>,
    /// How the arm ended. [`ArmOutcome::Measured`] exactly when [`Self::broke_off`] is `None`.
    #[serde(default)]
    pub outcome: ArmOutcome,
    pub started_us: u64,
    pub ended_us: u64,
}

/// How an arm ended, as one word. All but [`Self::Measured`] have a reason in [`Arm::broke_off`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArmOutcome {
    /// The arm ran to its end.
    #[default]
    Measured,
    /// It was not measured, because its squeeze did not take effect. The arms after it ran.
    Missed,
    /// The kernel killed the server because RAM ran out in its cgroup or on the host. The arms after it ran on a server that was started anew.
    OutOfMemory,
    /// The server did not become ready with the settings of this arm. The arms after it ran.
    CannotStart,
    /// The arm ended early for any other reason, and the run ended with it.
    BrokeOff,
}

impl ArmOutcome {
    pub const ALL: [Self; 5] = [Self::Measured, Self::Missed, Self::OutOfMemory, Self::CannotStart, Self::BrokeOff];

    /// The word in recordings and results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Missed => "missed",
            Self::OutOfMemory => "out_of_memory",
            Self::CannotStart => "cannot_start",
            Self::BrokeOff => "broke_off",
        }
    }

    /// `None`: an unknown word, perhaps one of a later version.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

fn first() -> u32 {
    1
}

/// The setting of an arm that had no load of ours; no experiment can write it.
const NO_LOAD: (&str, &str) = ("load.workload", "none");

impl Arm {
    /// An arm that only observes the work of others: it has no load of ours, and nothing is squeezed.
    pub fn observed(started_us: u64) -> Self {
        let settings = BTreeMap::from([(NO_LOAD.0.to_owned(), NO_LOAD.1.to_owned())]);
        Self { settings, ..Self::begun("observed", started_us) }
    }

    /// An arm that is the only one of its cell. Nothing is set, and nothing is measured yet.
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

    /// Whether [`Self::observed`] made this arm.
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
    /// The three times are only medians: the times are drawn from distributions, or rate limits apply as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub varies: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DelayMode {
    /// The asked time plus the device's own latency, as device-mapper's delay target does.
    #[default]
    Add,
    /// The reply leaves at the asked time, or when the device is done if that is later.
    Total,
}

/// A counter that was read at both ends of the measured phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// `server`, `layer`, `limits`, or `host`, which is read when the arm begins and when it ends.
    pub of: String,
    /// `Innodb_buffer_pool_reads`, `pg_stat_database.blks_read`, `slow layer reads`, ...
    pub counter: String,
    pub before: u64,
    pub after: u64,
}

impl Witness {
    /// `None`: the counter became smaller, because the server began it anew.
    pub fn grown(&self) -> Option<u64> {
        self.after.checked_sub(self.before)
    }

    /// As [`Self::grown`]; 0 for a counter that became smaller.
    pub fn delta(&self) -> u64 {
        self.grown().unwrap_or(0)
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

/// The beginning of the event of a run that ended early; the reason follows.
pub const ENDED_EARLY: &str = "ending early: ";
