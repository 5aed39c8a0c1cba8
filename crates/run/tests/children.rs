// SPDX-License-Identifier: Apache-2.0
//! Children of a run whose controller is the test itself.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

use run::{Begin, Child, ChildSpec, Error, Kind, Places, Role, Run, Step, find_runs};
use std::fs;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::process::Command;
use std::sync::Once;
use std::time::{Duration, Instant};

fn begin(home: &Path) -> Run {
    static PROGRAM: Once = Once::new();
    // SAFETY: nothing else of this program reads or writes the environment but through std, which locks.
    PROGRAM.call_once(|| unsafe {
        std::env::set_var(host::process::PROGRAM_VARIABLE, env!("CARGO_BIN_EXE_run-test-controller"));
    });
    let places = Places::below(home);
    Run::begin(Begin { kind: Kind::Run, command: vec!["test".into()], resources: vec![], places }).unwrap()
}

fn shell(script: &str) -> ChildSpec {
    ChildSpec::program("/bin/sh", ["-c", script])
}

fn await_log(path: &Path) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let text = fs::read_to_string(path).unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        assert!(Instant::now() < deadline, "nothing in {}", path.display());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A program that is just being executed has none yet.
fn environment(pid: u32) -> String {
    let mut bytes = Vec::new();
    let has_one = testkit::wait_until(Duration::from_secs(60), || {
        bytes = fs::read(format!("/proc/{pid}/environ")).unwrap();
        !bytes.is_empty()
    });
    assert!(has_one, "process {pid} has no environment");
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_gone(child: &Child) -> bool {
    child.wait(Duration::ZERO)
}

#[test]
fn one_server_ends_between_two_arms() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    for _ in 0..3 {
        let server = ChildSpec { launcher: true, ..shell("sleep 1000 & wait") };
        let child = run.spawn(Role::Server, server).unwrap();
        assert!(child.is_alive());
        run.undo_step(child.step).unwrap();
        assert!(is_gone(&child));
        assert!(matches!(run.undo_step(child.step), Err(Error::NoSuchStep { .. })));
    }
    let released = run.release().unwrap();
    assert_eq!(released.restored.len(), 1, "only the watchdog was left: {released:?}");
    assert!(find_runs(&Places::below(home.path())).unwrap().is_empty());
}

#[test]
fn a_server_that_fails_while_it_stops_tells_its_status() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    let log = home.path().join("log");
    for (at_its_stop, code) in [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)] {
        let script = format!("trap '{at_its_stop}' TERM; echo ready; while :; do sleep 0.02; done");
        let server = ChildSpec { launcher: true, stdout: Some(log.clone()), ..shell(&script) };
        let child = run.spawn(Role::Server, server).unwrap();
        await_log(&log);
        let ended = run.end_process(child.step).unwrap();
        assert_eq!((ended.was_killed, ended.status.and_then(|it| it.code())), (false, Some(code)), "{at_its_stop}");
        fs::remove_file(&log).unwrap();
    }
    let _ = run.release().unwrap();
}

#[test]
fn who_ignores_the_stop_signal_is_killed_with_its_family() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    let log = home.path().join("log");
    let script = "trap '' TERM; sleep 1000 & echo $!; while :; do wait; done";
    let grace = Duration::from_millis(100);
    let spec = ChildSpec { grace, stdout: Some(log.clone()), ..shell(script) };
    let child = run.spawn(Role::Server, spec).unwrap();
    let below: u32 = await_log(&log).parse().unwrap();
    run.undo_step(child.step).unwrap();
    assert!(is_gone(&child));
    assert!(host::process::Identity::of(below).is_none(), "its child lives on");
}

