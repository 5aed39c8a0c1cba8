// SPDX-License-Identifier: Apache-2.0
//! Runs with real children on the real host: released, killed at every crash point, undone.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod home;
#[path = "home/supervise.rs"]
mod supervise;

use home::*;
use run::{Error, Scope, find_runs};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use supervise::Supervise;

/// More crash points than a small run has.
const POINTS_MAX: u32 = 200;

#[test]
fn released_in_order() {
    let home = Home::new();
    let output = home.command("run").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(home.residue(), Vec::<String>::new());
    assert!(home.path().join("neutralised").exists(), "the slow layer was not told");
}

#[test]
fn in_the_middle_everything_is_there() {
    let home = Home::new();
    let (mut child, id) = home.waiting();
    assert_eq!(fs::read_to_string(home.value()).unwrap().trim(), "after");
    assert_eq!(cgroups_of(&id), cgroup_parent() != "none");
    if cgroups_of(&id) {
        let folder = Path::new(cgroup_parent()).join(format!("wringer-{id}"));
        let names = || -> Vec<String> {
            host::change::members(&folder).iter().map(|member| arguments_of(member.pid)).collect()
        };
        let both = |names: &[String]| names.len() == 2 && names.iter().all(|name| name.contains("sleep 1000"));
        // the shell may be about to start the other, which has no arguments while it executes its program
        let began = Instant::now();
        while !both(&names()) && began.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let names = names();
        assert!(both(&names), "shell and sleep: {names:?}");
    }
    let found = &find_runs(&home.places()).unwrap()[0];
    assert!(found.live && !found.hot && !found.stale);
    assert!(found.processes.len() >= 6, "controller, watchdog, holder, layer, launcher, server: {found:?}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    home.await_clean("released");
    assert!(!cgroups_of(&id));
}

/// The controller dies at each of its crash points in turn; its watchdog gives the host back.
#[test]
fn killed_at_every_point() {
    let cut_removals = kill_at_points(cgroup_parent(), 1);
    assert_eq!(cut_removals, 1);
}

/// What the removal of a cgroup would have killed is left to the sweep: at every third point, or with `WRINGER_FAULTS=full` at each.
#[test]
fn killed_at_points_without_a_cgroup() {
    kill_at_points("none", if testkit::takes_every_case() { 1 } else { 3 });
}

/// Returns how often the removal of the run's folder was cut.
fn kill_at_points(cgroup: &str, each: usize) -> u32 {
    let (mut points, mut cut_removals) = (0, 0);
    for point in (1..POINTS_MAX).step_by(each) {
        let home = Home::new();
        let output = home.command_with("run", cgroup).env("WRINGER_CRASH", point.to_string()).output().unwrap();
        if String::from_utf8_lossy(&output.stderr).contains(": after end") {
            // as if the removal of its folder had come as far as the lock
            let run = &find_runs(&home.places()).unwrap()[0];
            fs::remove_file(home.path().join("journal").join(run.id.as_str()).join("owner.lock")).unwrap();
            cut_removals += 1;
        }
        home.await_clean(&format!("crash point {point}: {}", String::from_utf8_lossy(&output.stderr)));
        assert!(home.undo().is_whole());
        assert!(
            find_runs(&home.places()).unwrap().is_empty(),
            "a folder that nobody needs stays until somebody tidies up"
        );
        if !killed(output.status) {
            assert!(output.status.success(), "{output:?}");
            points = point - 1;
            break;
        }
    }
    assert!(points > 40, "only {points} crash points: are they compiled in?");
    cut_removals
}

/// The controller dies in its middle, and the watchdog at each of its own crash points; then `undo` does it.
#[test]
fn watchdog_killed_at_every_point() {
    for point in 1..POINTS_MAX {
        let home = Home::new();
        let mut child = home
            .command("wait")
            .env("WRINGER_CRASH_WATCHDOG", point.to_string())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut id = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut id).unwrap();
        kill_hard(&mut child);
        await_no_watchdog(&home);
        let done_by_watchdog = find_runs(&home.places()).unwrap().is_empty();
        let report = home.undo();
        assert!(report.is_whole(), "{report:?}");
        home.await_clean(&format!("watchdog's crash point {point}"));
        if done_by_watchdog {
            assert!(point > 15, "only {point} crash points: are they compiled in?");
            break;
        }
    }
}

