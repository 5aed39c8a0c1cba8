// SPDX-License-Identifier: Apache-2.0
//! What goes wrong for people, on the real program: a clear message, the right exit code, and a clean host, each time.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)] // the tests kill, and make a small file system

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::{Lab, Ran, Snapshot, alone, is_root, small_experiment, wait_until};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A small experiment that takes long enough to be interrupted. Its delay is one that no probe holds to a time: the machine may be busy.
fn long() -> String {
    small_experiment("60s", "disk = { sync = \"1ms\" }")
}

#[test]
fn a_malformed_file_is_refused_with_the_line_and_a_suggestion() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("bad.toml", &long().replace("workload", "wrokload").replace("60s", "-5s"));
    for command in ["run", "plan"] {
        lab.run([command, file.to_str().unwrap()]).expect_code(2).expect_said(&[
            ":11:1:",
            "wrokload",
            "did you mean \"workload\"",
            ":12:8:",
        ]);
    }
}

#[test]
fn a_disk_whose_histogram_cannot_be_read_is_refused_before_anything_is_made() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("no-histogram.toml", &small_experiment("1s", "disk = { read = \"histogram:/nowhere.json\" }"));
    for command in ["run", "plan", "doctor"] {
        let ran = lab.run([OsStr::new(command), file.as_os_str()]).expect_code(2);
        let ran = ran.expect_said(&["no-histogram.toml:", "No such file"]);
        assert!(!ran.stderr.contains("deployed"), "{}", ran.stderr);
    }
}

#[test]
fn a_pool_of_any_size_is_held_against_the_servers_ram() {
    let lab = Lab::new(WRINGER);
    let text = small_experiment("1s", "server_ram = \"512M\"").replace("\"16M\"", "\"18446744073709551615\"");
    let file = lab.write("large.toml", &text);
    lab.run([OsStr::new("plan"), file.as_os_str()]).expect_code(2).expect_said(&["would kill the server"]);
}

#[test]
fn a_negative_value_is_told_as_what_it_is() {
    let lab = Lab::new(WRINGER);
    lab.run(["fill", "--times-pool", "-1"]).expect_code(2).expect_said(&["a number above 0"]);
    lab.run(["fill", "--k-distribution=zipfian", "--rand-zipfian-exp", "-1"])
        .expect_code(2)
        .expect_said(&["rand-zipfian-exp is -1"]);
    let cases: [&[&str]; 6] = [
        &["disk", "delay", "/nowhere", "--read", "-5ms"],
        &["disk", "delay", "/nowhere", "--write=normal:-5ms,1ms"],
        &["squeeze", "--disk", "/nowhere=sync=-5ms", "--", "true"],
        &["ram", "hide", "1G", "--for", "-1.5h"],
        &["load", "oltp_read_only", "--time", "-5"],
        &["probe", "read", "/nowhere", "--time", "-5s"],
    ];
    for arguments in cases {
        let ran = lab.run(arguments).expect_code(2).expect_said(&["is negative"]);
        assert!(!ran.stderr.contains("tip:"), "{}", ran.stdout);
    }
    lab.run(["squeeze", "--cpus", "-1", "--", "true"]).expect_code(2).expect_said(&["a number of CPUs"]);
    // what belongs to a command is not looked at; its cgroup is in others' look at the host
    let _alone = alone();
    let quiet = ["squeeze", "--cpuset", "0", "-q", "--", "echo", "--lines", "-5"];
    assert_eq!(lab.run(quiet).expect_code(0).stdout, "--lines -5\n");
    lab.run(["status", "-5"]).expect_code(2).expect_said(&["unexpected argument '-5'"]);
}

