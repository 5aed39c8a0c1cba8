// SPDX-License-Identifier: Apache-2.0
//! One setting: the file with its keys set, as a table, as a text, and as an id.

use crate::axis::Set;
use crate::path;
use keyfile::{Problems, Table, Value};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// What of a file changes nothing of what is run: its name, and words for people.
const WORDS: [&str; 4] = ["name", "description", "question", "article"];
/// So many hexadecimal digits of a SHA-256: of 10,000 settings, two have the same in one of five million files.
const ID_DIGITS: usize = 12;

/// The file with these keys set. A key that cannot be set is reported.
pub(crate) fn laid(base: &Table, sets: &[Set], problems: &Problems) -> Table {
    let mut file = base.clone();
    for set in sets {
        if let Err(blocked) = path::set(&mut file, &set.path, &set.key_at, set.node.clone()) {
            let message = format!("the matrix cannot vary {}: {blocked} is no table", set.path);
            problems.add(&set.key_at, message, Some("name a key of the file: docs/experiment.md lists them".into()));
        }
    }
    file
}

/// Which setting this is: the same for the same run, however the file is laid out and whatever else it varies.
pub(crate) fn id(file: &Table) -> String {
    let mut content = json(file);
    WORDS.iter().for_each(|word| {
        content.remove(*word);
    });
    hashed(Json::Object(content).to_string().as_bytes())
}

/// The id of a setting that also names files: another one when one of them says something else.
pub(crate) fn id_with(id: &str, files: &[(String, String)]) -> String {
    if files.is_empty() { id.to_owned() } else { hashed(serde_json::json!([id, files]).to_string().as_bytes()) }
}

fn hashed(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    let mut id = String::new();
    digest.iter().take(ID_DIGITS / 2).for_each(|byte| {
        let _ = write!(id, "{byte:02x}");
    });
    id
}

/// As an experiment file of its own. `None`: a value cannot be written, which no reader lets through.
pub(crate) fn text(file: &Table, head: &str) -> Option<String> {
    let table = toml::Table::try_from(json(file)).ok()?;
    Some(format!("{head}\n{}", toml::to_string(&table).ok()?))
}

fn json(table: &Table) -> serde_json::Map<String, Json> {
    table.0.iter().map(|(key, entry)| (key.clone(), value(&entry.node.value))).collect()
}

fn value(value: &Value) -> Json {
    match value {
        Value::Text(text) => Json::from(text.as_str()),
        Value::Integer(number) => Json::from(*number),
        Value::Float(number) => Json::from(*number),
        Value::Bool(is_so) => Json::from(*is_so),
        Value::Table(table) => Json::Object(json(table)),
        Value::List(items) => items.iter().map(|item| self::value(&item.value)).collect(),
        Value::Date => Json::from(value.written()),
    }
}
