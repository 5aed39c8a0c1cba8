// SPDX-License-Identifier: Apache-2.0
//! The keys of `[load]` that both Wringer's own load and another program have.

use super::squeeze::parsed;
use crate::section::Section;
use crate::tree::Value;
use units::{CpuList, Span};

/// Nobody waits for the report of a longer run.
const LONGEST: Span = Span::secs(24 * 3600);

pub(super) fn too_long(section: &Section<'_>, key: &'static str, asked: Span) {
    if asked > LONGEST {
        let hint = Some(format!("{LONGEST} is the most"));
        section.wrong(section.node(key), &format!("load.{key} cannot be {asked}"), hint);
    }
}

/// The CPUs of the load. An arm writes `"none"` to turn the section's value off.
pub(super) fn cpuset(section: &Section<'_>) -> Option<CpuList> {
    match &section.node("cpuset")?.value {
        Value::Text(word) if word == "none" => None,
        _ => parsed(section, "cpuset", "\"1\""),
    }
}
