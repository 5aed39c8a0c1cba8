// SPDX-License-Identifier: Apache-2.0
//! What is in use is known by device and place, not by path: storage is not slowed below whoever uses it by another path.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use standing::*;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::{Lab, LoopDevice, Ran, alone, is_root};

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
    command.args(&words[1..]).stdin(File::open(file).unwrap()).stdout(Stdio::null());
    let child = Killed(command.spawn().unwrap());
    let comm = format!("/proc/{}/comm", child.0.id());
    assert!(testkit::wait_until(PATIENCE, || fs::read_to_string(&comm).is_ok_and(|name| name.trim() == words[0])));
    child
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
    expect_refused(&lab, &data, &["a second mount of it", "/second", "hint: `umount "]);
    drop(second);
}

#[test]
fn a_mounted_loop_image_is_in_use() {
    if let Some(why) = why_no_loop_disk() {
        testkit::skip!("{why}");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let (data, other, mounted) = folders(&lab);
    let image = data.join("image");
    File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let attached = LoopDevice::attach(&image);
    expect_refused(&lab, &data, &["is in use by", attached.shown(), "image"]);
    expect_refused(&lab, &other, &["is in use by", attached.shown(), "image"]);
    drop(attached);
    drop(mounted);
}

/// `home/images/database.img`, of 16 MiB, and the `disk delay` of it that must be refused, and why.
struct Image {
    lab: Lab,
    file: PathBuf,
}

impl Image {
    fn new() -> Self {
        let lab = Lab::new(WRINGER);
        let folder = lab.home().join("images");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("database.img"), vec![0; 16 << 20]).unwrap();
        Self { file: folder.join("database.img"), lab }
    }

    /// A second name of the same file, in another folder.
    fn hard_link(&self) -> PathBuf {
        let link = self.lab.home().join("other-name");
        fs::hard_link(&self.file, &link).unwrap();
        link
    }

    fn delay(&self) -> Ran {
        self.lab.run(["disk", "delay", self.file.to_str().unwrap(), "--read", "1ms", "--dry-run"])
    }

    #[track_caller]
    fn expect_refused(&self, words: &[&str]) {
        let ran = self.delay();
        assert_eq!(ran.code, Some(3), "{}{}", ran.stdout, ran.stderr);
        let _ = ran.expect_said(words);
    }

    #[track_caller]
    fn expect_free(&self) {
        let _ = self.delay().expect_code(0);
    }
}

fn why_no_loop_disk() -> Option<&'static str> {
    match () {
        () if !is_root() => Some("needs root"),
        () if !Path::new("/dev/fuse").exists() => Some("needs /dev/fuse"),
        () if !Path::new("/dev/loop-control").exists() => Some("needs loop devices"),
        () => None,
    }
}

#[track_caller]
fn tool(program: &str, args: &[&Path]) -> String {
    let output = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A shell in a mount namespace of its own, which does this and then sleeps.
fn elsewhere(script: &str) -> Killed {
    let script = format!("{script} && exec sleep 600");
    let child = Command::new("unshare").args(["--mount", "sh", "-c", &script]).stdout(Stdio::null()).spawn().unwrap();
    let child = Killed(child);
    let comm = format!("/proc/{}/comm", child.0.id());
    assert!(testkit::wait_until(PATIENCE, || fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "sleep")));
    child
}

#[test]
fn an_image_that_is_open_by_a_hard_link_is_in_use() {
    if let Some(why) = why_no_loop_disk() {
        testkit::skip!("{why}");
    }
    let (_alone, image) = (alone(), Image::new());
    let link = image.hard_link();
    let reader = user(&["sleep", "600"], &link);
    image.expect_refused(&["is in use by", &format!("process {} (sleep)", reader.0.id()), "has open", "other-name"]);
    drop(reader);
    image.expect_free();
}

