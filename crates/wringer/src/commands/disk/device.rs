// SPDX-License-Identifier: Apache-2.0
//! `wringer disk delay DEVICE`: the kernel's device-mapper over an unused block device.

use super::show_measured;
use crate::commands::standing::{self, Output, Shown};
use crate::terminal;
use host::mapper::MappingStatus;
use run::FoundRun;
use serde_json::{Value, json};
use squeeze::device::{SlowDevice, delay_of};
use squeeze::standing::SlowedDevice;

pub(super) fn show(shown: &Shown<SlowedDevice>, output: Output) {
    if output == Output::Json {
        return terminal::json(shown);
    }
    let SlowedDevice { device, mapped, table, measured, notes, .. } = &shown.in_force;
    let (device, mapped) = (device.display(), mapped.display());
    terminal::data(format_args!("{mapped} over {device} (run {})", shown.run));
    terminal::data(format_args!("table: {table}"));
    measured.iter().for_each(show_measured);
    notes.iter().for_each(|note| terminal::say(format_args!("note: {note}")));
    if let Some(until) = &shown.until {
        terminal::say(format_args!(
            "use it as any device: mount {mapped} DIRECTORY\nuntil {until}; unmount it before, then `wringer disk release {device}` ends it"
        ));
    }
}

/// The present state of the device in the kernel, for `status`.
pub fn line(slow: &SlowDevice) -> String {
    let path = slow.mapping.path();
    match slow.mapping.status() {
        Ok(Some(status)) if !device_below_is_there(&status) => {
            format!(
                "the device below is GONE, and requests fail; {} can only be unmounted and released",
                path.display()
            )
        }
        Ok(Some(status)) => {
            let delay = status.table.map_or_else(
                || "no delay table".to_owned(),
                |it| format!("read {} ms, write {} ms, sync {} ms added", it.read_ms, it.write_ms, it.flush_ms),
            );
            let used = if status.open_count > 0 { "in use" } else { "not in use" };
            format!("{delay}; as {}, {used}", path.display())
        }
        Ok(None) => format!("{} is gone", path.display()),
        Err(error) => format!("{}: {}", path.display(), host::chain(&error)),
    }
}

/// A table names its device by its numbers; no other device can get them as long as the table exists.
fn device_below_is_there(status: &MappingStatus) -> bool {
    status.table.as_ref().is_none_or(|table| host::mapper::is_there(&table.device))
}

pub fn row(run: &FoundRun, slow: &SlowDevice) -> Value {
    let mut value = standing::run_json(run);
    let status = slow.mapping.status().ok().flatten();
    let table = status.as_ref().and_then(|status| status.table.as_ref());
    value["device"] = json!(slow.device);
    value["mapped"] = json!(slow.mapping.path());
    value["delay"] = json!(table.map(delay_of));
    value["table"] = json!(table.map(ToString::to_string));
    value["device_present"] = json!(status.as_ref().map(device_below_is_there));
    value["in_use"] = json!(status.as_ref().map(|status| status.open_count > 0));
    value
}
