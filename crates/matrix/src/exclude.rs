// SPDX-License-Identifier: Apache-2.0
//! `[[matrix.exclude]]`: a setting in which each key of a rule has one of the rule's values is left out.

use crate::axis::Set;
use crate::path;
use keyfile::{At, Node, Problems, Section, Table, Value, suggest};

#[derive(Debug)]
pub(crate) struct Rule {
    at: At,
    conditions: Vec<Condition>,
}

#[derive(Debug)]
struct Condition {
    path: String,
    key_at: At,
    any_of: Vec<Node>,
}

pub(crate) fn read(section: &Section<'_>, problems: &Problems) -> Vec<Rule> {
    let Some(node) = section.node("exclude") else { return Vec::new() };
    let items = match &node.value {
        Value::List(items) => items.as_slice(),
        Value::Table(_) => std::slice::from_ref(node),
        other => {
            let hint = Some("write [[matrix.exclude]], and the keys below it".into());
            problems.add(&node.at, format!("matrix.exclude is {}, not a list of tables", other.kind()), hint);
            return Vec::new();
        }
    };
    items.iter().filter_map(|item| rule(item, problems)).collect()
}

fn rule(item: &Node, problems: &Problems) -> Option<Rule> {
    let Value::Table(table) = &item.value else {
        let hint = Some("write { \"load.threads\" = 64 }: each key with its value".into());
        problems.add(&item.at, format!("a rule of matrix.exclude is {}, not a table", item.value.kind()), hint);
        return None;
    };
    let mut conditions = Vec::new();
    collect(table, "", &mut conditions);
    if conditions.is_empty() {
        let hint = Some("write the keys and values of the settings to leave out".into());
        problems.add(&item.at, "a rule of matrix.exclude names no key: it would leave out everything", hint);
        return None;
    }
    Some(Rule { at: item.at.clone(), conditions })
}

fn collect(table: &Table, prefix: &str, found: &mut Vec<Condition>) {
    for (key, entry) in &table.0 {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match &entry.node.value {
            Value::Table(inner) => collect(inner, &path, found),
            Value::List(items) => {
                found.push(Condition { path: path::plain(&path), key_at: entry.key_at.clone(), any_of: items.clone() })
            }
            _ => found.push(Condition {
                path: path::plain(&path),
                key_at: entry.key_at.clone(),
                any_of: vec![entry.node.clone()],
            }),
        }
    }
}

/// The settings that no rule leaves out. A rule that leaves out nothing is a mistake of the author, and is reported.
pub(crate) fn apply(rules: &[Rule], settings: Vec<Vec<Set>>, problems: &Problems) -> Vec<Vec<Set>> {
    for condition in rules.iter().flat_map(|rule| &rule.conditions) {
        check(condition, &settings, problems);
    }
    if problems.is_empty() {
        for rule in rules.iter().filter(|rule| !settings.iter().any(|setting| rule.excludes(setting))) {
            let hint = Some("no setting has all of these values together: take the rule out".into());
            problems.add(&rule.at, "this rule of matrix.exclude leaves out nothing", hint);
        }
    }
    settings.into_iter().filter(|setting| !rules.iter().any(|rule| rule.excludes(setting))).collect()
}

impl Rule {
    fn excludes(&self, setting: &[Set]) -> bool {
        self.conditions.iter().all(|condition| {
            setting.iter().any(|set| set.path == condition.path && condition.has(&path::written(&set.node.value)))
        })
    }
}

impl Condition {
    fn has(&self, written: &str) -> bool {
        self.any_of.iter().any(|node| path::written(&node.value) == written)
    }
}

fn check(condition: &Condition, settings: &[Vec<Set>], problems: &Problems) {
    let sets = || settings.iter().flatten();
    if !sets().any(|set| set.path == condition.path) {
        let mut keys: Vec<&str> = sets().map(|set| set.path.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        let message = format!("matrix.exclude names {}, which the matrix does not vary", condition.path);
        problems.add(&condition.key_at, message, suggest(&condition.path, &keys));
        return;
    }
    for node in &condition.any_of {
        let written = path::written(&node.value);
        let mut values: Vec<String> = Vec::new();
        for set in sets().filter(|set| set.path == condition.path) {
            let value = path::written(&set.node.value);
            if !values.contains(&value) {
                values.push(value);
            }
        }
        if !values.contains(&written) {
            let message = format!("{} is never {written}: matrix.exclude leaves out nothing", condition.path);
            problems.add(&node.at, message, Some(format!("its values are {}", values.join(", "))));
        }
    }
}
