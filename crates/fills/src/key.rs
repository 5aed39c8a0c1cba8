// SPDX-License-Identifier: Apache-2.0
//! What a filled data directory depends on.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// This number rises when the files of an entry, or the fill of this program, change their meaning. Older entries are then not found any more, and
/// are removed in time as the least recently used ones.
const FORMAT: u32 = 1;
/// Hexadecimal digits of the hash in an entry's name: 96 bits.
const NAME_DIGITS: usize = 24;

/// Named parts, each any JSON value. Two keys describe the same data when all their parts are equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Key {
    #[serde(flatten)]
    parts: BTreeMap<String, Value>,
}

impl Key {
    /// A key with one part: the version of this program, whose fill makes the rows.
    pub fn new() -> Self {
        Self { parts: BTreeMap::new() }.with("format", FORMAT).with("wringer", env!("CARGO_PKG_VERSION"))
    }

    /// Adds a part; a part of the same name is replaced.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.parts.insert(name.into(), value.into());
        self
    }

    /// The entry's name: the first digits of the SHA-256 of the parts as JSON, sorted by name.
    pub fn id(&self) -> String {
        let text = sorted(&Value::Object(self.parts.clone().into_iter().collect()));
        let hash = Sha256::digest(text.as_bytes());
        let digits: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        digits.chars().take(NAME_DIGITS).collect()
    }

    pub fn parts(&self) -> &BTreeMap<String, Value> {
        &self.parts
    }

    /// A part as text: a text as it is, another value as JSON; empty when there is no such part.
    pub fn text(&self, name: &str) -> String {
        match self.parts.get(name) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::new()
    }
}

/// JSON with the names of every object sorted, however the library keeps them.
fn sorted(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let by_name: BTreeMap<&String, &Value> = map.iter().collect();
            let pairs: Vec<String> = by_name
                .iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), sorted(value)))
                .collect();
            format!("{{{}}}", pairs.join(","))
        }
        Value::Array(list) => format!("[{}]", list.iter().map(sorted).collect::<Vec<_>>().join(",")),
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_is_its_parts_and_not_their_order() {
        let one = Key::new().with("server", "mariadb").with("fill", json!({"rows": 1, "tables": 2}));
        let other = Key::new().with("fill", json!({"tables": 2, "rows": 1})).with("server", "mariadb");
        assert_eq!((one.id(), one.id().len()), (other.id(), 24));
        for different in [
            one.clone().with("fill", json!({"rows": 2, "tables": 2})),
            one.clone().with("server", "mysql"),
            one.clone().with("more", Value::Null),
        ] {
            assert_ne!(one.id(), different.id(), "{different:?}");
        }
    }
}
