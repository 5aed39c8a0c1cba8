// SPDX-License-Identifier: Apache-2.0
//! Typed reading of one table of the file. A getter that finds the wrong type or an impossible value reports it and returns `None`;
//! [`Section::finish`] reports every key that no getter has asked for.

use crate::problem::{Problems, suggest};
use crate::tree::{At, Node, Table, Value};
use std::cell::RefCell;
use std::ops::RangeInclusive;
use std::str::FromStr;
use units::ParseError;

pub struct Section<'a> {
    /// The path of the table: `load`, `squeeze.disk`; empty for the top of the file.
    path: String,
    table: Option<&'a Table>,
    /// The place for a problem with something that is missing: the section's key, or the start of the file.
    at: At,
    problems: &'a Problems,
    known: RefCell<Vec<&'static str>>,
}

/// A value with its place, for checks that need the value and the place.
#[derive(Debug, Clone)]
pub struct Placed<T> {
    pub value: T,
    pub at: At,
}

impl<'a> Section<'a> {
    pub fn top(table: &'a Table, problems: &'a Problems) -> Self {
        Self { path: String::new(), table: Some(table), at: 0..0, problems, known: RefCell::default() }
    }

    /// The table at `node`, which is an item of a list or the value of a free key; `None`, with a problem, if the value is no table.
    pub fn at(path: String, node: &'a Node, problems: &'a Problems) -> Option<Section<'a>> {
        let Value::Table(table) = &node.value else {
            problems.add(&node.at, format!("{path} is {}, not a table", node.value.kind()), None);
            return None;
        };
        Some(Self { path, table: Some(table), at: node.at.clone(), problems, known: RefCell::default() })
    }

    /// The same as [`Self::at`], for an item of a list below this table.
    pub fn at_node(&self, path: String, node: &'a Node) -> Option<Section<'a>> {
        Self::at(path, node, self.problems)
    }

    /// The table below this one at `key`; a table that is absent is read as an empty one.
    pub fn section(&self, key: &'static str) -> Section<'a> {
        let node = self.node(key);
        let table = match node.map(|node| &node.value) {
            None => None,
            Some(Value::Table(table)) => Some(table),
            Some(other) => {
                let suggestion = format!("write a section [{}]", self.named(key));
                self.wrong(
                    node,
                    &format!("\"{}\" is {}, not a table", self.named(key), other.kind()),
                    Some(suggestion),
                );
                None
            }
        };
        let at = node.map_or(self.at.clone(), |node| node.at.clone());
        Section { path: self.named(key), table, at, problems: self.problems, known: RefCell::default() }
    }

    pub fn node(&self, key: &'static str) -> Option<&'a Node> {
        self.known.borrow_mut().push(key);
        self.table.and_then(|table| table.get(key))
    }

    pub fn text(&self, key: &'static str) -> Option<Placed<String>> {
        let node = self.node(key)?;
        match &node.value {
            Value::Text(text) => Some(Placed { value: text.clone(), at: node.at.clone() }),
            other => {
                let quoted = format!("write {key} = \"{}\"", other.written());
                self.wrong(Some(node), &format!("{} is {}, not a text", self.named(key), other.kind()), Some(quoted));
                None
            }
        }
    }

    /// The value when it is one of the words of `valid`.
    pub fn choice(&self, key: &'static str, valid: &[&'static str]) -> Option<Placed<&'static str>> {
        let text = self.text(key)?;
        let found = valid.iter().find(|word| **word == text.value);
        if found.is_none() {
            let message = format!("{} cannot be \"{}\"", self.named(key), text.value);
            self.problems.add(&text.at, message, suggest(&text.value, valid));
        }
        found.map(|word| Placed { value: *word, at: text.at })
    }

    /// A size or a time, in the form that `units` reads. A bare number is read as its text: as a time, `0` is accepted, and `5` is refused because it
    /// has no unit.
    pub fn unit<T: FromStr<Err = ParseError>>(&self, key: &'static str, example: &str) -> Option<Placed<T>> {
        let node = self.node(key)?;
        let text = match &node.value {
            Value::Text(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            other => {
                let message = format!("{} is {}", self.named(key), other.kind());
                self.wrong(Some(node), &message, Some(format!("write {key} = \"{example}\"")));
                return None;
            }
        };
        match text.parse() {
            Ok(value) => Some(Placed { value, at: node.at.clone() }),
            Err(error) => {
                let message = format!("{}: {error}", self.named(key));
                self.wrong(Some(node), &message, Some(format!("for example {key} = \"{example}\"")));
                None
            }
        }
    }

    pub fn integer<T>(&self, key: &'static str, range: RangeInclusive<T>) -> Option<Placed<T>>
    where
        T: TryFrom<i64> + PartialOrd + std::fmt::Display,
    {
        let node = self.node(key)?;
        let Value::Integer(number) = node.value else {
            let message = format!("{} is {}, not a whole number", self.named(key), node.value.kind());
            self.wrong(Some(node), &message, Some(format!("write a number from {} to {}", range.start(), range.end())));
            return None;
        };
        match T::try_from(number).ok().filter(|value| range.contains(value)) {
            Some(value) => Some(Placed { value, at: node.at.clone() }),
            None => {
                let message = format!("{} cannot be {number}", self.named(key));
                self.wrong(Some(node), &message, Some(format!("it goes from {} to {}", range.start(), range.end())));
                None
            }
        }
    }

    /// A number, whole or with a fraction, inside `range`.
    pub fn number(&self, key: &'static str, range: RangeInclusive<f64>) -> Option<Placed<f64>> {
        let node = self.node(key)?;
        let value = match node.value {
            Value::Integer(number) => number as f64,
            Value::Float(number) => number,
            ref other => {
                let message = format!("{} is {}, not a number", self.named(key), other.kind());
                self.wrong(
                    Some(node),
                    &message,
                    Some(format!("write a number from {} to {}", range.start(), range.end())),
                );
                return None;
            }
        };
        if range.contains(&value) {
            return Some(Placed { value, at: node.at.clone() });
        }
        let message = format!("{} cannot be {value}", self.named(key));
        self.wrong(Some(node), &message, Some(format!("it goes from {} to {}", range.start(), range.end())));
        None
    }

    pub fn boolean(&self, key: &'static str) -> Option<Placed<bool>> {
        let node = self.node(key)?;
        match &node.value {
            Value::Bool(value) => Some(Placed { value: *value, at: node.at.clone() }),
            other => {
                let message = format!("{} is {}", self.named(key), other.kind());
                self.wrong(Some(node), &message, Some(format!("write {key} = true or {key} = false")));
                None
            }
        }
    }

    pub fn missing(&self, key: &str, suggestion: &str) {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        self.problems.add(&self.at, format!("{path} is missing"), Some(suggestion.to_owned()));
    }

    pub fn wrong(&self, node: Option<&Node>, message: &str, suggestion: Option<String>) {
        self.problems.add(node.map_or(&self.at, |node| &node.at), message, suggestion);
    }

    /// Every key of this table, for tables whose keys are free.
    pub fn entries(&self) -> impl Iterator<Item = (&'a String, &'a crate::tree::Entry)> {
        self.table.into_iter().flat_map(|table| table.0.iter())
    }

    /// Reports the keys that no getter has asked for.
    pub fn finish(self) {
        self.finish_beside(&[]);
    }

    /// The same. `elsewhere` are keys that another reader of the same file takes: they are suggested, too, and are unknown here.
    pub fn finish_beside(self, elsewhere: &[&'static str]) {
        let mut known = self.known.borrow().clone();
        known.sort_unstable();
        known.dedup();
        let mut valid = [known.as_slice(), elsewhere].concat();
        valid.sort_unstable();
        for (key, entry) in self.entries().filter(|(key, _)| !known.contains(&key.as_str())) {
            let place =
                if self.path.is_empty() { "at the top of the file".into() } else { format!("in [{}]", self.path) };
            let instead = self.problems.hint(&self.path, key).or_else(|| suggest(key, &valid));
            self.problems.add(&entry.key_at, format!("unknown key \"{key}\" {place}"), instead);
        }
    }

    pub fn named(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}
