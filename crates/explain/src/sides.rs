// SPDX-License-Identifier: Apache-2.0
//! Two sides of runs: in which conditions they differ, whether they can be compared, and the verdict on each figure.
//!
//! A run is one repeat of each of its arms: all turns of an arm in one run share the conditions of the run.

use crate::{conditions, figures, files_of_arms};
use evidence::{Arm, Evidence};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use verdict::{Judged, Repeat, judge};

/// Conditions that are reported, and may always differ.
const TOLD_ONLY: [&str; 2] = ["tool.version", "tool.as_root"];
/// The beginning of the keys of an arm's conditions.
const ARM: &str = "arm";
/// Two sizes of a host's memory that differ by less are equal: at each start a kernel takes a little more or less of it.
const SAME_SIZE: f64 = 0.01;

/// Whoever allows another version allows what always comes with it: the source, variables that tell the version, and variables that only one side has.
const VERSION: &str = "server.version";
const VARIABLES: &str = "server.variables.";
/// What only newer recordings have: a run without it hinders nothing.
const BUILD: &str = "server.build";
/// The beginnings of the names of variables that tell a version.
const VERSIONS: [&str; 4] = ["innodb_version", "protocol_version", "server_version", "version"];
/// These do not: another malloc is another one with the same version.
const NO_VERSIONS: [&str; 1] = ["version_malloc_library"];
/// The disk of all arms, as the experiment's file has it.
const WRITTEN_DISK: &str = "experiment.squeeze.disk";

/// How two sides are compared.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Conditions that may differ: a key (`server.version`), the beginning of several keys (`host`), or the name of a variable.
    pub across: Vec<String>,
    /// Further such conditions, which need not exist.
    pub also: Vec<String>,
    /// The beginnings of those of `also` that may differ between the sides, and not within one.
    pub one_each: Vec<String>,
    /// Compares only this arm.
    pub arm: Option<String>,
    /// True: the first run of one side ran together with the first run of the other, and so on.
    pub paired: bool,
    /// Why the sides cannot be compared, as far as the caller knows it: runs that measured nothing, and that are not among the sides.
    pub unmeasured: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sides {
    /// The conditions in which the runs differ.
    pub differs: Vec<Differs>,
    /// Why there is no comparison; empty: there is one.
    pub not_comparable: Vec<String>,
    /// One for each arm that both sides have; empty when the sides cannot be compared.
    pub comparisons: Vec<ComparedArms>,
}

/// One condition that is not the same in all runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Differs {
    pub key: String,
    /// The values of the first side's runs, each once; `null` where a run has none.
    pub a: Vec<Value>,
    pub b: Vec<Value>,
    /// Whether the difference is allowed: the user allowed it, or the condition is only reported.
    pub allowed: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ComparedArms {
    /// The arm of the first side.
    pub a: String,
    pub b: String,
    #[serde(flatten)]
    pub judged: Judged,
}

/// Why the comparison was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SidesError {
    #[error("run {0} is given twice: it is one repeat, of one side")]
    Twice(String),
    #[error("--paired needs as many runs of one side as of the other: there are {0} and {1}")]
    Unpaired(usize, usize),
    #[error("no run has a condition {0:?}")]
    NoCondition(String),
    #[error("no run has an arm {0:?}; there are {1}")]
    NoArm(String, String),
}

