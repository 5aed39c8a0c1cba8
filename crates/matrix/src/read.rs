// SPDX-License-Identifier: Apache-2.0
//! The section `[matrix]` as it is written, and its problems that can be seen without making the settings.

use crate::axis::Axis;
use crate::budget::Budget;
use crate::exclude::{self, Rule};
use crate::follow::{self, Follow};
use crate::path;
use crate::sample::{self, Drawn, From};
use keyfile::{At, Node, Problems, Table, Value};
use units::{Bytes, Span};

/// A verdict needs three blocks at least; with five blocks, a difference half as large is shown.
const BLOCKS: u32 = 5;
/// Keys of a file that cannot vary, each with the reason.
const FIXED: [(&str, &str); 4] = [
    ("schema", "it is the version of the file's format"),
    ("name", "all settings belong to one matrix"),
    ("matrix", "it cannot vary itself"),
    ("arm", "vary a key of the sections: it holds in every arm"),
];

pub(crate) fn is_fixed(path: &str) -> bool {
    FIXED.iter().any(|(key, _)| path::overlap(path, key))
}

pub(crate) struct Section {
    /// The place for problems of the whole section.
    pub(crate) at: At,
    pub(crate) blocks: u32,
    pub(crate) seed: u64,
    pub(crate) budget: Budget,
    /// The keys that vary, in the order of the file.
    pub(crate) varied: Vec<Varied>,
    pub(crate) follows: Vec<Follow>,
    pub(crate) rules: Vec<Rule>,
}

/// One key or group that varies independently: its choices are crossed with the choices of the others.
pub(crate) enum Varied {
    Crossed(Axis),
    Paired(Vec<Axis>),
    Sampled { keys: Vec<Drawn>, count: u32, at: At },
}

impl Varied {
    pub(crate) fn count(&self) -> u64 {
        match self {
            Self::Crossed(axis) => axis.values.len() as u64,
            Self::Paired(axes) => axes.first().map_or(0, |axis| axis.values.len() as u64),
            Self::Sampled { count, .. } => u64::from(*count),
        }
    }

    fn at(&self) -> usize {
        match self {
            Self::Crossed(axis) => axis.key_at.start,
            Self::Paired(axes) => axes.iter().map(|axis| axis.key_at.start).min().unwrap_or_default(),
            Self::Sampled { at, .. } => at.start,
        }
    }

    /// The keys, each with its place.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&str, &At)> {
        let keys: Vec<(&str, &At)> = match self {
            Self::Crossed(axis) => vec![(&axis.path, &axis.key_at)],
            Self::Paired(axes) => axes.iter().map(|axis| (axis.path.as_str(), &axis.key_at)).collect(),
            Self::Sampled { keys, .. } => keys.iter().map(|key| (key.path.as_str(), &key.key_at)).collect(),
        };
        keys.into_iter()
    }
}

/// `base`: the file without it. `None`: it is no table.
pub(crate) fn section(table: &Table, base: &Table, problems: &Problems) -> Option<Section> {
    let top = keyfile::Section::top(table, problems);
    let Some(node) = top.node("matrix") else {
        let hint =
            "write [matrix.cross] with keys and their values; `wringer run` and `wringer plan` take a file without it";
        problems.add(&(0..0), "the file has no section [matrix]", Some(hint.into()));
        return None;
    };
    let matrix = keyfile::Section::at("matrix".into(), node, problems)?;
    let budget = matrix.section("budget");
    let limits = Budget {
        time: budget.unit::<Span>("time", "8h").map(|time| time.value),
        disk: budget.unit::<Bytes>("disk", "40G").map(|disk| disk.value),
    };
    budget.finish();
    let mut varied = crossed(&matrix, problems);
    varied.extend(paired(&matrix, problems));
    varied.extend(sampled(&matrix, problems));
    varied.sort_by_key(Varied::at);
    let section = Section {
        at: table.0.get("matrix").map_or(node.at.clone(), |entry| entry.key_at.clone()),
        blocks: matrix.integer("blocks", 1..=1000u32).map_or(BLOCKS, |blocks| blocks.value),
        seed: matrix.integer("seed", 0..=i64::MAX).map_or(1, |seed| seed.value.unsigned_abs()),
        budget: limits,
        varied,
        follows: follow::read(&matrix, problems),
        rules: exclude::read(&matrix, problems),
    };
    matrix.finish();
    if section.varied.is_empty() && problems.is_empty() {
        let hint = "write keys with their values below [matrix.cross]: \"load.threads\" = [1, 8, 64]";
        problems.add(&section.at, "the matrix varies no key", Some(hint.into()));
    }
    check_keys(&section, base, problems);
    Some(section)
}

