// SPDX-License-Identifier: Apache-2.0
//! What the tests of `wringer memory` share: a server, its account, and what every account must fulfil.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, dead_code, unreachable_pub)] // each test program uses a part

pub mod plant;

use load::Target;
use load::admin::Connection;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;
use testkit::{Lab, Ran, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");
pub const MIB: i64 = 1 << 20;
/// Others name less of what they have: 11.4 fills tables for its collations when it starts, some 80 MB, and no meter counts them.
pub const MARIADB: &str = "mariadb@10.11";
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// A server that stands.
pub struct Server {
    pub lab: Lab,
    pub pid: u32,
    pub target: Target,
}

impl Server {
    pub fn start(flavour: &str, options: &[&str], start: &[&str]) -> Self {
        let lab = Lab::new(WRINGER);
        let options = options.iter().flat_map(|option| ["-c", option]);
        let deploy: Vec<&str> = ["sandbox", "deploy", flavour, "--name", "s"].into_iter().chain(options).collect();
        lab.run(&deploy).expect_code(0);
        lab.run([&["sandbox", "start", "s"], start].concat()).expect_code(0);
        let pid = pid_of(&lab);
        let dsn = lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout.trim().to_owned();
        Self { lab, pid, target: dsn.parse().unwrap() }
    }

    /// Of the server that runs now: it may have been started again.
    pub fn pid_now(&self) -> u32 {
        pid_of(&self.lab)
    }

    pub fn socket(&self) -> String {
        let status = json(&self.lab.run(["sandbox", "status", "s", "-o", "json"]));
        status["sandboxes"][0]["socket"].as_str().unwrap().to_owned()
    }

    pub fn connect(&self) -> Connection {
        Connection::open(&self.target).unwrap()
    }

    pub fn fill(&self) {
        let dsn = format!("--dsn={}", self.lab.run(["sandbox", "export", "s", "dsn"]).expect_code(0).stdout.trim());
        self.lab.run(["fill", "--table-size=20000", &dsn]).expect_code(0);
    }

    pub fn account(&self) -> Value {
        let account =
            json(&self.lab.run(["memory", "account", "--sandbox", "s", "--deep", "-o", "json"]).expect_code(0));
        expect_sum(&account);
        account
    }

    /// Its total is what the kernel said before and after. Without the program's file, whose pages are shared with the servers of other tests: those come
    /// and go.
    pub fn account_as_the_kernel_says(&self, args: &[&str]) -> Value {
        let before = self.kernel_total_without_files();
        let account = json(&self.lab.run([&["memory", "account", "-o", "json"], args].concat()).expect_code(0));
        let after = self.kernel_total_without_files();
        let total = account["kernel_total_bytes"].as_i64().unwrap() - leaf(&account, "program/text");
        // a few mappings of files are no program
        let (low, high) = (before.min(after) * 98 / 100 - MIB, before.max(after) * 102 / 100 + MIB);
        let processes: Vec<_> =
            self.processes().into_iter().map(|pid| (pid, kib(pid, "smaps_rollup", "Pss:"))).collect();
        assert!(
            (low..=high).contains(&total),
            "{total}; the kernel says {before} before, and {after} after, of {processes:?} KiB: {account:#}"
        );
        expect_sum(&account);
        account
    }

    /// InnoDB's threads do their first work in the seconds after the start: waits until nothing has been added for two seconds.
    pub fn settle(&self) {
        let mut seen = Vec::new();
        wait_until(PATIENCE, || {
            std::thread::sleep(Duration::from_millis(500));
            seen.push(kib(self.pid, "status", "RssAnon:"));
            seen.len() > 4 && seen[seen.len() - 5..].iter().all(|kib| kib.abs_diff(seen[seen.len() - 1]) < 256)
        });
    }

    /// Of all its processes, by code of this test's own: Pss and page tables.
    pub fn kernel_total(&self) -> i64 {
        self.processes()
            .into_iter()
            .map(|pid| kib(pid, "smaps_rollup", "Pss:") + kib(pid, "status", "VmPTE:"))
            .sum::<i64>()
            * 1024
    }

    /// Of processes that stay: a session that has just been left is a process for some milliseconds more.
    fn kernel_total_without_files(&self) -> i64 {
        let mut seen = Vec::new();
        wait_until(PATIENCE, || {
            std::thread::sleep(Duration::from_millis(50));
            seen.push(self.processes());
            seen.len() > 4 && seen[seen.len() - 5..].iter().all(|it| *it == seen[seen.len() - 1])
        });
        let files: i64 = self.processes().into_iter().map(|pid| kib(pid, "smaps_rollup", "Pss_File:")).sum();
        self.kernel_total() - files * 1024
    }

    pub fn processes(&self) -> Vec<u32> {
        let children = format!("/proc/{0}/task/{0}/children", self.pid);
        let children = fs::read_to_string(children).unwrap_or_default();
        std::iter::once(self.pid).chain(children.split_whitespace().map(|pid| pid.parse().unwrap())).collect()
    }
}

fn pid_of(lab: &Lab) -> u32 {
    let status = json(&lab.run(["sandbox", "status", "s", "-o", "json"]));
    u32::try_from(status["sandboxes"][0]["pid"].as_u64().unwrap()).unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.lab.run(["sandbox", "delete", "s", "--force"]);
    }
}