fn await_no_watchdog(home: &Home) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while home.processes().iter().any(|pid| arguments_of(*pid).contains("internal watchdog")) {
        assert!(Instant::now() < deadline, "the watchdog lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Controller and watchdog die at once, at each crash point of the controller; `undo` is killed at some point, too, and repeated.
#[test]
fn both_killed_at_every_point_and_undo_as_well() {
    for point in 1..POINTS_MAX {
        let home = Home::new();
        let mut command = home.command("run");
        let output =
            command.env("WRINGER_CRASH", point.to_string()).env("WRINGER_CRASH_WATCHDOG", "1").output().unwrap();
        if !killed(output.status) {
            assert!(point > 40);
            return;
        }
        await_no_watchdog(&home);
        let crashed = home.command("undo").env("WRINGER_CRASH", (point % 23 + 1).to_string()).output().unwrap();
        assert!(killed(crashed.status) || crashed.status.success(), "{crashed:?}");
        let report = home.undo();
        assert!(report.is_whole(), "crash point {point}: {report:?}");
        home.await_clean(&format!("crash point {point}"));
        assert_eq!(home.undo(), run::UndoReport::default(), "a second undo is a no-op");
    }
}

/// The tests above can fail: an undo that forgets a kind of step leaves it behind.
#[test]
fn a_forgotten_undo_step_is_seen() {
    for (kind, left) in [("value", "the value is after"), ("cgroup", "cgroup")] {
        if kind == "cgroup" && cgroup_parent() == "none" {
            testkit::skip!("no right to make a cgroup");
        }
        let home = Home::new();
        let (mut child, id) = home.waiting();
        kill_watchdog(&home);
        kill_hard(&mut child);
        let forgetful = home.command("undo").env("WRINGER_FORGET", kind).output().unwrap();
        // it asks the host, too: a value was written down twice, a cgroup bears the run's name
        assert!(!forgetful.status.success(), "{kind}: {forgetful:?}");
        let mut residue = home.residue();
        residue.extend(cgroups_of(&id).then(|| "cgroup".to_owned()));
        assert!(residue.iter().any(|line| line.contains(left)), "{kind}: {residue:?}");
        assert!(home.undo().is_whole());
        home.await_clean("undone without a journal");
        assert!(!cgroups_of(&id));
    }
}

#[test]
fn a_holder_goes_when_both_are_dead_and_the_server_too() {
    let home = Home::new();
    let (mut child, _) = home.waiting();
    kill_watchdog(&home);
    kill_hard(&mut child);
    let deadline = Instant::now() + Duration::from_secs(60);
    let layer_alone = |home: &Home| home.processes().iter().all(|pid| arguments_of(*pid).contains("internal layer"));
    while !layer_alone(&home) {
        assert!(Instant::now() < deadline, "{:?}", home.residue());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(home.undo().is_whole());
    home.await_clean("undone");
}

#[test]
fn what_somebody_else_changed_stays_and_is_told() {
    let home = Home::new();
    let (mut child, _) = home.waiting();
    fs::write(home.value(), "theirs\n").unwrap();
    kill_watchdog(&home);
    kill_hard(&mut child);
    let report = home.undo();
    assert_eq!(report.conflicts.len(), 1);
    let conflict = &report.conflicts[0];
    assert_eq!((conflict.expected.as_str(), conflict.found.as_str()), ("after", "theirs"));
    assert_eq!(fs::read_to_string(home.value()).unwrap(), "theirs\n");
    assert!(Command::new("sh").arg("-c").arg(&conflict.repair).status().unwrap().success());
    home.await_clean("repaired");
    assert!(home.undo().is_whole(), "a conflict is told once");
}

/// The journal of a boot that has ended, as after a power cut: what the kernel held is void, what lies in a file is put back.
#[test]
fn a_journal_of_another_boot_is_void() {
    let home = Home::new();
    let (mut child, id) = home.waiting();
    let sleeper = Command::new("sleep").arg("600").env("WRINGER_HOME", home.path()).spawn().unwrap();
    kill_watchdog(&home);
    kill_hard(&mut child);
    let path = home.path().join("journal").join(&id).join("journal");
    let mut bytes = fs::read(&path).unwrap();
    bytes[12] = if bytes[12] == b'0' { b'1' } else { b'0' };
    let crc = crc32c::crc32c(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&crc);
    fs::write(&path, bytes).unwrap();
    let found = find_runs(&home.places()).unwrap();
    assert!(found[0].stale && !found[0].hot, "{found:?}");
    let report = home.undo();
    assert!(report.is_whole(), "{report:?}");
    assert_eq!(fs::read_to_string(home.value()).unwrap().trim(), "before", "a file outlives the boot");
    assert!(Path::new(&format!("/proc/{}", sleeper.id())).exists(), "a pid of that boot is somebody else's now");
    assert_eq!(home.undo(), run::UndoReport::default());
    let mut sleeper = sleeper;
    kill_hard(&mut sleeper);
    // this boot has not really ended: what would have gone with it is cleared away by hand
    for pid in home.processes() {
        let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
    }
    std::thread::sleep(Duration::from_millis(200));
    let cgroup = Path::new(cgroup_parent()).join(format!("wringer-{id}"));
    for pid in fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default().lines() {
        let _ = kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL);
    }
    while cgroup.exists() && fs::remove_dir(&cgroup).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_second_run_on_the_same_resource_is_refused_with_the_owner() {
    let home = Home::new();
    let (mut child, id) = home.waiting();
    let second = home.command("run").output().unwrap();
    assert_eq!(second.status.code(), Some(3));
    let told = String::from_utf8_lossy(&second.stdout).into_owned();
    assert!(told.contains("Busy") && told.contains(&id), "{told}");
    kill_watchdog(&home);
    kill_hard(&mut child);
    let third = home.command("run").output().unwrap();
    assert_eq!(third.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&third.stdout).contains("Hot"), "{third:?}");
    assert!(home.undo().is_whole());
    home.await_clean("undone");
}

#[test]
fn runs_on_different_resources_coexist() {
    let home = Home::new();
    let (mut child, id) = home.waiting();
    let left = home.command("leave").output().unwrap();
    assert!(left.status.success(), "{left:?}");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    let found = find_runs(&home.places()).unwrap();
    assert!(found.len() == 1 && found[0].left && found[0].id.as_str() != id, "{found:?}");
    let one = Scope::One(found[0].id.clone());
    assert!(run::undo(&home.places(), one, &mut |_| {}).unwrap().is_whole());
    home.await_clean("the standing server was stopped");
}

#[test]
fn a_standing_server_outlives_its_command_and_a_general_undo() {
    let home = Home::new();
    let output = home.command("leave").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let second = home.command("leave").output().unwrap();
    assert_eq!(second.status.code(), Some(3), "its sandbox is locked by the server: {second:?}");
    let report = home.undo();
    assert_eq!((report.untouched.len(), report.ended.len()), (1, 0), "{report:?}");
    let alive = home.processes();
    assert!(alive.iter().any(|pid| arguments_of(*pid).contains("sleep 1000")), "{alive:?}");
    assert!(!alive.iter().any(|pid| arguments_of(*pid).contains("internal watchdog")));
    kill_all_of(&home);
    let again = home.command("leave").output().unwrap();
    assert!(again.status.success(), "what has gone by itself is in nobody's way: {again:?}");
    let id = find_runs(&home.places()).unwrap().pop().unwrap().id;
    assert!(run::undo(&home.places(), Scope::One(id), &mut |_| {}).unwrap().is_whole());
    home.await_clean("stopped");
}

fn kill_all_of(home: &Home) {
    let pids = find_runs(&home.places()).unwrap().into_iter().flat_map(|run| run.processes);
    pids.for_each(|it| {
        let _ = kill_process(Pid::from_raw(it.pid.cast_signed()).unwrap(), Signal::KILL);
    });
    while find_runs(&home.places()).unwrap().iter().any(|run| !run.processes.is_empty()) {}
}

#[test]
fn a_live_run_is_asked_to_end_by_undo() {
    let home = Home::new();
    let (mut child, _) = home.waiting();
    let undone = home.command("undo").output().unwrap();
    assert!(undone.status.success(), "{undone:?}");
    child.wait().unwrap();
    home.await_clean("undone while live");
}

/// A process that only looks whether a run lives has that run's locks open for a moment: a command for another home, or of another user.
#[test]
fn who_looks_at_a_runs_locks_is_none_of_its_processes() {
    let home = Home::new();
    let (mut child, id) = home.waiting();
    let folder = home.path().join("journal").join(&id);
    let locks = ["token", "owner.lock"].map(|name| fs::File::open(folder.join(name)).unwrap());
    let mut onlookers = locks.map(|lock| Command::new("sleep").arg("1000").stdin(lock).spawn().unwrap());
    let seen = find_runs(&home.places()).unwrap().remove(0).processes;
    let undone = home.command("undo").output().unwrap();
    let ended = onlookers.each_mut().map(|onlooker| onlooker.try_wait().unwrap());
    for onlooker in &mut onlookers {
        onlooker.kill().unwrap();
        onlooker.wait().unwrap();
    }
    assert!(undone.status.success(), "{undone:?}");
    assert_eq!(ended, [None, None]);
    assert!(onlookers.iter().all(|onlooker| seen.iter().all(|it| it.pid != onlooker.id())), "{seen:?}");
    child.wait().unwrap();
    home.await_clean("undone while somebody looks");
}

/// The controller finds it and is gone by the time `undo` could look: its journal still tells.
#[test]
fn a_conflict_that_a_live_controller_finds_reaches_undo() {
    let home = Home::new();
    let mut child = home.command("asked").stdin(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut String::new()).unwrap();
    fs::write(home.value(), "somebody else's\n").unwrap();
    let report = home.undo();
    assert!(child.wait().unwrap().success());
    assert_eq!((report.ended.len(), report.failures.len()), (1, 0), "{report:?}");
    assert!(matches!(&report.conflicts[..], [conflict] if conflict.found == "somebody else's"), "{report:?}");
    assert!(!report.restored.is_empty(), "{report:?}");
    assert_eq!(fs::read_to_string(home.value()).unwrap(), "somebody else's\n");
    fs::write(home.value(), "before\n").unwrap();
    home.await_clean("the other steps");
}

/// Somebody has set the very value that the run wants, after the run had looked: the change was refused, so there is nothing of the run's to undo.
#[test]
fn a_change_that_was_refused_is_not_undone() {
    let home = Home::new();
    fs::write(home.value(), "after\n").unwrap();
    let ran = home.command("run").output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(!ran.status.success() && said.contains("Conflict"), "{said}");
    let report = home.undo();
    assert!(report.is_whole() && report.conflicts.is_empty(), "{report:?}");
    assert_eq!(fs::read_to_string(home.value()).unwrap(), "after\n");
    fs::write(home.value(), "before\n").unwrap();
    home.await_clean("the run has ended");
}

#[test]
fn a_supervisor_stands_and_releases() {
    let home = Home::new();
    let supervise = |seconds: &str| {
        let value = home.value().to_str().unwrap().to_owned();
        let order = Supervise { home: home.path().to_owned(), value, seconds: seconds.into() };
        // SAFETY: tests that read the environment at the same time go through std, which locks.
        unsafe { std::env::set_var(host::process::PROGRAM_VARIABLE, PROGRAM) };
        run::supervise::start(&home.places(), &order, Duration::from_secs(60))
    };
    let ready = supervise("3600").unwrap();
    assert_eq!(ready.told, 1);
    let found = find_runs(&home.places()).unwrap();
    assert!(found[0].live && found[0].kind == Some(run::Kind::Standing));
    let second = supervise("3600");
    assert!(
        matches!(&second, Err(Error::Refused { what, hint: None }) if what.contains("is held by run")),
        "{second:?}"
    );
    assert!(home.undo().is_whole());
    home.await_clean("the supervisor was asked to end");
    let refused = supervise("refuse");
    assert!(matches!(&refused, Err(Error::Refused { hint: Some(hint), .. }) if hint == "make room"), "{refused:?}");
    home.await_clean("what it had applied until then is back");
    supervise("1").unwrap();
    home.await_clean("its time was over");
    supervise("3600").unwrap();
    let holder = home.processes().into_iter().find(|pid| arguments_of(*pid).contains("internal holder")).unwrap();
    kill_process(Pid::from_raw(holder.cast_signed()).unwrap(), Signal::KILL).unwrap();
    home.await_clean("its holder died");
}
