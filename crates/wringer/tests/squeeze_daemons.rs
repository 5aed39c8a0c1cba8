// SPDX-License-Identifier: Apache-2.0
//! What a command of `wringer squeeze` leaves running, by whatever trick: it ends with the command, or with `--leave` it goes back to
//! where the caller is himself.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use rustix::process::Signal;
use standing::*;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use testkit::{Lab, Ran, Snapshot, alone, is_root, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// Forks twice, in a session of its own, closes every descriptor, clears its environment, and becomes another user when it is asked to:
/// nothing of what it was given is left to know it by. It says its pid in the file `daemon`, when who started it has ended. SIGTERM it
/// ignores when it is `stubborn`.
const DAEMON: &str = r#"use POSIX;
    fork and exit; POSIX::setsid(); my $leader = $$; fork and exit;
    select(undef, undef, undef, 0.01) while getppid() == $leader;
    my ($user, $stubborn) = @ARGV;
    open F, ">", "daemon.new"; print F $$; close F; rename "daemon.new", "daemon";
    POSIX::setgid($user), POSIX::setuid($user) if $user;
    $SIG{TERM} = "IGNORE" if $stubborn;
    chdir "/"; POSIX::close($_) for 0 .. 1023; %ENV = ();
    exec { "/bin/sleep" } "sleep", "1000""#;

/// A command that starts such a daemon, waits until it is `sleep` and no longer `perl`, and then does the rest.
fn daemon(user: u32, stubborn: bool, rest: &str) -> [String; 3] {
    let stubborn = if stubborn { "1" } else { "" };
    let started = "[ -s daemon ] && ! grep -qs perl /proc/$(cat daemon)/comm";
    let script = format!("perl -e '{DAEMON}' {user} {stubborn}; until {started}; do sleep 0.05; done; {rest}");
    ["sh".into(), "-c".into(), script]
}

fn squeeze(options: &[&str], command: &[String]) -> Vec<String> {
    let options = options.iter().map(ToString::to_string);
    ["squeeze".to_owned()].into_iter().chain(options).chain(["--".to_owned()]).chain(command.iter().cloned()).collect()
}

fn number_in(lab: &Lab, file: &str) -> u64 {
    let text = fs::read_to_string(lab.home().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    text.trim().parse().unwrap()
}

/// Ends with the test, whoever runs it.
struct Ended(u64);

impl Drop for Ended {
    fn drop(&mut self) {
        if is_alive(self.0) {
            signal(self.0, Signal::KILL);
        }
    }
}

fn may_make_a_cgroup(controller: &str) -> bool {
    is_root() && squeeze::cgroup::writable(controller).is_ok()
}

macro_rules! needs_cgroups {
    () => {
        for controller in ["memory", "cpu", "cpuset"] {
            if !may_make_a_cgroup(controller) {
                testkit::skip!("no right to make a cgroup of the controller {controller}");
            }
        }
    };
}

#[test]
fn a_daemon_without_a_mark_ends_with_the_command() {
    let _alone = alone();
    let ends = |lab: &Lab, options: &[&str], user: u32| {
        let ran = lab.run(squeeze(options, &daemon(user, false, "exit 7"))).expect_code(7);
        let ran = ran.expect_said(&["1 process that it had left running", "everything is given back"]);
        let daemon = Ended(number_in(lab, "daemon"));
        assert!(!is_alive(daemon.0), "{options:?}, as user {user}: {}", ran.stderr);
        assert_eq!(status(lab)["runs"], serde_json::json!([]), "{options:?}");
        fs::remove_file(lab.home().join("daemon")).unwrap();
    };
    ends(&Lab::as_ordinary_user(WRINGER), &["--cpuset", "0"], 0);
    if !is_root() {
        testkit::skip!("the rest needs root");
    }
    let (lab, before) = (Lab::new(WRINGER), Snapshot::take());
    ends(&lab, &["--cpuset", "0"], 0);
    fs::create_dir(lab.home().join("data")).unwrap();
    let disk = format!("{}=read=1ms", lab.home().join("data").display());
    ends(&lab, &["--disk", &disk], 0);
    ends(&lab, &["--disk", &disk], 65_534);
    if may_make_a_cgroup("cpu") && may_make_a_cgroup("memory") {
        ends(&lab, &["--cpus", "0.5", "--ram", "64M"], 65_534);
    }
    expect_as_before(&before);
}

/// The command in the background, with its daemon started.
fn started(lab: &Lab, options: &[&str], stubborn: bool) -> (Child, Ended) {
    let command = daemon(0, stubborn, "while :; do sleep 0.1; done");
    let child = lab.start("squeezed", squeeze(options, &command));
    assert!(wait_until(PATIENCE, || lab.home().join("daemon").exists()), "{}", lab.said("squeezed"));
    (child, Ended(number_in(lab, "daemon")))
}

/// It takes no SIGTERM, and has nothing by which the watchdog could know it.
#[test]
fn when_wringer_is_killed_a_stubborn_daemon_ends_too() {
    needs_cgroups!();
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let (mut child, daemon) = started(&lab, &["--ram", "64M", "--cpus", "0.5", "--cpuset", "0"], true);
    child.kill().unwrap();
    child.wait().unwrap();
    expect_as_before_by_itself(&before);
    assert!(wait_until(PATIENCE, || !is_alive(daemon.0)));
    let undone = lab.run(["undo"]).expect_code(0);
    assert!(undone.stdout.contains("nothing to undo"), "{undone:?}");
}

#[test]
fn with_the_watchdog_killed_too_the_first_undo_gives_everything_back() {
    needs_cgroups!();
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let (mut child, daemon) = started(&lab, &["--ram", "64M", "--cpus", "0.5", "--cpuset", "0"], true);
    let watchdog = process_of(&lab, "watchdog");
    // neither sees the other die
    for end in [Signal::STOP, Signal::KILL] {
        [u64::from(child.id()), watchdog].into_iter().for_each(|pid| signal(pid, end));
    }
    child.wait().unwrap();
    lab.run(["undo"]).expect_code(0);
    expect_as_before(&before);
    assert!(!is_alive(daemon.0));
}

/// With no launcher above it any more, and no mark, it is in the command's cgroups still.
#[test]
fn when_its_launcher_is_killed_a_daemon_is_known_by_its_cgroup() {
    needs_cgroups!();
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let (mut child, daemon) = started(&lab, &["--cpus", "0.5"], true);
    let launcher = process_of(&lab, "server");
    signal(launcher, Signal::KILL);
    assert_eq!(child.wait().unwrap().code(), Some(4), "{}", lab.said("squeezed"));
    assert!(lab.said("squeezed").contains("the launcher of the command was killed"), "{}", lab.said("squeezed"));
    assert!(!is_alive(daemon.0));
    expect_as_before(&before);
}

/// Cgroups of the test's own, one for each controller, in which a caller can be: they tell it from the first one of the hierarchy.
struct Homes(Vec<PathBuf>);

impl Homes {
    fn make() -> Self {
        let make = |controller| {
            let root = squeeze::cgroup::mounted(controller).unwrap().root;
            let folder = root.join(format!("caller-{}", std::process::id()));
            let _ = fs::create_dir(&folder);
            for file in ["cpuset.cpus", "cpuset.mems"].iter().filter(|file| folder.join(file).exists()) {
                fs::write(folder.join(file), fs::read(root.join(file)).unwrap()).unwrap();
            }
            folder
        };
        Self(["memory", "cpu", "cpuset"].map(make).into())
    }

    /// The command, from within them.
    fn inside(&self, lab: &Lab, command: &Command) -> Command {
        let joins: String = self.0.iter().map(|home| format!("echo $$ >{}/cgroup.procs; ", home.display())).collect();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{joins} exec \"$@\"")).arg("sh").arg(command.get_program());
        shell.args(command.get_args()).current_dir(lab.home()).stdin(Stdio::null());
        shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        shell
    }
}

