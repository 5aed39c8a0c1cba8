// SPDX-License-Identifier: Apache-2.0
//! A variable of the server, in every place where an experiment sets one: `server.options`, `server.live`.

use crate::section::Section;
use crate::tree::{Entry, Value};

/// Whether the sandbox sets this variable itself; `key` is its name in the file. If so, this is reported.
pub(super) fn is_kept(section: &Section<'_>, key: &str, name: &str, entry: &Entry) -> bool {
    let is_kept = capability::is_kept(name);
    if is_kept {
        section.wrong(Some(&entry.node), &format!("{key} is set by the sandbox"), Some("leave it out".into()));
    }
    is_kept
}

/// The value as the server reads it. `None`: it is no value, and this is reported.
pub(super) fn value(section: &Section<'_>, key: &str, entry: &Entry) -> Option<String> {
    let value = match &entry.node.value {
        Value::Bool(true) => "ON".to_owned(),
        Value::Bool(false) => "OFF".to_owned(),
        Value::Float(number) if !number.is_finite() => {
            section.wrong(Some(&entry.node), &format!("{key} is not finite"), Some("write a number".into()));
            return None;
        }
        Value::Text(_) | Value::Integer(_) | Value::Float(_) => entry.node.value.written(),
        other => {
            let message = format!("{key} is {}", other.kind());
            section.wrong(Some(&entry.node), &message, Some("write a text, a number, true or false".into()));
            return None;
        }
    };
    if value.contains(['\n', '\r', '\0']) {
        section.wrong(Some(&entry.node), &format!("{key} has a line break in it"), None);
        return None;
    }
    Some(value)
}
