// SPDX-License-Identifier: Apache-2.0
//! JSON, as `--save` writes it.

use super::Problem;
use crate::reading::Reading;
use serde_json::Value;

const KNOWN: [&str; 5] = ["schema", "basis", "variables", "instances", "readings"];

pub(super) fn read(text: &str) -> Result<Reading, Problem> {
    let at = |error: &serde_json::Error| {
        Problem::at(error.line(), format!("column {}: {error}; {EXPECTED}", error.column()))
    };
    let mut reading: Reading = serde_json::from_str(text).map_err(|error| at(&error))?;
    if let Ok(Value::Object(keys)) = serde_json::from_str(text) {
        let unknown = keys.keys().filter(|key| !KNOWN.contains(&key.as_str()));
        reading.notes = unknown.map(|key| format!("the key '{key}' is not known, and was ignored")).collect();
    }
    Ok(reading)
}

const EXPECTED: &str = "expected is what `wringer stalls advise --save` writes: {\"variables\": {...}, \"readings\": [{\"at_seconds\": 0, \"status\": {...}}, ...]}";
