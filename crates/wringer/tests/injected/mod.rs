// SPDX-License-Identifier: Apache-2.0
//! What the tests of `wringer stalls inject` share: a victim, and what ends a stall before its time.
#![allow(dead_code, unreachable_pub)] // each test program uses a part

use crate::accounted::{PATIENCE, Server, json};
use serde_json::Value;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use testkit::wait_until;

pub const ROW: &str = "UPDATE sbtest1 SET k = k + 1 WHERE id = 1";
pub const READ: &str = "SELECT k FROM sbtest1 WHERE id = 2";

/// The statement of a connection that took the longest.
#[derive(Debug, Clone, Copy, Default)]
pub struct Longest {
    /// In microseconds since 1970, like the times that `stalls inject` tells.
    pub started_us: u64,
    pub took_us: u64,
}

/// The statement of a connection that took the longest while `happening` went on, and what that gave. `{}` in the statement is another number each
/// time.
pub fn longest<T>(server: &Server, sql: &str, happening: impl FnOnce(&AtomicU64) -> T) -> (Longest, T) {
    let (is_over, running_us) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut connection = server.connect();
    connection.execute(&sql.replace("{}", "1")).unwrap();
    thread::scope(|scope| {
        let victim = scope.spawn(|| {
            let mut longest = Longest::default();
            for number in (0_u64..).map(|number| number * 7919 % 60_000 + 1) {
                let (started, started_us) = (Instant::now(), host::clock::unix_us());
                connection.execute(&sql.replace("{}", &number.to_string())).unwrap();
                let took_us = u64::try_from(started.elapsed().as_micros()).unwrap();
                if took_us > longest.took_us {
                    longest = Longest { started_us, took_us };
                }
                running_us.fetch_add(1, Ordering::SeqCst);
                if is_over.load(Ordering::SeqCst) {
                    return longest;
                }
            }
            longest
        });
        // a test that fails must not wait for its victim for ever
        let happened = catch_unwind(AssertUnwindSafe(|| happening(&running_us)));
        is_over.store(true, Ordering::SeqCst);
        let happened = happened.unwrap_or_else(|panic| resume_unwind(panic));
        (victim.join().unwrap(), happened)
    })
}

pub fn words<'a>(cause: &'a str, length: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = ["stalls", "inject", "--sandbox", "s", "--cause", cause, "--length", length, "-o", "json", "--strict"];
    words.iter().chain(more).copied().collect()
}

/// Begins a stall of a minute, and lets `end` end it when the victim waits: the victim goes on at once.
#[track_caller]
pub fn cut_short<T>(server: &Server, cause: &str, sql: &str, end: impl FnOnce(Child) -> T) -> T {
    let (longest, ended) = longest(server, sql, |done: &AtomicU64| {
        let child = server.lab.start("cut", words(cause, "60s", &[]));
        // no statement has ended for half a second: the victim waits
        let mut before = (0, Instant::now());
        let waits = || {
            let now = done.load(Ordering::SeqCst);
            if now != before.0 {
                before = (now, Instant::now());
            }
            before.1.elapsed() > Duration::from_millis(500)
        };
        assert!(wait_until(PATIENCE, waits), "{cause}: no victim waits; {}", server.lab.said("cut"));
        let ended = end(child);
        let count = done.load(Ordering::SeqCst);
        let goes_on = || done.load(Ordering::SeqCst) > count + 1;
        assert!(wait_until(Duration::from_secs(5), goes_on), "{cause}: it still waits");
        ended
    });
    assert!(longest.took_us < 30_000_000, "{cause}: {longest:?}");
    ended
}

pub fn runs_of_inject(server: &Server) -> Vec<Value> {
    let status = json(&server.lab.run(["status", "-o", "json"]));
    let is_one = |run: &&Value| run["command"][1] == "stalls" && run["condition"] != "over";
    status["runs"].as_array().unwrap().iter().filter(is_one).cloned().collect()
}

pub fn kill(pid: u32, signal: libc::c_int) {
    // SAFETY: a system call without memory of ours, to a process that this test has started.
    assert_eq!(unsafe { libc::kill(i32::try_from(pid).unwrap(), signal) }, 0);
}

/// The file that says how much CPU time the server may have.
pub fn cpu_group(pid: u32) -> PathBuf {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let group = |line: &str| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let path = path.trim_start_matches('/');
        let of_v1 = controllers.split(',').any(|name| name == "cpu");
        let found = match (of_v1, controllers.is_empty()) {
            (true, _) => format!("/sys/fs/cgroup/{controllers}/{path}/cpu.cfs_quota_us"),
            (_, true) => format!("/sys/fs/cgroup/{path}/cpu.max"),
            _ => return None,
        };
        fs::metadata(&found).is_ok().then(|| found.into())
    };
    groups.lines().find_map(group).unwrap()
}
