// SPDX-License-Identifier: Apache-2.0
//! The keys of `[load]` that a load of ours and a program of somebody else's have alike.

use super::squeeze::parsed;
use crate::section::Section;
use crate::tree::Value;
use units::{CpuList, Span};

/// Beyond it nobody waits for the report.
const LONGEST: Span = Span::secs(24 * 3600);

pub(super) fn too_long(section: &Section<'_>, key: &'static str, asked: Span) {
    if asked > LONGEST {
        let hint = Some(format!("{LONGEST} is the most"));
        section.wrong(section.node(key), &format!("load.{key} cannot be {asked}"), hint);
    }
}

/// `"none"`, as an arm takes it away again.
pub(super) fn cpuset(section: &Section<'_>) -> Option<CpuList> {
    match &section.node("cpuset")?.value {
        Value::Text(word) if word == "none" => None,
        _ => parsed(section, "cpuset", "\"1\""),
    }
}