fn crossed(matrix: &keyfile::Section<'_>, problems: &Problems) -> Vec<Varied> {
    let cross = matrix.section("cross");
    let mut axes = Vec::new();
    cross.entries().for_each(|(key, entry)| axes_of(key, &entry.key_at, &entry.node, problems, &mut axes));
    axes.iter().for_each(|axis| refuse_twice(&axis.path, &axis.values, problems));
    axes.into_iter().map(Varied::Crossed).collect()
}

/// `[matrix.pair]`, or several groups, each a `[[matrix.pair]]`.
fn paired(matrix: &keyfile::Section<'_>, problems: &Problems) -> Vec<Varied> {
    let Some(node) = matrix.node("pair") else { return Vec::new() };
    let groups = match &node.value {
        Value::List(groups) => groups.as_slice(),
        _ => std::slice::from_ref(node),
    };
    let group = |node: &Node| {
        let section = keyfile::Section::at("matrix.pair".into(), node, problems)?;
        let mut axes = Vec::new();
        section.entries().for_each(|(key, entry)| axes_of(key, &entry.key_at, &entry.node, problems, &mut axes));
        axes.sort_by_key(|axis: &Axis| axis.key_at.start);
        let (first, others) = axes.split_first()?;
        for other in others.iter().filter(|other| other.values.len() != first.values.len()) {
            let (count, wanted) = (other.values.len(), first.values.len());
            let message = format!("{} has {count} values, and {} beside it has {wanted}", other.path, first.path);
            let hint = "keys of matrix.pair change together: write as many values for each, or use matrix.cross";
            problems.add(&other.key_at, message, Some(hint.into()));
        }
        Some(Varied::Paired(axes))
    };
    groups.iter().filter_map(group).collect()
}

fn sampled(matrix: &keyfile::Section<'_>, problems: &Problems) -> Option<Varied> {
    let node = matrix.node("sample")?;
    let section = keyfile::Section::at("matrix.sample".into(), node, problems)?;
    let count = section.integer("settings", 1..=10_000u32);
    if section.node("settings").is_none() {
        section.missing("settings", "write how many settings are drawn: settings = 12");
    }
    let mut keys = Vec::new();
    let named: Vec<_> = section.entries().filter(|(key, _)| *key != "settings").collect();
    named.iter().for_each(|(key, entry)| drawn(key, &entry.key_at, &entry.node, problems, &mut keys));
    keys.sort_by_key(|key| key.key_at.start);
    if named.is_empty() {
        let hint = "write \"load.threads\" = { from = 1, to = 64 }, or a list of values";
        problems.add(&node.at, "matrix.sample names no key to draw", Some(hint.into()));
    }
    let at = section.node("settings").map_or(node.at.clone(), |node| node.at.clone());
    Some(Varied::Sampled { keys, count: count?.value, at })
}

fn drawn(path: &str, key_at: &At, node: &Node, problems: &Problems, found: &mut Vec<Drawn>) {
    let is_range = |table: &Table| ["from", "to", "scale"].iter().any(|key| table.get(key).is_some());
    let from = match &node.value {
        Value::Table(table) if !is_range(table) => {
            return table.0.iter().for_each(|(key, entry)| {
                drawn(&format!("{path}.{key}"), &entry.key_at, &entry.node, problems, found);
            });
        }
        Value::Table(_) => sample::range(&path::plain(path), node, problems),
        _ => values(path, node, problems).map(From::Values),
    };
    if let Some(From::Values(values)) = &from {
        refuse_twice(path, values, problems);
    }
    found.extend(from.map(|from| Drawn { path: path::plain(path), key_at: key_at.clone(), from }));
}

