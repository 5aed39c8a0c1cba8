// SPDX-License-Identifier: Apache-2.0
//! The watchdog of the real program: a controller that is stopped, a slow layer that is stopped, and a run that is told why.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod silent;
mod standing;

use rustix::process::Signal;
use silent::Silent;
use standing::freezer::{Means, Still};
use standing::*;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::process::Command;
use std::time::Duration;
use testkit::{Lab, Ran, Snapshot, alone, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn watched(lab: &Lab, args: &[&str], limits: &str) -> Ran {
    Ran::of(lab.command(args).env("WRINGER_WATCHDOG", limits)).expect_code(0)
}

/// What `status` tells when the run is gone.
fn last_words(lab: &Lab) -> String {
    lab.run(["status"]).expect_code(0).stdout
}

#[test]
fn a_stopped_supervisor_does_not_keep_the_ram() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let limits = r#"{"lease_ms":1500,"look_ms":100}"#;
    let said = json(&watched(&lab, &["ram", "hide", "64M", "--yes", "-o", "json"], limits));
    signal(said["pid"].as_u64().unwrap(), Signal::STOP);
    assert!(wait_until(PATIENCE, || meminfo("HugePages_Total") == 0), "the lease has ended");
    assert!(wait_until(PATIENCE, || !is_alive(said["pid"].as_u64().unwrap())), "it was woken, and released");
    expect_as_before_by_itself(&before);
    assert!(last_words(&lab).contains("no sign of life"), "{}", last_words(&lab));
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

/// Its users wait, which is told; woken, it serves on with its delay.
#[test]
fn a_stopped_layer_serves_on_when_it_is_woken() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = lab.home().join("data");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), vec![7; 64 << 10]).unwrap();
    let path = folder.to_str().unwrap();
    watched(&lab, &["disk", "delay", path, "--read", "1ms"], r#"{"layer_deadline_ms":1500,"look_ms":100}"#);
    let layer = process_of(&lab, "slow layer");
    signal(layer, Signal::STOP);
    let mut read = Command::new("dd").arg(format!("if={path}/file")).arg("of=/dev/null").spawn().unwrap();
    let told = |words: &str| wait_until(PATIENCE, || last_words(&lab).contains(words));
    assert!(told(&format!("the slow layer (process {layer}) is stopped")), "{}", last_words(&lab));
    assert!(is_alive(layer) && read.try_wait().unwrap().is_none(), "the read waits");
    signal(layer, Signal::CONT);
    assert!(read.wait().unwrap().success(), "the read came through");
    assert!(told("the slow layer goes on"), "{}", last_words(&lab));
    let shown = json(&lab.run(["disk", "status", "-o", "json"]).expect_code(0));
    assert_eq!(shown["directories"][0]["delay"]["read_us"], 1000, "{shown:#}");
    lab.run(["disk", "release", path]).expect_code(0);
    expect_as_before(&before);
    assert_eq!(std::fs::read(folder.join("file")).unwrap(), vec![7; 64 << 10]);
}

/// It could run, and answers nobody who asks how it is: it may take no more descriptors. The run ends, and whoever has a file open below
/// reads on.
#[test]
fn a_layer_that_hangs_ends_the_run_and_nobody_gets_an_error() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = lab.home().join("data");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), vec![7; 64 << 10]).unwrap();
    let path = folder.to_str().unwrap();
    watched(&lab, &["disk", "delay", path, "--read", "1ms"], r#"{"layer_deadline_ms":1500,"look_ms":100}"#);
    let (layer, file) = (process_of(&lab, "slow layer"), File::open(folder.join("file")).unwrap());
    let limit = Command::new("prlimit").args(["--nofile=3", "--pid", &layer.to_string()]).status().unwrap();
    assert!(limit.success());
    let told = wait_until(PATIENCE, || last_words(&lab).contains("could run, and answered nobody"));
    assert!(told, "{}", last_words(&lab));
    for _ in 0..20 {
        let mut bytes = [0; 4096];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, [7; 4096]);
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(is_alive(layer), "it serves");
    drop(file);
    expect_as_before_by_itself(&before);
    assert!(wait_until(PATIENCE, || status(&lab)["runs"].as_array().unwrap().is_empty()), "{:#}", status(&lab));
}

