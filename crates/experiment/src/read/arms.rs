// SPDX-License-Identifier: Apache-2.0
//! `[[arm]]`: the keys of each arm replace those of the sections; the result is read as a whole, and then compared with the other arms.

use super::{assertions, load, moments, server, server_start, squeeze};
use crate::model::{Arm, Flavour, Server, Squeeze, pool_of};
use crate::problem::{Problems, suggest};
use crate::section::Section;
use crate::tree::{At, Entry, Table, Value};
use diskmodel::DiskRequest;
use evidence::RamMechanism;
use units::Bytes;

/// Tables whose keys exclude each other: an arm replaces them as a whole. An arm's disk profile also replaces the whole table, because it sets every
/// key.
fn whole(own: &Table) -> &'static [&'static str] {
    let profile = own.leaves().iter().any(|(path, ..)| path == "squeeze.disk.profile");
    if profile { &["ram", "disk"] } else { &["ram"] }
}

/// The tables of the experiment that this arm replaces as a whole: none of their keys reaches it.
pub fn replaced_whole(arm: &Table) -> Vec<String> {
    let leaves = arm.leaves();
    let tables = whole(arm).iter().map(|table| format!("squeeze.{table}"));
    tables.filter(|table| leaves.iter().any(|(path, ..)| path.starts_with(&format!("{table}.")))).collect()
}

const VARIES: [&str; 4] = ["squeeze", "load", "server", "assert"];
const VARIES_OF_SERVER: [&str; 7] = ["options", "live", "huge_pages", "malloc", "thp", "environment", "pgbouncer"];

