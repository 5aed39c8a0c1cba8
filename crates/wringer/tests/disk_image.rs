// SPDX-License-Identifier: Apache-2.0
//! Slowing an image down with the real program, a real loop device and a real file system, and what becomes of both when something dies.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use serde_json::Value;
use standing::*;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{Alone, Lab, LoopDevice, Ran, ReadAhead, Snapshot, alone, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Why this machine cannot be asked.
fn obstacle() -> Option<&'static str> {
    match () {
        () if !is_root() => Some("needs root"),
        () if !Path::new("/dev/fuse").exists() => Some("needs /dev/fuse"),
        () if !Path::new("/dev/loop-control").exists() => Some("needs loop devices"),
        () => None,
    }
}

macro_rules! bench {
    () => {{
        if let Some(why) = obstacle() {
            testkit::skip!("{why}");
        }
        Bench::new()
    }};
}

struct Bench {
    lab: Lab,
    before: Snapshot,
    _alone: Alone,
}

impl Bench {
    fn new() -> Self {
        let (alone, lab) = (alone(), Lab::new(WRINGER));
        fs::write(lab.home().join("image"), vec![0; 32 << 20]).unwrap();
        fs::create_dir(lab.home().join("mnt")).unwrap();
        Self { lab, before: Snapshot::take(), _alone: alone }
    }

    fn image(&self) -> PathBuf {
        self.lab.home().join("image")
    }

    fn mnt(&self) -> PathBuf {
        self.lab.home().join("mnt")
    }

    /// What `disk delay` says.
    fn delay(&self, words: &[&str]) -> Value {
        let image = self.image();
        let args = ["disk", "delay", image.to_str().unwrap(), "-o", "json"].into_iter().chain(words.iter().copied());
        json(&self.lab.run(args).expect_code(0))
    }

    /// With a file system on it, mounted.
    fn mounted(&self, words: &[&str]) -> Value {
        tool("mke2fs", &["-q", "-F", "-t", "ext4", self.image().to_str().unwrap()]);
        let said = self.delay(words);
        tool("mount", &[device_of(&said), self.mnt().to_str().unwrap()]);
        said
    }

    fn umount(&self) {
        tool("umount", &[self.mnt().to_str().unwrap()]);
    }

    fn status(&self) -> Value {
        json(&self.lab.run(["disk", "status", "-o", "json"]).expect_code(0))["images"][0].take()
    }

    /// No read waits any more. What a loop device reads of its own accord may come between, and waits no more either.
    #[track_caller]
    fn expect_undelayed(&self, device: &str) {
        let held = || {
            let shown = self.status();
            (shown["delay"]["read_us"].as_u64(), shown["stats"]["delayed_reads"].as_u64())
        };
        let before = held();
        median_read_of(device);
        assert_eq!((held(), before.0), (before, Some(0)));
    }

    /// A keeper does not wait for long for a client that is held up.
    fn worker(&self) -> u64 {
        let mut worker = None;
        wait_until(PATIENCE, || {
            worker = self.status()["keeper"]["worker"].as_u64();
            worker.is_some()
        });
        worker.expect("a worker")
    }

    /// Supervisor and watchdog.
    fn kill_both(&self, said: &Value) {
        kill_together(&[said["pid"].as_u64().unwrap(), process_of(&self.lab, "watchdog")]);
    }

    fn release(&self) -> Ran {
        self.lab.run(["disk", "release", self.image().to_str().unwrap()])
    }

    /// The image alone, without anything of the program's.
    fn content(&self, name: &str) -> Vec<u8> {
        let image = self.image();
        let repaired = Command::new("e2fsck").args(["-fp", image.to_str().unwrap()]).output().unwrap();
        assert!(repaired.status.code().is_some_and(|code| code <= 1), "{repaired:?}");
        let out = self.lab.home().join("out");
        let dump = format!("dump /{name} {}", out.display());
        tool("debugfs", &["-R", &dump, image.to_str().unwrap()]);
        fs::read(out).unwrap()
    }
}

impl Drop for Bench {
    /// When a test has failed in the middle.
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.mnt()).stderr(Stdio::null()).status();
        let _ = self.lab.run(["undo"]);
    }
}

fn tool(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {args:?}: {output:?}");
}

fn device_of(said: &Value) -> &str {
    said["device"].as_str().expect("a device")
}

fn median_read_of(device: &str) -> Duration {
    median_read(&open_direct(Path::new(device)))
}