#[test]
fn a_file_that_is_not_there_is_missing_for_every_command() {
    let lab = Lab::new(WRINGER);
    let cases: [&[&str]; 17] = [
        &["run", "nowhere.toml"],
        &["plan", "nowhere.toml"],
        &["matrix", "plan", "nowhere.toml"],
        &["matrix", "run", "nowhere.toml"],
        &["matrix", "status", "nowhere.toml"],
        &["allocators", "nowhere.toml", "--to", "folder"],
        &["memory", "profile", "nowhere.toml", "--to", "folder"],
        &["memory", "account", "--from", "nowhere.toml"],
        &["explain", "nowhere.toml"],
        &["report", "nowhere.toml"],
        &["compare", "nowhere.toml", "nowhere.toml"],
        &["heap", "show", "nowhere.toml"],
        &["modes", "nowhere.toml"],
        &["replay", "nowhere.toml"],
        &["stalls", "explain", "nowhere.toml"],
        &["load", "nowhere.toml"],
        &["sandbox", "deploy", "mariadb", "--from", "nowhere.toml"],
    ];
    for arguments in cases {
        lab.run(arguments).expect_code(3).expect_said(&["nowhere.toml"]);
    }
    std::fs::write(lab.home().join("no-text.toml"), [0xff, 0xfe]).unwrap();
    lab.run(["run", "no-text.toml"]).expect_code(2).expect_said(&["no-text.toml", "no text"]);
}

/// Half a result must not pass for a whole one. A reader who has seen enough is no error.
#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let lab = Lab::new(WRINGER);
    let cases: [&[&str]; 6] = [
        &["--help"],
        &["--version"],
        &["fill", "--help"],
        &["status", "-o", "json"],
        &["sandbox", "list", "-o", "json"],
        &["sandbox", "available", "--capabilities"],
    ];
    for arguments in cases {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(lab.command(arguments).stdout(full)).expect_code(4);
        ran.expect_said(&["could not be written to standard output", "No space left on device"]);
        let mut command = lab.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        assert!(ended.status.success() && ended.stderr.is_empty(), "{arguments:?}: {ended:?}");
    }
}

#[test]
fn an_output_folder_with_something_else_in_it_is_not_touched() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("long.toml", &long());
    let precious = lab.write("precious", "do not touch");
    let ran = lab.run(["run", file.to_str().unwrap(), "--to", lab.home().to_str().unwrap()]);
    ran.expect_code(3).expect_said(&["is not empty"]);
    assert_eq!(std::fs::read_to_string(precious).unwrap(), "do not touch");
}

#[test]
fn a_folder_that_takes_no_results_is_refused_before_anything_is_done() {
    let lab = Lab::as_ordinary_user(WRINGER);
    let file = lab.write("long.toml", &small_experiment("1s", ""));
    let file = file.to_str().unwrap();
    let not_a_folder = format!("{file}/below/it");
    lab.run(["run", file, "--to", &not_a_folder])
        .expect_code(3)
        .expect_said(&["no results can be written into", "--to"]);
    // even the system's own folders are writable to none but root
    lab.run(["run", file, "--to", "/proc/1/results"]).expect_code(3).expect_said(&["no results can be written into"]);
    assert!(!lab.home().join("journal").exists(), "nothing had begun");
}

/// Journals are kept in a folder of the user's: where it takes none, or has a name that is no text, that is said with what helps.
#[test]
fn a_home_that_takes_no_journal_is_named() {
    let lab = Lab::as_ordinary_user(WRINGER);
    let squeeze = ["squeeze", "--cpuset", "0", "--", "true"];
    let at = |home: &OsStr, arguments: &[&str]| Ran::of(lab.command(arguments).env("WRINGER_HOME", home));
    at("/proc/1/home".as_ref(), &squeeze).expect_code(3).expect_said(&["/proc/1/home", "set WRINGER_HOME"]);
    let no_text = lab.home().join(OsStr::from_bytes(b"h\xff"));
    at(no_text.as_ref(), &["status", "-o", "json"]).expect_code(2).expect_said(&["is not UTF-8", "set WRINGER_HOME"]);
}

#[test]
fn two_runs_do_not_write_into_one_folder() {
    let lab = Lab::new(WRINGER);
    let file = lab.write("long.toml", &small_experiment("1s", ""));
    let out = lab.home().join("out");
    std::fs::create_dir(&out).unwrap();
    let earlier = lab.write("out/result.json", "of the run that is under way");
    let other_run = std::fs::File::open(&out).unwrap();
    other_run.lock().unwrap();
    let ran = lab.run(["run", file.to_str().unwrap(), "--to", out.to_str().unwrap(), "--force"]);
    ran.expect_code(3).expect_said(&["another run writes its results into"]);
    assert_eq!(std::fs::read_to_string(earlier).unwrap(), "of the run that is under way");
}