/// The tables below `[[arm]]`, in their order.
pub(super) fn tables(table: &Table) -> Vec<&Table> {
    match table.get("arm").map(|node| &node.value) {
        Some(Value::List(items)) => items
            .iter()
            .filter_map(|item| match &item.value {
                Value::Table(table) => Some(table),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

pub(super) fn read(
    table: &Table,
    top: &Section<'_>,
    server: Option<&Server>,
    repeat: u32,
    problems: &Problems,
) -> Option<Vec<Arm>> {
    if let Some(node) = top.node("arm").filter(|node| !matches!(node.value, Value::List(_))) {
        top.wrong(Some(node), "arm is not a list of tables", Some("write [[arm]], with two brackets".into()));
    }
    let flavour = server.map(|server| server.flavour);
    let mut arms = Vec::new();
    let mut whole = true;
    let written = tables(table);
    let baseline = Table::default();
    let own: Vec<&Table> = if written.is_empty() { vec![&baseline] } else { written.clone() };
    for (index, own) in own.iter().enumerate() {
        let name = if written.is_empty() { Some("baseline".to_owned()) } else { name(own, index, top, problems) };
        check_keys(own, problems);
        match resolve(table, own, flavour, problems) {
            Some(arm) => arms.push(Arm { name: name.unwrap_or_default(), ..arm }),
            None => whole = false,
        }
    }
    same_names(&written, problems);
    one_mechanism(&mut arms, &written, problems);
    one_ram_mechanism(&mut arms, &own, problems);
    one_user_of_the_pool(&arms, top);
    moments::all_say_the_same_names(&arms, top);
    restarts(&mut arms, repeat);
    whole.then_some(arms)
}

fn name(own: &Table, index: usize, top: &Section<'_>, problems: &Problems) -> Option<String> {
    let Some(node) = own.get("name") else {
        let first = own
            .0
            .values()
            .map(|entry| entry.key_at.clone())
            .min_by_key(|at| at.start)
            .unwrap_or_else(|| arm_list_at(top));
        let message = format!("arm {} has no name", index + 1);
        problems.add(&first, message, Some("write name = \"10 ms\" below [[arm]]".into()));
        return None;
    };
    match &node.value {
        Value::Text(name) if !name.trim().is_empty() && name.chars().count() <= 60 => Some(name.clone()),
        other => {
            let message = format!("an arm's name cannot be \"{}\"", other.written());
            problems.add(&node.at, message, Some("write a text of 1 to 60 characters".into()));
            None
        }
    }
}

fn arm_list_at(top: &Section<'_>) -> At {
    top.node("arm").map_or(0..0, |node| node.at.clone())
}

/// Reports keys that an arm may not have, with the reason.
fn check_keys(own: &Table, problems: &Problems) {
    for (key, entry) in own.0.iter().filter(|(key, _)| *key != "name") {
        let refused = match key.as_str() {
            "fill" => Some("fill cannot vary between arms: all arms run on the same data"),
            "observe" | "repeat" | "schema" | "description" => {
                Some("only squeeze, load, assert and what the server is started with can vary")
            }
            "server" => {
                check_server(entry, problems);
                None
            }
            key if VARIES.contains(&key) => None,
            _ => {
                let message = format!("unknown key \"{key}\" in [[arm]]");
                problems.add(&entry.key_at, message, suggest(key, &["name", "squeeze", "load", "server", "assert"]));
                None
            }
        };
        if let Some(reason) = refused {
            problems.add(&entry.key_at, reason, Some(format!("move {key} out of the arm, or write a second file")));
        }
    }
}

fn check_server(entry: &Entry, problems: &Problems) {
    let Value::Table(server) = &entry.node.value else { return };
    for (key, entry) in server.0.iter().filter(|(key, _)| !VARIES_OF_SERVER.contains(&key.as_str())) {
        let (message, hint) = match key.as_str() {
            "flavour" | "version" => (
                format!("server.{key} cannot vary between arms: all arms run on the same data directory"),
                Some("write a second file".to_owned()),
            ),
            _ => (format!("unknown key \"{key}\" in [[arm]] server"), suggest(key, &VARIES_OF_SERVER)),
        };
        problems.add(&entry.key_at, message, hint);
    }
}

/// Reads the sections with this arm's keys in place of theirs. `None` only with a problem reported.
fn resolve(table: &Table, own: &Table, flavour: Option<Flavour>, problems: &Problems) -> Option<Arm> {
    let varies = |table: &Table| {
        Table(
            table
                .0
                .iter()
                .filter(|(key, _)| VARIES.contains(&key.as_str()))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        )
    };
    let merged = varies(table).overlaid(&varies(own), whole(own));
    let top = Section::top(&merged, problems);
    let squeeze = squeeze::read(&top);
    let load = load::read(&top, flavour);
    let assertions = load.as_ref().map(|load| assertions::read(&merged, load, problems)).unwrap_or_default();
    let of_server = top.section("server");
    let server_options = server::options(&of_server, flavour?);
    let start = server_start::read(&of_server, flavour?);
    if let Some(load) = &load {
        server_start::check_load(&top, &start, load);
    }
    too_small_for_pool(&top, flavour?, &server_options, squeeze.server_ram);
    // assertions are shown beside their results
    let shown = |path: &str| path != "name" && path != "assert";
    let overrides =
        own.leaves().into_iter().filter(|(path, ..)| shown(path)).map(|(path, text, _)| (path, text)).collect();
    Some(Arm {
        name: String::new(),
        overrides,
        server_options,
        live: moments::live(&of_server, flavour?),
        start,
        squeeze,
        load: load?,
        assertions,
        restart: false,
    })
}

/// A server whose own page cache is larger than its memory cgroup is killed as soon as the cache fills.
fn too_small_for_pool(
    top: &Section<'_>,
    flavour: Flavour,
    options: &std::collections::BTreeMap<String, String>,
    limit: Option<Bytes>,
) {
    let pool = pool_of(flavour, options);
    if let Some(limit) = limit.filter(|limit| *limit <= pool) {
        let section = top.section("squeeze");
        let message = format!(
            "squeeze.server_ram = {limit} does not hold {} = {pool}: the kernel would kill the server",
            flavour.pool_variable()
        );
        let hint = Some(format!(
            "write {} or more, or a smaller {}",
            Bytes(pool.0.saturating_add(192 * Bytes::MIB)),
            flavour.pool_variable()
        ));
        section.wrong(section.node("server_ram"), &message, hint);
    }
}

fn same_names(written: &[&Table], problems: &Problems) {
    let names: Vec<_> = written.iter().filter_map(|own| own.get("name")).collect();
    for (index, node) in names.iter().enumerate() {
        let text = node.value.written();
        if names[..index].iter().any(|earlier| earlier.value.written() == text) {
            let hint = Some("give each arm its own name".into());
            problems.add(&node.at, format!("two arms are named \"{text}\""), hint);
        }
    }
}

/// When one arm has a slow layer, all have it: a comparison of arms with different mechanisms would compare the mechanisms.
fn one_mechanism(arms: &mut [Arm], written: &[&Table], problems: &Problems) {
    let first = arms.iter().find_map(|arm| arm.squeeze.disk_mechanism);
    for (arm, own) in arms.iter().zip(written) {
        let place = own.leaves().into_iter().find(|(path, ..)| path == "squeeze.disk.mechanism");
        if let Some((_, _, at)) = place.filter(|_| arm.squeeze.disk_mechanism != first) {
            let message = format!("arm '{}' has another squeeze.disk.mechanism than the arms before it", arm.name);
            problems.add(
                &at,
                message,
                Some("write it once, below [squeeze]: arms are compared on one mechanism".into()),
            );
        }
    }
    arms.iter_mut().for_each(|arm| arm.squeeze.disk_mechanism = first);
    if arms.iter().any(|arm| arm.squeeze.disk.is_some()) {
        arms.iter_mut().for_each(|arm| {
            arm.squeeze.disk.get_or_insert_with(DiskRequest::default);
        });
    }
}

/// A mechanism that one arm names holds for all arms that hide RAM; two different ones are refused, because they could not be compared.
fn one_ram_mechanism(arms: &mut [Arm], own: &[&Table], problems: &Problems) {
    let named = |arm: &Arm| arm.squeeze.ram.and_then(|ram| ram.mechanism);
    let Some((first, mechanism)) = arms.iter().find_map(|arm| Some((arm.name.clone(), named(arm)?))) else { return };
    for (arm, own) in arms.iter_mut().zip(own) {
        if named(arm).is_some_and(|other| other != mechanism) {
            let at = own.get("name").map_or(0..0, |node| node.at.clone());
            let message = format!("arm \"{}\" hides RAM by another mechanism than arm \"{first}\"", arm.name);
            let hint = "write the same in all arms, or a second file: a comparison would compare the mechanisms";
            problems.add(&at, message, Some(hint.into()));
        }
        if let Some(ram) = &mut arm.squeeze.ram {
            ram.mechanism = Some(mechanism);
        }
    }
}

/// RAM that is hidden in the pool of huge pages would be the pages that the server takes.
fn one_user_of_the_pool(arms: &[Arm], top: &Section<'_>) {
    let hides = |arm: &Arm| arm.squeeze.ram.is_some_and(|ram| ram.mechanism == Some(RamMechanism::Pool));
    if arms.iter().any(hides) && arms.iter().any(|arm| arm.start.wants_huge_pages()) {
        let message = "squeeze.ram by the mechanism \"pool\" hides what server.huge_pages would take";
        let hint = "write mechanism = \"holder\" below squeeze.ram";
        top.wrong(top.node("squeeze"), message, Some(hint.into()));
    }
}

fn restarts(arms: &mut [Arm], repeat: u32) {
    let started = |arm: &Arm| {
        let Squeeze { server_ram, swap, cpus, cpuset, .. } = arm.squeeze.clone();
        (arm.server_options.clone(), arm.start.clone(), server_ram, swap, cpus, cpuset)
    };
    let states: Vec<_> = arms.iter().map(started).collect();
    for (index, arm) in arms.iter_mut().enumerate() {
        let before = match index {
            0 if repeat == 1 => continue,
            0 => states.len() - 1,
            index => index - 1,
        };
        arm.restart = states[before] != states[index];
    }
}
