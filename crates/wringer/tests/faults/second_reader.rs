// SPDX-License-Identifier: Apache-2.0
//! Somebody else reads the files of a program whose memory is limited: what is in the page cache at their expense is free of the
//! limit, and is told with its size. Without them nothing is told.

use super::WRINGER;
use super::standing::{MIB, expect_as_before};
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::{Lab, Ran, Snapshot, alone, announce_cases, is_root};

const FILE_MIB: u64 = 24;
/// Lasts until Wringer, which waits for the end of its command and looks at its files now and then, has fallen asleep three times more.
const UNTIL_LOOKED_AT: &str = "wringer=$(cut -d ' ' -f 4 /proc/$PPID/stat); \
    turns() { grep ^voluntary /proc/$wringer/status | cut -f 2; }; \
    first=$(turns); while [ $(turns) -lt $((first + 3)) ]; do sleep 0.05; done";

fn summary(lab: &Lab, script: &str) -> (Ran, Option<u64>) {
    let path = lab.home().join("summary");
    let arguments = ["squeeze", "--ram", "64M", "--summary", path.to_str().unwrap(), "--", "sh", "-c", script];
    let ran = lab.run(arguments).expect_code(0);
    let value: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    (ran, value["ram"]["cached_by_others_bytes"].as_u64())
}

fn make_cold(file: &Path) {
    let file = File::open(file).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn a_squeezed_commands_file_is_cached_by_others() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    if squeeze::cgroup::writable("memory").is_err() {
        testkit::skip!("no right to make a cgroup");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let path = lab.home().join("file");
    fs::write(&path, vec![7; usize::try_from(FILE_MIB * MIB).unwrap()]).unwrap();
    let script = |reads: &str| format!("exec 3<{0}; {reads} {0} >/dev/null; {UNTIL_LOOKED_AT}", path.display());

    make_cold(&path);
    let (ran, bytes) = summary(&lab, &script("cat"));
    assert!(bytes.is_some_and(|bytes| bytes < MIB), "it has read its file itself: {bytes:?}, {ran:?}");
    assert!(!ran.stderr.contains("page cache of others"), "{ran:?}");

    make_cold(&path);
    assert_eq!(fs::read(&path).unwrap().len() as u64, FILE_MIB * MIB);
    let (ran, bytes) = summary(&lab, &script("cat"));
    // the cgroup pays for the programs that nobody had read before; those that somebody had, some 2 MiB, are in the page cache of others as well
    let is_near = |bytes: u64| bytes.abs_diff(FILE_MIB * MIB) < 8 * MIB;
    assert!(bytes.is_some_and(is_near), "{bytes:?}, {ran:?}");
    ran.expect_said(&[
        "WARNING",
        "MiB of its files are in the page cache of others; reads of them are free of the limit",
    ]);
    expect_as_before(&before);
    announce_cases("second_reader::a_squeezed_commands_file_is_cached_by_others", 2);
}

const EXPERIMENT: &str = r#"
schema = 1
name = "reader"
[server]
flavour = "postgresql"
[fill]
rows = 50000
[load]
workload = "oltp_point_select"
time = "2s"
[squeeze]
server_ram = "256M"
"#;

/// Reads every table below a folder. The sandbox is kept: it would not be deleted while somebody has its files open.
fn read_all(folder: &Path, stop: &AtomicBool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|_| !stop.load(Ordering::Relaxed)) {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => read_all(&entry.path(), stop),
            Ok(kind) if kind.is_file() && folder.parent().is_some_and(|it| it.ends_with("base")) => {
                drop(fs::read(entry.path()));
            }
            _ => {}
        }
    }
}

/// The run's findings of this id, and the `got` of the measurement behind it.
fn measured(lab: &Lab, out: &str) -> (usize, f64) {
    let result: serde_json::Value =
        serde_json::from_slice(&fs::read(lab.home().join(out).join("result.json")).unwrap()).unwrap();
    let list = |key: &str| result[key].as_array().unwrap_or_else(|| panic!("no {key}: {result:#}")).clone();
    let findings = list("findings").iter().filter(|it| it["id"] == "squeeze.foreign_cache").count();
    let measured = list("measured").into_iter().find(|it| it["what"] == "server.ram.cached_by_others");
    let got = measured.unwrap_or_else(|| panic!("not measured: {result:#}"))["got"]["value"].as_f64();
    (findings, got.unwrap())
}

#[test]
fn a_limited_servers_files_are_cached_by_others() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    if squeeze::cgroup::writable("memory").is_err() {
        testkit::skip!("no right to make a cgroup");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let file = lab.write("reader.toml", EXPERIMENT);
    let run = |out: &str| lab.run(["run", file.to_str().unwrap(), "--yes", "--to", out]).expect_code(0);

    let ran = run("alone");
    assert!(!ran.stderr.contains("page cache of others"), "{ran:?}");
    let (findings, got) = measured(&lab, "alone");
    assert_eq!(findings, 0, "{got} bytes are said to be others', and there is nobody");

    let stop = AtomicBool::new(false);
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                read_all(&lab.home().join("sandboxes"), &stop);
            }
        });
        let ran = Ran::of(&mut lab.command(["run", file.to_str().unwrap(), "--yes", "--to", "read", "--keep"]));
        stop.store(true, Ordering::Relaxed);
        ran
    });
    let ran = ran.expect_code(0);
    ran.expect_said(&["WARNING", "of its files are in the page cache of others; reads of them are free of the limit"]);
    let (findings, got) = measured(&lab, "read");
    assert_eq!(findings, 1);
    assert!(got > 4.0 * MIB as f64, "only {got} bytes");
    expect_as_before(&before);
    announce_cases("second_reader::a_limited_servers_files_are_cached_by_others", 2);
}