#[test]
fn a_missing_server_that_cannot_be_fetched_is_named() {
    // looked for by the test itself: a run that ends with 0 anywhere else is a failure
    let programs = ["/usr/sbin/mariadbd", "/usr/bin/mariadbd", "/usr/local/sbin/mariadbd", "/usr/local/bin/mariadbd"];
    if programs.iter().any(|program| Path::new(program).exists()) {
        testkit::skip!("needs a machine without an installed mariadbd");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let file = lab.write("long.toml", &long());
    let empty = lab.home().join("empty-cache");
    let before = Snapshot::take();
    let mut command = lab.command(["run", file.to_str().unwrap()]);
    let ran = Ran::of(command.env("PATH", "/nonexistent").env("WRINGER_CACHE", &empty));
    ran.expect_code(3)
        .expect_said(&["no mariadb on this machine, and without 'apt-get' none can be fetched", "install mariadb"]);
    before.expect_unchanged();
}

/// Beforehand: nothing is fetched for it, no folder is touched.
#[test]
fn what_a_sandbox_sets_itself_and_a_name_that_cannot_be_are_refused() {
    let lab = Lab::new(WRINGER);
    let deploy = |arguments: &[&str]| lab.run(["sandbox", "deploy", "mariadb"].iter().chain(arguments)).expect_code(2);
    deploy(&["-c", "datadir=/var/lib/mysql"]).expect_said(&["datadir=/var/lib/mysql", "the sandbox sets this itself"]);
    deploy(&["-c", "port=3306"]).expect_said(&["deploy --port N"]);
    let refused = deploy(&["--name", "../x"]).expect_said(&["../x"]);
    assert!(!refused.stderr.contains("fetch"), "{}", refused.stderr);
}

#[test]
fn a_port_that_somebody_listens_on_is_named() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    lab.run(["sandbox", "fetch", "mariadb"]).expect_code(0);
    lab.run(["sandbox", "deploy", "mariadb", "--port", "0"]).expect_code(2).expect_said(&["0 is not in 1..=65535"]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let before = Snapshot::take();
    let ran = lab.run(["sandbox", "deploy", "mariadb", "--name", "taken", "--port", &port]).expect_code(3);
    ran.expect_said(&[&format!("port {port} on 127.0.0.1 is in use"), "deploy with another --port"]);
    before.expect_unchanged();
    assert!(!lab.home().join("sandboxes/taken").exists());
}

#[test]
fn root_runs_no_program_from_a_cache_of_somebody_else() {
    if !testkit::is_root() {
        testkit::skip!("needs root");
    }
    let lab = Lab::new(WRINGER);
    let (cache, ran) = (lab.home().join("cache"), lab.home().join("it-ran"));
    let tree = cache.join("servers/mariadb-10.11.99/tree/usr/sbin");
    fs::create_dir_all(&tree).unwrap();
    let source = r#"{"kind": "package", "name": "mariadb-server-core", "version": "10.11.99"}"#;
    let record =
        format!(r#"{{"schema": 1, "flavour": "mariadb", "version": "10.11.99", "source": {source}, "packages": []}}"#);
    fs::write(cache.join("servers/mariadb-10.11.99/fetched.json"), record).unwrap();
    // a server has its tables' statements beside it
    let share = cache.join("servers/mariadb-10.11.99/tree/usr/share/mysql");
    fs::create_dir_all(&share).unwrap();
    fs::write(share.join("mariadb_system_tables.sql"), "").unwrap();
    let program = tree.join("mariadbd");
    fs::write(&program, format!("#!/bin/sh\ntouch {}\necho 'mariadbd  Ver 10.11.99-MariaDB'\n", ran.display()))
        .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let fetch = || Ran::of(lab.command(["sandbox", "fetch", "mariadb", "10.11.99"]).env("WRINGER_CACHE", &cache));
    fetch().expect_code(0).expect_said(&["10.11.99"]);
    assert!(ran.exists(), "root's own cache is used");
    fs::remove_file(&ran).unwrap();
    assert!(Command::new("chown").args(["-R", "65534"]).arg(&cache).status().unwrap().success());
    fetch().expect_code(3).expect_said(&["belongs to"]);
    assert!(!ran.exists(), "root ran another user's program");
}

#[test]
fn what_needs_root_says_so_and_changes_nothing() {
    let _alone = alone();
    let before = Snapshot::take();
    let lab = Lab::as_ordinary_user(WRINGER);
    lab.run(["ram", "hide", "64M", "--mechanism", "holder"]).expect_code(3).expect_said(&["root"]);
    before.expect_unchanged();
}

#[test]
fn a_disk_too_small_for_the_data_is_refused_and_leaves_the_host_clean() {
    if !is_root() {
        testkit::skip!("needs root to make a small file system");
    }
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    lab.run(["sandbox", "fetch", "mariadb"]).expect_code(0);
    let file = lab.write("long.toml", &long());
    let before = Snapshot::take();
    // a file system of 48 MiB in a mount namespace of this command's own: it goes with the command
    let script = format!(
        "mkdir small && mount -t tmpfs -o size=48M,mode=0711 small small && \
         WRINGER_HOME=$PWD/small exec {WRINGER} run {} --to out",
        file.display()
    );
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "sh", "-c", &script]);
    for (name, value) in lab.command(["help"]).get_envs() {
        inside.env(name, value.unwrap_or_default());
    }
    let ran = Ran::of(inside.current_dir(lab.home()));
    let need = ["the data needs about", "MiB free; fill less, or set WRINGER_HOME to a larger file system"];
    ran.expect_code(3).expect_said(&need);
    before.expect_unchanged();
}

