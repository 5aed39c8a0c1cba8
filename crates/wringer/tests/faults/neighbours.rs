// SPDX-License-Identifier: Apache-2.0
//! Others on the same host: they use huge pages, set the same values, leave too little, or forbid.

use super::campaign::Bench;
use super::records::{Mechanism, cut};
use super::standing::{PATIENCE, expect_as_before, meminfo, signal};
use rustix::process::Signal;
use std::fs;
use std::process::{Command, Stdio};
use testkit::{Ran, Snapshot, announce_cases, is_root, takes_every_case, wait_until};

const OVERCOMMIT: &str = "/proc/sys/vm/nr_overcommit_hugepages";
const POOL: &str = "/proc/sys/vm/nr_hugepages";

/// A point at which the cap is raised; supervisor and watchdog are dead, and nothing is undone yet.
fn cut_with_the_cap_raised(bench: &Bench) {
    for point in 1..200 {
        assert!(cut(bench, Mechanism::Ram, point, true), "the cap is never raised");
        if fs::read_to_string(OVERCOMMIT).unwrap().trim() != "0" {
            return;
        }
        assert_eq!(bench.undone(), Ok(()));
    }
}

#[test]
fn a_value_that_somebody_else_set_is_left_alone_and_named() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::new();
    cut_with_the_cap_raised(&bench);
    fs::write(OVERCOMMIT, "77").unwrap();
    let told = ["now '77'", "echo '0' > '/proc/sys/vm/nr_overcommit_hugepages'"];
    let undone = bench.lab.run(["undo"]).expect_code(5).expect_said(&told);
    let kept = fs::read_to_string(OVERCOMMIT).unwrap();
    fs::write(OVERCOMMIT, "0").unwrap();
    assert_eq!(kept.trim(), "77", "{}", undone.stderr);
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("neighbours::a_value_that_somebody_else_set_is_left_alone_and_named", 1);
}

/// A pool of huge pages in use, and a cap that is not zero: both stay exactly as they are.
struct Pool {
    address: *mut libc::c_void,
    bytes: usize,
}

impl Pool {
    const PAGES: usize = 8;

    fn make() -> Self {
        fs::write(POOL, Self::PAGES.to_string()).unwrap();
        let bytes = Self::PAGES * usize::try_from(meminfo("Hugepagesize") << 10).unwrap();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB | libc::MAP_POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_WRITE, flags, -1, 0) };
        let pool = Self { address, bytes };
        assert!(address != libc::MAP_FAILED);
        fs::write(OVERCOMMIT, "3").unwrap();
        pool
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nothing refers to.
        unsafe { libc::munmap(self.address, self.bytes) };
        let _ = fs::write(POOL, "0").and_then(|()| fs::write(OVERCOMMIT, "0"));
    }
}

#[test]
fn somebody_elses_huge_pages_stay() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::new();
    let pool = Pool::make();
    let before = Snapshot::take();
    let mut cases = 0;
    bench.lab.run(["ram", "hide", "64M", "--yes"]).expect_code(0);
    assert_eq!(meminfo("HugePages_Total"), 32 + Pool::PAGES as u64);
    bench.lab.run(["ram", "release"]).expect_code(0);
    expect_as_before(&before);
    for point in (1..60).step_by(if takes_every_case() { 1 } else { 3 }) {
        let crashed = cut(&bench, Mechanism::Ram, point, true);
        bench.lab.run(["undo"]).expect_code(0);
        expect_as_before(&before);
        cases += 1;
        if !crashed {
            break;
        }
    }
    drop(pool);
    assert_eq!(bench.undone(), Ok(()));
    announce_cases("neighbours::somebody_elses_huge_pages_stay", cases + 1);
    assert!(cases > 5);
}

/// Huge pages of somebody's that are no pool: they count against the cap.
struct Surplus {
    addresses: Vec<*mut libc::c_void>,
    page_bytes: usize,
}

