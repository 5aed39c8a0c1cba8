// SPDX-License-Identifier: Apache-2.0
//! Slowing a directory down for everybody, with the real program and a real mount.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use standing::*;
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testkit::{Lab, Snapshot, alone, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A directory with one file of `bytes`.
fn data(lab: &Lab, bytes: usize) -> PathBuf {
    let folder = lab.home().join("data");
    std::fs::create_dir(&folder).unwrap();
    let content: Vec<u8> = (0..bytes).map(|at| u8::try_from(at % 251).unwrap()).collect();
    std::fs::write(folder.join("file"), content).unwrap();
    folder
}

fn is_mounted(folder: &Path) -> bool {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&format!(" {} ", folder.display()))
}

/// What is in force for the only directory, and how many reads it has held back.
fn held_back(lab: &Lab) -> (Option<u64>, Option<u64>) {
    let shown = json(&lab.run(["disk", "status", "-o", "json"]).expect_code(0));
    let directory = &shown["directories"][0];
    (directory["delay"]["read_us"].as_u64(), directory["stats"]["delayed_reads"].as_u64())
}

/// No read waits any more.
#[track_caller]
fn expect_undelayed(lab: &Lab, file: &File) {
    let before = held_back(lab);
    median_read(file);
    assert_eq!((held_back(lab), before.0), (before, Some(0)));
}

#[test]
fn slow_then_slower_under_an_open_file_then_as_before() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab, 2 << 20);
    let path = folder.to_str().unwrap();
    let said = json(&lab.run(["disk", "delay", path, "--read", "50ms", "-o", "json"]).expect_code(0));
    assert!(is_mounted(&folder));
    assert_eq!(said["measured"][0]["predicted"]["value"].as_f64().map(|it| it >= 50_000.0), Some(true), "{said:#}");
    let file = open_direct(&folder.join("file"));
    let slow = median_read(&file);
    assert!(slow >= Duration::from_millis(49), "{slow:?}");

    lab.run(["disk", "delay", path, "--read", "100ms"]).expect_code(0);
    let slower = median_read(&file);
    assert!(slower >= Duration::from_millis(99), "{slower:?}");
    let shown = json(&lab.run(["disk", "status", "-o", "json"]).expect_code(0));
    assert_eq!(shown["directories"][0]["delay"]["read_us"], 100_000);

    drop(file);
    lab.run(["disk", "release", path]).expect_code(0);
    assert!(!is_mounted(&folder));
    std::fs::write(folder.join("new"), "written after").unwrap();
    expect_as_before(&before);
    lab.run(["disk", "release", path]).expect_code(3).expect_said(&["is not slowed down"]);
}

#[test]
fn a_directory_from_which_no_program_may_be_started_stays_so() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let disk = lab.home().join("disk");
    let folder = disk.join("data");
    std::fs::create_dir(&disk).unwrap();
    let mount = |args: &[&str]| assert!(Command::new(args[0]).args(&args[1..]).arg(&disk).status().unwrap().success());
    let refuses = || {
        std::fs::copy("/bin/true", folder.join("true")).unwrap();
        Command::new(folder.join("true")).status().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    for (options, is_refused) in [("noexec", true), ("exec", false)] {
        mount(&["mount", "-t", "tmpfs", "-o", options, "tmpfs"]);
        std::fs::create_dir(&folder).unwrap();
        assert_eq!(refuses(), is_refused, "as it is mounted");
        lab.run(["disk", "delay", folder.to_str().unwrap(), "--read", "1ms"]).expect_code(0);
        assert_eq!(refuses(), is_refused, "below the layer of {options}");
        lab.run(["disk", "release", folder.to_str().unwrap()]).expect_code(0);
        mount(&["umount"]);
    }
    expect_as_before(&before);
}