impl Drop for Homes {
    fn drop(&mut self) {
        for home in &self.0 {
            wait_until(PATIENCE, || fs::remove_dir(home).is_ok() || !home.exists());
        }
    }
}

/// By controller.
fn cgroups(pid: u64) -> BTreeMap<String, PathBuf> {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    lines.map(|(controllers, path)| (controllers.to_owned(), PathBuf::from(path))).collect()
}

fn has_a_mark(pid: u64) -> bool {
    let variables = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let links =
        fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(|it| fs::read_link(it.unwrap().path()).ok());
    String::from_utf8_lossy(&variables).contains("WRINGER_RUN=")
        || links.into_iter().any(|link| link.to_string_lossy().contains("/token"))
}

#[test]
fn what_is_left_goes_back_to_the_callers_own_cgroups() {
    needs_cgroups!();
    let (_alone, homes) = (alone(), Homes::make());
    let (lab, before) = (Lab::new(WRINGER), Snapshot::take());
    let rest = "sleep 1000 >/dev/null 2>&1 & echo $! >plain; \
                cat /proc/$(cat daemon)/cgroup >squeezed; exit 7";
    let options = ["--ram", "64M", "--cpus", "0.5", "--cpuset", "0", "--leave"];
    let ran = Ran::of(&mut homes.inside(&lab, &lab.command(squeeze(&options, &daemon(0, true, rest)))));
    let left = ["daemon", "plain"].map(|file| Ended(number_in(&lab, file)));
    let ran = ran.expect_code(7).expect_said(&["2 processes live on, squeezed no more", "everything is given back"]);
    let squeezed = fs::read_to_string(lab.home().join("squeezed")).unwrap();
    assert_eq!(squeezed.matches("/wringer-w-").count(), homes.0.len(), "{squeezed}");
    for process in &left {
        assert!(is_alive(process.0), "{}", ran.stderr);
        let (now, name) = (cgroups(process.0), format!("/caller-{}", std::process::id()));
        for controller in ["memory", "cpu", "cpuset"] {
            let (_, path) = now.iter().find(|(names, _)| names.split(',').any(|it| it == controller)).unwrap();
            assert_eq!(path, Path::new(&name), "{controller}: {now:?}");
        }
        assert!(!has_a_mark(process.0), "a later undo would take it for the run's");
    }
    // neither in the way of the next one, nor its prey
    let next = squeeze(&["--cpuset", "0", "-q"], &["true".into()]);
    lab.run(&next).expect_code(0);
    lab.run(["undo"]).expect_code(0);
    assert!(left.iter().all(|process| is_alive(process.0)));
    drop(left);
    expect_as_before(&before);
}