fn axes_of(path: &str, key_at: &At, node: &Node, problems: &Problems, found: &mut Vec<Axis>) {
    if let Value::Table(table) = &node.value {
        return table.0.iter().for_each(|(key, entry)| {
            axes_of(&format!("{path}.{key}"), &entry.key_at, &entry.node, problems, found);
        });
    }
    let axis = |values| Axis { path: path::plain(path), key_at: key_at.clone(), values };
    found.extend(values(path, node, problems).map(axis));
}

/// A list of values.
fn values(path: &str, node: &Node, problems: &Problems) -> Option<Vec<Node>> {
    let Value::List(items) = &node.value else {
        let hint = format!("write its values as a list: [{}]", path::written(&node.value));
        problems.add(&node.at, format!("{path} is {}, not a list of values", node.value.kind()), Some(hint));
        return None;
    };
    if items.is_empty() {
        let hint = Some("write the values that it takes, or take the key out".into());
        problems.add(&node.at, format!("{path} has no value"), hint);
        return None;
    }
    for item in items.iter().filter(|item| matches!(item.value, Value::Date)) {
        problems.add(&item.at, format!("{path} has a date among its values"), Some("no key takes one".into()));
    }
    Some(items.clone())
}

/// Reports a value that a key has twice. A key of a pair may have one value several times: only the values of all its keys together must differ.
fn refuse_twice(path: &str, values: &[Node], problems: &Problems) {
    for (index, item) in values.iter().enumerate() {
        let written = path::written(&item.value);
        if values[..index].iter().any(|earlier| path::written(&earlier.value) == written) {
            let message = format!("{path} has the value {written} twice");
            problems.add(&item.at, message, Some("write each value once; blocks = N repeats all settings".into()));
        }
    }
}

/// Reports keys that cannot vary, keys that are named twice, and keys that an arm sets itself.
fn check_keys(section: &Section, base: &Table, problems: &Problems) {
    let all: Vec<(&str, &At)> = section
        .varied
        .iter()
        .flat_map(Varied::keys)
        .chain(section.follows.iter().map(|follow| (follow.path.as_str(), &follow.key_at)))
        .collect();
    for (index, (path, at)) in all.iter().enumerate() {
        if let Some((key, why)) = FIXED.iter().find(|(key, _)| path::overlap(path, key)) {
            problems.add(at, format!("{key} cannot vary: {why}"), Some("take the key out of the matrix".into()));
        }
        if let Some((other, _)) = all[..index].iter().find(|(other, _)| path::overlap(path, other)) {
            let message = match other == path {
                true => format!("{path} is said twice in the matrix"),
                false => format!("the matrix says both {other} and {path}, of which one is a part of the other"),
            };
            problems.add(at, message, Some("keep one of them".into()));
        }
        for (arm, own) in arms(base) {
            let sets = |(own, ..): &(String, String, At)| path::overlap(path, &path::plain(own));
            let replaced = experiment::replaced_whole(own).into_iter().find(|table| path::overlap(path, table));
            let message = match replaced {
                _ if own.leaves().iter().any(sets) => format!("arm \"{arm}\" sets {path} itself"),
                Some(table) => format!("arm \"{arm}\" sets keys of {table}, and replaces the whole table, with {path}"),
                None => continue,
            };
            let hint = "take the key out of the arm, or out of the matrix";
            problems.add(at, format!("{message}: the matrix would not reach it"), Some(hint.into()));
        }
    }
}

fn arms(base: &Table) -> Vec<(String, &Table)> {
    let Some(Value::List(items)) = base.get("arm").map(|node| &node.value) else { return Vec::new() };
    items
        .iter()
        .filter_map(|item| match &item.value {
            Value::Table(table) => {
                let name = table.get("name").map(|node| node.value.written()).unwrap_or_default();
                Some((name, table))
            }
            _ => None,
        })
        .collect()
}