/// # Errors
/// A run is given twice, the runs do not form pairs, or no run has the wanted arm or a condition that may differ.
pub fn compare(a: &[Evidence], b: &[Evidence], wanted: &Wanted) -> Result<Sides, SidesError> {
    let mut seen = BTreeSet::new();
    if let Some(twice) = a.iter().chain(b).find(|run| !seen.insert(run.run_id.as_str())) {
        return Err(SidesError::Twice(twice.run_id.clone()));
    }
    if wanted.paired && a.len() != b.len() {
        return Err(SidesError::Unpaired(a.len(), b.len()));
    }
    let all: BTreeSet<&str> = a.iter().chain(b).flat_map(|run| &run.arms).map(|arm| arm.cell.as_str()).collect();
    if let Some(arm) = wanted.arm.as_ref().filter(|arm| !all.is_empty() && !all.contains(arm.as_str())) {
        let all: Vec<String> = all.iter().map(|arm| format!("{arm:?}")).collect();
        return Err(SidesError::NoArm(arm.clone(), all.join(", ")));
    }
    if a.is_empty() || b.is_empty() {
        return Ok(without_runs(wanted));
    }
    let arms = matched(a, b, wanted.arm.as_deref());
    let (of_a, of_b) = (told(a, &arms, |pair| &pair.0), told(b, &arms, |pair| &pair.1));
    let keys = keys(&of_a, &of_b);
    let files = a.iter().chain(b).flat_map(|run| run.files.keys());
    let files: Vec<String> = files.map(|name| conditions::key_of_file(name)).collect();
    let is_known = |across: &String| keys.iter().copied().chain(&files).any(|key| covers(across, key, &arms));
    let unknown = wanted.across.iter().find(|across| !is_known(across));
    if let Some(unknown) = unknown {
        return Err(SidesError::NoCondition(unknown.clone()));
    }
    let differs = differing(&of_a, &of_b, wanted, &arms);
    let mut reasons = hindrances(a, b, &arms, wanted);
    reasons.extend(differs.iter().filter_map(Differs::reason));
    let comparisons = match reasons.is_empty() {
        true => arms.iter().map(|pair| of_pair(a, b, pair, wanted.paired)).collect(),
        false => Vec::new(),
    };
    Ok(Sides { differs, not_comparable: reasons, comparisons })
}

/// The conditions of a run, each with its key.
pub type Conditions = BTreeMap<String, Value>;

/// The conditions of a run that hold in all of its arms.
pub fn conditions(run: &Evidence) -> Conditions {
    conditions::of_run(run)
}

/// The conditions in which the runs of two sides differ, without those of arms. Each run has one entry. A side may be empty: then only the runs of the
/// other side are looked at.
pub fn differs(a: &[Conditions], b: &[Conditions], wanted: &Wanted) -> Vec<Differs> {
    differing(a, b, wanted, &[])
}

impl Differs {
    /// Why this condition hinders a comparison. `None`: the difference is allowed.
    pub fn reason(&self) -> Option<String> {
        (!self.allowed).then(|| format!("{} is not the same: {} and {}", self.key, values(&self.a), values(&self.b)))
    }
}

/// A side has no run: there are no conditions and no arms to tell of, only why it has none.
fn without_runs(wanted: &Wanted) -> Sides {
    let not_comparable = match wanted.unmeasured.as_slice() {
        [] => vec!["a side has no run".to_owned()],
        known => known.to_vec(),
    };
    Sides { differs: Vec::new(), not_comparable, comparisons: Vec::new() }
}

type Pair = (String, String);

/// The arms of both sides that have the same name; when no names are the same and each side has only one arm, these two.
fn matched(a: &[Evidence], b: &[Evidence], wanted: Option<&str>) -> Vec<Pair> {
    let (of_a, of_b) = (cells(a), cells(b));
    let is_wanted = |cell: &&String| wanted.is_none_or(|wanted| wanted == cell.as_str());
    let same: Vec<Pair> = of_a
        .iter()
        .filter(is_wanted)
        .filter(|cell| of_b.contains(cell))
        .map(|cell| (cell.clone(), cell.clone()))
        .collect();
    match (same.as_slice(), of_a.as_slice(), of_b.as_slice()) {
        ([], [a], [b]) if wanted.is_none() => vec![(a.clone(), b.clone())],
        _ => same,
    }
}

/// The cells that had a load, in the order in which they first ran.
fn cells(side: &[Evidence]) -> Vec<String> {
    let mut cells: Vec<String> = Vec::new();
    for arm in side.iter().flat_map(|run| &run.arms).filter(|arm| arm.load.is_some()) {
        if !cells.contains(&arm.cell) {
            cells.push(arm.cell.clone());
        }
    }
    cells
}

fn turns<'e>(run: &'e Evidence, cell: &str) -> Vec<&'e Arm> {
    run.arms.iter().filter(|arm| arm.cell == cell && arm.load.is_some()).collect()
}

/// The conditions of each run, without files of arms that are not compared. When there are several arms, their keys contain the arm's name.
fn told(side: &[Evidence], arms: &[Pair], own: fn(&Pair) -> &String) -> Vec<Conditions> {
    let compared: BTreeSet<&str> = arms.iter().map(|pair| own(pair).as_str()).collect();
    let of = |run: &Evidence| {
        let mut flat = conditions::of_run(run);
        for name in files_of_arms::of_others(run, &compared) {
            flat.remove(&conditions::key_of_file(name));
        }
        for pair in arms {
            let prefix = if arms.len() == 1 { ARM.to_owned() } else { prefix_of(pair) };
            if let Some(arm) = turns(run, own(pair)).first() {
                conditions::of_arm(run, arm, &prefix, &mut flat);
            }
        }
        flat
    };
    side.iter().map(of).collect()
}

