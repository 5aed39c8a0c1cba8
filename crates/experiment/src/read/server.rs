// SPDX-License-Identifier: Apache-2.0
//! `[server]` and `[server.options]`. Keys that an arm may have, too, are read in `server_start`.

use super::{moments, server_start, variable};
use crate::model::{Flavour, Server};
use crate::problem::suggest;
use crate::section::Section;
use crate::tree::Entry;
use std::collections::BTreeMap;
use units::Bytes;

pub(super) fn read(top: &Section<'_>) -> Option<Server> {
    let section = top.section("server");
    let names: Vec<&'static str> = Flavour::ALL.iter().map(|flavour| flavour.name()).collect();
    let flavour = section.choice("flavour", &names);
    if flavour.is_none() && section.node("flavour").is_none() {
        section.missing("flavour", &format!("write flavour = \"mariadb\" below [server]; valid: {}", names.join(", ")));
    }
    let version = version(&section);
    let flavour = flavour.and_then(|word| Flavour::ALL.into_iter().find(|flavour| flavour.name() == word.value));
    let options = flavour.map(|flavour| options(&section, flavour));
    section.node("options");
    section.node("live");
    match flavour {
        Some(flavour) => {
            drop(server_start::read(&section, flavour));
            drop(moments::live(&section, flavour));
        }
        None => server_start::KEYS.into_iter().for_each(|key| {
            section.node(key);
        }),
    }
    section.finish();
    Some(Server { flavour: flavour?, version, options: options? })
}

fn version(section: &Section<'_>) -> Option<String> {
    let text = section.text("version")?;
    let numbers = text.value.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    if !numbers {
        let message = format!("server.version cannot be \"{}\"", text.value);
        section.wrong(section.node("version"), &message, Some("write it as \"10.11\", \"10.11.6\" or \"16\"".into()));
    }
    Some(text.value)
}

/// Server variables; `-` and `_` are the same character in their names.
pub(super) fn options(server: &Section<'_>, flavour: Flavour) -> BTreeMap<String, String> {
    let section = server.section("options");
    section.entries().filter_map(|(key, entry)| option(&section, flavour, key, entry)).collect()
}

fn option(section: &Section<'_>, flavour: Flavour, key: &str, entry: &Entry) -> Option<(String, String)> {
    let name = key.replace('-', "_");
    let full = format!("server.options.{name}");
    if variable::is_kept(section, &full, &name, entry) {
        return None;
    }
    if let Some(other) = belongs_to_other(flavour, &name) {
        let message = format!("{name} is a variable of {other}, and the server is {flavour}");
        let own = suggest(&name, &[flavour.pool_variable()]).filter(|text| text.starts_with("did you"));
        section.wrong(Some(&entry.node), &message, own.or_else(|| same_meaning(flavour, &name)));
        return None;
    }
    let value = variable::value(section, &full, entry)?;
    size_of_pool(section, flavour, &name, &value, entry);
    Some((name, value))
}

/// The fill's size may depend on the pool, so the pool's size must be readable for us. It must also have the server's own spelling: otherwise the
/// server would refuse to start after all other work is done.
fn size_of_pool(section: &Section<'_>, flavour: Flavour, name: &str, value: &str, entry: &Entry) {
    if name != flavour.pool_variable() {
        return;
    }
    let bytes = match value.parse::<Bytes>() {
        Ok(bytes) => bytes,
        Err(error) => return section.wrong(Some(&entry.node), &format!("server.options.{name}: {error}"), None),
    };
    let units = size_units(flavour);
    let unit = value.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
    if unit.is_empty() || units.iter().any(|(known, _)| *known == unit) {
        return;
    }
    let message = format!("server.options.{name}: {flavour} does not read \"{value}\"");
    let divides = |size: u64| bytes.0 > 0 && bytes.0.is_multiple_of(size);
    let (unit, size) = units.iter().rev().find(|(_, size)| divides(*size)).copied().unwrap_or(units[0]);
    section.wrong(Some(&entry.node), &message, Some(format!("write \"{}{unit}\"", bytes.0 / size)));
}

/// The units of sizes as each server writes them, letter for letter: postgresql.org, "Parameter Names and Values"; MariaDB's `eval_num_suffix` takes
/// one letter of either case.
fn size_units(flavour: Flavour) -> &'static [(&'static str, u64)] {
    const KIB: u64 = Bytes::KIB;
    const MIB: u64 = Bytes::MIB;
    const GIB: u64 = Bytes::GIB;
    const TIB: u64 = Bytes::TIB;
    match flavour {
        Flavour::Postgresql => &[("B", 1), ("kB", KIB), ("MB", MIB), ("GB", GIB), ("TB", TIB)],
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => {
            &[("", 1), ("k", KIB), ("m", MIB), ("g", GIB), ("t", TIB), ("K", KIB), ("M", MIB), ("G", GIB), ("T", TIB)]
        }
    }
}

fn belongs_to_other(flavour: Flavour, name: &str) -> Option<&'static str> {
    let innodb = name.starts_with("innodb_");
    let postgresql = ["shared_buffers", "effective_cache_size", "work_mem", "wal_buffers", "max_wal_size"];
    match flavour {
        Flavour::Postgresql if innodb => Some("InnoDB"),
        Flavour::Mariadb | Flavour::Mysql | Flavour::Percona if postgresql.contains(&name) => Some("PostgreSQL"),
        _ => None,
    }
}

fn same_meaning(flavour: Flavour, name: &str) -> Option<String> {
    let pools = ["innodb_buffer_pool_size", "shared_buffers"];
    pools.contains(&name).then(|| format!("{flavour} calls it {}", flavour.pool_variable()))
}
