// SPDX-License-Identifier: Apache-2.0
//! The content of `sweep.json`.

use crate::plan::Budget;
use explain::sides::Conditions;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use verdict::{Compared, Figure};

/// The version of `sweep.json`. A program that knows only a lower version refuses the file.
pub const SCHEMA: u32 = 1;
pub const STATE_FILE: &str = "sweep.json";

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub schema: u32,
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// Keys of the settings, in the order in which they are shown.
    pub keys: Vec<String>,
    pub blocks: u32,
    pub seed: u64,
    pub budget: Budget,
    /// In the order in which they are to run; after them, the cells that the plan no longer has.
    pub cells: Vec<Cell>,
    /// In the order of the plan.
    pub settings: Vec<Setting>,
    pub comparisons: Vec<Comparison>,
    /// How many pairs of settings have no entry in `comparisons`, because there are too many.
    #[serde(default)]
    pub not_compared: usize,
    /// How long the remaining cells take. `None`: no cell is done yet, or all are.
    pub remaining: Option<Remaining>,
    /// Time of all attempts, and of waiting before them.
    pub spent_us: u64,
    /// Why the last call ended, in words. `None`: it goes on, or was killed.
    pub ended: Option<String>,
}

/// The key of [`Cell::outcomes`] for a walk that ended before its arms.
pub const ALL_ARMS: &str = "all arms";

/// One run of one setting.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The setting's id, and the block's number: `3f9a1c20b7d4-2`.
    pub id: String,
    /// The setting's id.
    pub setting: String,
    pub settings: BTreeMap<String, String>,
    /// From 1.
    pub block: u32,
    pub state: CellState,
    /// One entry for each time that the cell was begun.
    pub attempts: Vec<Attempt>,
    /// The host on which the attempt ran that counts.
    pub node: Option<String>,
    /// When the attempt that counts began: RFC 3339, UTC.
    pub started: Option<String>,
    /// The time of the attempt that counts.
    pub elapsed_us: Option<u64>,
    /// The recording of the attempt that counts: a path relative to the sweep's folder.
    pub recording: Option<String>,
    /// How each arm ended: `measured`, `out_of_memory`, `cannot_start`, `missed`, `broke_off`. An arm that is not here did not begin; [`ALL_ARMS`] stands for all.
    #[serde(default)]
    pub outcomes: BTreeMap<String, String>,
    /// The host was busy with other work while the cell ran, in both attempts.
    #[serde(default)]
    pub disturbed: bool,
    /// The two halves of an arm's time do not agree. The cell counts all the same.
    #[serde(default)]
    pub unsteady: bool,
    /// What a reader should know of the cell, in sentences.
    #[serde(default)]
    pub told: Vec<String>,
    pub figures: Vec<FigureOf>,
    /// The conditions of the attempt that counts, as far as they may hinder a comparison of settings: host, server's build, mechanisms. Empty: there is no
    /// recording, or an earlier version ran the cell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub conditions: Conditions,
    /// Assertions of the attempt that counts that did not hold, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_assertions: Vec<String>,
    /// The plan no longer has its setting, or its block. What was measured stays.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropped: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// It has to run, for the first time or once more.
    #[default]
    Pending,
    Running,
    /// It has a result, which may be that the server cannot start. It is never run again.
    Done,
    /// No result, for a reason that is not the setting's. The next call tries it again.
    Failed,
}

/// One time that a cell was begun.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1; part of its folder's name.
    pub number: u32,
    /// The run's id in the journal, set before the run changes anything.
    pub run: Option<String>,
    pub started: String,
    /// How long the sweep waited for a quiet host.
    pub waited_us: u64,
    /// What the host was still busy with when the attempt began, in words.
    #[serde(default)]
    pub begun_busy: Vec<String>,
    pub elapsed_us: u64,
    /// The part of `elapsed_us` until the data were there.
    pub data_us: u64,
    /// The data were a clone, and not filled by this attempt.
    pub cloned: bool,
    /// `None`: it goes on.
    pub end: Option<AttemptEnd>,
    /// Why, in words.
    #[serde(default)]
    pub why: Vec<String>,
    /// Relative to the sweep's folder. `None`: there is none.
    pub recording: Option<String>,
    /// What the attempt measured, whether it counts or not.
    #[serde(default)]
    pub figures: Vec<FigureOf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    /// It has a result, and the host was quiet enough, or it is the second attempt with a result.
    Counts,
    /// It has a result, and the host was busy with other work: it is kept, and another attempt counts.
    Disturbed,
    /// Somebody ended it, or all of Wringer was killed.
    Interrupted,
    /// It has no result, for a reason that is not the setting's.
    Failed,
}

