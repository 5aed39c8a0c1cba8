// SPDX-License-Identifier: Apache-2.0
//! The TOML text as a tree that has the place of each key and value. Arms are laid over the sections here, before anything is read, so that a value
//! keeps its place in every arm that uses it.

use crate::problem::Problems;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

pub type At = Range<usize>;

#[derive(Debug, Clone)]
pub struct Node {
    pub at: At,
    pub value: Value,
}

#[derive(Debug, Clone)]
pub enum Value {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Table(Table),
    List(Vec<Node>),
    /// A date: no key accepts one.
    Date,
}

#[derive(Debug, Clone, Default)]
pub struct Table(pub BTreeMap<String, Entry>);

#[derive(Debug, Clone)]
pub struct Entry {
    pub key_at: At,
    pub node: Node,
}

/// Reads the valid TOML in the text; each part that is not valid TOML becomes a problem.
pub fn parse(text: &str, problems: &Problems) -> Table {
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        problems.add(&error.span().unwrap_or(0..0), error.message().replace('\n', ", "), None);
    }
    table(document.get_ref(), problems)
}

fn table(from: &DeTable<'_>, problems: &Problems) -> Table {
    let entries = from.iter().map(|(key, from)| {
        let node = Node { at: from.span(), value: value(from, problems) };
        (key.get_ref().to_string(), Entry { key_at: key.span(), node })
    });
    Table(entries.collect())
}

fn value(from: &toml::Spanned<DeValue<'_>>, problems: &Problems) -> Value {
    match from.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => {
                problems.add(&from.span(), format!("{number} is too large a number"), None);
                Value::Integer(0)
            }
        },
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(items) => {
            Value::List(items.iter().map(|item| Node { at: item.span(), value: value(item, problems) }).collect())
        }
        DeValue::Table(inner) => Value::Table(table(inner, problems)),
    }
}

impl Table {
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.0.get(key).map(|entry| &entry.node)
    }

    pub fn table(&self, key: &str) -> Option<&Table> {
        match &self.get(key)?.value {
            Value::Table(table) => Some(table),
            _ => None,
        }
    }

    /// `over` laid over `self`: tables are merged key by key, everything else is replaced. The tables in `whole` are
    /// replaced as one value, because their keys exclude each other.
    pub fn overlaid(&self, over: &Table, whole: &[&str]) -> Table {
        let mut merged = self.clone();
        for (key, entry) in &over.0 {
            let value = match (merged.table(key), &entry.node.value) {
                (Some(base), Value::Table(over)) if !whole.contains(&key.as_str()) => {
                    Value::Table(base.overlaid(over, whole))
                }
                (_, value) => value.clone(),
            };
            let node = Node { at: entry.node.at.clone(), value };
            merged.0.insert(key.clone(), Entry { key_at: entry.key_at.clone(), node });
        }
        merged
    }

    /// Every leaf with its dotted path, its text as a person would write it, and its place.
    pub fn leaves(&self) -> Vec<(String, String, At)> {
        let mut found = Vec::new();
        self.collect_leaves("", &mut found);
        found
    }

    fn collect_leaves(&self, prefix: &str, found: &mut Vec<(String, String, At)>) {
        for (key, entry) in &self.0 {
            let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match &entry.node.value {
                Value::Table(inner) => inner.collect_leaves(&path, found),
                value => found.push((path, value.written(), entry.node.at.clone())),
            }
        }
    }
}

impl Value {
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Text(_) => "a text",
            Value::Integer(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Bool(_) => "true or false",
            Value::Table(_) => "a table",
            Value::List(_) => "a list",
            Value::Date => "a date",
        }
    }

    pub fn written(&self) -> String {
        match self {
            Value::Text(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            Value::List(items) => {
                let items: Vec<String> = items.iter().map(|item| item.value.written()).collect();
                format!("[{}]", items.join(", "))
            }
            other => other.kind().to_owned(),
        }
    }
}
