// SPDX-License-Identifier: Apache-2.0
//! Profiles that are damaged, come through a pipe, or are meant to do harm.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A profile of Massif in which `f` holds so many bytes at each moment.
fn massif(f: &str, held: &[u64]) -> String {
    let mut text = "desc: a\ncmd: ./a\ntime_unit: B\n".to_owned();
    for (number, bytes) in held.iter().enumerate() {
        text += &format!(
            "#-\nsnapshot={number}\n#-\ntime={number}\nmem_heap_B={bytes}\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=detailed\n\
             n1: {bytes} (heap allocation functions) malloc\n n0: {bytes} 0x5: {f} (a.c:1)\n"
        );
    }
    text
}

fn written(folder: &Path, name: &str, text: &str) -> String {
    fs::write(folder.join(name), text).unwrap();
    folder.join(name).to_str().unwrap().to_owned()
}

fn heap(words: &[&str]) -> Output {
    Command::new(WRINGER).arg("heap").args(words).output().unwrap()
}

fn piped(words: &[&str], file: &str) -> Output {
    let mut cat = Command::new("cat").arg(file).stdout(Stdio::piped()).spawn().unwrap();
    let mut wringer = Command::new(WRINGER);
    let output = wringer.arg("heap").args(words).stdin(cat.stdout.take().unwrap()).output().unwrap();
    cat.wait().unwrap();
    output
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/heap").join(name)
}

#[test]
fn a_page_does_not_replace_the_profile_that_it_is_made_from() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "massif.out.1", &massif("f", &[0, 1000]));
    let before = fs::read(&file).unwrap();
    let output = heap(&["report", &file, "--to", &file]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output.stderr));
    assert!(said(&output.stderr).contains("nothing was written"), "{}", said(&output.stderr));
    assert!(fs::read(&file).unwrap() == before, "the profile is another");
}

#[test]
fn of_a_damaged_profile_no_assertion_about_its_end_holds() {
    let folder = tempfile::tempdir().unwrap();
    let whole = massif("f", &[0, 1000, 2000, 300_000]);
    let cut = written(folder.path(), "cut", &whole[..whole.len() - 30]);
    let judged = |words: &[&str]| {
        let output = heap(&[&["show", &cut], words].concat());
        (output.status.code(), said(&output.stderr))
    };
    for assertion in ["growth<100K", "f<100K", "g<100K"] {
        let (code, said) = judged(&["--assert", assertion]);
        assert!(code == Some(3) && said.contains("the file is damaged"), "{assertion}: {said}");
    }
    assert_eq!(judged(&["--assert", "growth<2000"]).0, Some(1), "what was read breaks it");
    assert_eq!(judged(&["--assert", "f<2000"]).0, Some(1));
    assert_eq!(judged(&["--to", "2", "--assert", "growth<100K"]).0, Some(0), "a moment that was read is whole");
    let told = json(&heap(&["show", &cut, "--assert", "f<100K", "-o", "json"]));
    let first = &told["assertions"][0];
    assert!(first["holds"].is_null() && first["at_most_bytes"].is_null() && first["bytes"] == 2000, "{first:#}");
    let (code, said) = judged(&["-o", "folded"]);
    assert!(code == Some(0) && said.contains("cut: read up to the damage: line"), "{said}");

    // one list for all moments: each of them lacks what is behind the damage
    let dhat = fs::read_to_string(fixture("dhat.out")).unwrap();
    let cut = written(folder.path(), "dhat", &dhat[..dhat.len() / 4]);
    assert_eq!(heap(&["show", &cut, "--to", "2", "--assert", "growth<1G"]).status.code(), Some(3));
}

