// SPDX-License-Identifier: Apache-2.0
//! A program without symbols gets its names, also those of inlined functions, from the debug file with the same build id, and none from the debug file
//! of another build.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use heap::{Mapping, Symbols};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use symbols::Binaries;

/// Prints the address to which `told` returns, and the mappings.
const SOURCE: &str = r#"
    #include <stdio.h>
    __attribute__((noinline)) static void told(void) { printf("%p\n", __builtin_return_address(0)); }
    static inline __attribute__((always_inline)) void inlined(int n) {
        told();
        if (n) puts("");
    }
    __attribute__((noinline)) void _ZN9Log_event14read_log_eventEPKc(int n) { inlined(n); puts(""); }
    int main(int count, char **words) {
        _ZN9Log_event14read_log_eventEPKc(count - 1);
        FILE *maps = fopen("/proc/self/maps", "r");
        for (int byte; (byte = fgetc(maps)) != EOF; ) putchar(byte);
        return 0;
    }
"#;

fn run(command: &mut Command) -> String {
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{command:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn build(folder: &Path, name: &str, source: &str) -> PathBuf {
    let (file, program) = (folder.join("source.c"), folder.join(name));
    fs::write(&file, source).unwrap();
    run(Command::new("cc").args(["-O1", "-g", "-Wl,--build-id=sha1", "-o"]).arg(&program).arg(file));
    program
}

/// The build id that `readelf -n` prints: `Build ID: 4fd1...`.
fn build_id(program: &Path) -> String {
    let notes = run(Command::new("readelf").arg("-n").arg(program));
    notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: ")).unwrap().to_owned()
}

/// The mapping that is executed, and the address.
fn told(program: &Path) -> (Mapping, u64) {
    let text = run(&mut Command::new(program));
    let number = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
    let address = number(text.lines().next().unwrap());
    let path = program.to_str().unwrap();
    let line = text.lines().find(|it| it.ends_with(path) && it.contains("r-xp")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let (start, end) = words[0].split_once('-').unwrap();
    let mapping = Mapping { start: number(start), end: number(end), offset: number(words[2]), path: path.to_owned() };
    (mapping, address - 1)
}

fn names(folders: &[PathBuf], (mapping, address): &(Mapping, u64)) -> (Vec<String>, Option<String>) {
    let mut binaries = Binaries::new(folders.to_vec());
    let found = binaries.functions(mapping, *address);
    let names = found.iter().map(|it| format!("{} {}", it.function, it.place.as_deref().unwrap_or_default()));
    (names.collect(), binaries.missing().first().map(|it| it.why.clone()))
}

#[test]
fn names_are_those_of_the_build() {
    if !["cc", "strip", "objcopy", "readelf"].into_iter().all(has) {
        testkit::skip!("needs cc and binutils");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "program", SOURCE);
    let at = told(&program);
    let whole = ["inlined source.c:5".to_owned(), "Log_event::read_log_event(char const*) source.c:8".to_owned()];
    let (found, why) = names(&[], &at);
    assert_eq!((found.as_slice(), why), (whole.as_slice(), None));

    // the debug file where packages put it, below a folder of its own
    let debug_of = |program: &Path, id: &str| {
        let place = folder.path().join("debug/.build-id").join(&id[..2]);
        fs::create_dir_all(&place).unwrap();
        let file = place.join(format!("{}.debug", &id[2..]));
        run(Command::new("objcopy").arg("--only-keep-debug").arg(program).arg(&file));
        file
    };
    let id = build_id(&program);
    let debug = debug_of(&program, &id);
    run(Command::new("strip").arg(&program));
    let (found, why) = names(&[], &at);
    assert_eq!(found, Vec::<String>::new(), "no symbol is left");
    assert!(why.unwrap().contains("it has no symbols"));
    let folders = [folder.path().join("debug")];
    let (found, why) = names(&folders, &at);
    assert_eq!((found.as_slice(), why), (whole.as_slice(), None));

    // another build's debug file in its place
    fs::remove_file(&debug).unwrap();
    let other = build(folder.path(), "other", &SOURCE.replace("puts(\"\")", "puts(\"x\")"));
    fs::rename(debug_of(&other, &build_id(&other)), &debug).unwrap();
    assert_eq!(names(&folders, &at).0, Vec::<String>::new());
}

#[test]
fn files_that_are_no_programs() {
    let folder = tempfile::tempdir().unwrap();
    let whole = fs::read(std::env::current_exe().unwrap()).unwrap();
    let file = folder.path().join("program");
    let mapping = Mapping { start: 0x1000, end: 0x2000, offset: 0x1000, path: file.to_str().unwrap().to_owned() };
    // cut off, and damaged in its headers
    let mut damaged = whole[..whole.len().min(1 << 16)].to_vec();
    for at in (0..4096).step_by(3) {
        damaged[at] = damaged[at].wrapping_add(0x5b);
    }
    for bytes in [&[][..], b"text", &whole[..64], &whole[..5000], &whole[..whole.len() / 2], &damaged] {
        fs::write(&file, bytes).unwrap();
        names(&[], &(mapping.clone(), 0x1234));
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(names(&[], &(mapping, 0x1234)).1.as_deref(), Some("the file is not on this machine"));
}
