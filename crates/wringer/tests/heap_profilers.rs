// SPDX-License-Identifier: Apache-2.0
//! Profiles that heaptrack, gperftools, jemalloc and DHAT make here and now of a program in which one function grows by known bytes among ten larger ones
//! that do not: it is found, with its bytes, whatever the format. Massif's are in `heap.rs`.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/heap/growing.c");
const GROWTH: i64 = 40 * 1024;

/// Builds the program; without debug information, so that names come from its symbols.
fn program(folder: &Path, name: &str, options: &[&str]) -> PathBuf {
    let program = folder.join(name);
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-fno-builtin"]).args(options).arg("-o").arg(&program).arg(SOURCE);
    assert!(cc.status().unwrap().success(), "{cc:?}");
    program
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// The library of an allocator: in `WRINGER_TEST_LIBRARIES`, or where packages put it.
fn library(name: &str) -> Option<PathBuf> {
    let own = std::env::var_os("WRINGER_TEST_LIBRARIES").map(PathBuf::from);
    let machine = Path::new("/usr/lib").join(format!("{}-linux-gnu", std::env::consts::ARCH));
    own.into_iter()
        .chain([machine, "/usr/lib64".into(), "/usr/lib".into()])
        .map(|it| it.join(name))
        .find(|it| it.exists())
}

fn run(command: &mut Command) {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?}");
}

fn wringer(words: &[&str], files: &[PathBuf]) -> Output {
    Command::new(WRINGER).args(["heap"]).args(words).args(files).output().unwrap()
}

fn json(words: &[&str], files: &[PathBuf]) -> Value {
    let output = wringer(&[words, &["-o", "json"]].concat(), files);
    assert!(output.status.success(), "{words:?} {files:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The function that grew is first, and no other one grew by a tenth of it.
fn is_first(shown: &Value, growth: i64) {
    let first = &shown["growth"][0];
    assert_eq!(first["function"], "Log_event::read_log_event(char const*)", "{first:#}");
    assert_eq!(first["subsystem"].as_str().unwrap_or("replication"), "replication", "{first:#}");
    let grown = first["growth_bytes"].as_i64().unwrap();
    assert!((grown - growth).abs() <= growth / 100, "{grown} of {growth}");
    let others = shown["growth"].as_array().unwrap().iter().skip(1);
    assert!(others.clone().all(|it| it["growth_bytes"].as_i64().unwrap() < growth / 10), "{shown:#}");
    assert!(others.filter(|it| it["after_bytes"].as_i64() >= Some(65_536)).count() >= 10, "ten hold more: {shown:#}");
}

/// What all outputs say of files that end with the growth.
fn is_in_all_outputs(files: &[PathBuf], format: &str) {
    let shown = json(&["show"], files);
    assert_eq!(shown["format"], format);
    assert_eq!(shown["damage"], Value::Null);
    let folded = String::from_utf8(wringer(&["show", "-o", "folded"], files).stdout).unwrap();
    let line = folded.lines().find(|it| it.contains("read_log_event")).unwrap();
    assert!(line.contains("main;") && line.ends_with(" 40960"), "{line}");
    let judged = |assertion: &str| wringer(&["show", "--assert", assertion], files).status.code();
    assert_eq!(judged("Log_event::read_log_event<41K"), Some(0));
    assert_eq!(judged("Log_event::read_log_event<40K"), Some(1));
    let text = String::from_utf8(wringer(&["show"], files).stdout).unwrap();
    assert!(text.contains("Log_event::read_log_event") && text.contains("hold7"), "{text}");
    let page = String::from_utf8(wringer(&["report", "--to", "-"], files).stdout).unwrap();
    assert!(page.contains("read_log_event") && page.contains("</html>"), "{page:.200}");
    let ms_print = wringer(&["show", "-o", "ms_print"], &files[..1]);
    assert_eq!(ms_print.status.code(), Some(3));
    let half = files.last().unwrap().with_extension("half");
    let whole = fs::read(files.last().unwrap()).unwrap();
    fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    let half = wringer(&["show", "-o", "json"], &[half]);
    match half.status.code() {
        Some(0) => {
            let shown: Value = serde_json::from_slice(&half.stdout).unwrap();
            assert!(shown["damaged_at_byte"].as_u64().is_some(), "{shown:#}");
        }
        // so short that its one compressed block is cut
        code => {
            let said = String::from_utf8_lossy(&half.stderr).into_owned();
            assert!(code == Some(3) && said.contains("the file ends here"), "{code:?}: {said}");
        }
    }
}

#[test]
fn dhat() {
    if !has("valgrind") || !has("cc") {
        testkit::skip!("needs valgrind and cc");
    }
    let folder = tempfile::tempdir().unwrap();
    let profile = |name: &str, options: &[&str]| {
        let file = folder.path().join(format!("{name}.out"));
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["-q", "--tool=dhat"]).arg(format!("--dhat-out-file={}", file.display()));
        run(valgrind.arg(program(folder.path(), name, options)));
        file
    };
    // it tells no time between start and end: two runs stand for two times
    let (before, after) = (profile("before", &["-DTIMES=0"]), profile("after", &[]));
    is_first(&json(&["diff"], &[before, after.clone()]), GROWTH);
    is_in_all_outputs(&[after], "dhat");
}

#[test]
fn heaptrack() {
    if !has("heaptrack") || !has("cc") {
        testkit::skip!("needs heaptrack and cc");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut heaptrack = Command::new("heaptrack");
    heaptrack.arg("-o").arg(folder.path().join("profile")).arg(program(folder.path(), "growing", &[])).arg("slowly");
    run(heaptrack.current_dir(folder.path()));
    let written = fs::read_dir(folder.path()).unwrap().flatten().map(|it| it.path());
    let files: Vec<PathBuf> = written.filter(|it| it.file_stem().is_some_and(|it| it == "profile")).collect();
    is_in_all_outputs(&files, "heaptrack");
    let shown = json(&["show"], &files);
    assert_eq!(shown["command"].as_str().unwrap().split(' ').next_back(), Some("slowly"));
    // from when the ten hold theirs; on a busy machine some of the growth may be behind then
    let snapshots = shown["snapshots"].as_array().unwrap();
    let from = snapshots.iter().filter(|it| it["heap_bytes"].as_u64() >= Some(655_360)).nth(1).unwrap();
    let shown = json(&["show", "--from", &from["number"].to_string()], &files);
    let held = |which: &str| shown["growth"][0][which].as_i64().unwrap();
    assert_eq!(held("after_bytes"), GROWTH, "{shown:#}");
    is_first(&shown, GROWTH - held("before_bytes"));
    assert!(held("before_bytes") < GROWTH / 2, "{shown:#}");
}

#[test]
fn gperftools() {
    let Some(library) = library("libtcmalloc.so.4").filter(|_| has("cc")) else {
        testkit::skip!("needs libtcmalloc.so.4 of gperftools (package libgoogle-perftools4) and cc");
    };
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "growing", &[]);
    let mut profiled = Command::new(&program);
    profiled.env("LD_PRELOAD", &library).env("LD_LIBRARY_PATH", library.parent().unwrap());
    run(profiled.env("HEAPPROFILE", folder.path().join("profile")));
    let files = [1, 2].map(|nth| folder.path().join(format!("profile.{nth:04}.heap")));
    is_first(&json(&["show"], &files), GROWTH);
    is_in_all_outputs(&files, "gperftools");
    is_named_by_the_file(folder.path(), &program, &files);
}

#[test]
fn jemalloc() {
    let Some(library) = library("libjemalloc.so.2").filter(|_| has("cc")) else {
        testkit::skip!("needs libjemalloc.so.2 (package libjemalloc2) and cc");
    };
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), "growing", &[]);
    let prefix = folder.path().join("profile");
    let mut profiled = Command::new(&program);
    profiled.env("LD_PRELOAD", &library);
    run(profiled.env("MALLOC_CONF", format!("prof:true,lg_prof_sample:0,prof_prefix:{}", prefix.display())));
    let written = fs::read_dir(folder.path()).unwrap().flatten().map(|it| it.path());
    let files: Vec<PathBuf> = written.filter(|it| it.extension().is_some_and(|it| it == "heap")).collect();
    if files.is_empty() {
        testkit::skip!("this libjemalloc.so.2 is built without profiling");
    }
    assert_eq!(files.len(), 2);
    is_first(&json(&["show"], &files), GROWTH);
    let files =
        if files[0].to_string_lossy().contains(".m0.") { files } else { vec![files[1].clone(), files[0].clone()] };
    is_in_all_outputs(&files, "jemalloc");
    is_named_by_the_file(folder.path(), &program, &files);
}

