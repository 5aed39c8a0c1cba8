// SPDX-License-Identifier: Apache-2.0
//! `[squeeze]`, as it is in force in one arm.

use crate::model::{Disk, RamSqueeze, Squeeze};
use crate::section::Section;
use crate::tree::Value;
use evidence::DelayMode;
use units::{Bytes, Span};

/// Beyond it a server's own time-outs end the experiment, not the disk.
const LONGEST_DELAY: Span = Span::secs(10);
/// No server starts in less.
const LEAST_SERVER_RAM: Bytes = Bytes::mib(64);
/// The host itself needs this much to stay alive.
const LEAST_LEFT: Bytes = Bytes::mib(512);

pub(super) fn read(top: &Section<'_>) -> Squeeze {
    let section = top.section("squeeze");
    let squeeze =
        Squeeze { ram: ram(&section), server_ram: server_ram(&section), disk: none(&section, "disk", disk).flatten() };
    section.finish();
    squeeze
}

/// Runs `read` unless the key is absent or says "none", which is how an arm takes a squeeze away again.
fn none<T>(section: &Section<'_>, key: &'static str, read: fn(&Section<'_>) -> T) -> Option<T> {
    match &section.node(key)?.value {
        Value::Text(word) if word == "none" => None,
        _ => Some(read(section)),
    }
}

fn ram(section: &Section<'_>) -> Option<RamSqueeze> {
    none(section, "ram", |section| {
        let node = section.node("ram")?;
        let ram = section.section("ram");
        let leave = ram.unit::<Bytes>("leave", "8G");
        let hide = ram.unit::<Bytes>("hide", "4G");
        let written = (ram.node("leave").is_some(), ram.node("hide").is_some());
        let table = matches!(node.value, Value::Table(_));
        ram.finish();
        match written {
            (true, true) => {
                let hint = Some("keep one of them".into());
                section.wrong(Some(node), "squeeze.ram says both how much to leave and how much to hide", hint);
            }
            (false, false) if table => {
                let hint = Some("write ram = { leave = \"8G\" } or ram = { hide = \"4G\" }".into());
                section.wrong(Some(node), "squeeze.ram says neither how much to leave nor how much to hide", hint);
            }
            _ => {}
        }
        if let Some(leave) = leave.as_ref().filter(|leave| leave.value < LEAST_LEFT) {
            let hint = Some(format!("leave {LEAST_LEFT} or more"));
            section.wrong(Some(node), &format!("squeeze.ram cannot leave the host {}", leave.value), hint);
        }
        if hide.as_ref().is_some_and(|hide| hide.value.0 == 0) {
            section.wrong(Some(node), "squeeze.ram hides nothing", Some("leave the key out, or write \"none\"".into()));
        }
        leave.map(|leave| RamSqueeze::Leave(leave.value)).or_else(|| hide.map(|hide| RamSqueeze::Hide(hide.value)))
    })
    .flatten()
}

fn server_ram(section: &Section<'_>) -> Option<Bytes> {
    none(section, "server_ram", |section| {
        let asked = section.unit::<Bytes>("server_ram", "512M")?;
        if asked.value < LEAST_SERVER_RAM {
            let hint = Some(format!("{LEAST_SERVER_RAM} is the least"));
            let message = format!("squeeze.server_ram cannot be {}", asked.value);
            section.wrong(section.node("server_ram"), &message, hint);
        }
        Some(asked.value)
    })
    .flatten()
}

fn disk(section: &Section<'_>) -> Option<Disk> {
    let disk = section.section("disk");
    let mode = match disk.choice("mode", &["add", "total"]).map(|word| word.value) {
        Some("total") => DelayMode::Total,
        _ => DelayMode::Add,
    };
    let read = Disk { read: delay(&disk, "read"), write: delay(&disk, "write"), sync: delay(&disk, "sync"), mode };
    disk.finish();
    Some(read)
}

fn delay(disk: &Section<'_>, key: &'static str) -> Span {
    let Some(asked) = disk.unit::<Span>(key, "10ms") else { return Span::ZERO };
    if asked.value > LONGEST_DELAY {
        let message = format!("squeeze.disk.{key} cannot be {}", asked.value);
        disk.wrong(disk.node(key), &message, Some(format!("{LONGEST_DELAY} is the most")));
    }
    if !asked.value.as_ns().is_multiple_of(1000) {
        let message = format!("squeeze.disk.{key} cannot be {}: the slow layer counts whole microseconds", asked.value);
        disk.wrong(disk.node(key), &message, Some(format!("write {key} = \"{}us\"", asked.value.as_us().max(1))));
    }
    asked.value
}