impl Surplus {
    fn make(pages: usize) -> Self {
        let page_bytes = usize::try_from(meminfo("Hugepagesize") << 10).unwrap();
        let mut surplus = Self { addresses: Vec::new(), page_bytes };
        fs::write(OVERCOMMIT, pages.to_string()).unwrap();
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB;
        let is_there = wait_until(PATIENCE, || {
            while surplus.addresses.len() < pages {
                // SAFETY: a new mapping at an address of the kernel's choice.
                let address = unsafe { libc::mmap(std::ptr::null_mut(), page_bytes, libc::PROT_WRITE, flags, -1, 0) };
                if address == libc::MAP_FAILED {
                    return false;
                }
                surplus.addresses.push(address);
            }
            true
        });
        assert!(is_there, "the kernel gives {} of {pages} huge pages", surplus.addresses.len());
        fs::write(OVERCOMMIT, "0").unwrap();
        surplus
    }
}

impl Drop for Surplus {
    fn drop(&mut self) {
        for address in &self.addresses {
            // SAFETY: our own mapping, which nothing refers to.
            unsafe { libc::munmap(*address, self.page_bytes) };
        }
        let _ = fs::write(OVERCOMMIT, "0");
    }
}

/// The holder, when it has stopped itself at its pause point.
fn paused_holder() -> Option<u64> {
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_paused = |pid: &u64| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        read("cmdline").split('\0').any(|word| word == "holder") && read("stat").contains(") T ")
    };
    pids.into_iter().find(is_paused)
}

/// The kernel grants some pages and then no more, because somebody sets the cap lower meanwhile: what was got is given back, and the shortage and its
/// cause are told.
#[test]
fn huge_pages_are_granted_in_part() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::new();
    for granted in [8, 24] {
        let theirs = Surplus::make(8);
        let cap = theirs.addresses.len() + granted;
        fs::write(OVERCOMMIT, cap.to_string()).unwrap();
        let mut command = bench.lab.command(["ram", "hide", "128M", "--deadline", "1s", "--yes"]);
        command.env("WRINGER_PAUSE", "before a holder reserves").stdout(Stdio::piped()).stderr(Stdio::piped());
        let hide = command.spawn().unwrap();
        let is_paused = wait_until(PATIENCE, || paused_holder().is_some());
        let raised = fs::read_to_string(OVERCOMMIT).unwrap();
        fs::write(OVERCOMMIT, cap.to_string()).unwrap();
        paused_holder().into_iter().for_each(|holder| signal(holder, Signal::CONT));
        let output = hide.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(is_paused && raised.trim() == (cap + 64).to_string(), "{raised}: {said}");
        assert_eq!(output.status.code(), Some(4), "{said}");
        let got = format!("only {} MiB of 128 MiB could be hidden", 2 * granted);
        let cause = format!("{cap} surplus huge pages (HugePages_Surp), and vm.nr_overcommit_hugepages allows {cap}");
        assert!(said.contains(&got) && said.contains(&cause), "{got}; {cause}: {said}");
        let left = theirs.addresses.len() as u64;
        assert_eq!(meminfo("HugePages_Total"), left, "what was got is given back before the command ends");
        drop(theirs);
        assert_eq!(bench.undone(), Ok(()));
    }
    announce_cases("neighbours::huge_pages_are_granted_in_part", 2);
}

/// Root without its capabilities, as in many containers: nothing is half done.
#[test]
fn root_without_privileges_changes_nothing() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let bench = Bench::new();
    let data = bench.data();
    let commands =
        [vec!["ram", "hide", "64M", "--yes"], vec!["disk", "delay", data.to_str().unwrap(), "--read", "1ms"]];
    for arguments in &commands {
        for kept in ["-all", "-sys_admin", "-sys_admin,-dac_override,-ipc_lock,-sys_resource"] {
            let traced = bench.lab.command(arguments);
            let mut command = Command::new("setpriv");
            command.args(["--inh-caps=-all", &format!("--bounding-set={kept}")]).arg(traced.get_program());
            command.args(traced.get_args()).current_dir(bench.lab.home()).stdin(Stdio::null());
            command.envs(traced.get_envs().filter_map(|(name, value)| Some((name, value?))));
            let ran = Ran::of(&mut command);
            assert!(matches!(ran.code, Some(0 | 3 | 4)), "{kept}: {ran:?}");
            assert!(ran.code == Some(0) || ran.stderr.contains("error:"), "{ran:?}");
            assert_eq!(bench.undone(), Ok(()), "{kept}: {ran:?}");
        }
    }
    announce_cases("neighbours::root_without_privileges_changes_nothing", commands.len() * 3);
}
