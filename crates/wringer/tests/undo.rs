// SPDX-License-Identifier: Apache-2.0
//! `wringer status` and `wringer undo` with several squeezes, and with none.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;
mod stored_journal;

use host::change::own_cgroup;
use serde_json::{Value, json as as_json};
use slowfs::process::Options;
use squeeze::cgroup::{Controller, writable};
use standing::*;
use std::fs;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use stored_journal::{RUN, Stored, VERSIONS, folder};
use testkit::{Lab, LoopDevice, Ran, ReadAhead, Snapshot, alone, is_root};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

#[test]
fn there_is_nothing_to_undo() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    for _ in 0..2 {
        let ran = lab.run(["undo"]).expect_code(0);
        assert!(ran.stdout.contains("nothing to undo"));
    }
    assert_eq!(json(&lab.run(["undo", "-o", "json"]).expect_code(0))["ended"].as_array().unwrap().len(), 0);
    let shown = lab.run(["status"]).expect_code(0);
    assert!(shown.stdout.contains("nothing is changed"));
}

/// However many questions they ask of the host: on a machine with thousands of processes each list of them takes its time.
#[test]
fn status_and_undo_list_the_processes_once() {
    if Command::new("strace").arg("--version").output().is_err() {
        testkit::skip!("needs strace");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    for arguments in [vec!["status"], vec!["undo", "--dry-run"], vec!["undo"]] {
        let log = lab.home().join("opened");
        let ours = lab.command(&arguments);
        let mut traced = Command::new("strace");
        traced
            .args(["-f", "-qq", "-e", "trace=open,openat", "-o"])
            .arg(&log)
            .arg(ours.get_program())
            .args(ours.get_args());
        traced.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
        assert!(traced.output().unwrap().status.success(), "{arguments:?}");
        let opened = fs::read_to_string(&log).unwrap();
        let lists = opened.lines().filter(|line| line.contains("\"/proc\", ") || line.contains("\"/proc/\", ")).count();
        assert_eq!(lists, 1, "{arguments:?}\n{opened}");
    }
}

/// Each word that stands behind a run's name.
#[test]
fn the_help_of_status_explains_its_words() {
    let help = Lab::new(WRINGER).run(["status", "--help"]).expect_code(0).stdout;
    for word in ["live", "hot", "standing", "stale", "over", "lost", "foreign"] {
        assert!(help.lines().any(|line| line.split_whitespace().next() == Some(word)), "'{word}' is not in\n{help}");
    }
}

#[test]
fn a_run_that_is_not_there_is_named() {
    let lab = Lab::new(WRINGER);
    lab.run(["undo", "nonsense"]).expect_code(2).expect_said(&["wringer status"]);
    for arguments in [vec!["undo", "w-20200101-000000-0000"], vec!["undo", "w-20200101-000000-0000", "--dry-run"]] {
        lab.run(arguments).expect_code(3).expect_said(&["w-20200101-000000-0000"]);
    }
}

/// An undo leaves a standing server; whoever looks for what a failed test has left must find nothing.
#[test]
fn a_test_that_fails_leaves_no_server() {
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let home = lab.home().to_owned();
    let deployed = lab.run(["sandbox", "deploy", "postgresql", "--name", "left", "--start"]);
    if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
        testkit::skip!("no postgresql to be had: {}", deployed.stderr);
    }
    deployed.expect_code(0);
    let server = json(&lab.run(["sandbox", "status", "left", "-o", "json"]))["sandboxes"][0]["pid"].as_u64().unwrap();
    let failed = std::thread::spawn(move || {
        let _lab = lab;
        panic!("on purpose");
    });
    assert!(failed.join().is_err());
    assert!(!is_alive(server), "its server stands");
    assert!(!home.exists(), "{} is still there", home.display());
}