#[test]
fn a_home_on_a_full_disk_is_told_with_what_helps() {
    if !is_root() {
        testkit::skip!("needs root to make a small file system");
    }
    let _alone = alone();
    let lab = Lab::new(WRINGER);
    let before = Snapshot::take();
    // in a mount namespace of this command's own: it goes with the command
    let script = format!(
        "mkdir small slow && mount -t tmpfs -o size=256k,mode=0711 small small && \
         dd if=/dev/zero of=small/full bs=1k 2>dd; export WRINGER_HOME=$PWD/small; {WRINGER} disk delay slow --read 1ms; code=$?; \
         {WRINGER} squeeze --cpuset 0 -- true 2>squeezed; {WRINGER} status; exit $code"
    );
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "sh", "-c", &script]);
    let ran = Ran::of(inside.current_dir(lab.home()));
    let said =
        ["error: reserve space in ", "No space left on device", "everything is undone", "hint: set WRINGER_HOME to"];
    assert!(ran.stdout.contains(": its journal is empty: it changed nothing"), "{}", ran.stdout);
    ran.expect_code(4).expect_said(&said);
    before.expect_unchanged();
}

#[test]
fn a_server_that_dies_in_the_middle_ends_the_run() {
    let _alone = alone();
    let before = Snapshot::take();
    let lab = Lab::new(WRINGER);
    let file = lab.write("long.toml", &without_disk_unless_possible(&long()));
    let mut run = lab.start("run", ["run", file.to_str().unwrap(), "--to", "out"]);
    assert!(wait_until(Duration::from_secs(120), || under_load(&lab)), "never under load:\n{}", lab.said("run"));
    measure_a_while(&lab);
    let server = server_pid(&lab).expect("the server has a pid file");
    assert!(Command::new("kill").args(["-KILL", &server]).status().unwrap().success());
    assert_eq!(run.wait().unwrap().code(), Some(4), "{}", lab.said("run"));
    let said = lab.said("run");
    let end = ["the measured phase of arm", "the server ended by itself, killed by signal 9", "out of memory"];
    let log = ["the end of its log:", "ready for connections"];
    for words in end.iter().chain(&log) {
        assert!(said.contains(words), "'{words}' is missing:\n{said}");
    }
    // once, after the fill
    assert_eq!(said.matches("the server stopped cleanly").count(), 1, "{said}");
    expect_kept(&lab, "the server ended by itself, killed by signal 9");
    before.expect_unchanged();
}

