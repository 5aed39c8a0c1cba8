// SPDX-License-Identifier: Apache-2.0
//! Runs whose journal is damaged while what they changed stands, and nobody lives who knows what that was: it comes back, or it is
//! told that it may not have, until the user calls it settled.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod home;

use home::*;
use run::{Reading, RunId, find_runs};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use testkit::announce_cases;

const HEADER_BYTES: usize = 64;

/// A run in its middle, with controller and watchdog killed. Its holder and its server have gone by themselves; its value, its cgroup
/// and its layer stay.
fn cut_off(home: &Home) -> (RunId, PathBuf) {
    let (mut child, id) = home.waiting();
    kill_watchdog(home);
    kill_hard(&mut child);
    while home.is_locked() || !home.processes().iter().all(|pid| arguments_of(*pid).contains("internal layer")) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let journal = home.path().join("journal").join(&id).join("journal");
    (id.parse().unwrap(), journal)
}

fn change(path: &Path, damage: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    damage(&mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Where the record with this text begins and ends.
fn record(bytes: &[u8], text: &str) -> (usize, usize) {
    let mut at = HEADER_BYTES;
    loop {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        assert!(length > 0, "no record with {text}");
        let end = at + 8 + length;
        if String::from_utf8_lossy(&bytes[at..end]).contains(text) {
            return (at, end);
        }
        at = end;
    }
}

fn is_refused(home: &Home, why: &str) {
    await_no_owner(home);
    let next = home.command("run").output().unwrap();
    let told = String::from_utf8_lossy(&next.stdout).into_owned();
    assert!(next.status.code() == Some(3) && told.contains("Hot") && told.contains(why), "{next:?}");
}

/// The undo of this process has held the run's lock, and a watchdog that ends, too: a child that another test has just forked has it until it
/// executes its program. A run whose lock is held is not hot.
fn await_no_owner(home: &Home) {
    let nobody_has_it = || !find_runs(&home.places()).unwrap().iter().any(|run| run.live);
    assert!(testkit::wait_until(Duration::from_secs(60), nobody_has_it), "somebody has the run's lock");
}

/// The user's word ends it, and nothing is thrown away.
fn settle(home: &Home, id: &RunId) {
    let report = run::settle(&home.places(), id, &mut |_| {}).unwrap();
    assert!(report.is_whole() && report.ended == [id.clone()], "{report:?}");
    assert!(report.aside[0].join("journal").exists(), "{report:?}");
    assert_eq!(home.undo(), run::UndoReport::default());
    assert!(home.command("run").output().unwrap().status.success());
}

/// What is left, apart from the run itself, which is told of.
fn left(home: &Home, id: &RunId) -> Vec<String> {
    let mut left: Vec<String> = home.residue().into_iter().filter(|line| !line.starts_with("run ")).collect();
    left.extend(cgroups_of(id.as_str()).then(|| "cgroup".to_owned()));
    left
}

/// One bit: before, such a run was called over, and its journal removed by the next one.
#[test]
fn a_flipped_bit_in_the_header_hides_no_run() {
    let home = Home::new();
    let (id, journal) = cut_off(&home);
    change(&journal, |bytes| bytes[9] ^= 1);
    let found = find_runs(&home.places()).unwrap();
    assert!(found[0].hot && matches!(found[0].reading, Reading::Damaged(..)), "{found:?}");
    is_refused(&home, "its header is not valid");
    assert!(journal.exists());
    for _ in 0..2 {
        let report = home.undo();
        assert!(!report.is_whole() && report.unsure.len() == 1 && report.failures.is_empty(), "{report:?}");
        assert!(report.unsure[0].cure.contains(&format!("wringer undo {id} --settled")), "{report:?}");
        assert_eq!(left(&home, &id), Vec::<String>::new(), "what can be read is undone");
        is_refused(&home, "its header is not valid");
    }
    settle(&home, &id);
}

#[test]
fn a_lost_step_is_told_of_until_the_user_calls_it_settled() {
    let home = Home::new();
    let (id, journal) = cut_off(&home);
    change(&journal, |bytes| {
        let (begin, end) = record(bytes, "\"kind\":\"value\"");
        bytes[(begin + end) / 2] ^= 0x20;
    });
    for _ in 0..2 {
        let report = home.undo();
        assert_eq!((report.unsure.len(), report.failures.len()), (1, 0), "{report:?}");
        assert!(report.unsure[0].why.contains("the intent of number 3 is lost"), "{report:?}");
        assert_eq!(left(&home, &id), Vec::<String>::new(), "it was written down twice");
    }
    settle(&home, &id);
}

/// With the watchdog alive, too: it undoes what it can, and says what it cannot know.
#[test]
fn a_watchdog_does_not_call_a_damaged_run_over() {
    let home = Home::new();
    let (mut child, id) = home.waiting();
    let journal = home.path().join("journal").join(&id).join("journal");
    change(&journal, |bytes| bytes[3] ^= 1);
    kill_hard(&mut child);
    let id: RunId = id.parse().unwrap();
    while !home.watchdog_log().contains("is damaged") {
        std::thread::sleep(Duration::from_millis(20));
    }
    while left(&home, &id).iter().any(|line| line.contains("watchdog")) {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(left(&home, &id), Vec::<String>::new());
    is_refused(&home, "is damaged");
    settle(&home, &id);
}

#[test]
fn a_record_of_a_later_release_leaves_the_run_to_that_release() {
    let home = Home::new();
    let (id, journal) = cut_off(&home);
    let whole = fs::read(&journal).unwrap();
    change(&journal, |bytes| {
        let (begin, end) = record(bytes, "page cache dropped");
        let json = String::from_utf8(bytes[begin + 8..end].to_vec()).unwrap().replace("note", "mote");
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[begin..begin + 4]), json.as_bytes());
        bytes[begin + 4..begin + 8].copy_from_slice(&crc.to_le_bytes());
        bytes[begin + 8..end].copy_from_slice(json.as_bytes());
    });
    let later = fs::read(&journal).unwrap();
    let before = left(&home, &id);
    let report = home.undo();
    assert!(report.unsure.len() == 1 && report.restored.is_empty(), "{report:?}");
    assert!(report.unsure[0].why.contains("intent (mote)"), "{report:?}");
    assert_eq!((left(&home, &id), fs::read(&journal).unwrap()), (before, later), "nothing is touched");
    is_refused(&home, "a later release's");
    let settled = run::settle(&home.places(), &id, &mut |_| {}).unwrap();
    assert!(!settled.is_whole() && settled.failures[0].contains("processes"), "its processes live: {settled:?}");
    fs::write(&journal, whole).unwrap();
    assert!(home.undo().is_whole());
    home.await_clean("undone by who knows it");
}

#[test]
fn a_journal_that_cannot_be_read_is_hot_and_stays() {
    let home = Home::new();
    let (id, journal) = cut_off(&home);
    let hidden = journal.with_extension("hidden");
    fs::rename(&journal, &hidden).unwrap();
    fs::create_dir(&journal).unwrap();
    let before = left(&home, &id);
    let found = find_runs(&home.places()).unwrap();
    assert!(found[0].hot && matches!(found[0].reading, Reading::Unreadable(_)), "{found:?}");
    is_refused(&home, "cannot be read");
    let report = home.undo();
    assert!(report.unsure.len() == 1 && report.restored.is_empty(), "{report:?}");
    assert_eq!(left(&home, &id), before);
    fs::remove_dir(&journal).unwrap();
    fs::rename(&hidden, &journal).unwrap();
    assert!(home.undo().is_whole());
    home.await_clean("undone when it could be read");
}

/// Nobody finds the run any more, but its watchdog has its journal open.
#[test]
fn a_run_whose_folder_is_removed_is_undone_by_its_watchdog() {
    let home = Home::new();
    let (mut child, id) = home.waiting();
    fs::remove_dir_all(home.path().join("journal").join(&id)).unwrap();
    kill_hard(&mut child);
    home.await_clean("undone from the open file");
    let log = home.watchdog_log();
    assert!(log.contains("its controller died") && log.contains("undone"), "{log}");
    assert!(!cgroups_of(&id));
}

/// ... and its controller goes by what it knows.
#[test]
fn a_run_whose_folder_is_removed_is_released_by_its_controller() {
    let home = Home::new();
    let (mut child, id) = home.waiting();
    fs::remove_dir_all(home.path().join("journal").join(&id)).unwrap();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    home.await_clean("released");
    assert!(!cgroups_of(&id));
}

/// A controller whose name the journal has lost is who holds the run's lock.
#[test]
fn a_live_run_with_a_damaged_journal_is_asked_to_end() {
    let home = Home::new();
    let mut child = home.command("asked").stdin(Stdio::piped()).spawn().unwrap();
    let (mut id, mut said) = (String::new(), BufReader::new(child.stdout.take().unwrap()));
    said.read_line(&mut id).unwrap();
    let journal = home.path().join("journal").join(id.trim()).join("journal");
    change(&journal, |bytes| bytes[HEADER_BYTES + 20] ^= 1);
    let report = home.undo();
    assert!(report.is_whole() && report.ended.len() == 1, "{report:?}");
    assert!(child.wait().unwrap().success());
    home.await_clean("released by its controller");
}

/// Where, and how: drawn by a seed that is told.
#[test]
fn damage_anywhere_is_undone_or_told() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ testkit::campaign_seed();
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let cases = std::env::var("WRINGER_DAMAGE_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    for case in 0..cases {
        let home = Home::new();
        let (id, journal) = cut_off(&home);
        let bytes = fs::read(&journal).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let at = draw(used);
        let told = format!("case {case}, byte {at}, of {used}");
        match case % 4 {
            0 => change(&journal, |bytes| bytes[at] ^= 1 << (at % 8)),
            1 => change(&journal, |bytes| bytes.truncate(at)),
            2 => change(&journal, |bytes| bytes[at..(at + 40).min(used)].fill(0)),
            _ => change(&journal, |bytes| bytes[at..].fill(0)),
        }
        let report = home.undo();
        let left = left(&home, &id);
        assert!(left.is_empty() || !report.is_whole(), "{told}: {left:?} is left, and nothing is told: {report:?}");
        let pids = home.processes();
        assert!(pids.is_empty(), "{told}: the token finds them: {left:?}");
        for pid in pids {
            let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
        }
        let _ = fs::remove_dir(Path::new(cgroup_parent()).join(format!("wringer-{id}")));
    }
    announce_cases("damaged::damage_anywhere_is_undone_or_told", cases);
}