/// A page is judged as `heap show` judges each of its profiles, after it is written; one profile that breaks a limit is enough.
#[test]
fn a_page_is_judged_as_its_profiles_are() {
    let folder = tempfile::tempdir().unwrap();
    let whole = massif("f", &[0, 1000, 2000]);
    let small = written(folder.path(), "small", &whole);
    let large = written(folder.path(), "large", &massif("f", &[0, 9000]));
    let cut = written(folder.path(), "cut", &whole[..whole.len() - 30]);
    let judged = |files: &[&str], assertion: &str| {
        let ran = heap(&[&["report", "--to", "-", "--assert", assertion], files].concat());
        (ran.status.code(), said(&ran.stderr), said(&ran.stdout))
    };
    for assertion in ["growth<4K", "growth<2000", "f<4K", "f<2000", "g<1"] {
        let shown = heap(&["show", &small, "--assert", assertion]);
        let (code, told, page) = judged(&[&small], assertion);
        assert_eq!(code, shown.status.code(), "{assertion}: {told}");
        let line = said(&shown.stdout).lines().last().unwrap().to_owned();
        assert!(told.contains(&line) && told.contains(&said(&shown.stderr)), "{line}: {told}");
        assert!(page.ends_with("</html>\n") && page.contains(&line.replace('<', "&lt;")), "{line}: {page}");
    }
    let (code, told, _) = judged(&[&small, &large], "growth<4K");
    assert!(code == Some(1) && told.contains("large: growth<4K: does not hold"), "{told}");
    assert!(told.contains("small: growth<4K: holds"), "{told}");
    let (code, told, _) = judged(&[&cut], "growth<4K");
    assert!(code == Some(3) && told.contains("cannot be told") && told.contains("the file is damaged"), "{told}");
    assert_eq!(judged(&[&small], "growth").0, Some(2));
}

#[test]
fn a_difference_tells_damage_and_has_no_bounds_then() {
    let folder = tempfile::tempdir().unwrap();
    let whole = massif("f", &[0, 1000, 2000, 300_000]);
    let (all, cut) = (written(folder.path(), "all", &whole), written(folder.path(), "cut", &whole[..whole.len() - 30]));
    let told = json(&heap(&["diff", &all, &cut, "-o", "json"]));
    assert!(told["before_damaged_at_byte"].is_null() && told["before_damage"].is_null(), "{told:#}");
    assert!(told["after_damaged_at_byte"].as_u64().is_some_and(|at| at > 100), "{told:#}");
    assert!(told["after_damage"]["what"].as_str().is_some_and(|it| it.contains("the file ends")), "{told:#}");
    let grown = &told["growth"][0];
    assert_eq!(grown["growth_bytes"], 2000 - 300_000, "{grown:#}");
    assert!(grown["low_bytes"].is_null() && grown["high_bytes"].is_null(), "{grown:#}");
    let text = said(&heap(&["diff", &all, &cut]).stdout);
    assert!(text.contains("cut: read up to the damage: line") && text.contains("not known"), "{text}");
    // moments that were read have bounds
    let told = json(&heap(&["diff", &cut, &cut, "--from", "0", "--to", "2", "-o", "json"]));
    assert_eq!((&told["growth"][0]["low_bytes"], &told["growth"][0]["high_bytes"]), (&2000.into(), &2000.into()));
    let told = json(&heap(&["diff", &all, &all, "--to", "1", "-o", "json"]));
    assert_eq!((&told["growth"][0]["low_bytes"], &told["after_damage"]), (&(1000 - 300_000).into(), &Value::Null));
}