/// The disk of sandboxes answers nobody any more, and then the supervisor hangs: the RAM comes back, and the run ends in order.
#[test]
fn a_file_system_that_answers_nobody_does_not_hang_the_watchdog() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let limits = r#"{"lease_ms":1500,"look_ms":100}"#;
    let said = json(&watched(&lab, &["ram", "hide", "64M", "--yes", "-o", "json"], limits));
    let supervisor = said["pid"].as_u64().unwrap();
    let silent = Silent::mount(&lab.home().join("sandboxes"));
    assert!(wait_until(PATIENCE, || silent.asked() > 0), "the watchdog looks at the disk");
    signal(supervisor, Signal::STOP);
    assert!(wait_until(PATIENCE, || meminfo("HugePages_Total") == 0), "the watchdog looks at the lease, too");
    assert!(wait_until(PATIENCE, || !is_alive(supervisor)), "it was woken, and released");
    let over = || std::fs::read_dir(lab.home().join("journal")).unwrap().flatten().count();
    let folder = lab.home().join("journal").join(said["run"].as_str().unwrap());
    assert!(wait_until(PATIENCE, || !folder.exists()), "{} entries", over());
    drop(silent);
    expect_as_before_by_itself(&before);
    assert!(last_words(&lab).contains("no sign of life"), "{}", last_words(&lab));
}

/// A layer that somebody stopped is woken by an undo, and nothing is lost.
#[test]
fn an_undo_wakes_a_stopped_layer() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = lab.home().join("data");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("file"), vec![7; 64 << 10]).unwrap();
    let path = folder.to_str().unwrap();
    lab.run(["disk", "delay", path, "--read", "1ms"]).expect_code(0);
    signal(process_of(&lab, "slow layer"), Signal::STOP);
    let mut read = Command::new("dd").arg(format!("if={path}/file")).arg("of=/dev/null").spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    lab.run(["undo"]).expect_code(0);
    assert!(read.wait().unwrap().success(), "the read that waited came through");
    expect_as_before(&before);
}

/// Its lease has not ended, and its watchdog does nothing yet: half of what a controller is given to release must be enough.
#[test]
fn an_undo_wakes_a_stopped_supervisor() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let said = json(&lab.run(["ram", "hide", "64M", "--yes", "-o", "json"]).expect_code(0));
    signal(said["pid"].as_u64().unwrap(), Signal::STOP);
    let mut undo = lab.start("undo", ["undo"]);
    assert!(wait_until(PATIENCE, || undo.try_wait().unwrap().is_some()), "{}", lab.said("undo"));
    assert_eq!(undo.wait().unwrap().code(), Some(0), "{}", lab.said("undo"));
    expect_as_before(&before);
}

/// It cannot hear, and is not replaced: the RAM is back, it is told why the rest is not, and half of what a controller is given to release is
/// enough for that. When it goes on, it releases the run itself.
#[test]
fn an_undo_tells_of_a_frozen_supervisor_and_takes_nothing_from_it() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let freezers: Vec<Means> = Means::all().into_iter().filter(|means| *means != Means::Stop).collect();
    if freezers.is_empty() {
        testkit::skip!("no cgroup freezer can be had");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    for means in freezers {
        let said = json(&lab.run(["ram", "hide", "64M", "--yes", "-o", "json"]).expect_code(0));
        let (supervisor, holder) = (said["pid"].as_u64().unwrap(), process_of(&lab, "holder"));
        let frozen = Still::make(supervisor, means);
        let mut undo = lab.start("undo", ["undo"]);
        assert!(wait_until(PATIENCE, || undo.try_wait().unwrap().is_some()), "{means:?}: {}", lab.said("undo"));
        let (code, said) = (undo.wait().unwrap().code(), lab.said("undo"));
        assert_eq!(code, Some(5), "{means:?}: {said}");
        assert!(
            said.contains("is frozen by the cgroup") && said.contains("when it goes on: `echo "),
            "{means:?}: {said}"
        );
        assert!(!is_alive(holder), "{means:?}: the RAM is not back");
        assert!(is_alive(supervisor), "{means:?}: it was replaced");
        assert_eq!(status(&lab)["runs"][0]["condition"], "live", "{means:?}");
        drop(frozen);
        let is_released = || status(&lab)["runs"].as_array().unwrap().is_empty();
        assert!(wait_until(PATIENCE, is_released), "{means:?}: {:#}", status(&lab));
        expect_as_before_by_itself(&before);
    }
}

/// The host is in danger in the middle of a load: the run ends with code 4, says why, and its recording says so, too.
#[test]
fn a_run_tells_why_its_watchdog_ended_it() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let file = lab.write("watched.toml", &testkit::small_experiment("60s", "ram = { hide = \"64M\" }"));
    let before = Snapshot::take();
    let limits = r#"{"look_ms":200,"available_floor_bytes":1125899906842624}"#;
    let mut command = lab.command(["run", file.to_str().unwrap(), "--yes", "--to", "out"]);
    let ran = Ran::of(command.env("WRINGER_WATCHDOG", limits)).expect_code(4);
    let ran = ran.expect_said(&["the watchdog ended the run", "of RAM were available, and the floor is"]);
    assert!(!ran.stderr.contains("interrupted"), "{}", ran.stderr);
    expect_as_before(&before);
    let result = std::fs::read_to_string(lab.home().join("out/result.json")).unwrap();
    assert!(result.contains("ended the run: only"), "the recording does not say it");
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}