/// A figure of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureOf {
    pub arm: String,
    #[serde(flatten)]
    pub figure: Figure,
}

/// All cells of one setting together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    pub id: String,
    pub settings: BTreeMap<String, String>,
    /// How many of its cells are done.
    pub done: usize,
    /// The outcomes of its done cells, and how many cells had each.
    pub outcomes: BTreeMap<String, usize>,
    pub figures: Vec<Value>,
}

/// One figure of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Value {
    pub arm: String,
    pub name: String,
    pub unit: String,
    /// How many cells measured it.
    pub repeats: usize,
    /// The geometric mean of the cells; the plain one where a value is 0 or less.
    pub typical: f64,
    pub lowest: f64,
    pub highest: f64,
}

/// Two settings, and the verdicts on the second one compared with the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// A setting's id.
    pub a: String,
    pub b: String,
    pub arm: String,
    /// The keys in which they differ.
    pub differs: Vec<String>,
    #[serde(default)]
    pub verdict: Comparable,
    /// Why they cannot be compared, in sentences. Empty: they can.
    #[serde(default)]
    pub not_comparable: Vec<String>,
    /// Empty where they cannot be compared.
    pub figures: Vec<Compared>,
    /// What a reader should know of the comparison, in sentences.
    #[serde(default)]
    pub told: Vec<String>,
}

/// Whether two settings can be compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Comparable {
    #[default]
    Compared,
    NotComparable,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Remaining {
    pub cells: usize,
    pub us: u64,
}

impl State {
    /// The cells that the plan has.
    pub fn planned(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| !cell.dropped)
    }

    pub fn count(&self, state: CellState) -> usize {
        self.planned().filter(|cell| cell.state == state).count()
    }
}

impl Cell {
    /// How many of its attempts ended with a result, whether that counts or not.
    pub(crate) fn finished(&self) -> usize {
        let ends = self.attempts.iter().filter_map(|attempt| attempt.end);
        ends.filter(|end| matches!(end, AttemptEnd::Counts | AttemptEnd::Disturbed)).count()
    }

    /// `cpus=0.5 threads=8`, in the order of `keys`. A key is shortened to its last part where no other key ends with the same one.
    pub fn label(&self, keys: &[String]) -> String {
        label(&self.settings, keys)
    }
}

impl Setting {
    pub fn label(&self, keys: &[String]) -> String {
        label(&self.settings, keys)
    }
}

fn label(settings: &BTreeMap<String, String>, keys: &[String]) -> String {
    let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
    let short = |key: &String| {
        let is_alone = keys.iter().filter(|other| last(other) == last(key)).count() == 1;
        if is_alone { last(key) } else { key.clone() }
    };
    let each = keys.iter().filter_map(|key| Some(format!("{}={}", short(key), settings.get(key)?)));
    let text = each.collect::<Vec<_>>().join(" ");
    if text.is_empty() { "the only setting".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the version wrote them that knew no `conditions` and no `not_comparable`.
    #[test]
    fn cells_and_comparisons_of_an_earlier_version_are_read() {
        let cell = r#"{"id": "s-1", "setting": "s", "settings": {"k": "1"}, "block": 1, "state": "done", "attempts": [], "node": "vm",
            "started": null, "elapsed_us": 5, "recording": null, "outcomes": {"baseline": "measured"}, "disturbed": false, "unsteady": false,
            "told": [], "figures": []}"#;
        let cell: Cell = serde_json::from_str(cell).expect("a cell");
        assert_eq!((cell.state, cell.conditions.len()), (CellState::Done, 0));
        let one = r#"{"a": "s", "b": "t", "arm": "baseline", "differs": ["k"], "figures": [], "told": []}"#;
        let one: Comparison = serde_json::from_str(one).expect("a comparison");
        assert_eq!((one.verdict, one.not_comparable.len()), (Comparable::Compared, 0));
    }
}
