// SPDX-License-Identifier: Apache-2.0
//! The library in a small program, each call by itself: what it returns, whether it reached the disk, and that it waited.
//!
//! Times are only ever asserted from the side that a busy machine cannot reach.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use diskmodel::Model;
use evidence::{Delay, DelayMode};
use preload::Map;
use slowfs::control::Client;
use slowfs::stats::Stats;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_preload-test-program");
const DELAY: Duration = Duration::from_millis(30);

/// A folder with a file, a keeper, and what a program needs to be slow there.
struct Slow {
    home: tempfile::TempDir,
    map: Map,
    keeper: Child,
    client: Client,
}

impl Slow {
    /// On a disk, not in memory: beside the program.
    fn new() -> Self {
        let home = tempfile::tempdir_in(Path::new(PROGRAM).parent().unwrap()).unwrap();
        let data = home.path().canonicalize().unwrap().join("data");
        std::fs::create_dir(&data).unwrap();
        let content: Vec<u8> = (0..64u8).flat_map(|number| [number; 4096]).collect();
        std::fs::write(data.join("file"), content).unwrap();
        std::fs::File::open(data.join("file")).unwrap().sync_all().unwrap();
        let map = Map::create(&data).unwrap();
        let socket = home.path().join("socket");
        let mut command = Command::new(PROGRAM);
        command.args(["keep", &map.descriptor().as_raw_fd().to_string(), socket.to_str().unwrap()]);
        let keeper = inheriting(command, &map).spawn().unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        let client = loop {
            match Client::connect(&socket) {
                Ok(client) => break client,
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let mut slow = Self { home, map, keeper, client };
        slow.set(DELAY);
        slow
    }

    fn set(&mut self, delay: Duration) {
        let us = u64::try_from(delay.as_micros()).unwrap();
        let delay = Delay { read_us: us, write_us: us, sync_us: us, mode: DelayMode::Add, varies: false };
        self.client.set_model(&Model::from(delay)).unwrap();
    }

    fn data(&self) -> PathBuf {
        self.home.path().canonicalize().unwrap().join("data")
    }

    fn command(&self, way: &str) -> Command {
        let library = preload::install(&self.home.path().join("library")).unwrap();
        let mut command = Command::new(PROGRAM);
        command.arg(way).arg(self.data()).envs(preload::environment(&library, [(&self.map, self.keeper.id())]));
        inheriting(command, &self.map)
    }

    fn stats(&mut self) -> Stats {
        self.client.stats().unwrap()
    }

    /// Runs one way; returns what the layer has counted, and how long it took.
    fn run(&mut self, way: &str) -> ([u64; 3], Stats, Duration) {
        let before = self.stats();
        let start = Instant::now();
        let status = self.command(way).status().unwrap();
        let elapsed = start.elapsed();
        assert!(status.success(), "{way}: {status}");
        let after = self.stats();
        assert!(after.in_programs.unwrap().processes > before.in_programs.unwrap().processes, "{way}: not loaded");
        let counted = [after.reads - before.reads, after.writes - before.writes, after.syncs - before.syncs];
        (counted, after, elapsed)
    }

    /// Reads, writes, syncs that reached the disk; each has waited.
    #[track_caller]
    fn expect(&mut self, way: &str, counted: [u64; 3]) -> Stats {
        let (got, stats, elapsed) = self.run(way);
        assert_eq!(got, counted, "{way}: {stats:?}");
        let waits = u32::try_from(got.iter().sum::<u64>()).unwrap();
        assert!(elapsed >= DELAY * waits, "{way}: {elapsed:?}");
        stats
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

fn inheriting(mut command: Command, map: &Map) -> Command {
    let descriptor = map.descriptor();
    // SAFETY: one system call.
    unsafe {
        command.pre_exec(move || {
            libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0);
            Ok(())
        });
    }
    command
}

#[test]
fn cached_reads_do_not_wait_and_others_do() {
    let mut slow = Slow::new();
    let stats = slow.expect("pread", [0, 0, 0]);
    assert_eq!(stats.in_programs.unwrap().cached_reads, 2);
    slow.expect("pread-evicted", [2, 0, 0]);
    // two blocks, the rest of the last one, and once more the first
    let before = slow.stats().in_programs.unwrap().cached_reads;
    let stats = slow.expect("read", [3, 0, 0]);
    assert_eq!(stats.in_programs.unwrap().cached_reads, before + 1);
    slow.expect("readv", [1, 0, 0]);
    // what was written past the cache is read back from the disk
    let stats = slow.expect("direct", [2, 1, 0]);
    assert_eq!(stats.write_bytes, 4096);
    assert!(stats.read_latency.got.percentile_ns(0.0) >= 29_000_000, "{:?}", stats.read_latency.got);
    assert_eq!(stats.unseen_reads, 0);
}

#[test]
fn writes_wait_when_they_are_durable_and_else_their_sync_does() {
    let mut slow = Slow::new();
    let stats = slow.expect("write", [0, 0, 1]);
    assert_eq!(stats.in_programs.unwrap().buffered_writes, 2);
    slow.expect("sync", [0, 0, 3]);
    let (counted, _, elapsed) = slow.run("append");
    assert_eq!(counted, [0, 3, 3], "each is a write and a sync");
    assert!(elapsed >= DELAY * 6);
}

#[test]
fn numbers_errors_and_files_elsewhere_are_what_they_are() {
    let mut slow = Slow::new();
    let stats = slow.expect("errors", [1, 0, 0]);
    assert!(stats.errors > 0, "{stats:?}");
    slow.expect("descriptors", [6, 0, 0]);
    slow.expect("elsewhere", [0, 0, 0]);
}

#[test]
fn forks_threads_other_programs_and_signal_handlers() {
    let mut slow = Slow::new();
    let (counted, _, _) = slow.run("fork");
    assert_eq!(counted, [2, 0, 0]);
    slow.expect("exec", [2, 0, 0]);
    let (counted, stats, elapsed) = slow.run("threads");
    assert_eq!(counted, [64, 0, 0]);
    assert!(elapsed >= DELAY * 8, "each thread's reads come one after the other: {elapsed:?}");
    assert_eq!(stats.in_programs.unwrap().lapsed, 0);
    slow.run("signal");
}

/// Waits of an hour end at once when the delay goes, and when the layer's process asks for it.
#[test]
fn a_smaller_delay_and_a_neutralised_layer_end_waits() {
    for end in ["set", "signal"] {
        let mut slow = Slow::new();
        slow.set(Duration::from_secs(3600));
        let mut waiting = slow.command("pread-evicted").spawn().unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while slow.stats().delayed_reads == 0 {
            assert!(Instant::now() < patience, "nobody waits");
            std::thread::sleep(Duration::from_millis(5));
        }
        match end {
            "set" => slow.set(Duration::ZERO),
            _ => {
                let keeper = rustix::process::Pid::from_child(&slow.keeper);
                rustix::process::kill_process(keeper, rustix::process::Signal::USR1).unwrap();
            }
        }
        assert!(waiting.wait().unwrap().success());
        assert_eq!(slow.stats().reads, if end == "set" { 2 } else { 1 }, "{end}: neutralised, nothing is counted");
    }
}

/// A client that held a model when all delays were removed brings none back when it lets go.
#[test]
fn a_model_that_was_held_does_not_come_back_into_a_neutralised_layer() {
    let mut slow = Slow::new();
    let held = Delay { read_us: 3_600_000_000, write_us: 0, sync_us: 0, mode: DelayMode::Add, varies: false };
    let mut holder = Client::connect(slow.home.path().join("socket")).unwrap();
    holder.hold(&held.into()).unwrap();
    assert_eq!(slow.client.get().unwrap(), held);
    rustix::process::kill_process(rustix::process::Pid::from_child(&slow.keeper), rustix::process::Signal::USR1)
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while slow.client.get().unwrap().read_us != 0 {
        assert!(Instant::now() < patience, "the model stays");
        std::thread::sleep(Duration::from_millis(5));
    }
    holder.let_go().unwrap();
    let none = slow.client.get().unwrap();
    assert_eq!((none.read_us, none.write_us, none.sync_us), (0, 0, 0));
    let (counted, ..) = slow.run("pread-evicted");
    assert_eq!(counted, [0, 0, 0], "nothing is delayed, nothing is counted");
}

/// The lease lasts ten seconds.
#[test]
fn when_the_layers_process_is_killed_the_waits_end_by_themselves() {
    let mut slow = Slow::new();
    slow.set(Duration::from_secs(3600));
    slow.keeper.kill().unwrap();
    slow.keeper.wait().unwrap();
    // with its descriptor, for the keeper's is gone
    let start = Instant::now();
    assert!(slow.command("pread-evicted").status().unwrap().success());
    assert!(start.elapsed() < Duration::from_secs(600));
}