#[test]
fn what_was_written_through_the_layer_is_there_without_it() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab, 100);
    lab.run(["disk", "delay", folder.to_str().unwrap(), "--write", "1ms", "--sync", "1ms"]).expect_code(0);
    std::fs::write(folder.join("through"), "the layer").unwrap();
    lab.run(["disk", "release"]).expect_code(0);
    assert_eq!(std::fs::read_to_string(folder.join("through")).unwrap(), "the layer");
    expect_as_before(&before);
}

#[test]
fn refusals_say_what_to_do() {
    let ordinary = Lab::as_ordinary_user(WRINGER);
    ordinary.run(["disk", "delay", "/tmp", "--read", "1ms"]).expect_code(3).expect_said(&["needs root"]);
    ordinary.run(["disk", "delay", "/tmp", "--read", "soon"]).expect_code(2);
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab, 100);
    let path = folder.to_str().unwrap();
    let refused = |path: &str, words: &[&str]| {
        lab.run(["disk", "delay", path, "--read", "1ms"]).expect_code(3).expect_said(words);
    };
    refused("/nowhere", &["no directory"]);
    refused("/", &["host's own"]);
    refused(folder.join("file").to_str().unwrap(), &["at least 1 MiB"]);

    let open = File::open(folder.join("file")).unwrap();
    refused(path, &["is in use by process", &std::process::id().to_string()]);
    drop(open);

    let database = fake_database(&lab, &folder);
    refused(path, &["mariadbd", "lives in", "live server"]);
    drop(database);

    let below = folder.join("below");
    std::fs::create_dir(&below).unwrap();
    assert!(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&below).status().unwrap().success());
    refused(path, &["is mounted at", "below"]);
    assert!(Command::new("umount").arg(&below).status().unwrap().success());
    expect_as_before(&before);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

/// What is slow already: another mechanism is refused, a dry run says what would change, and that its time stays is told.
#[test]
fn a_change_is_planned_and_keeps_its_mechanism_and_its_time() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab, 100);
    let delay = |more: &[&str]| lab.run(["disk", "delay", folder.to_str().unwrap()].iter().chain(more));
    let run = json(&delay(&["--sync", "1ms", "-o", "json"]).expect_code(0))["run"].take();
    let another = delay(&["--sync", "2ms", "--mechanism", "loop"]).expect_code(3);
    another.expect_said(&["slowed down already, by --mechanism fuse", "wringer disk release"]);
    let plan = json(&delay(&["--sync", "2ms", "--dry-run", "-o", "json"]).expect_code(0));
    assert_eq!((&plan["dry_run"], &plan["run"]), (&true.into(), &run), "{plan:#}");
    assert!(plan["changes"][0]["change"].as_str().is_some_and(|change| change.contains("sync 2 ms")), "{plan:#}");
    let shown = || json(&lab.run(["disk", "status", "-o", "json"]).expect_code(0))["directories"][0]["delay"].take();
    assert_eq!(shown()["sync_us"], 1000, "a dry run changes nothing");
    delay(&["--sync", "2ms", "--for", "2h"]).expect_code(0).expect_said(&["ends when it would have ended"]);
    assert_eq!(shown()["sync_us"], 2000);
    lab.run(["disk", "release"]).expect_code(0);
    expect_as_before(&before);
}

