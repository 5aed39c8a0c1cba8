// SPDX-License-Identifier: Apache-2.0
//! The folder of journals is deleted while something is changed: `status` names what is there, commands that change something refuse, and
//! `undo` puts it back, with controller and watchdog alive and dead. And a journal is damaged, when nobody is left who knows what it said.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use serde_json::Value;
use standing::*;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testkit::{Lab, Snapshot, alone, announce_cases, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
const POOL: &str = "/proc/sys/vm/nr_hugepages";

/// Something that stands, and the two processes that would give it back.
struct Stands {
    controller: u64,
    watchdog: u64,
    /// Reaped when it has ended.
    _command: Option<Killed>,
}

/// Who is left when the journals are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    Both,
    Watchdog,
    Nobody,
}

/// What is changed on the host.
struct Case {
    name: &'static str,
    apply: fn(&Lab) -> Stands,
    /// Whether that can be seen from outside.
    is_there: fn(&Lab) -> bool,
    /// What `status` calls it.
    named: &'static str,
    /// It goes with its supervision.
    back_by_itself: bool,
}

const CASES: [Case; 6] = [
    Case {
        name: "pool",
        apply: pool,
        is_there: |_| pages() == 32,
        named: "huge pages of the pool: 0 -> 32",
        back_by_itself: false,
    },
    Case {
        name: "holder",
        apply: holder,
        is_there: |_| meminfo("HugePages_Rsvd") == 32,
        named: "holder",
        back_by_itself: true,
    },
    Case {
        name: "mount",
        apply: mount,
        is_there: |lab| is_mounted(&data(lab)),
        named: "mount fuse.wringer on ",
        back_by_itself: false,
    },
    Case {
        name: "loop",
        apply: loop_disk,
        is_there: |_| !loop_devices().is_empty(),
        named: "loop device /dev/loop",
        back_by_itself: false,
    },
    Case {
        name: "cgroup",
        apply: cgroup_of_a_command,
        is_there: |_| cgroups() > 0,
        named: "cgroup /",
        back_by_itself: false,
    },
    Case {
        name: "value",
        apply: value_of_a_cgroup,
        is_there: |_| cgroups() > 0,
        named: "cgroup /",
        back_by_itself: false,
    },
];

fn pages() -> u64 {
    fs::read_to_string(POOL).unwrap().trim().parse().unwrap()
}

fn data(lab: &Lab) -> PathBuf {
    lab.home().join("data")
}

fn is_mounted(path: &Path) -> bool {
    fs::read_to_string("/proc/self/mountinfo").unwrap().lines().any(|line| line.split(' ').nth(4) == path.to_str())
}

fn loop_devices() -> Vec<PathBuf> {
    let devices = fs::read_dir("/sys/block").unwrap().flatten();
    let is_ours = |name: &OsString| {
        let file = fs::read_to_string(Path::new("/sys/block").join(name).join("loop/backing_file"));
        file.is_ok_and(|file| file.starts_with("/wringer-w-"))
    };
    devices.map(|it| it.file_name()).filter(is_ours).map(|name| Path::new("/dev").join(name)).collect()
}

