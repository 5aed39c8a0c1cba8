// SPDX-License-Identifier: Apache-2.0
//! No change before its intent is on the disk: the order of system calls says whether it is. A crash test cannot see a missing
//! sync, because the kernel keeps what a killed process has written; a power cut would not.

use super::campaign::Bench;
use super::stand_in;
use std::process::Command;
use testkit::{announce_cases, is_root};

/// Every record of the journal that was not synced before the next thing happened, and the number of those that were.
pub(crate) fn unsynced(trace: &str) -> (Vec<String>, usize) {
    let (mut unsynced, mut synced) = (Vec::new(), 0);
    let mut written: Option<&str> = None;
    // a signal is no call: a child that ends may do so at any time
    for call in trace.lines().filter(|call| !call.contains("resumed>") && !call.starts_with("--- ")) {
        let of_journal = call.contains("/journal>");
        match written {
            Some(_) if of_journal && call.contains("fdatasync(") => {
                written = None;
                synced += 1;
            }
            Some(record) => {
                unsynced.push(format!("{record}\n  then {call}"));
                written = None;
            }
            None => {}
        }
        // the header, at offset 0, is synced with the first record at the latest
        if of_journal && call.contains("pwrite64(") {
            written = Some(call);
        }
    }
    unsynced.extend(written.map(str::to_owned));
    (unsynced, synced)
}

/// The calls by which a controller changes anything, and those that write the journal.
const CALLS: &str =
    "trace=pwrite64,fdatasync,write,mkdir,mkdirat,rmdir,clone,clone3,fork,vfork,mount,umount2,kill,pidfd_send_signal";

/// What a whole lab writes and does, in order; only its own thread is traced.
pub(crate) fn trace_of_a_lab(bench: &Bench, environment: &[(&str, &str)]) -> String {
    let log = bench.lab.home().join("trace");
    let mut traced = stand_in::command(bench, "lab");
    traced.envs(environment.iter().copied());
    // the test harness runs the role in a thread: each thread has a file of its own
    let mut command = Command::new("strace");
    command.args(["-ff", "-qq", "-y", "-s", "200", "-e", CALLS, "-o"]).arg(&log);
    command.arg(traced.get_program()).args(traced.get_args());
    command.envs(traced.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(command.output().unwrap().status.success());
    let mut traces = String::new();
    for entry in std::fs::read_dir(bench.lab.home()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("trace.") {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            if text.contains("/journal>") {
                traces.push_str(&text);
            }
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    traces
}

#[test]
fn every_record_is_synced_before_the_next_thing_happens() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    if Command::new("strace").arg("--version").output().is_err() {
        testkit::skip!("needs strace");
    }
    let bench = Bench::new();
    let (unsynced, synced) = unsynced(&trace_of_a_lab(&bench, &[]));
    assert_eq!(unsynced, Vec::<String>::new());
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("order::every_record_is_synced_before_the_next_thing_happens", synced);
    assert!(synced > 35, "only {synced} records");
}