/// Ctrl-C while a slow disk is probed: what had begun is undone, and a change leaves what was in force before.
#[test]
fn an_interrupted_delay_leaves_nothing_behind() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab, 2 << 20);
    // its probe takes minutes
    let slow = ["disk", "delay", folder.to_str().unwrap(), "--read", "5s"];
    let in_force = || {
        let shown = json(&lab.run(["disk", "status", "-o", "json"]).expect_code(0));
        shown.pointer("/directories/0/delay").cloned().unwrap_or_default()
    };
    let interrupted = |name: &str| {
        let mut delay = lab.start(name, slow);
        assert!(wait_until(PATIENCE, || in_force()["read_us"] == 5_000_000), "{}", lab.said(name));
        signal(delay.id().into(), Signal::INT);
        assert_eq!(delay.wait().unwrap().code(), Some(130), "{}", lab.said(name));
        assert!(lab.said(name).contains("interrupted"), "{}", lab.said(name));
    };
    interrupted("new");
    expect_as_before(&before);
    lab.run(["disk", "delay", folder.to_str().unwrap(), "--sync", "1ms"]).expect_code(0);
    interrupted("change");
    assert_eq!((in_force()["read_us"].as_u64(), in_force()["sync_us"].as_u64()), (Some(0), Some(1000)));
    lab.run(["disk", "release"]).expect_code(0);
    expect_as_before(&before);

    // somebody stands in it: it is not undone, and the command says so
    let mut delay = lab.start("held", slow);
    assert!(wait_until(PATIENCE, || in_force()["read_us"] == 5_000_000), "{}", lab.said("held"));
    let mut stands = std::process::Command::new("sleep").arg("1000").current_dir(&folder).spawn().unwrap();
    signal(delay.id().into(), Signal::INT);
    assert_eq!(delay.wait().unwrap().code(), Some(5), "{}", lab.said("held"));
    assert!(lab.said("held").contains("is not undone"), "{}", lab.said("held"));
    stands.kill().unwrap();
    stands.wait().unwrap();
    lab.undo_own();
    expect_as_before(&before);
}

/// A journal holds names as text.
#[test]
fn a_name_that_is_no_text_is_refused() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let name = OsStr::from_bytes(b"d\xff");
    let (folder, image) = (lab.home().join(name), lab.home().join("d").join(name));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::create_dir(lab.home().join("d")).unwrap();
    std::fs::write(&image, vec![0; 2 << 20]).unwrap();
    for path in [&folder, &image] {
        let words = ["disk", "delay", "--write", "1ms"].map(OsStr::new);
        lab.run(words.into_iter().chain([path.as_os_str()])).expect_code(3).expect_said(&["is not UTF-8", "rename it"]);
    }
    let words = ["probe", "read", "--count", "1", "-o", "json"].map(OsStr::new);
    let read = json(&lab.run(words.into_iter().chain([image.as_os_str()])).expect_code(0));
    assert!(read["path"].as_str().is_some_and(|path| path.ends_with('\u{fffd}')), "{read:#}");
    expect_as_before(&before);
}

#[test]
fn a_busy_directory_is_fast_at_once_and_released_when_it_is_free() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER).impatient(), Snapshot::take());
    let folder = data(&lab, 64 << 10);
    let path = folder.to_str().unwrap();
    lab.run(["disk", "delay", path, "--read", "200ms"]).expect_code(0);
    let file = open_direct(&folder.join("file"));
    let layer = process_of(&lab, "slow layer");
    let (own, command) = (std::process::id(), std::fs::read_to_string("/proc/self/comm").unwrap());
    let holder = format!("held open by {} (process {own})", command.trim());
    let ran = lab.run(["disk", "release", path]).expect_code(5).expect_said(&["busy", "wringer undo", &holder]);
    assert!(!ran.stderr.contains(&format!("process {layer})")), "the layer itself is in nobody's way: {}", ran.stderr);
    expect_undelayed(&lab, &file);
    drop(file);
    lab.undo_own();
    assert!(!is_mounted(&folder));
    expect_as_before(&before);
}

#[test]
fn a_release_of_all_begins_with_the_newest_and_takes_what_was_cut_off() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let outer = data(&lab, 100);
    let inner = outer.join("inner");
    std::fs::create_dir(&inner).unwrap();
    for folder in [&outer, &inner] {
        lab.run(["disk", "delay", folder.to_str().unwrap(), "--write", "1ms"]).expect_code(0);
    }
    lab.run(["disk", "release"]).expect_code(0);
    expect_as_before(&before);

    let delay = ["disk", "delay", outer.to_str().unwrap(), "--write", "1ms", "-o", "json"];
    for named in [vec![], vec![outer.to_str().unwrap()]] {
        let said = json(&lab.run(delay).expect_code(0));
        kill_together(&[said["pid"].as_u64().unwrap(), process_of(&lab, "watchdog")]);
        lab.run(["disk", "release"].iter().chain(&named)).expect_code(0);
        expect_as_before(&before);
    }
}