/// Without a cgroup, it is the CPUs of the command that are given back.
#[test]
fn what_an_ordinary_user_leaves_runs_on_all_his_cpus() {
    let (_alone, lab) = (alone(), Lab::as_ordinary_user(WRINGER));
    let rest = "grep Cpus_allowed_list: /proc/$(cat daemon)/status; exit 0";
    let ran = lab.run(squeeze(&["--cpuset", "0", "--leave"], &daemon(0, false, rest)));
    let daemon = Ended(number_in(&lab, "daemon"));
    assert_eq!(ran.expect_code(0).stdout, "Cpus_allowed_list:\t0\n");
    let cpus = |pid: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap().to_owned()
    };
    assert!(is_alive(daemon.0));
    assert_eq!(cpus(&daemon.0.to_string()), cpus("self"));
}

/// Somebody moves a process of his into the command's cgroup. It is older than the command: it is not ended, and goes to where the
/// caller of the command is.
#[test]
fn a_stranger_in_the_cgroup_lives_on() {
    needs_cgroups!();
    let (_alone, homes) = (alone(), Homes::make());
    let (lab, before) = (Lab::new(WRINGER), Snapshot::take());
    let stranger = Killed(Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn().unwrap());
    let script = "for group in $(sed -n 's/^.*:cpu[,a-z]*:\\(.*wringer.*\\)$/\\1/p' /proc/self/cgroup); do \
                  echo \"$STRANGER\" >\"$CPU$group/cgroup.procs\" || exit 9; done; exit 7";
    let mut command = lab.command(squeeze(&["--cpus", "0.5"], &["sh".into(), "-c".into(), script.into()]));
    command.env("STRANGER", stranger.0.id().to_string());
    command.env("CPU", squeeze::cgroup::mounted("cpu").unwrap().root);
    Ran::of(&mut homes.inside(&lab, &command)).expect_code(7);
    let pid = u64::from(stranger.0.id());
    assert!(is_alive(pid));
    let now = cgroups(pid);
    let (_, cpu) = now.iter().find(|(names, _)| names.split(',').any(|it| it == "cpu")).unwrap();
    assert_eq!(cpu, &PathBuf::from(format!("/caller-{}", std::process::id())), "{now:?}");
    drop(stranger);
    expect_as_before(&before);
}

