// SPDX-License-Identifier: Apache-2.0
//! The campaign is worth something only if it can fail: with an undo that leaves out one kind of step, or a record that is not
//! synced, it does. The mutants are in the build with `failpoints`; `WRINGER_FORGET` chooses one.

use super::campaign::Bench;
use super::order::{trace_of_a_lab, unsynced};
use super::records::{Mechanism, cut};
use super::standing::{json, kill_together, process_of};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{announce_cases, is_root};

const FORGET: &str = "WRINGER_FORGET";

/// Goes through the records as the campaign does, until the mutant is caught.
fn is_caught(mechanism: Mechanism, forgets: &str) {
    let bench = Bench::impatient();
    for point in 1..200 {
        assert!(cut(&bench, mechanism, point, true), "nobody noticed that the undo forgets a {forgets}");
        // an undo that forgets may take the journals away
        let runs = bench.runs();
        if forgets == "mount" {
            // a layer that is told to leave unmounts itself; only what a killed one leaves behind shows who forgot it
            bench.kill_what_is_left();
        }
        lose_second_records(&bench);
        // its own look at the host, after the steps, may have told it; else what is left on the host does
        let told = bench.lab.command(["undo"]).env(FORGET, forgets).output().unwrap();
        if told.status.code() == Some(5) {
            return assert_eq!(bench.undone(), Ok(()), "after an undo that forgets a {forgets}, and says so: {told:?}");
        }
        if bench.undone().is_err() {
            return bench.clean_by_hand(&runs);
        }
    }
}

/// What is written down a second time, beside the locks, makes good what a journal has lost: without it the journal is all there is.
fn lose_second_records(bench: &Bench) {
    for folder in [PathBuf::from("/run/wringer/locks"), bench.lab.home().join("journal/locks")] {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let is_one = |name: &str| name.starts_with("w-") && (name.contains(".step-") || name.ends_with(".home"));
        for entry in entries.filter(|entry| is_one(&entry.file_name().to_string_lossy())) {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn an_undo_that_forgets_a_step_is_caught() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let mutants = [
        (Mechanism::Ram, "value"),
        (Mechanism::Disk, "mount"),
        (Mechanism::Lab, "cgroup"),
        (Mechanism::Lab, "process"),
    ];
    for (mechanism, forgets) in mutants {
        is_caught(mechanism, forgets);
    }
    announce_cases("mutants::an_undo_that_forgets_a_step_is_caught", mutants.len());
}

/// A loop device that nobody has open goes by itself with its controller; what shows who forgot it is one that somebody has open: an
/// honest undo says that it is in use, and leaves its server to it.
#[test]
fn an_undo_that_forgets_a_loop_device_in_use_is_caught() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::impatient();
    let image = bench.image();
    let arguments = ["disk", "delay", image.to_str().unwrap(), "--write", "1ms", "-o", "json"];
    let said = json(&bench.lab.run(arguments).expect_code(0));
    let user = File::open(said["device"].as_str().unwrap()).unwrap();
    kill_together(&[process_of(&bench.lab, "watchdog"), said["pid"].as_u64().unwrap()]);
    let in_use = bench.lab.run(["undo"]).expect_code(5);
    assert!(in_use.stderr.contains("held open by"), "{in_use:?}");
    assert!(!bench.runs().is_empty(), "the journal stays");

    let told = bench.lab.command(["undo"]).env(FORGET, "loop_device").output().unwrap();
    let said = String::from_utf8_lossy(&told.stderr);
    assert_eq!(told.status.code(), Some(5), "its own look at the host finds what was forgotten: {said}");
    assert!(said.contains("the host is not restored"), "{said}");
    let left = bench.is_as_before("after an undo that forgets").expect_err("the loop device is still there");
    assert!(left.contains("backing_file"), "{left}");
    drop(user);
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("mutants::an_undo_that_forgets_a_loop_device_in_use_is_caught", 1);
}

const POOL: &str = "/proc/sys/vm/nr_hugepages";
const PAGES: &str = "32";

/// 64 MiB that no process holds, with supervisor and watchdog dead: what they are is known from the journal alone. Returns it.
fn pool_of_the_dead(bench: &Bench) -> PathBuf {
    let hide = ["ram", "hide", "64M", "--mechanism", "pool", "--yes", "-o", "json"];
    let said = json(&bench.lab.run(hide).expect_code(0));
    kill_together(&[process_of(&bench.lab, "watchdog"), said["pid"].as_u64().unwrap()]);
    assert_eq!(pool(), PAGES);
    lose_second_records(bench);
    bench.lab.home().join("journal").join(said["run"].as_str().unwrap()).join("journal")
}

fn pool() -> String {
    fs::read_to_string(POOL).unwrap().trim().to_owned()
}

fn flip(journal: &Path, at: usize) {
    let mut bytes = fs::read(journal).unwrap();
    bytes[at] ^= 1;
    fs::write(journal, bytes).unwrap();
}

/// A run whose pool of huge pages is still there although the record of it is not.
#[test]
fn a_bad_record_that_is_taken_for_the_end_is_caught() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::new();
    let journal = pool_of_the_dead(&bench);
    let bytes = fs::read(&journal).unwrap();
    flip(&journal, bytes.windows(9).position(|window| window == b"huge_pool").unwrap());
    for _ in 0..2 {
        let told = bench.lab.run(["undo"]).expect_code(5);
        assert!(told.stderr.contains("is damaged") && told.stderr.contains(POOL), "{told:?}");
    }
    let told = bench.lab.command(["undo"]).env(FORGET, "bad_record").output().unwrap();
    assert!(told.status.success() && bench.runs().is_empty(), "it says that everything is back: {told:?}");
    bench.is_as_before("after an undo that stops at a bad record").expect_err("the pool is still there");
    fs::write(POOL, "0").unwrap();
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("mutants::a_bad_record_that_is_taken_for_the_end_is_caught", 1);
}