/// Two squeezes at once, both cut off: one undo puts both back. Undo of one run leaves the other.
#[test]
fn two_squeezes_live_side_by_side_and_are_undone_together_or_apart() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab, before) = (alone(), Lab::new(WRINGER), Snapshot::take());
    let folder = lab.home().join("data");
    std::fs::create_dir(&folder).unwrap();
    let squeeze = || {
        let ram = json(&lab.run(["ram", "hide", "64M", "--yes", "-o", "json"]).expect_code(0));
        let path = folder.to_str().unwrap();
        let disk = json(&lab.run(["disk", "delay", path, "--sync", "1ms", "-o", "json"]).expect_code(0));
        (ram, disk)
    };
    let (ram, disk) = squeeze();
    let live = status(&lab);
    assert!(live["runs"].as_array().unwrap().iter().all(|run| run["condition"] == "live"), "{live:#}");
    lab.run(["undo", ram["run"].as_str().unwrap()]).expect_code(0);
    assert!(testkit::wait_until(SETTLING, || meminfo("HugePages_Total") == 0));
    assert_eq!(status(&lab)["runs"][0]["run"], disk["run"]);
    lab.run(["undo"]).expect_code(0);
    expect_as_before(&before);

    let (ram, disk) = squeeze();
    let found = status(&lab);
    let watchdogs = found["runs"].as_array().unwrap().iter().map(|run| &run["steps"][0]["processes"][0]);
    let supervisors = [&ram["pid"], &disk["pid"]].into_iter();
    let pids: Vec<u64> = supervisors.chain(watchdogs).map(|it| it.as_u64().unwrap()).collect();
    kill_together(&pids);
    let hot = serde_json::json!([disk["run"]]);
    assert!(
        testkit::wait_until(PATIENCE, || status(&lab)["hot"] == hot),
        "hidden RAM comes back by itself, a mount does not"
    );
    lab.run(["ram", "hide", "64M", "--yes"]).expect_code(3).expect_said(&["was not undone", "wringer undo"]);
    let elsewhere = json(&Lab::new(WRINGER).run(["undo", "-o", "json"]).expect_code(5));
    let cure = format!("WRINGER_HOME={} wringer undo", lab.home().display());
    assert_eq!((&elsewhere["unsure"][0]["run"], &elsewhere["unsure"][0]["cure"]), (&disk["run"], &cure.into()));
    lab.run(["undo"]).expect_code(0);
    expect_as_before(&before);
    assert_eq!(status(&lab)["runs"].as_array().unwrap().len(), 0);
}

/// Of the same user below another home, and of another user: each sees that the other lives, and leaves it alone.
#[test]
fn what_lives_below_another_home_is_told_and_left_alone() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, theirs, own, before) = (alone(), Lab::new(WRINGER), Lab::new(WRINGER), Snapshot::take());
    let stranger = Lab::as_ordinary_user(WRINGER);
    theirs.run(["ram", "hide", "64M", "--yes"]).expect_code(0);
    let holder = process_of(&theirs, "holder");
    let mut squeezed = stranger.command(["squeeze", "--no-probe", "--cpuset", "0", "--", "sleep", "600"]);
    let mut squeezed = Killed(squeezed.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    let begun = || status(&stranger)["runs"].as_array().is_some_and(|runs| runs.len() == 1);
    assert!(testkit::wait_until(PATIENCE, begun), "the squeeze does not begin");
    for lab in [&own, &stranger] {
        let ran = lab.run(["status"]).expect_code(0);
        let shown = ran.stdout + &ran.stderr;
        assert!(!shown.contains("lost") && !shown.contains("hot"), "{shown}");
    }
    let ran = own.run(["status"]).expect_code(0);
    let shown = ran.stdout + &ran.stderr;
    let where_it_is = format!("WRINGER_HOME={} wringer status", theirs.home().display());
    assert!(shown.contains("is live, below another WRINGER_HOME") && shown.contains(&where_it_is), "{shown}");
    let _ = own.run(["undo"]).expect_code(0);
    let _ = own.run(["ram", "release"]).expect_code(0);
    assert!(is_alive(holder) && squeezed.0.try_wait().unwrap().is_none(), "an undo of another home ended it");
    let _ = stranger.run(["undo"]).expect_code(0);
    assert!(is_alive(holder), "an undo of another user ended it");
    assert!(testkit::wait_until(PATIENCE, || squeezed.0.try_wait().unwrap().is_some()), "his own is ended");
    let _ = theirs.run(["undo"]).expect_code(0);
    expect_as_before(&before);
}

/// As root behind sudo starts the server of a sandbox: the user who called sudo sees the server and its cgroup, and not the rest of the run.
#[test]
fn a_run_of_root_is_roots_whoever_its_server_is() {
    if !is_root() || squeeze::cgroup::writable("cpu").is_err() {
        testkit::skip!("needs root, and the right to make a cgroup of the controller cpu");
    }
    let (_alone, theirs, own) = (alone(), Lab::new(WRINGER), Lab::as_ordinary_user(WRINGER));
    let uid = fs::metadata(own.home()).unwrap().uid();
    let (user, group) = (format!("--reuid={uid}"), format!("--regid={uid}"));
    let server = ["setpriv", &user, &group, "--clear-groups", "sleep", "600"];
    let _server = Killed(theirs.start("squeezed", ["squeeze", "--cpus", "1", "--"].iter().chain(&server)));
    let mut seen = status(&own)["lost"].take();
    let is_seen = |lost: &Value| lost.to_string().contains("sleep (process");
    assert!(testkit::wait_until(PATIENCE, || is_seen(&seen) || {
        seen = status(&own)["lost"].take();
        false
    }));
    assert_eq!(seen[0]["condition"], "foreign", "{seen:#}");
    let undone = own.run(["undo"]).expect_code(0).expect_said(&["of the user with uid 0"]);
    assert!(undone.stdout.contains("nothing to undo"), "{undone:?}");
}