/// The beginning of the keys of one arm, where there are several.
fn prefix_of(pair: &Pair) -> String {
    format!("{ARM} \"{}\"", pair.0)
}

fn keys<'c>(a: &'c [Conditions], b: &'c [Conditions]) -> BTreeSet<&'c String> {
    a.iter().chain(b).flat_map(BTreeMap::keys).collect()
}

fn differing(a: &[Conditions], b: &[Conditions], wanted: &Wanted, arms: &[Pair]) -> Vec<Differs> {
    let mut differs: Vec<Differs> =
        keys(a, b).into_iter().filter_map(|key| differs_in(key, a, b, wanted, arms)).collect();
    // the times of a disk are among the conditions of the arms, too
    let has_other_delay = differs.iter().any(|one| one.key.starts_with(ARM) && one.key.contains(".delay."));
    let has_file = |side: &[Conditions]| side.iter().any(|run| run.contains_key(conditions::EXPERIMENT));
    let both = has_file(a) && has_file(b);
    differs.retain(|one| !is_written(&one.key) || both && !(has_other_delay && is_of_times(one)));
    differs.retain(|one| one.key != conditions::EXPERIMENT);
    differs
}

fn is_written(key: &str) -> bool {
    key.strip_prefix(conditions::EXPERIMENT).is_some_and(|rest| rest.starts_with('.'))
}

/// Whether the condition is only how long a disk takes: `disk.read`, or a disk in words such as `read=10ms,sync=1ms`.
fn is_of_times(one: &Differs) -> bool {
    const TIMES: [&str; 4] = ["read", "write", "sync", "mode"];
    let is_time = |word: &str| TIMES.iter().any(|time| word.trim() == *time);
    let in_words = |value: &Value| {
        let text = value.as_str();
        text.is_some_and(|text| text.split(',').all(|word| word.split_once('=').is_some_and(|(name, _)| is_time(name))))
    };
    match one.key.strip_prefix(WRITTEN_DISK) {
        Some("") => one.a.iter().chain(&one.b).all(in_words),
        Some(rest) => rest.strip_prefix('.').is_some_and(is_time),
        None => false,
    }
}

/// `None`: the condition is the same in all runs.
fn differs_in(key: &str, a: &[Conditions], b: &[Conditions], wanted: &Wanted, arms: &[Pair]) -> Option<Differs> {
    let may_be_missing = key == BUILD || is_within(conditions::FILES, key);
    let values = |side: &[Conditions]| {
        let mut values: Vec<Value> = Vec::new();
        let all = side.iter().map(|run| run.get(key).cloned().unwrap_or(Value::Null));
        for value in all.filter(|value| !may_be_missing || !value.is_null()) {
            if !values.iter().any(|other| is_same(key, other, &value)) {
                values.push(value);
            }
        }
        values
    };
    let (a, b) = (values(a), values(b));
    let has_one_each = a.len() <= 1 && b.len() <= 1;
    if has_one_each && a.first().zip(b.first()).is_none_or(|(a, b)| is_same(key, a, b)) {
        return None;
    }
    let among = |words: &[String]| words.iter().any(|word| covers(word, key, arms));
    let wants_one_each = wanted.one_each.iter().any(|beginning| is_within(beginning, key));
    let has_version = wanted.across.iter().chain(&wanted.also).any(|word| word == VERSION);
    let is_of_one_side = [&a, &b].iter().any(|values| **values == [Value::Null]);
    let allowed = TOLD_ONLY.contains(&key)
        || among(&wanted.across)
        || (among(&wanted.also) && (has_one_each || !wants_one_each))
        || (has_version && key.starts_with(VARIABLES) && is_of_one_side);
    Some(Differs { key: key.to_owned(), a, b, allowed })
}

fn is_same(key: &str, a: &Value, b: &Value) -> bool {
    match (key.starts_with("host.") && key.ends_with("_bytes"), a.as_f64(), b.as_f64()) {
        (true, Some(a), Some(b)) => (a - b).abs() <= SAME_SIZE * a.max(b),
        _ => a == b,
    }
}

