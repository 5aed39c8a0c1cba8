// SPDX-License-Identifier: Apache-2.0
//! The campaign is worth something only if it can fail: with an undo that leaves out one kind of step, or a record that is not
//! synced, it does. The mutants are in the build with `failpoints`; `WRINGER_FORGET` chooses one.

use super::campaign::Bench;
use super::order::{trace_of_a_lab, unsynced};
use super::records::{Mechanism, cut};
use super::standing::{json, process_of, signal};
use rustix::process::Signal;
use std::fs::File;
use std::process::Command;
use testkit::{announce_cases, is_root};

const FORGET: &str = "WRINGER_FORGET";

/// Goes through the records as the campaign does, until the mutant is caught.
fn is_caught(mechanism: Mechanism, forgets: &str) {
    let bench = Bench::new();
    for point in 1..200 {
        assert!(cut(&bench, mechanism, point, true), "nobody noticed that the undo forgets a {forgets}");
        // an undo that forgets may take the journals away
        let runs = bench.runs();
        if forgets == "mount" {
            // a layer that is told to leave unmounts itself; only what a killed one leaves behind shows who forgot it
            bench.kill_what_is_left();
        }
        // what the general undo says does not matter: what is left on the host does
        bench.lab.command(["undo"]).env(FORGET, forgets).output().unwrap();
        if bench.undone().is_err() {
            return bench.clean_by_hand(&runs);
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
    let bench = Bench::new();
    let image = bench.image();
    let arguments = ["disk", "delay", image.to_str().unwrap(), "--write", "1ms", "-o", "json"];
    let said = json(&bench.lab.run(arguments).expect_code(0));
    let user = File::open(said["device"].as_str().unwrap()).unwrap();
    for pid in [process_of(&bench.lab, "watchdog"), said["pid"].as_u64().unwrap()] {
        signal(pid, Signal::KILL);
    }
    let in_use = bench.lab.run(["undo"]).expect_code(5);
    assert!(in_use.stderr.contains("held open by"), "{in_use:?}");
    assert!(!bench.runs().is_empty(), "the journal stays");

    bench.lab.command(["undo"]).env(FORGET, "loop_device").output().unwrap();
    assert!(bench.runs().is_empty(), "it says that everything is back");
    let left = bench.is_as_before("after an undo that forgets").expect_err("the loop device is still there");
    assert!(left.contains("backing_file"), "{left}");
    drop(user);
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("mutants::an_undo_that_forgets_a_loop_device_in_use_is_caught", 1);
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