/// 0 of a process that has ended meanwhile.
pub fn kib(pid: u32, file: &str, field: &str) -> i64 {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0 kB");
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

pub fn leaf(account: &Value, path: &str) -> i64 {
    let leaves = account["leaves"].as_array().unwrap().iter();
    leaves
        .filter(|leaf| leaf["path"].as_str().unwrap().starts_with(path))
        .map(|leaf| leaf["resident_bytes"].as_i64().unwrap())
        .sum()
}

pub fn unexplained(account: &Value) -> i64 {
    account["unexplained_bytes"].as_i64().unwrap()
}

/// All leaves of either account.
pub fn paths<'a>(without: &'a Value, with: &'a Value) -> BTreeSet<&'a str> {
    let leaves = [without, with].into_iter().flat_map(|account| account["leaves"].as_array().unwrap());
    leaves.map(|leaf| leaf["path"].as_str().unwrap()).collect()
}

/// The leaves that have changed by 64 KiB and more, for the message of a test that fails: resident bytes, and what their meters say in both accounts.
pub fn changes(without: &Value, with: &Value) -> String {
    let mut lines: Vec<String> = paths(without, with)
        .into_iter()
        .map(|path| (path, leaf(with, path) - leaf(without, path)))
        .filter(|(_, grown)| grown.abs() >= 64 << 10)
        .map(|(path, grown)| {
            format!("{path} {grown:+}, meter {:?} -> {:?}", metered(without, path), metered(with, path))
        })
        .collect();
    let processes = |of: &Value| of["processes"].as_array().map_or(0, Vec::len);
    lines.push(format!("unexplained {:+}", unexplained(with) - unexplained(without)));
    lines.push(format!("processes {} -> {}", processes(without), processes(with)));
    lines.join("\n")
}

fn metered(account: &Value, path: &str) -> Option<i64> {
    let leaves = account["leaves"].as_array().unwrap();
    leaves.iter().find(|leaf| leaf["path"] == path)?["allocated_bytes"].as_i64()
}

#[track_caller]
pub fn expect_sum(account: &Value) {
    let total = account["kernel_total_bytes"].as_i64().unwrap();
    assert_eq!(leaf(account, "") + account["unexplained_bytes"].as_i64().unwrap(), total, "{account:#}");
    let share = account["explained_share"].as_f64().unwrap();
    assert!((0.0..=1.01).contains(&share), "{share}");
    assert!(account["leaves"].as_array().unwrap().iter().all(|leaf| !leaf["path"].as_str().unwrap().contains("heap")));
}

/// What the account says and what this test reads are some milliseconds apart.
#[track_caller]
pub fn expect_near(what: &str, got: i64, wanted: i64, within: f64) {
    let apart = (got - wanted).abs() as f64;
    assert!(apart <= wanted.abs() as f64 * within, "{what}: {got}, and not {wanted} within {} %", within * 100.0);
}
