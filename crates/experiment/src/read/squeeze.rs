// SPDX-License-Identifier: Apache-2.0
//! `[squeeze]`, as it is in force in one arm.

use crate::model::{OnMiss, RamSqueeze, Squeeze};
use crate::section::Section;
use crate::tree::Value;
use diskmodel::{Counts, DiskRequest, LimitSpec, OperationSpec, SpecError};
use evidence::{DelayMode, DiskMechanism, OomVictim, RamAmount, RamMechanism};
use std::str::FromStr;
use units::{Bytes, CpuList, Cpus, Swap};

/// No server starts with less memory.
const LEAST_SERVER_RAM: Bytes = Bytes::mib(64);
/// The host itself needs this much to stay alive.
const LEAST_LEFT: Bytes = Bytes::mib(512);

pub(super) fn read(top: &Section<'_>) -> Squeeze {
    let section = top.section("squeeze");
    let (disk, disk_mechanism) = none(&section, "disk", disk).unzip();
    let squeeze = Squeeze {
        ram: ram(&section),
        server_ram: server_ram(&section),
        swap: none(&section, "swap", |section| parsed::<Swap>(section, "swap", "\"off\"")).flatten(),
        cpus: none(&section, "cpus", |section| parsed::<Cpus>(section, "cpus", "1.5")).flatten(),
        cpuset: none(&section, "cpuset", |section| parsed::<CpuList>(section, "cpuset", "\"0-1\"")).flatten(),
        disk,
        disk_mechanism: disk_mechanism.flatten(),
        required: section.boolean("required").is_some_and(|asked| asked.value),
        on_miss: match section.choice("on_miss", &["note", "end"]).map(|word| word.value) {
            Some("end") => OnMiss::End,
            _ => OnMiss::Note,
        },
    };
    more_time_than_cpus(&section, &squeeze);
    section.finish();
    squeeze
}

/// Runs `read` unless the key is absent or is "none". An arm writes "none" to turn the section's squeeze off.
fn none<T>(section: &Section<'_>, key: &'static str, read: fn(&Section<'_>) -> T) -> Option<T> {
    match &section.node(key)?.value {
        Value::Text(word) if word == "none" => None,
        _ => Some(read(section)),
    }
}

/// One of the offered values, by its name.
pub(super) fn one_of<T: Copy, const N: usize>(
    section: &Section<'_>,
    key: &'static str,
    offered: [T; N],
    name: fn(T) -> &'static str,
) -> Option<T> {
    let word = section.choice(key, &offered.map(name))?.value;
    offered.into_iter().find(|it| name(*it) == word)
}

fn ram(section: &Section<'_>) -> Option<RamSqueeze> {
    none(section, "ram", |section| {
        let node = section.node("ram")?;
        let ram = section.section("ram");
        let leave = ram.unit::<Bytes>("leave", "8G");
        let hide = ram.unit::<Bytes>("hide", "4G");
        let oom_victim = one_of(&ram, "oom_victim", OomVictim::ALL, OomVictim::name).unwrap_or_default();
        let mechanism = one_of(&ram, "mechanism", RamMechanism::ALL, RamMechanism::name);
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
        let amount = leave.map(|leave| RamAmount::Leave(leave.value));
        let amount = amount.or_else(|| hide.map(|hide| RamAmount::Hide(hide.value)))?;
        Some(RamSqueeze { amount, oom_victim, mechanism })
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

/// A value with the syntax of the command line, as a text or a number.
pub(super) fn parsed<T: FromStr<Err = String>>(section: &Section<'_>, key: &'static str, example: &str) -> Option<T> {
    let node = section.node(key)?;
    let text = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Integer(_) | Value::Float(_) => node.value.written(),
        other => {
            let message = format!("{} is {}", section.named(key), other.kind());
            section.wrong(Some(node), &message, Some(format!("write {key} = {example}")));
            return None;
        }
    };
    match text.parse() {
        Ok(value) => Some(value),
        Err(hint) => {
            let message = format!("{} cannot be \"{text}\"", section.named(key));
            section.wrong(Some(node), &message, Some(format!("{hint}; for example {key} = {example}")));
            None
        }
    }
}

/// Refuses a quota of more CPU time than the CPUs of the cpuset have: the quota would never be reached.
fn more_time_than_cpus(section: &Section<'_>, squeeze: &Squeeze) {
    let (Some(cpus), Some(list)) = (squeeze.cpus, &squeeze.cpuset) else { return };
    if cpus.is_more_than(list.numbers().len()) {
        let message = format!("squeeze.cpus = {cpus} is more than the CPUs of squeeze.cpuset = \"{list}\" have");
        section.wrong(
            section.node("cpus"),
            &message,
            Some("write less, more CPUs, or leave one of the two out".into()),
        );
    }
}

/// The same words as in `wringer disk delay`, and the mechanism.
fn disk(section: &Section<'_>) -> (DiskRequest, Option<DiskMechanism>) {
    let disk = section.section("disk");
    let mechanism = one_of(&disk, "mechanism", DiskMechanism::OF_PROGRAMS, DiskMechanism::name);
    let mode = disk.choice("mode", &["add", "total"]).map(|word| match word.value {
        "total" => DelayMode::Total,
        _ => DelayMode::Add,
    });
    let asked = DiskRequest {
        profile: words(&disk, "profile", str::parse),
        read: words(&disk, "read", str::parse::<OperationSpec>),
        write: words(&disk, "write", str::parse::<OperationSpec>),
        sync: words(&disk, "sync", str::parse::<OperationSpec>),
        mode,
        iops: words(&disk, "iops", |text| LimitSpec::parse(text, Counts::Operations)),
        bandwidth: words(&disk, "bandwidth", |text| LimitSpec::parse(text, Counts::Bytes)),
        depth: disk.integer("depth", 1..=4096u32).map(|number| number.value),
        stalls: words(&disk, "stalls", str::parse),
        seed: disk.integer("seed", 0..=u64::MAX >> 1).map(|number| number.value),
    };
    disk.finish();
    (asked, mechanism)
}

/// Parses a text. A bare number is read as its text: `iops = 3000`.
fn words<T>(disk: &Section<'_>, key: &'static str, parse: impl Fn(&str) -> Result<T, SpecError>) -> Option<T> {
    let node = disk.node(key)?;
    let text = match &node.value {
        Value::Text(text) => text.clone(),
        Value::Integer(_) | Value::Float(_) => node.value.written(),
        other => {
            let message = format!("squeeze.disk.{key} is {}, not a text", other.kind());
            disk.wrong(
                Some(node),
                &message,
                Some(format!("write {key} = \"...\"; `wringer disk delay --help` has the words")),
            );
            return None;
        }
    };
    match parse(&text) {
        Ok(value) => Some(value),
        Err(error) => {
            let message = format!("squeeze.disk.{key} cannot be \"{text}\": {}", error.message);
            disk.wrong(Some(node), &message, Some(error.hint));
            None
        }
    }
}