/// `host` covers `host.kernel`; `innodb_buffer_pool_size` covers `server.variables.innodb_buffer_pool_size`; `arm.load` covers `arm "slow".load.threads`.
fn covers(across: &str, key: &str, arms: &[Pair]) -> bool {
    let of_any_arm = |pair: &Pair| {
        let rest = key.strip_prefix(&prefix_of(pair)).filter(|rest| rest.starts_with('.'));
        rest.is_some_and(|rest| is_within(across, &format!("{ARM}{rest}")))
    };
    let variable = key.strip_prefix(VARIABLES);
    let tells_version = || {
        ["server.source", BUILD].contains(&key)
            || variable
                .is_some_and(|name| !NO_VERSIONS.contains(&name) && VERSIONS.iter().any(|it| name.starts_with(it)))
    };
    is_within(across, key)
        || variable.is_some_and(|name| name == across)
        || (across == VERSION && tells_version())
        || arms.iter().any(of_any_arm)
}

/// `host` has `host.kernel` within it.
pub fn is_within(beginning: &str, key: &str) -> bool {
    key.strip_prefix(beginning).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn hindrances(a: &[Evidence], b: &[Evidence], arms: &[Pair], wanted: &Wanted) -> Vec<String> {
    let mut reasons = wanted.unmeasured.clone();
    if arms.is_empty() {
        let names = |side: &[Evidence]| cells(side).join(", ");
        let arm = wanted.arm.as_ref().map(|arm| format!(" {arm:?}")).unwrap_or_default();
        reasons.push(format!(
            "no arm{arm} with a load is on both sides: one has [{}], the other [{}]",
            names(a),
            names(b)
        ));
    }
    reasons.extend(measured_on_one_side(a, b, arms, wanted));
    for (run, arm) in a.iter().chain(b).flat_map(|run| run.arms.iter().map(move |arm| (run, arm))) {
        let is_compared = arms.iter().any(|(a, b)| [a, b].contains(&&arm.cell));
        if let Some(why) = arm.broke_off.as_ref().filter(|_| is_compared) {
            reasons.push(format!("\"{}\" of run {} broke off: {why}", arm.name, run.run_id));
        }
    }
    reasons
}

/// Arms that both sides have, and that had a load on one side only: where no run of the other side got that far, nothing else tells of it.
fn measured_on_one_side(a: &[Evidence], b: &[Evidence], arms: &[Pair], wanted: &Wanted) -> Vec<String> {
    let all = |side: &[Evidence]| -> BTreeSet<String> {
        side.iter().flat_map(|run| &run.arms).map(|arm| arm.cell.clone()).collect()
    };
    let (of_a, of_b, loaded_a, loaded_b) = (all(a), all(b), cells(a), cells(b));
    let is_wanted = |cell: &&String| wanted.arm.as_ref().is_none_or(|wanted| wanted == *cell);
    let is_compared = |cell: &String| arms.iter().any(|(a, b)| [a, b].contains(&cell));
    let both = of_a.intersection(&of_b).filter(is_wanted).filter(|cell| !is_compared(cell));
    both.filter(|cell| loaded_a.contains(cell) != loaded_b.contains(cell))
        .map(|cell| {
            let missing = if loaded_a.contains(cell) { b } else { a };
            let turns = missing.iter().flat_map(|run| &run.arms).filter(|arm| arm.cell == *cell);
            let why = turns.filter_map(|arm| arm.broke_off.as_deref()).next();
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            format!("arm {cell:?} was measured on one side only{why}")
        })
        .collect()
}

fn of_pair(a: &[Evidence], b: &[Evidence], pair: &Pair, paired: bool) -> ComparedArms {
    let repeats = |side: &[Evidence], cell: &str| -> Vec<Repeat> {
        let numbered = (0..).zip(side).map(|(number, run)| (number, run, turns(run, cell)));
        let loaded = numbered.filter(|(_, _, turns)| !turns.is_empty());
        loaded
            .map(|(number, run, turns)| Repeat {
                block: paired.then_some(number),
                figures: figures::of_turns(run, &turns),
            })
            .collect()
    };
    ComparedArms { a: pair.0.clone(), b: pair.1.clone(), judged: judge(&repeats(a, &pair.0), &repeats(b, &pair.1)) }
}

fn values(values: &[Value]) -> String {
    let told = |value: &Value| match value {
        Value::Null => "nothing".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    values.iter().map(told).collect::<Vec<_>>().join(" or ")
}