#[test]
fn an_image_that_is_mapped_by_a_hard_link_is_in_use() {
    if let Some(why) = why_no_loop_disk() {
        testkit::skip!("{why}");
    }
    let (_alone, image) = (alone(), Image::new());
    // a program that runs is mapped, and open in nobody
    let mut program = fs::read("/bin/sleep").unwrap();
    program.resize(16 << 20, 0);
    fs::write(&image.file, program).unwrap();
    fs::set_permissions(&image.file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let running = Killed(Command::new(image.hard_link()).arg("600").spawn().unwrap());
    let maps = format!("/proc/{}/maps", running.0.id());
    assert!(testkit::wait_until(PATIENCE, || fs::read_to_string(&maps).is_ok_and(|it| it.contains("/other-name"))));
    image.expect_refused(&["is in use by", &format!("process {} (other-name)", running.0.id()), "has mapped"]);
    drop(running);
    image.expect_free();
}

#[test]
fn an_image_that_is_attached_and_mounted_by_another_path_is_in_use() {
    if let Some(why) = why_no_loop_disk() {
        testkit::skip!("{why}");
    }
    let (_alone, image) = (alone(), Image::new());
    let link = image.hard_link();
    tool("mkfs.ext4", &[Path::new("-q"), Path::new("-F"), &link]);
    let attached = LoopDevice::attach(&link);
    image.expect_refused(&["is in use by", attached.shown(), "is attached"]);
    let target = image.lab.home().join("mounted");
    fs::create_dir(&target).unwrap();
    tool("mount", &[attached.path(), &target]);
    let mounted = Mounted(target);
    image.expect_refused(&["is in use by", attached.shown(), "is attached"]);
    drop((mounted, attached));
    // by a path that nobody sees any more: the mount that it led through is gone
    let second = image.lab.home().join("second");
    std::mem::forget(bind(&image.lab.home().join("images"), &second));
    let attached = LoopDevice::attach(&second.join("database.img"));
    tool("umount", &[Path::new("--lazy"), &second]);
    image.expect_refused(&["is in use by", attached.shown(), "is attached"]);
    drop(attached);
    image.expect_free();
}

/// Fails with why not.
fn swap_on(file: &Path) -> Result<SwapOn, String> {
    fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    tool("mkswap", &[file]);
    // the lowest priority: nothing is swapped to it
    let on = Command::new("swapon").args(["--priority", "0"]).arg(file).output().unwrap();
    let said = || String::from_utf8_lossy(&on.stderr).trim().to_owned();
    on.status.success().then(|| SwapOn(file.to_owned())).ok_or_else(said)
}

/// Swapped off when it goes.
struct SwapOn(PathBuf);

impl Drop for SwapOn {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).status();
    }
}

#[test]
fn an_active_swap_file_is_in_use_by_any_name_and_so_is_its_directory() {
    if let Some(why) = why_no_loop_disk() {
        testkit::skip!("{why}");
    }
    let (_alone, image) = (alone(), Image::new());
    let link = image.hard_link();
    let on = match swap_on(&link) {
        Ok(on) => on,
        Err(why) => testkit::skip!("no swap file: {why}"),
    };
    image.expect_refused(&["is in use by", "the kernel, which swaps to", "other-name"]);
    drop(on);
    // by a path that leads nowhere any more
    let second = image.lab.home().join("second");
    std::mem::forget(bind(&image.lab.home().join("images"), &second));
    let mut on = swap_on(&second.join("database.img")).unwrap();
    on.0.clone_from(&image.file);
    tool("umount", &[Path::new("--lazy"), &second]);
    image.expect_refused(&["is in use by", "the kernel, which swaps to"]);
    drop(on);
    let on = swap_on(&image.file).unwrap();
    image.expect_refused(&["is in use by", "the kernel, which swaps to", "database.img", "hint: `swapoff "]);
    expect_refused(&image.lab, &image.lab.home().join("images"), &["the kernel, which swaps to", "database.img"]);
    drop(on);
    image.expect_free();
}

