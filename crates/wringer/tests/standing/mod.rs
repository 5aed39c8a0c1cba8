// SPDX-License-Identifier: Apache-2.0
//! What the tests of standing squeezes share.
#![allow(dead_code, unreachable_pub)] // each test program uses a part

pub mod freezer;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::{Lab, Ran, Snapshot, copy_program, wait_until};

pub const PATIENCE: Duration = Duration::from_secs(30);
pub const MIB: u64 = 1 << 20;

pub fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}\n{}", ran.stdout, ran.stderr))
}

/// A line of /proc/meminfo as it stands there: kB or pages.
pub fn meminfo(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// What the kernel needs after the last call of an undo: huge pages come back one by one, and a process that has ended is seen
/// until it is reaped. Anything slower is an undo that returned too early.
pub const SETTLING: Duration = Duration::from_secs(1);
/// At least so many looks: what holds the kernel up holds them up as well.
const SETTLING_LOOKS: u32 = 10;

/// Whether the host is as before when it has settled.
pub fn settles(before: &Snapshot) -> bool {
    let (end, mut looks) = (Instant::now() + SETTLING, 0);
    while !before.is_equal(&Snapshot::take()) {
        looks += 1;
        if looks >= SETTLING_LOOKS && Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// After `undo`, `release` or `run` has returned: the host is as before.
#[track_caller]
pub fn expect_as_before(before: &Snapshot) {
    settles(before);
    before.expect_unchanged();
}

/// Where nobody was asked, or the asked one was killed: the host will be as before by itself.
#[track_caller]
pub fn expect_as_before_by_itself(before: &Snapshot) {
    wait_until(PATIENCE, || before.is_equal(&Snapshot::take()));
    before.expect_unchanged();
}

pub fn signal(pid: u64, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Kills all of them, and waits until they are dead. None sees another one die: a supervisor releases as soon as its watchdog is gone.
pub fn kill_together(pids: &[u64]) {
    for end in [Signal::STOP, Signal::KILL] {
        pids.iter().for_each(|pid| signal(*pid, end));
    }
    assert!(wait_until(PATIENCE, || !pids.iter().any(|pid| is_alive(*pid))), "{pids:?}");
}

/// `act` is done by somebody else while the command, or a process that it has started, has stopped itself at this place. Then both go on.
#[cfg(feature = "failpoints")]
#[track_caller]
pub fn ran_while_paused(lab: &Lab, arguments: &[&str], place: &str, act: impl FnOnce()) -> Ran {
    let mut command = lab.command(arguments);
    command.env("WRINGER_PAUSE", place).stdout(Stdio::piped()).stderr(Stdio::piped());
    let began = command.spawn().unwrap();
    let is_paused = wait_until(PATIENCE, || paused_of(lab).is_some());
    act();
    paused_of(lab).into_iter().for_each(|pid| signal(pid, Signal::CONT));
    let output = began.wait_with_output().unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let ran = Ran { code: output.status.code(), stdout, stderr };
    assert!(is_paused, "{place}: {ran:?}");
    ran
}

/// A stopped process of this lab.
#[cfg(feature = "failpoints")]
fn paused_of(lab: &Lab) -> Option<u64> {
    let home = format!("WRINGER_HOME={}", lab.home().display());
    let pids =
        std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_paused = |pid: &u64| {
        let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let is_ours = read("environ").split(|byte| *byte == 0).any(|variable| variable == home.as_bytes());
        is_ours && String::from_utf8_lossy(&read("stat")).contains(") T ")
    };
    pids.into_iter().find(is_paused)
}

pub fn is_alive(pid: u64) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

pub fn status(lab: &Lab) -> Value {
    json(&lab.run(["status", "-o", "json"]).expect_code(0))
}

/// The first process of the oldest run's step whose change begins with this.
pub fn process_of(lab: &Lab, step: &str) -> u64 {
    let status = status(lab);
    let steps = status["runs"][0]["steps"].as_array().unwrap_or_else(|| panic!("there is no run: {status:#}"));
    let found = steps.iter().find(|it| it["change"].as_str().unwrap().starts_with(step));
    found.unwrap_or_else(|| panic!("no step {step}: {status:#}"))["processes"][0].as_u64().unwrap()
}

/// A process that looks like somebody's database: named so, and living in `directory`.
pub fn fake_database(lab: &Lab, directory: &Path) -> Killed {
    let program = lab.home().join("mariadbd");
    copy_program(Path::new("/bin/sleep"), &program);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let child = Command::new(&program).arg("600").current_dir(directory).stdin(Stdio::null()).spawn().unwrap();
    let comm = format!("/proc/{}/comm", child.id());
    assert!(wait_until(PATIENCE, || std::fs::read_to_string(&comm).is_ok_and(|name| name.trim() == "mariadbd")));
    Killed(child)
}

/// The median of direct reads of one block each.
pub fn median_read(file: &File) -> Duration {
    let mut memory = vec![0; 8192];
    let at = memory.as_ptr().align_offset(4096);
    let mut took: Vec<Duration> = (0..15)
        .map(|number| {
            let start = Instant::now();
            file.read_exact_at(&mut memory[at..at + 4096], number * 4096).unwrap();
            start.elapsed()
        })
        .collect();
    took.sort();
    took[took.len() / 2]
}

pub fn open_direct(path: &Path) -> File {
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).unwrap()
}

/// A child that ends with the test.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Why this machine lets no two memory blocks of 128 MiB go. To be asked alone: it takes them offline and gives them back.
pub fn why_not_offline(lab: &Lab) -> Option<&'static str> {
    let folder = Path::new("/sys/devices/system/memory");
    let bytes = std::fs::read_to_string(folder.join("block_size_bytes")).unwrap_or_default();
    if bytes.trim() != "8000000" || !rustix::process::geteuid().is_root() || offline_blocks() != 0 {
        return Some("no memory blocks of 128 MiB can be taken offline");
    }
    let asked = ["ram", "hide", "256M", "--mechanism", "offline", "--strict", "--deadline", "20s", "--yes"];
    let tried = lab.run(asked);
    if tried.code == Some(4) && tried.stderr.contains("hold pages that cannot be moved") {
        return Some("memory of the kernel lies in nearly every block");
    }
    let _ = tried.expect_code(0);
    let _ = lab.run(["ram", "release"]).expect_code(0);
    None
}

pub fn offline_blocks() -> usize {
    let names = std::fs::read_dir("/sys/devices/system/memory").into_iter().flatten().flatten();
    let states = names.filter_map(|entry| std::fs::read_to_string(entry.path().join("state")).ok());
    states.filter(|state| state.trim() != "online").count()
}

/// A memory cgroup with a limit, made by the test itself; version 1 or 2. `None` where it may not.
pub fn cgroup(limit: u64) -> Option<std::path::PathBuf> {
    let roots = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
    let root = roots.iter().find(|root| Path::new(root).join("cgroup.procs").exists())?;
    let group = Path::new(root).join(format!("wringer-test-{}-{limit}", std::process::id()));
    std::fs::create_dir(&group).ok()?;
    let limits = ["memory.limit_in_bytes", "memory.max"];
    let limited = limits.iter().any(|name| std::fs::write(group.join(name), limit.to_string()).is_ok());
    if !limited {
        std::fs::remove_dir(&group).unwrap();
        return None;
    }
    Some(group)
}
