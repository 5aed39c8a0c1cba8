// SPDX-License-Identifier: Apache-2.0
//! The journals' own disk becomes read-only, or full, in the middle of a squeeze: the undo goes on without records.

use super::WRINGER;
use super::standing::{PATIENCE, expect_as_before, json, kill_together, meminfo, process_of, signal};
use rustix::process::Signal;
use std::path::Path;
use std::process::Command;
use testkit::{Lab, Snapshot, alone, announce_cases, is_root, wait_until};

fn shell(line: &str) {
    assert!(Command::new("sh").args(["-c", line]).status().unwrap().success(), "{line}");
}

/// A small file system at the home's journal folder.
struct SmallDisk<'a>(&'a Lab, &'a Path);

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // a failed test leaves no squeeze whose journal is gone
        let shown = self.1.display();
        let mend = format!("touch {shown}/probe || umount {shown}; rm -f {shown}/probe {shown}/filler");
        let _ = Command::new("sh").args(["-c", &mend]).status();
        self.0.run(["undo"]);
        let _ = Command::new("umount").arg("-l").arg(self.1).status();
    }
}

#[test]
fn the_journals_disk_is_read_only_or_full() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, outside) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let journal = lab.home().join("journal");
    let shown = journal.display();
    shell(&format!("mkdir {shown} && mount -t tmpfs -o size=1M,mode=700 small {shown}"));
    let disk = SmallDisk(&lab, &journal);
    let before = Snapshot::take();
    let troubles = [
        // over itself, because the kernel does not remount under open files
        (
            "read-only",
            format!("mount --bind {shown} {shown} && mount -o remount,bind,ro {shown}"),
            format!("umount {shown}"),
        ),
        ("full", format!("head -c 2M /dev/zero >{shown}/filler || true"), format!("rm {shown}/filler")),
    ];
    for (name, trouble, mended) in &troubles {
        for watchdog_too in [false, true] {
            let said = json(&lab.run(["ram", "hide", "64M", "--yes", "-o", "json"]).expect_code(0));
            shell(trouble);
            let supervisor = said["pid"].as_u64().unwrap();
            if watchdog_too {
                kill_together(&[process_of(&lab, "watchdog"), supervisor]);
            } else {
                signal(supervisor, Signal::KILL);
            }
            assert!(wait_until(PATIENCE, || meminfo("HugePages_Total") == 0), "{name}: the RAM is not back");
            // on a read-only disk the run's folder cannot go, and that is told
            let undone = lab.run(["undo"]);
            assert!(*name == "read-only" || undone.code == Some(0), "{name}: {undone:?}");
            assert!(!undone.stderr.contains("damaged"), "{name}: {undone:?}");
            shell(mended);
            lab.run(["undo"]).expect_code(0);
            expect_as_before(&before);
            assert!(lab.run(["undo"]).expect_code(0).stdout.contains("nothing to undo"), "{name}");
        }
    }
    drop(disk);
    expect_as_before(&outside);
    announce_cases("full_disk::the_journals_disk_is_read_only_or_full", 2 * troubles.len());
}