#[test]
fn a_device_is_in_use_by_a_node_or_a_mount_that_is_elsewhere() {
    if let Some(why) = why_no_loop_disk() {
        testkit::skip!("{why}");
    }
    let (_alone, image) = (alone(), Image::new());
    tool("mkfs.ext4", &[Path::new("-q"), Path::new("-F"), &image.file]);
    let attached = LoopDevice::attach(&image.file);
    let delay = || image.lab.run(["disk", "delay", attached.shown(), "--read", "1ms", "--dry-run"]);
    // a node outside of /dev
    let node = image.lab.home().join("node");
    let number =
        fs::read_to_string(format!("/sys/block/{}/dev", attached.path().file_name().unwrap().to_str().unwrap()));
    let number = number.unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    tool("mknod", &[&node, Path::new("b"), Path::new(major), Path::new(minor)]);
    let reader = user(&["sleep", "600"], &node);
    let pid = format!("is in use by process {} (sleep), which has open", reader.0.id());
    let _ = delay().expect_code(3).expect_said(&[attached.shown(), &pid, "/node"]);
    drop(reader);
    // a mount that only its own namespace sees
    let target = image.lab.home().join("hidden");
    fs::create_dir(&target).unwrap();
    let holder = elsewhere(&format!("mount {} {}", attached.shown(), target.display()));
    let pid = format!("in the mount namespace of process {} (sleep)", holder.0.id());
    let _ = delay().expect_code(3).expect_said(&["is mounted at", "/hidden", &pid]);
    drop(holder);
    assert!(testkit::wait_until(PATIENCE, || delay().code == Some(0)), "{:?}", delay());
}

#[test]
fn a_slow_disk_that_is_mounted_elsewhere_says_where() {
    if let Some(why) = why_no_loop_disk() {
        testkit::skip!("{why}");
    }
    let (_alone, image) = (alone(), Image::new());
    tool("mkfs.ext4", &[Path::new("-q"), Path::new("-F"), &image.file]);
    let path = image.file.to_str().unwrap();
    let said = json(&image.lab.run(["disk", "delay", path, "--write", "1ms", "-o", "json"]).expect_code(0));
    let target = image.lab.home().join("hidden");
    fs::create_dir(&target).unwrap();
    let device = said["device"].as_str().unwrap();
    let holder = elsewhere(&format!("mount {device} {}", target.display()));
    let words = format!("in the mount namespace of process {} (sleep)", holder.0.id());
    let shown = image.lab.run(["disk", "status"]);
    let released = image.lab.run(["disk", "release", path]);
    drop(holder);
    // what is mounted goes with its namespace
    let freed = testkit::wait_until(PATIENCE, || image.lab.run(["undo"]).code == Some(0));
    assert!(shown.stdout.contains(&words), "{}", shown.stdout);
    let _ = released.expect_code(5).expect_said(&["is mounted at", "/hidden", &words, "umount"]);
    assert!(freed);
}

/// Whoever uses an overlay has no file open in the folders that it is made of.
#[test]
fn what_an_overlay_is_made_of_is_in_use() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let folder = |name: &str| {
        let path = lab.home().join(name);
        fs::create_dir_all(&path).unwrap();
        path.display().to_string()
    };
    let (data, other, work, at) = (folder("data"), folder("other"), folder("work"), folder("at"));
    let folders =
        [(folder("data/in"), folder("upper"), work.as_str()), (other, folder("data/upper"), &folder("data/work"))];
    for (lower, upper, work) in folders {
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let mount = Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options, &at]).output().unwrap();
        if !mount.status.success() {
            testkit::skip!("no overlay can be mounted: {}", String::from_utf8_lossy(&mount.stderr));
        }
        let mounted = Mounted(at.clone().into());
        expect_refused(&lab, Path::new(&data), &["is in use by the overlay at", &at]);
        drop(mounted);
    }
}
