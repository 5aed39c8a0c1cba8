// SPDX-License-Identifier: Apache-2.0
//! What makes a watchdog end a run whose controller lives: each danger on the real host, with limits that it is sure to cross.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod home;

use home::*;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The kernel counts OOM kills for the whole host: the test that makes one keeps the one apart that must not see it.
static OOM_KILLS: Mutex<()> = Mutex::new(());

/// A controller in the middle of its run, under a watchdog with these limits; its run's id.
fn start(home: &Home, role: &str, limits: &str) -> (Child, BufReader<ChildStdout>, String) {
    let mut command = home.command(role);
    let mut child = command.env("WRINGER_WATCHDOG", limits).stdin(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut id = String::new();
    said.read_line(&mut id).unwrap();
    (child, said, id.trim().to_owned())
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
}

/// The limits are crossed from the beginning, and the first look finds the run in its middle: until then its watchdog stands still. The
/// controller is told, releases in order, and knows why: also from its journal.
fn expect_told(limits: &str, words: &str) {
    expect_told_of("asked", limits, words);
}

fn expect_told_of(role: &str, limits: &str, words: &str) {
    let home = Home::new();
    let (mut child, mut said, _) = start(&home, role, limits);
    let mut reason = String::new();
    said.read_to_string(&mut reason).unwrap();
    assert!(child.wait().unwrap().success(), "{reason}");
    assert!(reason.contains(words), "'{words}' is not in: {reason}");
    assert!(home.watchdog_log().contains(words), "{}", home.watchdog_log());
    assert!(home.path().join("neutralised").exists(), "the slow layer was told at once");
    home.await_clean(words);
    assert_eq!(home.undo(), run::UndoReport::default());
}

#[test]
fn memory_below_the_floor() {
    expect_told(
        r#"{"look_ms":1000,"available_floor_bytes":1125899906842624}"#,
        "of RAM were available, and the floor is",
    );
}

/// No process holds the RAM, so only the journal can say it. The want of memory is told first where it counts.
#[test]
fn a_run_that_is_to_show_the_server_killed_may_take_all_memory() {
    let limits = r#"{"look_ms":1000,"available_floor_bytes":1125899906842624,"disk_free_bytes":1125899906842624}"#;
    expect_told_of("asked", limits, "of RAM were available");
    expect_told_of("victim", limits, "is nearly full");
}

#[test]
fn memory_pressure_while_memory_is_short() {
    if !Path::new("/proc/pressure/memory").exists() {
        testkit::skip!("no pressure information in this kernel");
    }
    let _no_kill = OOM_KILLS.lock().unwrap_or_else(PoisonError::into_inner);
    let limits = r#"{"look_ms":1000,"pressure_full_percent":0,"pressure_available_bytes":1125899906842624}"#;
    expect_told(limits, "every task waited for memory");
}

#[test]
fn a_disk_that_is_nearly_full() {
    expect_told(r#"{"look_ms":1000,"disk_free_bytes":1125899906842624}"#, "is nearly full");
}

/// A process elsewhere is killed for want of memory, in a small cgroup of its own.
#[test]
fn the_kernel_kills_for_want_of_memory() {
    let parent = Path::new("/sys/fs/cgroup/memory");
    if rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_err() {
        testkit::skip!("no right to make a cgroup");
    }
    let _our_kill = OOM_KILLS.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let (mut child, mut said, _) =
        start(&home, "asked", r#"{"look_ms":50,"pressure_available_bytes":1125899906842624}"#);
    let small = parent.join(format!("oom-test-{}", std::process::id()));
    fs::create_dir(&small).unwrap();
    fs::write(small.join("memory.limit_in_bytes"), "16777216").unwrap();
    let script = format!("echo $$ > {}/cgroup.procs; exec head -c 64M /dev/zero | tail", small.display());
    let _ = Command::new("sh").arg("-c").arg(script).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let mut reason = String::new();
    said.read_to_string(&mut reason).unwrap();
    assert!(child.wait().unwrap().success());
    while fs::remove_dir(&small).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(reason.contains("killed 1 process"), "{reason}");
    home.await_clean("an OOM kill");
}

#[test]
fn a_stopped_controller_is_woken_to_release() {
    let home = Home::new();
    let (mut child, mut said, _) = start(&home, "asked", r#"{"lease_ms":1200,"look_ms":100}"#);
    signal(&child, Signal::STOP);
    let began = Instant::now();
    let mut reason = String::new();
    said.read_to_string(&mut reason).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(reason.contains("no sign of life"), "{reason}");
    assert!(began.elapsed() > Duration::from_millis(1000), "too early: {:?}", began.elapsed());
    home.await_clean("a stopped controller");
}

/// RAM and delays are back long before the controller is given up.
#[test]
fn a_controller_that_does_not_hear_is_replaced() {
    let home = Home::new();
    let limits = r#"{"look_ms":500,"release_ms":500,"available_floor_bytes":1125899906842624}"#;
    let (mut child, _said, _) = start(&home, "deaf", limits);
    let holder_is_there = || home.processes().iter().any(|pid| arguments_of(*pid).contains("internal holder"));
    let began = Instant::now();
    while holder_is_there() {
        assert!(began.elapsed() < Duration::from_secs(30), "the RAM is not back");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(killed(child.wait().unwrap()));
    home.await_clean("a deaf controller");
    let log = home.watchdog_log();
    let at = |what: &str| log.find(what).unwrap_or_else(|| panic!("no '{what}': {log}"));
    assert!(at("neutralised: only") < at("ended by its watchdog"), "{log}");
}

/// While a run is neutralised and not yet released, everybody can read why.
#[test]
fn the_reason_is_shown_while_the_run_is_there() {
    let home = Home::new();
    let limits = r#"{"look_ms":1000,"release_ms":60000,"available_floor_bytes":1125899906842624}"#;
    let (mut child, _said, _) = start(&home, "deaf", limits);
    let shown = || run::find_runs(&home.places()).unwrap().first().and_then(|run| run.neutralised.clone());
    let began = Instant::now();
    while shown().is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "no reason is shown");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(shown().unwrap().contains("the floor is"));
    kill_hard(&mut child);
    home.await_clean("undone by the watchdog");
}

/// Every processor is busy several times over, and the lease is short.
#[test]
fn a_busy_machine_ends_no_lease() {
    let home = Home::new();
    let (mut child, _said, _) = start(&home, "wait", r#"{"lease_ms":4000,"look_ms":100}"#);
    let busy = std::thread::available_parallelism().unwrap().get() * 4;
    let end = Instant::now() + Duration::from_secs(6);
    let burn = move || while Instant::now() < end {};
    let burners: Vec<_> = (0..busy).map(|_| std::thread::spawn(burn)).collect();
    burners.into_iter().for_each(|burner| burner.join().unwrap());
    let found = run::find_runs(&home.places()).unwrap();
    assert!(found[0].live && found[0].neutralised.is_none(), "{}", home.watchdog_log());
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    home.await_clean("a busy machine");
}

/// In a session of its own; as root its memory is locked and the OOM killer passes it by.
#[test]
fn the_watchdog_is_protected() {
    let home = Home::new();
    let (mut child, _said, _) = start(&home, "wait", "{}");
    let watchdog = home.processes().into_iter().find(|pid| arguments_of(*pid).contains("internal watchdog")).unwrap();
    let stat = fs::read_to_string(format!("/proc/{watchdog}/stat")).unwrap();
    let session = stat.rsplit_once(") ").unwrap().1.split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, watchdog.to_string());
    if testkit::is_root() {
        // CAP_SYS_RESOURCE is often missing in a container
        let may = Command::new("sh").args(["-c", "echo -1000 > /proc/self/oom_score_adj"]).output().unwrap();
        let score = fs::read_to_string(format!("/proc/{watchdog}/oom_score_adj")).unwrap();
        assert_eq!(score.trim() == "-1000", may.status.success() && may.stderr.is_empty(), "{score}");
        let status = fs::read_to_string(format!("/proc/{watchdog}/status")).unwrap();
        let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
        assert!(locked.trim() != "0 kB", "{locked}");
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    home.await_clean("released");
}