/// A relative home is the same one from wherever it is looked at.
#[test]
fn a_relative_home_is_told_as_an_absolute_one() {
    let lab = Lab::new(WRINGER);
    let mut command = lab.command(["status"]);
    let ran = Ran::of(command.env("WRINGER_HOME", "relative").current_dir(lab.home())).expect_code(0);
    let journals = format!("journals in {}", lab.home().canonicalize().unwrap().join("relative/journal").display());
    assert!(ran.stderr.contains(&journals), "{}{}", ran.stdout, ran.stderr);
}

/// A process with the mark of the run whose journal is stored.
fn marked_sleep(lab: &Lab) -> Killed {
    let mut sleep = Command::new("sleep");
    Killed(sleep.arg("600").env("WRINGER_RUN", RUN).env("WRINGER_HOME", lab.home()).spawn().unwrap())
}

fn is_over(process: &mut Killed) -> bool {
    testkit::wait_until(PATIENCE, || process.0.try_wait().unwrap().is_some())
}

/// The slow layer of that run over a directory, for everybody.
fn slow_layer(lab: &Lab, directory: &Path) -> Killed {
    let options = Options::over(directory, &folder(lab).join("slowfs.sock"), RUN);
    let order = as_json!({ "role": "slowfs", "order": Options { private: false, writeback_cache: false, ..options } });
    let mut command = Command::new(WRINGER);
    command.args(["internal", "slowfs"]).env("WRINGER_RUN", RUN).env("WRINGER_HOME", lab.home());
    let mut layer = Killed(command.stdin(Stdio::piped()).spawn().unwrap());
    write!(layer.0.stdin.take().unwrap(), "{order}").unwrap();
    assert!(testkit::wait_until(PATIENCE, || is_mounted(directory)), "the layer does not mount itself");
    layer
}

fn is_mounted(directory: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == directory.to_str())
}

fn cgroup(controller: &Controller, name: &str, process: &Killed) -> std::path::PathBuf {
    let folder = controller.root.join(name);
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("cgroup.procs"), process.0.id().to_string()).unwrap();
    folder
}

/// A kernel value, a cgroup with a server in it, a holder, a slow layer, and its mount, whose undo had begun already.
#[test]
fn what_an_earlier_release_has_left_is_undone_to_the_same_host() {
    let Some(controller) = writable("cpu").ok().filter(|_| is_root() && Path::new("/dev/fuse").exists()) else {
        testkit::skip!("needs root, /dev/fuse, and the right to make a cgroup of the controller cpu");
    };
    let _alone = alone();
    for version in VERSIONS {
        let (lab, before) = (Lab::new(WRINGER), Snapshot::take());
        let (data, value) = (lab.home().join("data"), lab.write("value", "512\n"));
        fs::create_dir(&data).unwrap();
        let (mut holder, mut server, mut layer) = (marked_sleep(&lab), marked_sleep(&lab), slow_layer(&lab, &data));
        let group = cgroup(&controller, &format!("wringer-{RUN}"), &server);
        Stored::read(&format!("v{version}.journal"))
            .with("/proc/sys/vm/nr_overcommit_hugepages", value.to_str().unwrap())
            .with(&format!("/sys/fs/cgroup/memory/wringer-{RUN}"), group.to_str().unwrap())
            .with("\"version\":\"v1\"", &format!("\"version\":{}", as_json!(controller.version)))
            .with("/srv/data", data.to_str().unwrap())
            .with_process(4005, holder.0.id())
            .with_process(4006, layer.0.id())
            .write(&lab);
        let seen = status(&lab);
        assert_eq!(seen["hot"], as_json!([RUN]), "version {version}: {seen:#}");
        let undone = json(&lab.run(["undo", "-o", "json"]).expect_code(0));
        assert_eq!(undone["ended"], as_json!([RUN]), "version {version}: {undone:#}");
        assert!([&mut holder, &mut server, &mut layer].into_iter().all(is_over), "version {version}");
        assert_eq!(fs::read_to_string(&value).unwrap().trim(), "0", "version {version}");
        assert!(!is_mounted(&data) && !group.exists(), "version {version}");
        expect_as_before(&before);
    }
}