/// Writes with checksums that are read again, for so many seconds.
fn verified_load(file: &Path, seconds: u32) -> Child {
    Command::new("fio")
        .args(["--name=v", "--size=8M", "--rw=randwrite", "--bs=4k", "--direct=1", "--ioengine=libaio", "--iodepth=16"])
        .args([
            "--verify=crc32c",
            "--verify_fatal=1",
            "--verify_backlog=256",
            "--verify_state_save=0",
            "--time_based",
            "--fallocate=none",
        ])
        .args([format!("--runtime={seconds}"), format!("--filename={}", file.display())])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn expect_without_error(load: Child) {
    let output = load.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("err= 0"), "{said}");
}

fn has_fio() -> bool {
    Command::new("fio").arg("--version").output().is_ok()
}

#[test]
fn slow_then_slower_then_as_before() {
    let bench = bench!();
    let said = bench.delay(&["--read", "50ms", "--sync", "20ms"]);
    assert_eq!(said["measured"][0]["what"], "disk.read.median", "{said:#}");
    assert_eq!(said["measured"][1]["what"], "disk.sync.median", "{said:#}");
    let device = device_of(&said);
    // the kernel's own time for a request is taken off the delay, 0.2 ms at most, and a busy machine may have measured too much
    assert!(median_read_of(device) >= Duration::from_millis(49));
    let shown = bench.status();
    assert_eq!((&shown["in_use"], &shown["keeper"]["restarts"]), (&Value::from(false), &Value::from(0)), "{shown:#}");

    bench.lab.run(["disk", "delay", device, "--read", "normal:100ms,2ms"]).expect_code(0);
    assert_eq!(bench.status()["delay"]["varies"], true);
    assert!(median_read_of(device) >= Duration::from_millis(90));

    bench.release().expect_code(0);
    expect_as_before(&bench.before);
    bench.release().expect_code(3).expect_said(&["is not slowed down"]);
}

/// F05: the file system above notices nothing, and every block is what was written.
#[test]
fn workers_are_killed_under_load_and_nobody_notices() {
    let bench = bench!();
    if !has_fio() {
        testkit::skip!("needs fio");
    }
    bench.mounted(&["--write", "2ms"]);
    let load = verified_load(&bench.mnt().join("file"), 4);
    for killed in 1..=3 {
        std::thread::sleep(Duration::from_millis(700));
        signal(bench.worker(), Signal::KILL);
        assert!(wait_until(PATIENCE, || bench.status()["keeper"]["restarts"] == killed));
    }
    assert_eq!(bench.status()["delay"]["write_us"], 2000, "the new worker has the delay of the old one");
    expect_without_error(load);
    bench.umount();
    bench.release().expect_code(0);
    expect_as_before(&bench.before);
    tool("e2fsck", &["-fn", bench.image().to_str().unwrap()]);
}

/// F06: the worker of a dead keeper serves on, undelayed; the run ends when the file system is unmounted.
#[test]
fn a_killed_keeper_is_no_error_and_ends_the_squeeze() {
    let bench = bench!();
    if !has_fio() {
        testkit::skip!("needs fio");
    }
    let said = bench.mounted(&["--write", "2ms"]);
    let load = verified_load(&bench.mnt().join("file"), 2);
    std::thread::sleep(Duration::from_millis(500));
    signal(process_of(&bench.lab, "slow layer"), Signal::KILL);
    expect_without_error(load);
    let supervisor = said["pid"].as_u64().unwrap();
    assert!(wait_until(PATIENCE, || !is_alive(supervisor)), "nothing stands unguarded");
    bench.umount();
    bench.lab.undo_own();
    expect_as_before(&bench.before);
    tool("e2fsck", &["-fn", bench.image().to_str().unwrap()]);
}

