// SPDX-License-Identifier: Apache-2.0
//! The kernel's way to the layer and back, measured when the layer is mounted.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests make their own files and processes

mod common;

use common::Mounted;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const NAME: &str = ".wringer-way";

/// How often the files below were opened, read or written since the last time.
fn events(watch: &rustix::fd::OwnedFd) -> usize {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    std::iter::from_fn(|| reader.next().ok().map(|_| ())).count()
}

#[test]
fn it_is_measured_at_the_mount_without_a_request_to_the_files() {
    if let Some(why) = common::obstacle() {
        testkit::skip!("{why}");
    }
    let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let mounted = Mounted::over(common::options(), |folder: &Path| {
        std::fs::write(folder.join("file"), vec![7; 1 << 20]).unwrap();
        let all = WatchFlags::OPEN | WatchFlags::ACCESS | WatchFlags::MODIFY | WatchFlags::ATTRIB | WatchFlags::CREATE;
        inotify::add_watch(&watch, folder, all).unwrap();
        inotify::add_watch(&watch, folder.join("file"), all).unwrap();
    });
    assert_eq!(events(&watch), 0, "the measurement asked the directory for something");

    let stats = mounted.client().stats().unwrap();
    assert_eq!((stats.reads, stats.writes, stats.syncs, stats.read_latency.own.count()), (0, 0, 0, 0));
    let way = stats.way.expect("the layer says what it takes off");
    assert_eq!((way.why_not.as_deref(), way.lengths.len()), (None, 5), "{way:?}");
    for looked in &way.lengths {
        assert!(looked.looks >= 1 && looked.lowest_ns > 0 && looked.lowest_ns <= looked.median_ns, "{looked:?}");
        assert!(looked.median_ns <= looked.highest_ns && looked.taken_off_ns() > 0, "{looked:?}");
    }

    mounted.inside(|folder: &Path| assert_eq!(std::fs::read(folder.join("file")).unwrap()[0], 7));
    assert!(events(&watch) > 0, "the watch sees what the layer asks the directory for");
}

/// The file that only the layer answers is there for the process that measures alone: a file of the same name is the directory's.
#[test]
fn its_file_is_nobody_elses() {
    if let Some(why) = common::obstacle() {
        testkit::skip!("{why}");
    }
    for writeback_cache in [true, false] {
        let options = slowfs::process::Options { writeback_cache, ..common::options() };
        let mounted = Mounted::new(options.clone());
        mounted.inside(|folder: &Path| {
            assert!(!folder.join(NAME).exists());
            assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
        });
        let mounted = Mounted::over(options, |folder: &Path| std::fs::write(folder.join(NAME), "mine").unwrap());
        assert_eq!(mounted.client().stats().unwrap().way.unwrap().why_not, None);
        mounted.inside(|folder: &Path| {
            assert_eq!(std::fs::read_to_string(folder.join(NAME)).unwrap(), "mine");
            std::fs::write(folder.join(NAME), "mine still").unwrap();
        });
        assert_eq!(std::fs::read_to_string(mounted.directory().join(NAME)).unwrap(), "mine still");
    }
}

/// A process that waits for an answer of its own cannot be killed; so another one asks.
#[test]
fn a_layer_that_is_killed_while_it_measures_is_gone() {
    if let Some(why) = common::obstacle() {
        testkit::skip!("{why}");
    }
    for after_ms in [40, 70, 100, 130] {
        let (mut layer, looker, _folder) = (0..20).find_map(|_| measuring()).expect("a process measures the way");
        std::thread::sleep(Duration::from_millis(after_ms));
        layer.kill().unwrap();
        layer.wait().unwrap();
        let is_gone = || !Path::new(&format!("/proc/{looker}")).exists();
        assert!(testkit::wait_until(Duration::from_secs(60), is_gone), "{looker} hangs");
    }
}

/// A layer, and the process that measures its way. `None`: this test was stopped for so long that the layer has measured meanwhile.
fn measuring() -> Option<(Child, u32, TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let mut options = common::options();
    options.directory = folder.path().join("data");
    options.control = folder.path().join("slowfs.sock");
    std::fs::create_dir(&options.directory).unwrap();
    let (ready_read, ready_write) = common::pipe();
    let mut command = Command::new(env!("CARGO_BIN_EXE_slow-layer"));
    command.arg(serde_json::to_string(&options).unwrap()).stderr(Stdio::null());
    command.env("WRINGER_READY_FD", ready_write.as_raw_fd().to_string());
    common::inherit(&mut command, [ready_write.as_raw_fd(); 2]);
    let mut layer = command.spawn().unwrap();
    drop(ready_write);
    let looker = looker_of(layer.id(), &ready_read);
    if looker.is_none() {
        layer.kill().unwrap();
        layer.wait().unwrap();
    }
    looker.map(|looker| (layer, looker, folder))
}

/// `None`: the layer serves, so that this process has ended.
fn looker_of(layer: u32, ready: &OwnedFd) -> Option<u32> {
    let children = format!("/proc/{layer}/task/{layer}/children");
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let began = Instant::now();
    loop {
        let found = std::fs::read_to_string(&children).unwrap();
        if let Some(pid) = found.split_whitespace().next() {
            return Some(pid.parse().unwrap());
        }
        if poll(&mut [PollFd::new(ready, PollFlags::IN)], Some(&at_once)).unwrap() > 0 {
            return None;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no process measures the way");
        std::thread::sleep(Duration::from_millis(1));
    }
}
