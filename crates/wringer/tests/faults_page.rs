// SPDX-License-Identifier: Apache-2.0
//! `docs/faults.md` against the tests: every fault has its row and its verdict, and every test that a row names is there.
#![allow(clippy::unwrap_used)] // helpers of tests

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const VERDICTS: [&str; 3] = ["here", "guest", "no such thing"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(root().join("docs/faults.md")).unwrap()
}

/// Every Rust file below a folder, by its name: several may have the same.
fn sources(folder: &str) -> BTreeMap<String, String> {
    let (mut sources, mut folders) = (BTreeMap::<String, String>::new(), vec![root().join(folder)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else if name.ends_with(".rs") {
                sources.entry(name).or_default().push_str(&fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    sources
}

/// `file.rs: test` in backquotes.
fn named_tests(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter_map(|word| word.split_once(": ")).filter(|(file, _)| file.ends_with(".rs")).collect()
}

/// The guest's tests that a text names: `power_cut.rs: test`, `server_power_cut.rs: test`, and `cases/name.sh` for a case of a boot.
fn named_in_guest(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|word| is_case(word) || word.contains("power_cut.rs: ")).collect()
}

fn is_case(word: &str) -> bool {
    word.starts_with("cases/") && word.ends_with(".sh")
}

/// What is named of tests on this machine.
fn named_here(text: &str) -> Vec<(&str, &str)> {
    named_tests(text).into_iter().filter(|(file, _)| !file.ends_with("power_cut.rs")).collect()
}

#[test]
fn the_page_and_the_tests_agree() {
    let (page, sources, guest) = (page(), sources("crates"), sources("tests/guest/tests"));
    let tests = named_tests(&page);
    for (file, test) in &tests {
        let source = sources.get(*file).or_else(|| guest.get(*file)).unwrap_or_else(|| panic!("there is no {file}"));
        let declared = source.contains(&format!("fn {test}(")) || source.contains(&format!("campaign!({test},"));
        assert!(declared, "there is no test {test} in {file}");
    }
    assert!(tests.len() > 45, "only {} tests are named", tests.len());
    let booted: Vec<&str> = guest["boots.rs"].split(|it: char| !it.is_alphanumeric() && it != '_').collect();
    for case in page.split('`').skip(1).step_by(2).filter(|word| is_case(word)) {
        assert!(root().join("tests/guest").join(case).exists(), "there is no {case}");
        let name = case.trim_start_matches("cases/").trim_end_matches(".sh");
        assert!(booted.contains(&name), "no boot of the guest runs {name}");
    }
}

#[test]
fn every_fault_has_a_verdict() {
    let page = page();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| F"))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect())
        .collect();
    let numbers: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    let expected: Vec<String> = (1..=30).map(|number| format!("F{number:02}")).collect();
    assert_eq!(numbers, expected);
    for row in rows {
        let verdicts: Vec<&str> = row[2].split(", ").collect();
        assert!(verdicts.iter().all(|verdict| VERDICTS.contains(verdict)), "{}: {verdicts:?}", row[0]);
        let reason = row[3];
        assert_eq!(verdicts.contains(&"here"), !named_here(reason).is_empty(), "{}: {reason}", row[0]);
        assert_eq!(verdicts.contains(&"guest"), !named_in_guest(reason).is_empty(), "{}: {reason}", row[0]);
        assert!(verdicts.contains(&"here") || reason.len() > 20, "{} has no reason", row[0]);
    }
}

/// A kind of step that no mutant forgets is one whose undo nobody would miss.
#[test]
fn every_kind_of_step_has_a_mutant() {
    let record = fs::read_to_string(root().join("crates/journal/src/record.rs")).unwrap();
    let body = record.split_once("pub enum Step {").unwrap().1.split_once("\n}\n").unwrap().0;
    let names = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = names.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    let kinds: Vec<String> = names.map(|line| snake_case(line.split([' ', '{', ',']).next().unwrap())).collect();
    assert!(kinds.len() >= 9, "{kinds:?}");
    let page = page();
    for kind in kinds.iter().filter(|kind| *kind != "note") {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{kind}` |")));
        let row = row.unwrap_or_else(|| panic!("no row for the mutant that forgets a {kind}"));
        let sources = sources("crates");
        let here = named_here(row).into_iter().map(|(file, _)| sources[file].clone());
        let read = |case| fs::read_to_string(root().join("tests/guest").join(case)).unwrap();
        let in_guest = named_in_guest(row).into_iter().map(read);
        let texts: Vec<String> = here.chain(in_guest).collect();
        assert!(!texts.is_empty(), "{row} names no test");
        let forgets = [format!("\"{kind}\""), format!("WRINGER_FORGET={kind} ")];
        for text in &texts {
            assert!(forgets.iter().any(|words| text.contains(words)), "a test of {row} does not forget it");
        }
    }
}

fn snake_case(name: &str) -> String {
    let humps = name.char_indices().map(|(at, letter)| match letter.is_ascii_uppercase() && at > 0 {
        true => format!("_{}", letter.to_ascii_lowercase()),
        false => letter.to_ascii_lowercase().to_string(),
    });
    humps.collect()
}