/// F06: a worker that is stopped is replaced by its keeper; while a keeper is stopped, nobody replaces its worker, which is told; woken, it
/// does.
#[test]
fn a_stopped_worker_and_a_stopped_keeper_cost_nobody_a_request() {
    let bench = bench!();
    let image = bench.image();
    let mut command = bench.lab.command(["disk", "delay", image.to_str().unwrap(), "--write", "1ms", "-o", "json"]);
    let ran = Ran::of(command.env("WRINGER_WATCHDOG", r#"{"layer_deadline_ms":1500,"look_ms":100}"#)).expect_code(0);
    let device = device_of(&json(&ran)).to_owned();
    let worker = bench.worker();
    signal(worker, Signal::STOP);
    median_read_of(&device);
    assert!(wait_until(PATIENCE, || !is_alive(worker)), "the read came through because another one serves");

    let (keeper, worker) = (process_of(&bench.lab, "slow layer"), bench.worker());
    signal(keeper, Signal::STOP);
    signal(worker, Signal::STOP);
    let read = std::thread::spawn({
        let device = device.clone();
        move || median_read_of(&device)
    });
    let words = || bench.lab.run(["status"]).expect_code(0).stdout;
    assert!(wait_until(PATIENCE, || words().contains("is stopped")), "{}", words());
    assert!(is_alive(keeper) && is_alive(worker) && !read.is_finished());
    signal(keeper, Signal::CONT);
    read.join().unwrap();
    assert!(wait_until(PATIENCE, || !is_alive(worker)), "the read came through because another one serves");
    assert_eq!(bench.status()["delay"]["write_us"], 1000, "as slow as it was");
    bench.release().expect_code(0);
    expect_as_before(&bench.before);
}

#[test]
fn a_mounted_disk_is_fast_at_once_and_released_when_it_is_free() {
    let bench = bench!();
    let said = bench.mounted(&["--read", "60ms"]);
    let mnt = bench.mnt();
    bench.release().expect_code(5).expect_said(&["is mounted at", mnt.to_str().unwrap(), "umount", "wringer undo"]);
    bench.expect_undelayed(device_of(&said));
    fs::write(mnt.join("file"), "written after").unwrap();
    bench.umount();
    bench.lab.undo_own();
    expect_as_before(&bench.before);
    assert_eq!(bench.content("file"), b"written after");
}

#[test]
fn with_supervisor_and_watchdog_dead_everything_goes_with_the_mount() {
    let bench = bench!();
    let said = bench.mounted(&["--read", "60ms"]);
    bench.kill_both(&said);
    let device = device_of(&said);
    assert!(wait_until(PATIENCE, || bench.status()["delay"]["read_us"] == 0), "the lifeline's end");
    bench.expect_undelayed(device);
    bench.umount();
    let sys = format!("/sys/block/{}/loop", device.trim_start_matches("/dev/"));
    assert!(wait_until(PATIENCE, || !Path::new(&sys).exists()), "it detaches by itself");
    // all but the device's read-ahead, which the kernel leaves as the slow file had it
    bench.lab.undo_own();
    expect_as_before(&bench.before);
}

/// F17: the number of a loop device that is gone belongs to whoever gets it next.
#[test]
fn a_loop_number_that_is_used_again_is_left_alone() {
    let bench = bench!();
    // `undo` leaves alone what is somebody else's by then
    let read_ahead = ReadAhead::of(&LoopDevice::free());
    let said = bench.mounted(&["--write", "1ms"]);
    bench.kill_both(&said);
    bench.umount();
    let sys = format!("/sys/block/{}/loop", device_of(&said).trim_start_matches("/dev/"));
    assert!(wait_until(PATIENCE, || !Path::new(&sys).exists()), "it detaches by itself");
    let other = bench.lab.home().join("other");
    fs::write(&other, vec![0; 1 << 20]).unwrap();
    let attached = LoopDevice::attach_at(Path::new(device_of(&said)), &other);
    let undone = bench.lab.run(["undo"]);
    let kept = fs::read_to_string(format!("{sys}/backing_file")).unwrap_or_default();
    drop((attached, read_ahead));
    undone.expect_code(0);
    assert_eq!(Path::new(kept.trim()), other, "somebody else's loop device was detached");
    expect_as_before(&bench.before);
}

/// The kernel computes it anew when a file is attached, and leaves it so.
#[test]
fn the_read_ahead_of_the_loop_device_comes_back() {
    let bench = bench!();
    let free = LoopDevice::free();
    let read_ahead = ReadAhead::of(&free);
    read_ahead.set("136");
    let released = (bench.delay(&["--write", "1ms"]), read_ahead.now());
    bench.release().expect_code(0);
    let after_release = read_ahead.now();
    let said = bench.delay(&["--write", "1ms"]);
    bench.kill_both(&said);
    bench.lab.undo_own();
    let after_undo = read_ahead.now();
    drop(read_ahead);
    assert_eq!(Path::new(device_of(&released.0)), free);
    if released.1 == "136" {
        testkit::skip!("this kernel leaves the read-ahead of a loop device alone");
    }
    assert_eq!((after_release.as_str(), after_undo.as_str()), ("136", "136"));
}

/// What an fsync has promised is in the image when everything that serves it is killed in the next moment.
#[test]
fn what_was_synced_is_in_the_image_when_everything_is_killed() {
    let bench = bench!();
    bench.mounted(&["--write", "1ms", "--sync", "1ms"]);
    let mut expected = Vec::new();
    let mut file = File::create(bench.mnt().join("file")).unwrap();
    for line in 0..20 {
        let text = format!("line {line}\n");
        file.write_all(text.as_bytes()).unwrap();
        file.sync_all().unwrap();
        expected.extend(text.as_bytes());
    }
    let (keeper, worker) = (process_of(&bench.lab, "slow layer"), bench.worker());
    signal(keeper, Signal::STOP);
    signal(worker, Signal::KILL);
    signal(keeper, Signal::KILL);
    drop(file);
    bench.umount();
    expect_as_before_by_itself(&bench.before);
    assert_eq!(String::from_utf8(bench.content("file")).unwrap(), String::from_utf8(expected).unwrap());
}

#[test]
fn refusals_say_what_to_do() {
    let ordinary = Lab::as_ordinary_user(WRINGER);
    let file = ordinary.write("image", "");
    let file = file.to_str().unwrap();
    ordinary.run(["disk", "delay", file, "--read", "1ms"]).expect_code(3).expect_said(&["needs root"]);
    ordinary
        .run(["disk", "delay", "/tmp", "--read", "1ms", "--mechanism", "loop"])
        .expect_code(2)
        .expect_said(&["fuse"]);
    let bench = bench!();
    let refused = |path: &Path, words: &[&str]| {
        let path = path.to_str().unwrap();
        bench.lab.run(["disk", "delay", path, "--read", "1ms"]).expect_code(3).expect_said(words);
    };
    let (image, small, sparse) = (bench.image(), bench.lab.home().join("small"), bench.lab.home().join("sparse"));
    fs::write(&small, "small").unwrap();
    refused(&small, &["at least 1 MiB", "fallocate"]);
    File::create(&sparse).unwrap().set_len(1 << 42).unwrap();
    refused(&sparse, &["is sparse", "I/O error"]);

    let open = File::open(&image).unwrap();
    let own = std::process::id().to_string();
    refused(&image, &["is in use by", &format!("process {own}"), "has open"]);
    drop(open);

    let attached = LoopDevice::attach(&image);
    refused(&image, &["is in use by", attached.shown(), "is attached"]);
    drop(attached);

    let total = ["disk", "delay", image.to_str().unwrap(), "--read", "10us", "--mode", "total"];
    bench.lab.run(total).expect_code(3).expect_said(&["is not possible here", "loop device"]);
    expect_as_before(&bench.before);
    let dry = bench.lab.run(["disk", "delay", image.to_str().unwrap(), "--sync", "1ms", "--dry-run"]).expect_code(0);
    assert!(dry.stdout.contains("loop device") && dry.stderr.contains("waits twice"), "{dry:?}");
    assert_eq!(status(&bench.lab)["runs"].as_array().unwrap().len(), 0);
}

/// A block device as the image: claimed for as long as it is slow, with its sectors.
#[test]
fn a_device_is_claimed_and_slow() {
    let bench = bench!();
    let image = bench.image();
    let below = LoopDevice::attach(&image);
    let ran = bench.lab.run(["disk", "delay", below.shown(), "--sync", "40ms", "--mechanism", "loop", "-o", "json"]);
    let took = (ran.code == Some(0)).then(|| {
        let (device, start) = (File::open(device_of(&json(&ran))).unwrap(), Instant::now());
        device.sync_data().unwrap();
        start.elapsed()
    });
    let mount = Command::new("mount").args([below.shown(), bench.mnt().to_str().unwrap()]).output().unwrap();
    let released = bench.lab.run(["disk", "release", below.shown()]);
    drop(below);
    ran.expect_code(0);
    released.expect_code(0);
    assert!(took.unwrap() >= Duration::from_millis(39), "{took:?}");
    assert!(!mount.status.success() && String::from_utf8_lossy(&mount.stderr).contains("mount"), "{mount:?}");
    expect_as_before(&bench.before);
}

/// Between the look at the image and the slow disk, somebody opens the image.
#[test]
#[cfg(feature = "failpoints")]
fn an_image_that_somebody_opens_after_the_look_is_refused() {
    let bench = bench!();
    let image = bench.image();
    let opened = std::cell::OnceCell::new();
    let open = || opened.set(File::options().write(true).open(&image).unwrap()).unwrap();
    let delay = ["disk", "delay", image.to_str().unwrap(), "--read", "1ms"];
    let ran = ran_while_paused(&bench.lab, &delay, "before a slow disk is served", open);
    ran.expect_code(3).expect_said(&["is in use by process", &std::process::id().to_string()]);
    drop(opened);
    expect_as_before(&bench.before);
}