#[test]
fn what_a_server_leaves_behind_is_swept() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    let log = home.path().join("log");
    // A daemon: its parent has gone, and its environment is empty. Only the token tells.
    let script = "(setsid env -i sleep 1000 & echo $!)";
    run.spawn(Role::Server, ChildSpec { stdout: Some(log.clone()), launcher: true, ..shell(script) }).unwrap();
    let daemon: u32 = await_log(&log).parse().unwrap();
    assert!(host::process::Identity::of(daemon).is_some());
    let _ = run.release().unwrap();
    assert!(host::process::Identity::of(daemon).is_none(), "the daemon lives on");
}

/// A script's lock (`exec 9>lock; flock 9`) must not be held by the server that it has started.
#[test]
fn a_server_keeps_nothing_open_that_its_caller_had() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    let lock = fs::File::create(home.path().join("lock")).unwrap();
    let number = lock.as_raw_fd();
    // SAFETY: changes a flag of a descriptor that is ours.
    assert_eq!(unsafe { libc::fcntl(number, libc::F_SETFD, 0) }, 0);
    for launcher in [false, true] {
        let log = home.path().join(format!("log-{launcher}"));
        let script = format!("readlink /proc/$$/fd/{number} | grep -q lock && echo kept || echo closed; sleep 1000");
        let spec = ChildSpec { stdout: Some(log.clone()), launcher, ..shell(&script) };
        run.spawn(Role::Server, spec).unwrap();
        assert_eq!(await_log(&log), "closed");
    }
    let _ = run.release().unwrap();
}

#[test]
fn a_child_that_dies_before_it_is_ready_shows_the_end_of_its_log() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    let failed = run.spawn(Role::Holder, ChildSpec { ready: true, ..shell("echo no luck >&2; exit 3") });
    let text = failed.unwrap_err().to_string();
    assert!(text.contains("exit status: 3") && text.contains("no luck"), "{text}");
    let late = ChildSpec { ready: true, ready_timeout: Duration::from_millis(50), ..shell("sleep 1000") };
    let text = run.spawn(Role::Holder, late).unwrap_err().to_string();
    assert!(text.contains("not ready after"), "{text}");
    let said = shell(r#"echo '{"error":"no huge pages"}' >/proc/self/fd/$WRINGER_READY_FD; sleep 1000"#);
    let text = run.spawn(Role::Holder, ChildSpec { ready: true, ..said }).unwrap_err().to_string();
    assert!(text.contains("no huge pages"), "{text}");
    let missing = run.spawn(Role::Server, ChildSpec::program("/nonexistent/server", [""; 0]));
    assert!(missing.unwrap_err().to_string().contains("/nonexistent/server"));
    let launched = ChildSpec { launcher: true, ..ChildSpec::program("/nonexistent/server", [""; 0]) };
    let text = run.spawn(Role::Server, launched).unwrap_err().to_string();
    assert!(text.contains("/nonexistent/server") && text.contains("No such file"), "{text}");
    let _ = run.release().unwrap();
}

#[test]
fn a_command_that_ends_by_itself_tells_its_status() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    for launcher in [false, true] {
        let child = run.spawn(Role::Server, ChildSpec { launcher, ..shell("exit 7") }).unwrap();
        assert!(child.wait(Duration::from_secs(10)));
        let deadline = Instant::now() + Duration::from_secs(10);
        let status = loop {
            if let Some(status) = run.exit_status(&child) {
                break status;
            }
            assert!(Instant::now() < deadline, "its launcher lives on");
        };
        assert_eq!(status.code(), Some(7));
    }
    let _ = run.release().unwrap();
}