fn cgroups() -> usize {
    let output =
        Command::new("find").args(["/sys/fs/cgroup", "-maxdepth", "3", "-name", "wringer-w-*"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().count()
}

fn standing_run(lab: &Lab, words: &[&str]) -> Stands {
    let said = json(&lab.run(words.iter().copied().chain(["-o", "json"])).expect_code(0));
    Stands { controller: said["pid"].as_u64().unwrap(), watchdog: process_of(lab, "watchdog"), _command: None }
}

fn pool(lab: &Lab) -> Stands {
    standing_run(lab, &["ram", "hide", "64M", "--mechanism", "pool", "--yes"])
}

fn holder(lab: &Lab) -> Stands {
    standing_run(lab, &["ram", "hide", "64M", "--mechanism", "holder", "--yes"])
}

fn mount(lab: &Lab) -> Stands {
    fs::create_dir_all(data(lab)).unwrap();
    fs::write(data(lab).join("kept"), "kept").unwrap();
    standing_run(lab, &["disk", "delay", data(lab).to_str().unwrap(), "--sync", "1ms"])
}

fn loop_disk(lab: &Lab) -> Stands {
    let image = lab.home().join("image");
    fs::write(&image, vec![0; 16 << 20]).unwrap();
    standing_run(lab, &["disk", "delay", image.to_str().unwrap(), "--sync", "1ms"])
}

fn squeezed(lab: &Lab, options: &[&str]) -> Stands {
    let words = ["squeeze"].into_iter().chain(options.iter().copied()).chain(["--", "sleep", "600"]);
    let command = Killed(lab.start("squeezed", words));
    let stands = || {
        status(lab)["runs"][0]["steps"].as_array().is_some_and(|steps| {
            steps.iter().any(|it| it["change"].as_str().unwrap().starts_with("server") && it["phase"] == "done")
        })
    };
    assert!(wait_until(PATIENCE, stands), "{}", lab.said("squeezed"));
    Stands { controller: u64::from(command.0.id()), watchdog: process_of(lab, "watchdog"), _command: Some(command) }
}

fn cgroup_of_a_command(lab: &Lab) -> Stands {
    squeezed(lab, &["--ram", "64M"])
}

fn value_of_a_cgroup(lab: &Lab) -> Stands {
    squeezed(lab, &["--cpuset", "0"])
}

fn lost(lab: &Lab) -> Vec<Value> {
    status(lab)["lost"].as_array().unwrap().iter().filter(|it| it["due"] == true).cloned().collect()
}

fn delete_journals(lab: &Lab) {
    fs::remove_dir_all(lab.home().join("journal")).unwrap();
}

fn leave(stands: &Stands, left: Left) {
    match left {
        Left::Both => {}
        Left::Watchdog => signal(stands.controller, Signal::KILL),
        Left::Nobody => kill_together(&[stands.controller, stands.watchdog]),
    }
}

/// What a case shows: `undo` ends with 0 and the host is as before, or with 5 and names what is not; never 0 with something left.
fn lose(case: &Case, left: Left) {
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let stands = (case.apply)(&lab);
    assert!((case.is_there)(&lab), "{}: nothing was changed", case.name);
    delete_journals(&lab);
    leave(&stands, left);
    let told = format!("{} with {left:?} left", case.name);
    if left == Left::Both || !case.back_by_itself {
        assert!(
            wait_until(PATIENCE, || !lost(&lab).is_empty() || !(case.is_there)(&lab)),
            "{told}: {:#}",
            status(&lab)
        );
    }
    if (case.is_there)(&lab) && !case.back_by_itself {
        let said = lab.run(["status"]).expect_code(0);
        let is_named = said.stdout.contains("lost") && said.stdout.contains(case.named);
        assert!(is_named || !(case.is_there)(&lab), "{told}: {}{}", said.stdout, said.stderr);
        if (case.is_there)(&lab) && left == Left::Nobody {
            lab.run(["ram", "hide", "64M", "--yes"])
                .expect_code(3)
                .expect_said(&["its journal is gone", "wringer undo"]);
        }
    }
    let undone = lab.run(["undo"]);
    assert_eq!(undone.code, Some(0), "{told}: {}{}", undone.stdout, undone.stderr);
    expect_as_before(&before);
    assert!(!(case.is_there)(&lab), "{told}");
    assert!(lost(&lab).is_empty(), "{told}: {:#}", status(&lab));
    assert!(lab.run(["undo"]).expect_code(0).stdout.contains("nothing to undo"), "{told}");
}

fn lose_each(left: Left) {
    if !is_root() {
        testkit::skip!("needs root");
    }
    if !Path::new("/dev/fuse").exists() {
        testkit::skip!("needs /dev/fuse");
    }
    CASES.iter().for_each(|case| lose(case, left));
    announce_cases(&format!("journals deleted, {left:?} left"), CASES.len());
}

#[test]
fn journals_are_deleted_and_nobody_is_left() {
    lose_each(Left::Nobody);
}

#[test]
fn journals_are_deleted_and_the_watchdog_is_left() {
    lose_each(Left::Watchdog);
}

#[test]
fn journals_are_deleted_while_both_live() {
    lose_each(Left::Both);
}

/// What the journal calls it, with the place of that case.
const RECORDED: [(usize, &str); 3] =
    [(0, "\"kind\":\"huge_pool\""), (2, "\"kind\":\"mount\""), (3, "\"kind\":\"loop_device\"")];

#[derive(Debug, Clone, Copy)]
enum Damage {
    /// One bit of the intent of the change.
    Intent,
    /// Zeros from the first byte of that intent on: nothing shows that there was one.
    FromIntent,
    /// One bit, anywhere.
    Bit,
    /// Zeros from anywhere on.
    From,
}

const DAMAGES: [Damage; 4] = [Damage::Intent, Damage::FromIntent, Damage::Bit, Damage::From];

/// Where the intent with this text begins and ends.
fn intent(bytes: &[u8], text: &str) -> (usize, usize) {
    let mut at = 64;
    loop {
        let length = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        assert!(length > 0, "no intent with {text}");
        let end = at + 8 + length;
        let record = String::from_utf8_lossy(&bytes[at + 8..end]).into_owned();
        if record.contains("\"record\":\"intent\"") && record.contains(text) {
            return (at, end);
        }
        at = end;
    }
}

fn spoil(journal: &Path, damage: Damage, text: &str, drawn: usize) {
    let mut bytes = fs::read(journal).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let (begin, end) = intent(&bytes, text);
    match damage {
        Damage::Intent => bytes[(begin + end) / 2] ^= 1 << (drawn % 8),
        Damage::FromIntent => bytes[begin..].fill(0),
        Damage::Bit => bytes[drawn % used] ^= 1 << (drawn % 8),
        Damage::From => bytes[drawn % used..].fill(0),
    }
    fs::write(journal, bytes).unwrap();
}

/// Nobody is left, and the journal is damaged: all comes back; a journal that says less than it did is told of until it is called settled.
fn damage(case: &Case, recorded: &str, damage: Damage, drawn: usize) {
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let stands = (case.apply)(&lab);
    // a loop device that nobody has open goes by itself
    let user: Vec<File> = loop_devices().iter().map(|device| File::open(device).unwrap()).collect();
    leave(&stands, Left::Nobody);
    assert!(wait_until(PATIENCE, || !is_alive(stands.controller) && !is_alive(stands.watchdog)));
    let runs = fs::read_dir(lab.home().join("journal")).unwrap().flatten();
    let runs: Vec<PathBuf> = runs.map(|it| it.path()).filter(|it| it.join("journal").exists()).collect();
    assert_eq!(runs.len(), 1);
    spoil(&runs[0].join("journal"), damage, recorded, drawn);
    let told = format!("{}, {damage:?}, drawn {drawn}", case.name);
    assert!((case.is_there)(&lab), "{told}: nothing was changed");
    let mut undo = lab.start("undone", ["undo"]);
    if !user.is_empty() {
        // it is waited for, and the layer below it serves on meanwhile
        wait_until(Duration::from_secs(1), || undo.try_wait().unwrap().is_some());
    }
    if matches!(damage, Damage::Intent | Damage::FromIntent) && !user.is_empty() {
        // he does not let go: his device answers, and it is told
        assert_eq!(undo.wait().unwrap().code(), Some(5), "{told}: {}", lab.said("undone"));
        assert!(lab.said("undone").contains("/dev/loop"), "{told}: {}", lab.said("undone"));
        let read = user[0].read_exact_at(&mut [0; 4096], 8 * MIB);
        assert!(read.is_ok(), "{told}: {read:?}: {}", lab.said("undone"));
        undo = lab.start("undone", ["undo"]);
    }
    drop(user);
    let code = undo.wait().unwrap().code();
    let said = format!("{told}: {}", lab.said("undone"));
    assert!(matches!(code, Some(0 | 5)), "{said}");
    assert!(!(case.is_there)(&lab), "{said}");
    expect_as_before(&before);
    if code == Some(5) {
        let run = runs[0].file_name().unwrap().to_str().unwrap();
        assert!(said.contains("is damaged") && !said.contains("is still there"), "{said}");
        lab.run(["undo", run, "--settled"]).expect_code(0);
    }
    assert!(lab.run(["undo"]).expect_code(0).stdout.contains("nothing to undo"), "{told}");
    assert!(lost(&lab).is_empty(), "{told}: {:#}", status(&lab));
}

#[test]
fn journals_are_damaged_and_nobody_is_left() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    if !Path::new("/dev/fuse").exists() {
        testkit::skip!("needs /dev/fuse");
    }
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ testkit::campaign_seed();
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap()
    };
    // each case has one damage at its record, and one anywhere; with `WRINGER_FAULTS=full` all four
    let is_full = testkit::takes_every_case();
    let mut cases = 0;
    for (nth, (number, recorded)) in RECORDED.into_iter().enumerate() {
        let is_drawn = |at: usize| is_full || (at + nth).is_multiple_of(2);
        for (_, how) in DAMAGES.into_iter().enumerate().filter(|(at, _)| is_drawn(*at)) {
            damage(&CASES[number], recorded, how, draw());
            cases += 1;
        }
    }
    announce_cases("journals damaged, nobody left", cases);
}
