// SPDX-License-Identifier: Apache-2.0
//! Small files of a process below /proc, as text.

use std::fs;

/// A file as text. A process may give itself a name of any bytes, and the kernel shows them unchanged.
pub(super) fn lossy(path: &str) -> Option<String> {
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

/// The name of a process, without characters that would control a terminal.
pub(super) fn comm(pid: u32) -> String {
    let name = lossy(&format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim().replace(char::is_control, "\u{fffd}")
}

pub(super) fn number(pid: u32, file: &str) -> Option<i64> {
    fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?.trim().parse().ok()
}
