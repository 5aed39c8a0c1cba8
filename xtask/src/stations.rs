// SPDX-License-Identifier: Apache-2.0
//! Tests which crates each crate may depend on, from cargo's own metadata.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program: of all stations, only this one may depend on crates for the terminal.
const PROGRAM: &str = "wringer";

/// Crates that read a command line, or draw on a terminal.
const OF_THE_TERMINAL: [&str; 15] = [
    "anstream",
    "argh",
    "clap",
    "colored",
    "console",
    "crossterm",
    "dialoguer",
    "indicatif",
    "inquire",
    "owo-colors",
    "pico-args",
    "ratatui",
    "rustyline",
    "termcolor",
    "termion",
];

fn metadata() -> Value {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // crates for other systems were not downloaded
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    command.args(["metadata", "--format-version=1", "--offline", "--all-features"]);
    command.args(["--filter-platform", &platform, "--manifest-path", manifest]);
    let output = command.output().expect("start cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo metadata speaks JSON")
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// The packages with which each package is built, by id. Packages that only tests use are left out.
fn built_with(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let is_built_with = |kind: &Value| kind["kind"].as_str() != Some("dev");
    let nodes = list(&metadata["resolve"]["nodes"]).iter();
    let of = |node: &Value| {
        let deps = list(&node["deps"]).iter().filter(|dep| list(&dep["dep_kinds"]).iter().any(is_built_with));
        (text(&node["id"]), deps.map(|dep| text(&dep["pkg"])).collect())
    };
    nodes.map(of).collect()
}

/// The names of the packages, by id.
fn names(metadata: &Value) -> BTreeMap<String, String> {
    list(&metadata["packages"]).iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect()
}

/// The ids of the packages of this workspace.
fn members(metadata: &Value) -> Vec<String> {
    list(&metadata["workspace_members"]).iter().map(text).collect()
}

/// The stations in the order of the workspace's manifest: `name = { path = "crates/name" }`. Each station comes after those with which it is built.
fn stations() -> Vec<String> {
    let manifest = include_str!("../../Cargo.toml");
    let named = manifest.lines().filter_map(|line| line.split_once(" = { path = \"crates/"));
    named.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn no_station_is_built_with_a_later_one() {
    let metadata = metadata();
    let (names, built_with, stations) = (names(&metadata), built_with(&metadata), stations());
    let place = |name: &String| stations.iter().position(|station| station == name);
    let mut wrong = Vec::new();
    let mut seen = 0;
    for id in members(&metadata) {
        let Some(own) = place(&names[&id]) else { continue };
        seen += 1;
        let others = built_with[&id].iter().map(|id| &names[id]);
        let later = others.filter(|other| place(other).is_some_and(|other| other >= own) || *other == PROGRAM);
        wrong.extend(later.map(|later| format!("{} is built with {later}", names[&id])));
    }
    assert_eq!(wrong, Vec::<String>::new(), "the order is that of Cargo.toml");
    assert_eq!(seen, stations.len(), "a station of Cargo.toml is no member");
}

#[test]
fn every_crate_has_its_place_among_the_stations() {
    let metadata = metadata();
    let stations = stations();
    let of_crates = list(&metadata["packages"]).iter().filter(|it| text(&it["manifest_path"]).contains("/crates/"));
    let own: BTreeSet<String> = members(&metadata).into_iter().collect();
    let own = of_crates.filter(|it| own.contains(&text(&it["id"]))).map(|it| text(&it["name"]));
    let homeless: Vec<String> = own.filter(|name| name != PROGRAM && !stations.contains(name)).collect();
    assert_eq!(homeless, Vec::<String>::new());
}

/// What would help against an error is said by the program: the crate that performs a run serves other callers, too.
#[test]
fn the_lab_names_no_command_of_the_program() {
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).expect("list the sources").flatten().map(|entry| entry.path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }
    let names_one = |line: &&str| {
        let after = line.split("wringer ").skip(1);
        !line.trim_start().starts_with("//") && after.into_iter().any(|rest| rest.starts_with(char::is_alphabetic))
    };
    let lab = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/lab/src"));
    let of = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("read a source");
        text.lines().filter(names_one).map(|line| format!("{}: {line}", path.display())).collect::<Vec<_>>()
    };
    let found: Vec<String> = lab.iter().flat_map(of).collect();
    assert_eq!(found, Vec::<String>::new());
    assert!(lab.len() > 20, "{lab:?}");
}

#[test]
fn the_program_alone_knows_the_terminal() {
    let metadata = metadata();
    let (names, built_with) = (names(&metadata), built_with(&metadata));
    let terminal_of = |id: &String| {
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut next = vec![id];
        while let Some(id) = next.pop() {
            if seen.insert(id) {
                next.extend(&built_with[id]);
            }
        }
        let found = seen.iter().map(|id| names[*id].as_str()).filter(|name| OF_THE_TERMINAL.contains(name));
        found.map(str::to_owned).collect::<Vec<_>>()
    };
    for id in members(&metadata) {
        let found = terminal_of(&id);
        match names[&id].as_str() {
            // if clap is not found here, the search finds nothing anywhere, and this test proves nothing
            PROGRAM => assert!(found.iter().any(|name| name == "clap"), "{found:?}"),
            name => assert_eq!(found, Vec::<String>::new(), "{name} is built with crates of the terminal"),
        }
    }
}
