// SPDX-License-Identifier: Apache-2.0
//! `wringer disk delay DEVICE`: the kernel's device-mapper over an unused block device.

use super::{dry_change, show_measured};
use crate::commands::standing::{self, Output, Standing};
use crate::exit::Outcome;
use crate::internal::Squeeze;
use crate::terminal;
use diskmodel::Model;
use evidence::Measured;
use host::mapper::{DelayTable, MappingStatus};
use host::places::Places;
use run::FoundRun;
use serde_json::{Value, json};
use squeeze::Error;
use squeeze::device::{Delays, SlowDevice, Timing, check, delays};
use std::path::Path;
use std::time::Duration;

/// Reads and syncs are measured for ten seconds each, or five times.
const PROBES: u32 = 20;

pub fn delay(places: &Places, path: &Path, model: &Model, words: &Standing) -> Outcome {
    let delays = delays(model, path)?;
    let device = check(path)?;
    if words.dry_run {
        let table = device.table(delays);
        return dry_run(&device.path, &table, words.output);
    }
    let longest_ms = delays.read_ms.max(delays.sync_ms);
    let takes = Duration::from_secs(30) + Duration::from_millis(longest_ms.into()) * PROBES;
    let spinner = terminal::spinner("making the slow device, probing it");
    let result = standing::start(places, words, Squeeze::Device { device, delays }, takes);
    spinner.finish_and_clear();
    show(&result?, words.output);
    Ok(())
}

/// Changes a device that is slow already: another table, also below a mounted file system.
pub fn change(places: &Places, slow: &SlowDevice, model: &Model, words: &Standing) -> Outcome {
    let delays = delays(model, &slow.device)?;
    if words.dry_run {
        dry_change(&slow.run, &slow.device, model, words.output);
        return Ok(());
    }
    let mut value = set(places, slow, delays, words.strict)?;
    value["schema"] = json!(1);
    value["run"] = json!(slow.run);
    show(&value, words.output);
    Ok(())
}

/// Puts the delays in force; returns the output.
///
/// # Errors
/// As of [`SlowDevice::set`]; with `strict`, also a result out of tolerance.
pub fn set(places: &Places, slow: &SlowDevice, delays: Delays, strict: bool) -> Result<Value, Error> {
    let Some(timing) = Timing::here()? else {
        let what = "device-mapper's delay target is not loaded".to_owned();
        return Err(Error::Refused { what, hint: "as root: modprobe dm-delay".into() });
    };
    let (table, measured) = slow.set(places, delays, &timing, strict)?;
    let mut notes = timing.notes(&table);
    if table.write_ms > 0 {
        notes.push("writes are not probed: nothing is written to your device".into());
    }
    Ok(json!({
        "device": slow.device,
        "mapped": slow.mapping.path(),
        "mechanism": timing.mechanism(),
        "tick_us": timing.tick_us,
        "delay": micros(&table),
        "table": table.to_string(),
        "measured": measured,
        "notes": notes,
    }))
}

fn micros(table: &DelayTable) -> Value {
    let us = |ms: u32| u64::from(ms) * 1000;
    json!({ "read_us": us(table.read_ms), "write_us": us(table.write_ms), "sync_us": us(table.flush_ms), "mode": "add" })
}

fn dry_run(device: &Path, table: &DelayTable, output: Output) -> Outcome {
    let change = format!(
        "a device /dev/mapper/wringer-<run>-{} is made over {}: {table}",
        device.file_name().unwrap_or_default().display(),
        device.display()
    );
    let undo = "the delay goes to 0 at once; the device is removed when nobody uses it";
    let notes = Timing::here()?.map(|timing| timing.notes(table)).unwrap_or_default();
    if output == Output::Json {
        let changes = json!([{ "change": change, "undo": undo }]);
        terminal::json(
            &json!({ "schema": 1, "dry_run": true, "changes": changes, "delay": micros(table), "notes": notes }),
        );
    } else {
        terminal::data(format_args!("{change}\n    undo: {undo}"));
        notes.iter().for_each(|note| terminal::say(format_args!("note: {note}")));
    }
    Ok(())
}

fn show(value: &Value, output: Output) {
    if output == Output::Json {
        return terminal::json(&value);
    }
    let text = |name: &str| value[name].as_str().unwrap_or_default();
    terminal::data(format_args!("{} over {} (run {})", text("mapped"), text("device"), text("run")));
    terminal::data(format_args!("table: {}", text("table")));
    let measured: Vec<Measured> = serde_json::from_value(value["measured"].clone()).unwrap_or_default();
    measured.iter().for_each(show_measured);
    for note in value["notes"].as_array().into_iter().flatten() {
        terminal::say(format_args!("note: {}", note.as_str().unwrap_or_default()));
    }
    if let Some(until) = value["until"].as_str() {
        terminal::say(format_args!(
            "use it as any device: mount {} DIRECTORY\nuntil {until}; unmount it before, then `wringer disk release {}` ends it",
            text("mapped"),
            text("device")
        ));
    }
}

/// For `status`: the kernel's present state.
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
    value["delay"] = json!(table.map(micros));
    value["table"] = json!(table.map(ToString::to_string));
    value["device_present"] = json!(status.as_ref().map(device_below_is_there));
    value["in_use"] = json!(status.as_ref().map(|status| status.open_count > 0));
    value
}