/// One bit in the header, and the next command: it refuses, `undo` gives the RAM back, and the run is there until the user calls it settled.
#[test]
fn an_unreadable_journal_that_is_removed_is_caught() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::new();
    let journal = pool_of_the_dead(&bench);
    flip(&journal, 12);
    let data = bench.data();
    let delay = ["disk", "delay", data.to_str().unwrap(), "--read", "1ms"];
    bench.lab.run(delay).expect_code(3).expect_said(&["its header is not valid", "wringer undo"]);
    let shown = bench.lab.run(["status"]).expect_code(0).stdout;
    assert!(shown.contains(": hot") && shown.contains("its journal is damaged"), "{shown}");
    assert!(shown.contains("--settled"), "{shown}");

    let (folder, kept) = (journal.parent().unwrap(), bench.lab.home().join("kept"));
    let copy = |from: &Path, to: &Path| {
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    };
    copy(folder, &kept);
    let told = bench.lab.command(delay).env(FORGET, "unread").output().unwrap();
    assert!(told.status.success() && !journal.exists(), "{told:?}");
    bench.lab.run(["undo"]).expect_code(0);
    bench.is_as_before("after the journal was removed").expect_err("the pool is still there, and nobody knows");

    copy(&kept, folder);
    fs::remove_dir_all(&kept).unwrap();
    let run = folder.file_name().unwrap().to_str().unwrap();
    bench.lab.run(["undo"]).expect_code(5).expect_said(&["is damaged", run]);
    assert_eq!(pool(), "0", "what can be read is undone");
    bench.lab.run(["undo"]).expect_code(5);
    bench.lab.run(["undo", "--settled"]).expect_code(2);
    bench.lab.run(["undo", run, "--settled"]).expect_code(0);
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("mutants::an_unreadable_journal_that_is_removed_is_caught", 1);
}

/// The kernel keeps what a killed process wrote: only the order of the calls shows that a record was not on the disk.
#[test]
fn a_record_that_is_not_synced_is_caught() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    if Command::new("strace").arg("--version").output().is_err() {
        testkit::skip!("needs strace");
    }
    let bench = Bench::new();
    let (missing, _) = unsynced(&trace_of_a_lab(&bench, &[(FORGET, "sync")]));
    assert!(missing.iter().any(|told| told.contains("intent")), "every intent was synced: {missing:?}");
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("mutants::a_record_that_is_not_synced_is_caught", 1);
}
