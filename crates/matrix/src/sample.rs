// SPDX-License-Identifier: Apache-2.0
//! `[matrix.sample]`: a given number of settings, drawn by the seed from all settings that the keys' values and ranges allow.
//!
//! A Latin hypercube: each key's range is cut into as many equal parts as there are settings, and each part is drawn from once (McKay, Beckman
//! and Conover, "A comparison of three methods for selecting values of input variables", Technometrics 21, 1979). So 12 settings of three keys
//! have 12 values of each key, spread over its whole range. Values that are drawn independently leave parts of it out.

use crate::axis::{Choices, Set};
use crate::draw;
use crate::path;
use crate::quantity::{Kind, Quantity};
use keyfile::{At, Node, Problems, Section, Table};
use std::collections::BTreeSet;

/// A key, and the list or the range from which its values are drawn.
#[derive(Debug)]
pub(crate) struct Drawn {
    pub(crate) path: String,
    pub(crate) key_at: At,
    pub(crate) from: From,
}

#[derive(Debug)]
pub(crate) enum From {
    Values(Vec<Node>),
    Range { at: At, low: Quantity, high: Quantity, is_log: bool },
}

/// A range, as `{ from = "128M", to = "2G", scale = "log" }`. `None` only with a problem reported.
pub(crate) fn range(path: &str, node: &Node, problems: &Problems) -> Option<From> {
    let section = Section::at(format!("matrix.sample.{path}"), node, problems)?;
    let end = |key: &'static str| {
        let node = section.node(key);
        let Some(node) = node else {
            section
                .missing(key, "write { from = 1, to = 64 }, with scale = \"log\" where it doubles rather than grows");
            return None;
        };
        let found = Quantity::of(path, &node.value);
        if found.is_none() {
            let hint = Some("write a size, a time or a number; other values are a list: [\"a\", \"b\"]".into());
            section.wrong(Some(node), &format!("nothing can be drawn from {}", path::written(&node.value)), hint);
        }
        found
    };
    let (low, high) = (end("from"), end("to"));
    let is_log = section.choice("scale", &["linear", "log"]).is_some_and(|scale| scale.value == "log");
    section.finish();
    let (low, high) = (low?, high?);
    let kinds = [low.kind, high.kind];
    let low = if kinds == [Kind::Whole, Kind::Number] { Quantity { kind: Kind::Number, ..low } } else { low };
    let wrong = |message: &str, hint: &str| {
        problems.add(&node.at, format!("matrix.sample.{path}: {message}"), Some(hint.to_owned()));
        None
    };
    if low.kind != high.kind && kinds != [Kind::Number, Kind::Whole] {
        return wrong("from and to are not of one kind", "write two sizes, two times or two numbers");
    }
    if low.value >= high.value {
        return wrong("from is not below to", "write the smaller value first");
    }
    if is_log && low.value <= 0.0 {
        return wrong("a range that begins at 0 has no logarithm", "begin above 0, or write scale = \"linear\"");
    }
    Some(From::Range { at: node.at.clone(), low, high, is_log })
}

/// `count` different settings. If the keys do not allow that many: fewer settings, and a problem is reported.
pub(crate) fn choices(keys: &[Drawn], count: u32, at: &At, seed: u64, file: &Table, problems: &Problems) -> Choices {
    let mut found = Different::default();
    let parts: Vec<Vec<u32>> = keys.iter().map(|key| shuffled(&key.path, count, seed)).collect();
    for index in 0..count {
        let one = |(key, parts): (&Drawn, &Vec<u32>)| {
            let place = draw::unit(seed, &["place", &key.path, &index.to_string()]);
            key.at((f64::from(parts[index as usize]) + place) / f64::from(count), file)
        };
        found.add(keys.iter().zip(&parts).map(one).collect());
    }
    // draws from short lists may give the same setting twice: further settings are drawn, each value independently
    let enough = count as usize;
    for again in 0..100 * count {
        if found.settings.len() == enough {
            break;
        }
        let one = |key: &Drawn| key.at(draw::unit(seed, &["again", &key.path, &again.to_string()]), file);
        found.add(keys.iter().map(one).collect());
    }
    let found = found.settings;
    if found.len() < enough {
        let message = format!("{count} settings are to be drawn, and these keys have only {}", found.len());
        let hint = Some("write fewer settings, or the keys below [matrix.cross]".into());
        problems.add(at, message, hint);
    }
    found
}

/// Settings, each once, in the order in which they came.
#[derive(Default)]
struct Different {
    settings: Choices,
    seen: BTreeSet<Vec<String>>,
}

impl Different {
    fn add(&mut self, setting: Vec<Set>) {
        if self.seen.insert(setting.iter().map(|set| path::written(&set.node.value)).collect()) {
            self.settings.push(setting);
        }
    }
}

/// 0 to `count`, in a random order of the key's own.
fn shuffled(path: &str, count: u32, seed: u64) -> Vec<u32> {
    let mut parts: Vec<u32> = (0..count).collect();
    parts.sort_by_key(|part| draw::bits(seed, &["part", path, &part.to_string()]));
    parts
}

impl Drawn {
    /// Each value of the list, or both ends of the range.
    pub(crate) fn each(&self, file: &Table) -> Choices {
        let count = match &self.from {
            From::Values(values) => values.len(),
            From::Range { .. } => 2,
        };
        (0..count).map(|index| vec![self.at(index as f64 / (count - 1).max(1) as f64, file)]).collect()
    }

    /// The value at a place between 0 and 1 of the key's list or range.
    fn at(&self, place: f64, file: &Table) -> Set {
        let node = match &self.from {
            From::Values(values) => {
                #[allow(clippy::cast_possible_truncation)] // below the length of the list
                let index = (place * values.len() as f64) as usize;
                values[index.min(values.len() - 1)].clone()
            }
            From::Range { at, low, high, is_log } => {
                let value = match is_log {
                    true => (low.value.ln() + place * (high.value.ln() - low.value.ln())).exp(),
                    false => low.value + place * (high.value - low.value),
                };
                let value = Quantity { value, ..*low }.written(&self.path, file);
                Node { at: at.clone(), value }
            }
        };
        Set { path: self.path.clone(), key_at: self.key_at.clone(), node }
    }
}
