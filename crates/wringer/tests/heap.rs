// SPDX-License-Identifier: Apache-2.0
//! Profiles that Valgrind makes here and now: the same text as `ms_print`, and the function that grew is found.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn profile(folder: &Path, name: &str, options: &[&str], program: &[&str]) -> String {
    let file = folder.join(name).to_str().unwrap().to_owned();
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["-q", "--tool=massif", &format!("--massif-out-file={file}")]).args(options).args(program);
    let ran = valgrind.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
    assert!(ran.success() && Path::new(&file).exists(), "{valgrind:?}");
    file
}

fn output(program: &str, words: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(words).output().unwrap();
    assert!(output.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// All but the line that tells the words on the command line.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"ms_print arguments:")).collect()
}

#[test]
fn the_same_bytes_as_ms_print() {
    if !has("valgrind") || !has("ms_print") {
        testkit::skip!("needs valgrind and ms_print");
    }
    let folder = tempfile::tempdir().unwrap();
    let list: &[&str] = &["ls", "-laR", "/usr/share/doc/bash"];
    let of = |name: &str, options: &[&str], program: &[&str]| profile(folder.path(), name, options, program);
    let files = [
        of("instructions", &[], list),
        of("time", &["--time-unit=ms", "--detailed-freq=3"], list),
        of("bytes", &["--time-unit=B", "--max-snapshots=20"], list),
        of("stacks", &["--stacks=yes"], &["ls", "/"]),
        of("pages", &["--pages-as-heap=yes"], &["bash", "-c", "x=$(seq 3000); echo ${#x}"]),
        of(
            "everything",
            &["--threshold=0", "--detailed-freq=1"],
            &["bash", "-c", "for i in {1..500}; do a[i]=$i; done"],
        ),
    ];
    for file in &files {
        for flags in [&[][..], &["--threshold=0"], &["--threshold=7.5"], &["--x=100", "--y=30"], &["--x=5", "--y=4"]] {
            let theirs = output("ms_print", &[flags, &[file.as_str()]].concat());
            let ours = output(WRINGER, &[&["heap", "show", file.as_str(), "-o", "ms_print"], flags].concat());
            assert_eq!(lines(&theirs), lines(&ours), "{file} {flags:?}");
        }
    }
}

/// Ten callers hold 64 KiB each from the start; one more grows by 40 times 1000 bytes, through `my_malloc`.
const GROWING: &str = r#"
    #include <stdlib.h>
    void *kept[64];
    __attribute__((noinline)) void *my_malloc(size_t size) { void *got = malloc(size); __asm__ volatile("" ::: "memory"); return got; }
    void *grow(void) __asm__("_ZN9Log_event14read_log_eventEPKc");
    __attribute__((noinline)) void *grow(void) { void *got = my_malloc(1000); __asm__ volatile("" ::: "memory"); return got; }
    #define HOLD(n) __attribute__((noinline)) void *hold##n(void) { void *got = my_malloc(65536); __asm__ volatile("" ::: "memory"); return got; }
    HOLD(0) HOLD(1) HOLD(2) HOLD(3) HOLD(4) HOLD(5) HOLD(6) HOLD(7) HOLD(8) HOLD(9)
    int main(void) {
        void *(*all[])(void) = {hold0, hold1, hold2, hold3, hold4, hold5, hold6, hold7, hold8, hold9};
        for (int nth = 0; nth < 10; nth++) kept[nth] = all[nth]();
        for (int nth = 0; nth < 40; nth++) { kept[10 + nth] = grow(); for (int more = 0; more < 4; more++) free(malloc(16)); }
        return 0;
    }
"#;

#[test]
fn the_function_that_grew_is_first() {
    if !has("valgrind") || !has("cc") {
        testkit::skip!("needs valgrind and cc");
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("growing.c"), folder.path().join("growing"));
    fs::write(&source, GROWING).unwrap();
    let built =
        Command::new("cc").args(["-O1", "-g", "-fno-builtin", "-o"]).arg(&program).arg(&source).status().unwrap();
    assert!(built.success());
    let options = ["--time-unit=B", "--detailed-freq=1", "--threshold=0.1"];
    let file = profile(folder.path(), "massif.out", &options, &[program.to_str().unwrap()]);
    let shown: Value = serde_json::from_slice(&output(WRINGER, &["heap", "show", &file, "-o", "json"])).unwrap();
    // from when the ten hold theirs
    let is_held = |it: &&Value| it["heap_bytes"].as_u64().unwrap() >= 655_360;
    let from = shown["snapshots"].as_array().unwrap().iter().find(is_held).unwrap();
    let (number, begun) = (from["number"].to_string(), from["heap_bytes"].as_u64().unwrap() - 655_360);
    let shown = output(WRINGER, &["heap", "show", &file, "--from", &number, "-o", "json"]);
    let shown: Value = serde_json::from_slice(&shown).unwrap();
    assert_eq!(shown["schema"], 1);
    let first = &shown["growth"][0];
    assert_eq!(first["function"], "Log_event::read_log_event(char const*)", "{first:#}");
    assert_eq!(
        (first["subsystem"].as_str(), &first["growth_bytes"]),
        (Some("replication"), &Value::from(40_000 - begun))
    );
    assert!(shown["growth"].as_array().unwrap().iter().skip(1).all(|it| it["growth_bytes"] == 0), "{shown:#}");

    // its text has the ten as a number, not as rows of the table
    let text = String::from_utf8(output(WRINGER, &["heap", "show", &file, "--from", &number])).unwrap();
    let (_, table) = text.split_once("the one that grew most first\n").unwrap();
    assert!(table.contains("Log_event::read_log_event(char const*)  [replication]"), "{text}");
    let all = shown["growth"].as_array().unwrap().len();
    let others = format!("\n{} functions neither grew nor shrank\n", all - 1);
    assert!(all > 10 && table.contains(&others) && !table.contains("hold3"), "{text}");
    assert!(text.contains("64 KiB  hold3"), "who holds the heap: {text}");
    let same = String::from_utf8(output(WRINGER, &["heap", "diff", &file, &file])).unwrap();
    assert_eq!(same, format!("No function grew or shrank ({all} functions)\n"));

    let judged = |assertion: &str| {
        Command::new(WRINGER).args(["heap", "show", &file, "--assert", assertion]).output().unwrap().status.code()
    };
    assert_eq!(judged("Log_event::read_log_event<41000"), Some(0));
    assert_eq!(judged("Log_event::read_log_event<40000"), Some(1));
    assert_eq!(judged("growth<1K"), Some(1));
    assert_eq!(judged("growth"), Some(2));
    // whatever is written
    for output in ["ms_print", "folded", "json"] {
        let words = ["heap", "show", &file, "-o", output, "--assert", "Log_event::read_log_event<40000"];
        let ran = Command::new(WRINGER).args(words).output().unwrap();
        assert!(ran.status.code() == Some(1) && !ran.stdout.is_empty(), "{output}: {:?}", ran.status);
    }
    // one moment tells no growth
    let words = ["heap", "show", &file, "--from", &number, "--to", &number, "--assert", "growth<1M"];
    let ran = Command::new(WRINGER).args(words).output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert!(ran.status.code() == Some(3) && said.contains("one moment"), "{said}");
    let typed = Command::new(WRINGER).args(["heap", "show", &file, "--assert", "no_such<1M"]).output().unwrap();
    let said = String::from_utf8(typed.stderr).unwrap();
    assert!(typed.status.code() == Some(0) && said.contains("no_such<1M: no function"), "{said}");
    // between two profiles; from one moment to itself nothing grows
    let between = |from: &str, assertion: &str| {
        let words = ["heap", "diff", &file, &file, "--from", from, "--assert", assertion, "-o", "json"];
        let ran = Command::new(WRINGER).args(words).output().unwrap();
        (ran.status.code(), serde_json::from_slice::<Value>(&ran.stdout).unwrap()["assertions"][0].take())
    };
    let (code, told) = between(&number, "growth<1K");
    assert_eq!(
        (code, &told["holds"], &told["bytes"]),
        (Some(1), &Value::from(false), &first["growth_bytes"]),
        "{told:#}"
    );
    assert_eq!(between(&number, "growth<41000").0, Some(0));
    assert_eq!(between(&number, "Log_event::read_log_event<40000").0, Some(1), "what it holds in the second");
    assert_eq!(between(&shown["to"].to_string(), "growth<1").0, Some(0));
    let half = folder.path().join("half");
    let whole = fs::read(&file).unwrap();
    fs::write(&half, &whole[..whole.len() / 2]).unwrap();
    let half: Value =
        serde_json::from_slice(&output(WRINGER, &["heap", "show", half.to_str().unwrap(), "-o", "json"])).unwrap();
    assert!(half["damaged_at_byte"].as_u64().is_some_and(|at| at <= whole.len() as u64 / 2), "{half:#}");
    assert!(!half["snapshots"].as_array().unwrap().is_empty());
}