/// One allocation in 4096 bytes was seen: a function of which none was seen may hold up to four times as much.
#[test]
fn a_sample_is_told_as_one() {
    let file = |name: &str| fixture(name).to_str().unwrap().to_owned();
    let (sample, whole) = (file("jemalloc.sampled.heap"), file("gperftools.2.heap"));
    let judged = |assertion: &str| {
        let output = heap(&["show", &sample, "--assert", assertion]);
        (output.status.code(), said(&output.stdout) + &said(&output.stderr))
    };
    let (code, text) = judged("nobody<10K");
    assert!(code == Some(3) && text.contains("the sizes are estimates") && text.contains("lg_prof_sample:0"), "{text}");
    assert!(text.contains("an estimate, in 95 of 100 cases 0 B to +16 KiB"), "{text}");
    assert_eq!(judged("nobody<17K").0, Some(0));
    let told = json(&heap(&["diff", &whole, &sample, "-o", "json"]));
    assert_eq!((&told["before_sampled_every_bytes"], &told["after_sampled_every_bytes"]), (&Value::Null, &4096.into()));
    assert_eq!((&told["before_format"], &told["after_format"]), (&"gperftools".into(), &"jemalloc".into()));
    let text = said(&heap(&["diff", &whole, &sample]).stdout);
    for words in
        ["after: the profiler looked at one allocation for 4 KiB", "jemalloc counts what it handed out, and gperftools"]
    {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn ms_print_prints_massifs_files_only() {
    let folder = tempfile::tempdir().unwrap();
    let other = heap(&["show", fixture("gperftools.2.heap").to_str().unwrap(), "-o", "ms_print"]);
    let why = said(&other.stderr);
    assert!(other.status.code() == Some(3) && why.contains("this one is of gperftools"), "{why}");
    let none = heap(&["show", &written(folder.path(), "none", "a text\n"), "-o", "ms_print"]);
    let why = said(&none.stderr);
    assert!(
        none.status.code() == Some(3) && none.stdout.is_empty() && why.contains("a heap profile is expected"),
        "{why}"
    );
}

#[test]
fn growth_does_not_run_backwards() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "massif", &massif("f", &[0, 1000, 2000]));
    let refused = heap(&["show", &file, "--from", "2", "--to", "1"]);
    let why = said(&refused.stderr);
    assert!(refused.status.code() == Some(2) && why.contains("--from 1 --to 2"), "{why}");
    assert_eq!(heap(&["show", &file, "--from", "1", "--to", "2"]).status.code(), Some(0));
}

#[test]
fn a_pipe_is_read_as_often_as_needed() {
    let folder = tempfile::tempdir().unwrap();
    let file = written(folder.path(), "whole", &massif("f", &[0, 1000]));
    let shown = json(&heap(&["show", &file, "-o", "json"]));
    for name in ["-", "/dev/stdin"] {
        assert_eq!(json(&piped(&["show", name, "-o", "json"], &file)), shown, "{name}");
    }
    for output in ["folded", "ms_print"] {
        let words = ["show", "-", "-o", output, "--assert", "f<1M"];
        let (ours, theirs) = (piped(&words, &file), heap(&["show", &file, "-o", output]));
        let lines = |output: &Output| {
            said(&output.stdout).lines().filter(|it| !it.contains("ms_print arg")).collect::<Vec<_>>().join("\n")
        };
        assert_eq!((ours.status.code(), lines(&ours)), (Some(0), lines(&theirs)), "{output}");
    }
    let fifo = folder.path().join("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut writer = Command::new("sh").args(["-c", "cat \"$0\" > \"$1\""]).arg(&file).arg(&fifo).spawn().unwrap();
    assert_eq!(json(&heap(&["show", fifo.to_str().unwrap(), "-o", "json"])), shown, "and it does not hang");
    writer.wait().unwrap();
    let told = json(&piped(&["diff", "-", "-", "--from", "0", "--to", "1", "-o", "json"], &file));
    assert_eq!(told["growth"][0]["growth_bytes"], 1000);
    // a page has no name by itself
    assert_eq!(piped(&["report", "-"], &file).status.code(), Some(2));
    assert!(said(&piped(&["report", "-", "--to", "-"], &file).stdout).contains("</html>"));
    let mut nowhere = Command::new(WRINGER);
    nowhere.args(["heap", "show", "-"]).env("TMPDIR", "/no/such").stdin(File::open(&file).unwrap());
    let output = nowhere.output().unwrap();
    let said = said(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("copy standard input to /no/such"), "{said}");
}

#[test]
fn names_do_not_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let text = massif("f\x1b]0;own\x07\u{9b}2J", &[0, 1000]).replace("./a", "./a\x1b[31m");
    let file = written(folder.path(), "hostile", &text);
    let words: [&[&str]; 3] =
        [&["show", &file], &["diff", &file, &file, "--from", "0"], &["show", &file, "-o", "folded"]];
    for words in words {
        let printed = said(&heap(words).stdout);
        assert!(printed.contains("f\u{fffd}]0"), "{words:?}: {printed}");
        assert!(!printed.contains(|it: char| it.is_control() && it != '\n'), "{words:?}: {printed:?}");
    }
}