#[test]
fn a_servers_environment_is_not_its_launchers() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    let env = vec![("LD_LIBRARY_PATH".into(), home.path().into()), ("SECRET".into(), "s\u{e9}same".into())];
    let child = run.spawn(Role::Server, ChildSpec { launcher: true, env, ..shell("sleep 1000 & wait") }).unwrap();
    let launcher = find_runs(&Places::below(home.path())).unwrap()[0].steps[1].processes[0].pid;
    let variable = |pid: u32, text: &str| environment(pid).split('\0').any(|entry| entry == text);
    let library_path = format!("LD_LIBRARY_PATH={}", home.path().display());
    assert!(variable(child.pid, &library_path) && variable(child.pid, "SECRET=s\u{e9}same"));
    assert!(!environment(child.pid).contains("WRINGER_ORDER_FD"));
    assert!(!variable(launcher, &library_path));
    let arguments = fs::read(format!("/proc/{launcher}/cmdline")).unwrap();
    assert!(!String::from_utf8_lossy(&arguments).contains("same"), "everybody may read arguments");
    let _ = run.release().unwrap();
}

#[test]
fn a_server_loses_root_and_its_groups() {
    if !rustix::process::geteuid().is_root() {
        testkit::skip!("needs root: changes the identity of a child");
    }
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    for launcher in [false, true] {
        let log = home.path().join(format!("log-{launcher}"));
        let spec = ChildSpec {
            identity: Some((12_345, 23_456)),
            stdout: Some(log.clone()),
            launcher,
            ..shell("echo $(id -u) $(id -G); sleep 1000")
        };
        let child = run.spawn(Role::Server, spec).unwrap();
        assert_eq!(await_log(&log), "12345 23456");
        run.undo_step(child.step).unwrap();
    }
    let _ = run.release().unwrap();
}

#[test]
fn a_server_enters_the_mount_namespace_of_its_layer() {
    if !rustix::process::geteuid().is_root() {
        testkit::skip!("needs root: makes a mount namespace without a user namespace");
    }
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    let layer_log = home.path().join("layer");
    let script = "readlink /proc/self/ns/mnt; exec sleep 1000";
    let layer =
        ChildSpec { stdout: Some(layer_log.clone()), ..ChildSpec::program("unshare", ["-m", "sh", "-c", script]) };
    let layer = run.spawn(Role::SlowLayer, layer).unwrap();
    let namespace = await_log(&layer_log);
    let server_log = home.path().join("server");
    let script = "echo $(readlink /proc/self/ns/mnt) $PWD; exec sleep 1000";
    let server = ChildSpec {
        launcher: true,
        namespaces_of: Some(layer.pid),
        cwd: Some("/usr/lib".into()),
        stdout: Some(server_log.clone()),
        ..shell(script)
    };
    run.spawn(Role::Server, server).unwrap();
    assert_eq!(await_log(&server_log), format!("{namespace} /usr/lib"));
    assert_ne!(fs::read_link("/proc/self/ns/mnt").unwrap().to_str(), Some(namespace.as_str()));
    let _ = run.release().unwrap();
}

#[test]
fn a_server_whose_launcher_is_killed_is_told_to_stop() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    let child = run.spawn(Role::Server, ChildSpec { launcher: true, ..shell("sleep 1000") }).unwrap();
    let launcher = find_runs(&Places::below(home.path())).unwrap()[0].steps[1].processes[0];
    assert_ne!(launcher.pid, child.pid);
    let launcher = host::process::Process::open(launcher).unwrap();
    launcher.signal(rustix::process::Signal::KILL).unwrap();
    assert!(child.wait(Duration::from_secs(10)), "it lives on without a supervisor");
    let _ = run.release().unwrap();
}

#[test]
fn a_dead_holder_and_a_dead_watchdog_are_noticed() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    let child = run.spawn(Role::Holder, shell("sleep 1000")).unwrap();
    assert_eq!(run.dead_child(Role::Holder), None);
    let kill =
        |identity| host::process::Process::open(identity).unwrap().signal(rustix::process::Signal::KILL).unwrap();
    kill(child.identity());
    assert!(child.wait(Duration::from_secs(10)));
    assert_eq!(run.dead_child(Role::Holder), Some(child.step));
    let watchdog = find_runs(&Places::below(home.path())).unwrap()[0].steps[0].processes[0];
    let watching = host::process::Process::open(watchdog).unwrap();
    kill(watchdog);
    assert!(watching.wait(Duration::from_secs(10)));
    let refused = run.step(Step::Note { text: "x".into() }, |_| Ok(()));
    assert!(matches!(refused, Err(Error::WatchdogDied { .. })));
    let _ = run.release().unwrap();
}

