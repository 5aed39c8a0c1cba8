// SPDX-License-Identifier: Apache-2.0
//! Slowing a block device down, as far as a machine without device-mapper shows it. What it does with one: `tests/guest/cases/dm_*.sh`.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use testkit::{Lab, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

fn some_device() -> Option<PathBuf> {
    let entries = std::fs::read_dir("/dev").unwrap().flatten();
    let mut devices: Vec<PathBuf> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_block_device()))
        .map(|it| it.path())
        .collect();
    devices.sort();
    devices.into_iter().next()
}

#[test]
fn without_device_mapper_a_device_is_refused_with_what_to_do() {
    let Some(device) = some_device() else { testkit::skip!("needs a block device") };
    let device = device.to_str().unwrap();
    let ordinary = Lab::as_ordinary_user(WRINGER);
    ordinary.run(["disk", "delay", device, "--read", "1ms"]).expect_code(3).expect_said(&["needs root"]);
    if !is_root() {
        testkit::skip!("needs root");
    }
    if std::fs::read_to_string("/proc/misc").unwrap().contains("device-mapper") {
        testkit::skip!("needs a machine without device-mapper");
    }
    let lab = Lab::new(WRINGER);
    for dry_run in [&[][..], &["--dry-run"]] {
        let words = ["disk", "delay", device, "--read", "10ms", "--mechanism", "device-mapper"]
            .into_iter()
            .chain(dry_run.iter().copied());
        lab.run(words).expect_code(3).expect_said(&["no device-mapper", "modprobe dm-delay", "FUSE layer"]);
    }
    lab.run(["doctor", "--need", "slow-device"]).expect_code(3).expect_said(&["slow-device"]);
    let doctor = lab.run(["doctor"]).expect_code(0).stdout;
    assert!(doctor.contains("modprobe dm-delay"), "{doctor}");
    assert!(lab.run(["status"]).expect_code(0).stdout.contains("nothing is changed"));
}

#[test]
fn what_device_mapper_cannot_is_offered_by_the_layer() {
    let Some(device) = some_device() else { testkit::skip!("needs a block device") };
    let lab = Lab::new(WRINGER);
    for words in [&["--read", "0.5ms"][..], &["--profile", "gp3"], &["--read", "1ms", "--mode", "total"]] {
        let words = ["disk", "delay", device.to_str().unwrap(), "--mechanism", "device-mapper"]
            .into_iter()
            .chain(words.iter().copied());
        lab.run(words).expect_code(3).expect_said(&["device-mapper", "FUSE layer", device.to_str().unwrap()]);
    }
}