#[test]
fn a_dead_supervisor_gives_the_speed_back() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab, 64 << 10);
    let said =
        json(&lab.run(["disk", "delay", folder.to_str().unwrap(), "--read", "5ms", "-o", "json"]).expect_code(0));
    signal(said["pid"].as_u64().unwrap(), Signal::KILL);
    assert!(wait_until(PATIENCE, || !is_mounted(&folder)), "the watchdog unmounts");
    expect_as_before_by_itself(&before);
}

#[test]
fn with_supervisor_and_watchdog_dead_it_is_fast_and_undo_unmounts() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab, 64 << 10);
    let path = folder.to_str().unwrap();
    let said = json(&lab.run(["disk", "delay", path, "--read", "200ms", "-o", "json"]).expect_code(0));
    kill_together(&[said["pid"].as_u64().unwrap(), process_of(&lab, "watchdog")]);
    let file = open_direct(&folder.join("file"));
    assert!(wait_until(PATIENCE, || held_back(&lab).0 == Some(0)), "the lifeline's end sets the delay to 0");
    expect_undelayed(&lab, &file);
    drop(file);
    assert!(is_mounted(&folder), "it goes on serving");
    let shown = lab.run(["disk", "status"]).expect_code(0).expect_said(&["was cut off", "wringer undo"]);
    assert!(shown.stdout.contains(path) && shown.stdout.contains("hot"), "{shown:?}");
    let shown = json(&lab.run(["disk", "status", "-o", "json"]).expect_code(0));
    assert_eq!(shown["directories"][0]["condition"], "hot", "{shown:#}");
    lab.run(["disk", "delay", path, "--read", "1ms"]).expect_code(3).expect_said(&["wringer undo"]);
    lab.undo_own();
    assert!(!is_mounted(&folder));
    expect_as_before(&before);
}

#[test]
fn a_dead_layer_ends_the_squeeze() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = data(&lab, 64 << 10);
    lab.run(["disk", "delay", folder.to_str().unwrap(), "--read", "5ms"]).expect_code(0);
    signal(process_of(&lab, "slow layer"), Signal::KILL);
    assert!(wait_until(PATIENCE, || !is_mounted(&folder)), "a dead layer's mount would only fail");
    expect_as_before_by_itself(&before);
    assert!(folder.join("file").exists());
}

/// Between the look at the directory and the mount, somebody begins to use it, or puts another one in its place.
#[test]
#[cfg(feature = "failpoints")]
fn a_directory_that_changes_between_the_look_and_the_mount_is_refused() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let folder = data(&lab, 2 << 20);
    let (aside, other) = (lab.home().join("aside"), lab.home().join("other"));
    std::fs::create_dir(&other).unwrap();
    let before = Snapshot::take();
    let path = folder.to_str().unwrap();
    let delayed = |act: &dyn Fn()| {
        let ran = ran_while_paused(&lab, &["disk", "delay", path, "--read", "1ms"], "before a layer is mounted", act);
        assert!(![&folder, &aside, &other].into_iter().any(|place| is_mounted(place)), "{ran:?}");
        ran
    };
    let opened = std::cell::OnceCell::new();
    let ran = delayed(&|| opened.set(File::open(folder.join("file")).unwrap()).unwrap());
    ran.expect_code(3).expect_said(&["is in use by process", &std::process::id().to_string(), "live server"]);
    drop(opened);

    let ran = delayed(&|| {
        std::fs::rename(&folder, &aside).unwrap();
        std::os::unix::fs::symlink(&other, &folder).unwrap();
    });
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    ran.expect_code(4).expect_said(&["data", "is a symbolic link by now"]);
    expect_as_before(&before);
}
