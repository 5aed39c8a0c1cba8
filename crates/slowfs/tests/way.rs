// SPDX-License-Identifier: Apache-2.0
//! The kernel's way to the layer and back, measured when the layer is mounted.

#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // tests make their own files and processes

mod common;

use common::Mounted;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::mem::MaybeUninit;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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
        let folder = tempfile::tempdir().unwrap();
        let mut options = common::options();
        options.directory = folder.path().join("data");
        options.control = folder.path().join("slowfs.sock");
        std::fs::create_dir(&options.directory).unwrap();
        let mut layer = Command::new(env!("CARGO_BIN_EXE_slow-layer"))
            .arg(serde_json::to_string(&options).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let looker = looker_of(layer.id());
        std::thread::sleep(Duration::from_millis(after_ms));
        layer.kill().unwrap();
        layer.wait().unwrap();
        let began = Instant::now();
        while Path::new(&format!("/proc/{looker}")).exists() && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!Path::new(&format!("/proc/{looker}")).exists(), "{looker} hangs");
    }
}

fn looker_of(layer: u32) -> u32 {
    let children = format!("/proc/{layer}/task/{layer}/children");
    let began = Instant::now();
    loop {
        let found = std::fs::read_to_string(&children).unwrap();
        if let Some(pid) = found.split_whitespace().next() {
            return pid.parse().unwrap();
        }
        assert!(began.elapsed() < Duration::from_secs(10), "no process measures the way");
        std::thread::sleep(Duration::from_millis(1));
    }
}
