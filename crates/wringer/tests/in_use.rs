// SPDX-License-Identifier: Apache-2.0
//! What is in use is known by device and place, not by path: storage is not slowed below whoever uses it by another path.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use standing::*;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::{Lab, alone, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Unmounted when it goes.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn bind(from: &Path, to: &Path) -> Mounted {
    fs::create_dir_all(to).unwrap();
    assert!(Command::new("mount").arg("--bind").args([from, to]).status().unwrap().success());
    Mounted(to.to_owned())
}

/// A process that uses a file, until it is dropped.
fn user(words: &[&str], file: &Path) -> Killed {
    let mut command = Command::new(words[0]);
    Killed(command.args(&words[1..]).stdin(File::open(file).unwrap()).stdout(Stdio::null()).spawn().unwrap())
}

/// `home/parent/data/file`, and `home/other`, where the parent is mounted, too.
fn folders(lab: &Lab) -> (PathBuf, PathBuf, Mounted) {
    let (data, other) = (lab.home().join("parent/data"), lab.home().join("other"));
    fs::create_dir_all(&data).unwrap();
    fs::write(data.join("file"), vec![7; 2 << 20]).unwrap();
    let mounted = bind(&lab.home().join("parent"), &other);
    (data, other.join("data"), mounted)
}

/// By the path of whoever uses it, and by the other one; for everybody, and for one command.
#[track_caller]
fn expect_refused(lab: &Lab, folder: &Path, words: &[&str]) {
    let path = folder.to_str().unwrap();
    let delayed = lab.run(["disk", "delay", path, "--read", "1ms", "--dry-run"]);
    assert_eq!(delayed.code, Some(3), "disk delay {path}: {}{}", delayed.stdout, delayed.stderr);
    let _ = delayed.expect_said(words);
    let disk = format!("{path}=read=1ms");
    let squeezed = lab.run(["squeeze", "--dry-run", "--disk-mechanism", "fuse", "--disk", &disk, "--", "true"]);
    assert_eq!(squeezed.code, Some(3), "squeeze --disk {path}: {}{}", squeezed.stdout, squeezed.stderr);
    let _ = squeezed.expect_said(words);
}

#[test]
fn a_file_that_is_open_by_another_path_is_in_use() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let (data, other, mounted) = folders(&lab);
    for (opened, named) in [(&data, &other), (&other, &data), (&data, &data)] {
        let reader = user(&["sleep", "600"], &opened.join("file"));
        let pid = format!("process {} (sleep)", reader.0.id());
        expect_refused(&lab, named, &["is in use by", &pid, "has open"]);
    }
    // also where nobody sees the mount but the reader
    drop(mounted);
    let hidden =
        format!("mount --bind {0}/parent {0}/other && exec sleep 600 < {0}/other/data/file", lab.home().display());
    let reader = Killed(Command::new("unshare").args(["--mount", "sh", "-c", &hidden]).spawn().unwrap());
    let comm = format!("/proc/{}/comm", reader.0.id());
    assert!(testkit::wait_until(PATIENCE, || fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep")));
    expect_refused(&lab, &data, &[&format!("process {} (sleep)", reader.0.id()), "other/data/file"]);
    drop(reader);
    // a neighbour is none
    fs::write(lab.home().join("parent/database"), "neighbour").unwrap();
    let _neighbour = user(&["sleep", "600"], &lab.home().join("parent/database"));
    let _ = lab.run(["disk", "delay", data.to_str().unwrap(), "--read", "1ms", "--dry-run"]).expect_code(0);
}

#[test]
fn a_server_is_not_swapped_its_storage_by_a_second_path() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let (data, other, mounted) = folders(&lab);
    let server = fake_database(&lab, &data);
    let pid = format!("process {} (mariadbd)", server.0.id());
    let ran = lab.run(["disk", "delay", other.to_str().unwrap(), "--read", "1ms", "--dry-run"]);
    let _ = ran.expect_code(3).expect_said(&["is in use by", &pid, "stands in", "live server"]);
    drop((server, mounted));
    // a mount of the folder itself is a second way in
    let second = bind(&data, &lab.home().join("second"));
    expect_refused(&lab, &data, &["a second mount of it", "/second"]);
    drop(second);
}

#[test]
fn a_mounted_loop_image_is_in_use() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let (data, other, mounted) = folders(&lab);
    let image = data.join("image");
    File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let attached = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().unwrap();
    if !attached.status.success() {
        testkit::skip!("no loop device: {}", String::from_utf8_lossy(&attached.stderr));
    }
    let device = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
    let said = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        expect_refused(&lab, &data, &["is in use by", &device, "image"]);
        expect_refused(&lab, &other, &["is in use by", &device, "image"]);
    }));
    assert!(Command::new("losetup").args(["-d", &device]).status().unwrap().success());
    drop(mounted);
    said.unwrap();
}
