// SPDX-License-Identifier: Apache-2.0
//! One setting: the file with its keys set, as a table, as a text, and as an id.

use crate::axis::Set;
use crate::path;
use keyfile::{Problems, Table, Value};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Keys that do not change what is run: the file's name, and texts for people.
const WORDS: [&str; 4] = ["name", "description", "question", "article"];
/// The same for `fill.keep`: a clone has the same data.
const KEEP: [&str; 2] = ["fill", "keep"];
/// The length of an id, in hexadecimal digits of a SHA-256. In one of five million files with 10,000 settings, two of them have the same id.
const ID_DIGITS: usize = 12;

/// The file with these keys set. A key that cannot be set is reported.
pub(crate) fn laid(base: &Table, sets: &[Set], problems: &Problems) -> Table {
    let mut file = base.clone();
    for set in sets {
        if let Err(blocked) = path::set(&mut file, &set.path, &set.key_at, set.node.clone()) {
            let message = format!("the matrix cannot vary {}: {blocked} is no table", set.path);
            problems.add(
                &set.key_at,
                message,
                Some("name a key of the file: `wringer doc experiment` lists them".into()),
            );
        }
    }
    file
}

/// The setting's id: the same for everything that runs the same, however the file is laid out and whatever else it varies.
pub(crate) fn id(file: &Table) -> String {
    let mut content = json(file);
    WORDS.iter().for_each(|word| {
        content.remove(*word);
    });
    let [section, keep] = KEEP;
    if let Some(Json::Object(section)) = content.get_mut(section) {
        section.remove(keep);
    }
    hashed(Json::Object(content).to_string().as_bytes())
}

/// The id of a setting that also names files: it is another id when the content of a file is another one.
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

/// The setting as an experiment file of its own. `None`: a value cannot be written as TOML; the readers refuse such values before.
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