/// The names are those of the program's file: none without it, none of another program in its place, and those of a copy.
fn is_named_by_the_file(folder: &Path, program: &Path, files: &[PathBuf]) {
    let why = |shown: &Value| {
        let missing = shown["symbols"]["missing"].as_array().unwrap().clone();
        let own = missing.into_iter().find(|it| it["file"].as_str() == program.to_str());
        own.map(|it| it["why"].as_str().unwrap().to_owned())
    };
    let is_named = |shown: &Value| shown.to_string().contains("Log_event::read_log_event");
    // what is ahead of main has no symbol
    let whole = json(&["show"], files);
    assert!(is_named(&whole) && whole["not_told"]["time"].is_string() && whole["time_unit"].is_null(), "{whole:#}");

    let copies = folder.join("copies");
    fs::create_dir(&copies).unwrap();
    fs::rename(program, copies.join("growing")).unwrap();
    let without = json(&["show"], files);
    assert_eq!((why(&without).as_deref(), is_named(&without)), (Some("the file is not on this machine"), false));
    assert_eq!(without["total_bytes"], whole["total_bytes"]);

    fs::copy("/bin/sh", program).unwrap();
    let other = json(&["show"], files);
    assert!(why(&other).unwrap().contains("not the one that was profiled") && !is_named(&other), "{other:#}");

    let copied = json(&["show", "--binaries", copies.to_str().unwrap()], files);
    assert!(is_named(&copied));
    is_first(&copied, GROWTH);
}

#[test]
fn files_that_are_no_series() {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(SOURCE).parent().unwrap();
    let words = |names: &[&str]| names.iter().map(|it| fixtures.join(it)).collect::<Vec<_>>();
    let said = |output: Output| (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned());
    let (code, told) = said(wringer(&["show"], &words(&["dhat.out", "gperftools.1.heap"])));
    assert!(code == Some(3) && told.contains("dhat.out is of dhat"), "{told}");
    let (code, told) = said(wringer(&["show"], &words(&["growing.c"])));
    assert!(code == Some(3) && told.contains("it begins as no heap profile does"), "{told}");
    assert_eq!(said(wringer(&["show"], &[])).0, Some(2));
    // each has its part of one page
    let page = folder.path().join("page.html");
    let all = ["dhat.out", "heaptrack.growing.zst", "gperftools.1.heap", "gperftools.2.heap"];
    let output = wringer(&["report", "--to", page.to_str().unwrap()], &words(&all));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("class=\"verdict\"").count(), 3, "the two of gperftools are one");
    assert!(!page.contains("src=") && !page.contains("https://"), "it needs no network");
}