#[test]
fn a_step_that_fails_is_looked_at_by_the_release() {
    let home = tempfile::tempdir().unwrap();
    let value = home.path().join("value");
    fs::write(&value, "before\n").unwrap();
    let mut run = begin(home.path());
    let step = Step::Value { path: value.clone(), before: "before".into(), after: "after".into() };
    let failed = run.step(step, |permit| {
        host::change::set_value(permit, &value, "before", "after")?;
        Err::<(), _>(host::Error::Interrupted)
    });
    assert!(failed.is_err_and(|error| error.is_interrupted()));
    assert_eq!(fs::read_to_string(&value).unwrap(), "after");
    let _ = run.release().unwrap();
    assert_eq!(fs::read_to_string(&value).unwrap(), "before");
}

/// A busy mount is told with who holds it; the watchdog goes on trying, and takes it away when it is free.
#[test]
fn a_busy_mount_is_told_and_goes_when_it_is_free() {
    if !rustix::process::geteuid().is_root() {
        testkit::skip!("needs root: mounts a tmpfs");
    }
    let home = tempfile::tempdir().unwrap();
    let target = home.path().canonicalize().unwrap().join("mounted");
    fs::create_dir(&target).unwrap();
    let mut run = begin(home.path());
    let source = format!("wringer-{}", run.id());
    let step = Step::Mount { target: target.clone(), source: source.clone(), fstype: "tmpfs".into() };
    let mount = |_: &_| Ok(Command::new("mount").args(["-t", "tmpfs", &source]).arg(&target).status().unwrap());
    if !run.step(step, mount).unwrap().1.success() {
        testkit::skip!("no right to mount");
    }
    let mut visitor = Command::new("sleep").arg("1000").current_dir(&target).spawn().unwrap();
    let failed = run.release().unwrap_err();
    let text = failed.to_string();
    assert!(failed.is_not_restored() && text.contains("busy") && text.contains(&visitor.id().to_string()), "{text}");
    assert!(host::change::mounts_at(&target).unwrap().len() == 1, "never lazily");
    visitor.kill().unwrap();
    visitor.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !find_runs(&Places::below(home.path())).unwrap().is_empty() {
        assert!(Instant::now() < deadline, "the watchdog has given up");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(host::change::mounts_at(&target).unwrap().is_empty());
}

#[test]
fn dropping_a_run_releases_it() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    let child = run.spawn(Role::Server, shell("sleep 1000")).unwrap();
    drop(run);
    assert!(is_gone(&child));
    assert!(find_runs(&Places::below(home.path())).unwrap().is_empty());
}

#[test]
fn a_child_gets_no_descriptor_that_is_not_its_own() {
    let home = tempfile::tempdir().unwrap();
    let mut run = begin(home.path());
    let log = home.path().join("log");
    let script = "ls -l /proc/self/fd | sed -n 's/.* -> //p' | sort | tr '\\n' ' '; echo";
    run.spawn(Role::Server, ChildSpec { launcher: true, stdout: Some(log.clone()), ..shell(script) }).unwrap();
    let listed = await_log(&log);
    let expected = ["/dev/null", "/token", "/log", ".log", "/proc/", "pipe:["];
    let foreign: Vec<&str> =
        listed.split(' ').filter(|link| !expected.iter().any(|known| link.contains(known))).collect();
    assert!(foreign.is_empty() && listed.contains("/token"), "{listed}");
    assert!(
        !listed.contains("owner.lock") && !listed.contains("/locks/") && !listed.contains("journal/journal"),
        "{listed}"
    );
    let _ = run.release().unwrap();
}