/// A program that changes its user by its own right, as `sudo` does, and that the caller may not end.
#[test]
fn what_runs_as_another_user_and_cannot_be_ended_is_named() {
    if !is_root() {
        testkit::skip!("only root can make a set-user-id program");
    }
    let (_alone, lab) = (alone(), Lab::as_ordinary_user(WRINGER));
    let program = lab.home().join("become-root");
    fs::copy("/usr/bin/setpriv", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let script = "./become-root --reuid 0 --regid 0 --clear-groups sh -c 'echo $$ >/proc/self/fd/3; exec sleep 1000' \
                  3>root >/dev/null 2>&1 & \
                  until [ -s root ] && ! grep -qsx sh /proc/$(cat root)/comm; do sleep 0.05; done; \
                  sleep 1000 >/dev/null 2>&1 & echo $! >own; exit 7";
    let ran = lab.run(squeeze(&["--cpuset", "0", "--summary", "summary"], &["sh".into(), "-c".into(), script.into()]));
    let (root, own) = (Ended(number_in(&lab, "root")), number_in(&lab, "own"));
    let ran = ran.expect_code(5).expect_said(&["may not end sleep (process", &root.0.to_string(), "sudo kill"]);
    assert!(!ran.stderr.contains("everything is given back"), "{}", ran.stderr);
    assert_eq!((is_alive(root.0), is_alive(own)), (true, false), "one that stays keeps no other alive");
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(lab.home().join("summary")).unwrap()).unwrap();
    assert_eq!((&summary["exit_code"], &summary["not_ended"]), (&7.into(), &serde_json::json!([root.0])));
    assert_eq!(status(&lab)["runs"], serde_json::json!([]));
}

/// A standing run that a command has started is not the command's: it stands, and goes back as what is left does.
#[test]
fn a_run_of_its_own_outlives_the_squeeze_around_it() {
    needs_cgroups!();
    let (_alone, homes) = (alone(), Homes::make());
    let (lab, before) = (Lab::new(WRINGER), Snapshot::take());
    let hide = ["ram", "hide", "32M", "--yes", "--for", "5m"].map(str::to_owned);
    let command: Vec<String> = [WRINGER.to_owned()].into_iter().chain(hide).collect();
    let mut inside = homes.inside(&lab, &lab.command(squeeze(&["--cpus", "0.5"], &command)));
    let ran = Ran::of(&mut inside).expect_code(0);
    let said = status(&lab);
    let runs = said["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["condition"]), (1, &"live".into()), "{said:#}\n{}", ran.stderr);
    for process in runs[0]["processes"].as_array().unwrap() {
        let now = cgroups(process.as_u64().unwrap());
        let (_, cpu) = now.iter().find(|(names, _)| names.split(',').any(|it| it == "cpu")).unwrap();
        assert_eq!(cpu, &PathBuf::from(format!("/caller-{}", std::process::id())), "{now:?}");
    }
    lab.run(["ram", "release"]).expect_code(0);
    expect_as_before(&before);
}

#[test]
fn a_server_that_stands_is_not_squeezed_and_that_is_said() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let start = [WRINGER, "sandbox", "start", "none"].map(str::to_owned);
    let ran = lab.run(squeeze(&["--cpuset", "0"], &start));
    ran.expect_said(&["squeezes nothing of a server that stands", "sandbox start --ram SIZE"]);
    let ran = lab.run(["sandbox", "start", "none"]);
    assert!(!ran.stderr.contains("squeeze"), "{}", ran.stderr);
    if !is_root() {
        testkit::skip!("the rest needs root");
    }
    fs::create_dir(lab.home().join("data")).unwrap();
    let disk = format!("{}=read=1ms", lab.home().join("data").display());
    let ran = lab.run(squeeze(&["--disk", &disk], &start)).expect_code(3);
    ran.expect_said(&["ends with that", "start it outside"]);
}

#[test]
fn to_leave_and_to_slow_a_directory_down_do_not_go_together() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let disk = format!("{}=read=1ms", lab.home().display());
    lab.run(["squeeze", "--leave", "--disk", &disk, "--", "true"]).expect_code(2).expect_said(&["--leave", "--disk"]);
}
