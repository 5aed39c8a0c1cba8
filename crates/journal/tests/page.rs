// SPDX-License-Identifier: Apache-2.0
//! The page `docs/undo.md` names every kind of record and step, every key, and the format version.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use host::process::Identity;
use journal::{
    Begun, CgroupVersion, Computed, FORMAT_VERSION, Kind, Members, Namespaces, OomVictim, Outcome, Record, Role, RunId,
    Step, StepId,
};
use serde_json::Value;
use std::collections::BTreeSet;

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/undo.md")).unwrap()
}

/// One of each, with a match that makes the compiler ask for a new one here.
fn records() -> Vec<Record> {
    let (step, process) = (StepId(1), Identity { pid: 1, start_time: 1 });
    let run = RunId::new(0, 0);
    let begin = |kind| {
        Record::Begin(Begun {
            run: run.clone(),
            build: String::new(),
            uid: 0,
            controller: process,
            namespaces: Some(Namespaces { pid: 1, user: 1, mount: 1 }),
            boot_id: Some(String::new()),
            kind,
            command: vec![],
            resources: vec![],
            started: 0,
        })
    };
    let undone = |outcome| Record::Undone { step, outcome };
    let conflict = Outcome::Conflict { expected: String::new(), found: String::new(), repair: String::new() };
    let mut records = vec![
        begin(Kind::Run),
        begin(Kind::Standing),
        Record::Pid { step, process },
        Record::Done { step, observed: None },
        Record::Undo { step },
        undone(Outcome::Restored),
        undone(Outcome::Nothing),
        undone(conflict),
        Record::Neutralised { reason: String::new() },
        Record::Left,
        Record::End,
    ];
    let intent = |change, oom_victim| Record::Intent { step, change, oom_victim };
    records.extend(changes().into_iter().map(|change| intent(change, OomVictim::Holder)));
    records.push(intent(Step::HugePool { before: 0, after: 1, nodes: vec![0, 0] }, OomVictim::Server));
    records
}

fn changes() -> Vec<Step> {
    use Role::{Holder, Launcher, Server, SlowLayer, Supervisor, Watchdog};
    let process = |role| Step::Process { role, program: String::new(), stop_signal: 15, grace_ms: 1 };
    let cgroup =
        |version| Step::Cgroup { path: "/".into(), version, home: Some("/".into()), members: Members::Command };
    let computed = Computed { path: "/".into(), before: String::new() };
    let read_ahead = Some(computed.clone());
    let mut changes: Vec<Step> = [Watchdog, Supervisor, Holder, SlowLayer, Launcher, Server].map(process).into();
    changes.extend([CgroupVersion::V1, CgroupVersion::V2].map(cgroup));
    changes.push(Step::Value { path: "/".into(), before: String::new(), after: String::new() });
    changes.push(Step::Mount { target: "/".into(), source: String::new(), fstype: String::new() });
    changes.push(Step::HugePool { before: 0, after: 1, nodes: vec![0, 0] });
    changes.push(Step::MemoryBlocks { kernel: String::new(), movable: String::new(), values: vec![computed] });
    changes.push(Step::Mapping { name: String::new(), uuid: String::new(), device: "/".into() });
    changes.push(Step::LoopDevice { name: String::new(), image: "/".into(), read_ahead });
    changes.push(Step::Note { text: String::new() });
    changes
}

/// Names the compiler knows and `records` might miss.
fn is_listed(record: &Record) -> bool {
    match record {
        Record::Intent { change, .. } => match change {
            Step::Process { .. }
            | Step::Value { .. }
            | Step::Cgroup { .. }
            | Step::Mount { .. }
            | Step::HugePool { .. }
            | Step::MemoryBlocks { .. }
            | Step::Mapping { .. }
            | Step::LoopDevice { .. }
            | Step::Note { .. } => true,
        },
        Record::Begin(_)
        | Record::Pid { .. }
        | Record::Done { .. }
        | Record::Undo { .. }
        | Record::Undone { .. }
        | Record::Neutralised { .. }
        | Record::Left
        | Record::End => true,
    }
}

/// Every key, and the value of every key that names a kind.
fn words(value: &Value, found: &mut BTreeSet<String>) {
    let Value::Object(map) = value else { return };
    for (key, value) in map {
        found.insert(key.clone());
        if let (Value::String(text), true) =
            (value, ["record", "kind", "role", "version", "outcome"].contains(&key.as_str()))
        {
            found.insert(text.clone());
        }
        words(value, found);
    }
}

#[test]
fn the_page_names_everything() {
    let mut found = BTreeSet::new();
    for record in records() {
        assert!(is_listed(&record));
        words(&serde_json::json!(record), &mut found);
    }
    let page = page();
    let missing: Vec<&String> = found.iter().filter(|word| !page.contains(&format!("`{word}`"))).collect();
    assert!(missing.is_empty(), "docs/undo.md does not name {missing:?}");
    assert!(found.len() > 40, "{found:?}");
}

/// The stored journals of the present format hold every kind of record, step, role and outcome, and every key.
#[test]
fn the_corpus_holds_everything() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/journal");
    let present = format!("v{FORMAT_VERSION}");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let of_present = files.filter(|file| file.file_name().to_string_lossy().split(['-', '.']).next() == Some(&present));
    let stored: Vec<u8> = of_present.flat_map(|file| std::fs::read(file.path()).unwrap()).collect();
    let stored = String::from_utf8_lossy(&stored).into_owned();
    let known = records().iter().fold(BTreeSet::new(), |mut found, record| {
        words(&serde_json::json!(record), &mut found);
        found
    });
    let missing: Vec<&String> = known.iter().filter(|word| !stored.contains(&format!("\"{word}\""))).collect();
    assert!(missing.is_empty(), "fixtures/journal has no {missing:?}: write one with the example write_fixture");
}

/// What the page lists as records and steps exists.
#[test]
fn the_page_names_nothing_else() {
    let known: BTreeSet<String> = records().iter().fold(BTreeSet::new(), |mut found, record| {
        words(&serde_json::json!(record), &mut found);
        found
    });
    let page = page();
    let section = page.split("## Records").nth(1).unwrap().split("## Recovery").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let named: Vec<&str> =
        rows.filter_map(|row| row.split('`').nth(1)).filter(|word| !["record", "kind"].contains(word)).collect();
    let kind = |value: Value, key: &str| value[key].as_str().unwrap().to_owned();
    let mut kinds: BTreeSet<String> = records().iter().map(|it| kind(serde_json::json!(it), "record")).collect();
    kinds.extend(changes().iter().map(|it| kind(serde_json::json!(it), "kind")));
    assert_eq!(named.len(), kinds.len(), "{named:?}");
    assert!(named.iter().all(|word| known.contains(*word)), "{named:?}");
}

#[test]
fn the_page_names_the_format_version() {
    assert!(page().contains(&format!("Format version: **{FORMAT_VERSION}**")));
}