/// Gives the file of a loop device the name that the program gives it: `losetup` writes the file's path (linux/loop.h: `loop_info64` has 232 bytes, and
/// the name is at 56).
fn rename_file_of_loop(device: &Path, name: &str) {
    const GET_STATUS: libc::Ioctl = 0x4c05;
    const SET_STATUS: libc::Ioctl = 0x4c04;
    let node = fs::File::options().read(true).write(true).open(device).unwrap();
    let mut info = [0_u64; 29];
    let mut bytes = [0; 64];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: the kernel writes 232 bytes, as many as there are
    assert_eq!(unsafe { libc::ioctl(node.as_raw_fd(), GET_STATUS, info.as_mut_ptr()) }, 0);
    for (word, part) in info[7..15].iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(part.try_into().unwrap());
    }
    // SAFETY: the kernel reads 232 bytes, as many as there are
    assert_eq!(unsafe { libc::ioctl(node.as_raw_fd(), SET_STATUS, info.as_ptr()) }, 0);
}

/// A slow image, and another one that was cut before its loop device was attached; since version 2 with the read-ahead of the free device.
#[test]
fn a_loop_device_that_an_earlier_release_has_left_is_detached() {
    if !is_root() || !Path::new("/sys/block/loop0").exists() {
        testkit::skip!("needs root and loop devices");
    }
    let _alone = alone();
    for name in ["v1-loop", "v2-loop", "v2-readahead"] {
        let (lab, before) = (Lab::new(WRINGER), Snapshot::take());
        let file = lab.write(&format!("wringer-{RUN}"), "");
        fs::File::options().write(true).open(&file).unwrap().set_len(MIB).unwrap();
        let device = LoopDevice::free();
        let read_ahead = ReadAhead::of(&device);
        let was = read_ahead.now();
        let attached = LoopDevice::attach_at(&device, &file);
        rename_file_of_loop(&device, &format!("wringer-{RUN}"));
        let stored = Stored::read(&format!("{name}.journal")).with("/dev/loop3", attached.shown());
        if name == "v2-readahead" {
            read_ahead.set("64");
            let loop_name = device.file_name().unwrap().to_str().unwrap();
            stored.with("/sys/block/loop3/", &format!("/sys/block/{loop_name}/")).with("\"128\"", &format!("\"{was}\""))
        } else {
            stored
        }
        .write(&lab);
        let undone = json(&lab.run(["undo", "-o", "json"]).expect_code(0));
        assert_eq!(undone["ended"], as_json!([RUN]), "{name}: {undone:#}");
        let backing = Path::new("/sys/block").join(device.file_name().unwrap()).join("loop/backing_file");
        assert!(!backing.exists(), "{name}: {} is still attached", device.display());
        if name == "v2-readahead" {
            assert_eq!(read_ahead.now(), was);
        }
        // older records do not say it, so the program cannot put it back
        drop(read_ahead);
        // it is detached already
        std::mem::forget(attached);
        expect_as_before(&before);
    }
}

/// Three words that were set one after the other, the last perhaps not; and cgroups of a server and of a command whose processes live on.
#[test]
fn words_and_members_of_cgroups_of_an_earlier_release_are_undone() {
    let Some(controller) = writable("cpu").ok().filter(|_| is_root()) else {
        testkit::skip!("needs root, and the right to make a cgroup of the controller cpu");
    };
    let _alone = alone();
    let (lab, before) = (Lab::new(WRINGER), Snapshot::take());
    let words = lab.write("enabled", "never\n");
    let of_kernel = "/sys/kernel/mm/transparent_hugepage/enabled";
    Stored::read("v2-thp.journal")
        .with(of_kernel, words.to_str().unwrap())
        .with("[always] madvise never", "always")
        .with("always madvise [never]", "never")
        .write(&lab);
    lab.run(["undo"]).expect_code(0);
    assert_eq!(fs::read_to_string(&words).unwrap().trim(), "madvise");

    let home = own_cgroup(&controller.root).unwrap();
    let (mut server, left) = (marked_sleep(&lab), Killed(Command::new("sleep").arg("600").spawn().unwrap()));
    let groups = [("server", &server), ("left", &left)]
        .map(|(name, process)| cgroup(&controller, &format!("wringer-{RUN}-{name}"), process));
    Stored::read("v2-members.journal")
        .with("/sys/fs/cgroup/cpu/user/7", home.to_str().unwrap())
        .with("/sys/fs/cgroup/cpu/wringer", &format!("{}/wringer", controller.root.display()))
        .with("\"version\":\"v1\"", &format!("\"version\":{}", as_json!(controller.version)))
        .write(&lab);
    lab.run(["undo"]).expect_code(0);
    assert!(is_over(&mut server) && is_alive(left.0.id().into()), "the server is ended, and the other lives on");
    assert!(groups.iter().all(|group| !group.exists()), "{groups:?}");
    drop(left);
    expect_as_before(&before);
}