/// Until something has been measured: statements of the load, and the host after them.
fn measure_a_while(lab: &Lab) {
    assert!(wait_until(Duration::from_secs(60), || lab.said("run").contains(": measuring")), "{}", lab.said("run"));
    let path = lab.home().join("out/recording.sqlite");
    let last = |source: &str, name: &str| {
        let is_it = |series: &evidence::Series| series.source == source && series.name == name;
        let seen = recording::Recording::read_for(&path, is_it).ok()?;
        seen.samples.into_iter().find(is_it)?.points.last().copied()
    };
    let executed = || last("server.status", "Com_stmt_execute");
    let before = executed().map_or(0.0, |point| point.value);
    let begun = wait_until(Duration::from_secs(60), || executed().is_some_and(|point| point.value > before + 100.0));
    let at_us = executed().map_or(u64::MAX, |point| point.at_us);
    let measured =
        wait_until(Duration::from_secs(60), || last("stat", "ctxt").is_some_and(|point| point.at_us > at_us));
    assert!(begun && measured, "{}", lab.said("run"));
}

/// The arm that broke off has what it measured until then, and says why, in the result and in the report.
fn expect_kept(lab: &Lab, why: &str) {
    let text = std::fs::read_to_string(lab.home().join("out/result.json")).unwrap();
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let arm = &result["arms"][0];
    assert!(arm["broke_off"].as_str().unwrap().contains(why), "{}", arm["broke_off"]);
    let measured = &arm["load"]["measured"];
    assert!(measured["transactions"].as_u64().unwrap() > 0, "{measured:#}");
    assert_eq!(measured["transaction"]["service"]["count"], measured["transactions"]);
    let slots = measured["timeline"].as_array().unwrap();
    let counted: u64 = slots.iter().map(|slot| slot["transactions"].as_u64().unwrap()).sum();
    assert_eq!(measured["transactions"], counted);
    let page = std::fs::read_to_string(lab.home().join("out/report.html")).unwrap();
    assert!(page.contains("broke off: ") && page.contains(why));
    let evidence = recording::Recording::read(&lab.home().join("out/recording.sqlite")).unwrap();
    let started_us = evidence.arms[0].load.as_ref().unwrap().measured.started_us;
    let during = |series: &&evidence::Series| series.points.iter().any(|point| point.at_us > started_us);
    assert!(
        evidence.samples.iter().filter(during).any(|series| series.source == "stat"),
        "samples of the phase are kept"
    );
}

#[test]
fn control_c_twice_undoes_everything_first() {
    let _alone = alone();
    let before = Snapshot::take();
    let lab = Lab::new(WRINGER);
    let file = lab.write("long.toml", &without_disk_unless_possible(&long()));
    let mut run = lab.start("run", ["run", file.to_str().unwrap(), "--to", "out"]);
    assert!(wait_until(Duration::from_secs(120), || under_load(&lab)), "never under load:\n{}", lab.said("run"));
    measure_a_while(&lab);
    let pid = run.id().to_string();
    let interrupt = || assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    interrupt();
    // two at once would count as one
    let reacted = || lab.said("run").contains("ending early: interrupted");
    assert!(wait_until(Duration::from_secs(60), reacted), "no reaction:\n{}", lab.said("run"));
    interrupt();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{}", lab.said("run"));
    expect_kept(&lab, "somebody interrupted the run");
    before.expect_unchanged();
}

/// The progress talk says so when the measured load of an arm begins.
fn under_load(lab: &Lab) -> bool {
    lab.said("run").contains("measuring")
}

fn server_pid(lab: &Lab) -> Option<String> {
    let sandboxes = std::fs::read_dir(lab.home().join("sandboxes")).ok()?;
    let mut pids = sandboxes.flatten().filter_map(|sandbox| {
        let files = std::fs::read_dir(sandbox.path().join("run")).ok()?;
        let mut pid_files = files.flatten().filter(|file| file.path().extension().is_some_and(|e| e == "pid"));
        std::fs::read_to_string(pid_files.next()?.path()).ok()
    });
    pids.next().map(|pid| pid.lines().next().unwrap_or_default().trim().to_owned())
}

/// An ordinary user on a machine with a closed `/dev/fuse` still runs these tests, on the disk as it is.
fn without_disk_unless_possible(text: &str) -> String {
    let open = std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse").is_ok();
    if open { text.to_owned() } else { text.replace("[squeeze]\ndisk = { sync = \"1ms\" }\n", "") }
}
