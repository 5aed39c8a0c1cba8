// SPDX-License-Identifier: Apache-2.0
//! What cannot be seen is unknown, never dead: every command that removes, stops or releases, asked from where the processes of a standing
//! server cannot be seen, leaves it alone; and from where they can, it does what it says.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod standing;

use standing::*;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::{Lab, Ran, alone, is_root, takes_every_case};

const WRINGER: &str = env!("CARGO_BIN_EXE_wringer");

/// A place from which processes are not seen: the words that lead there, before a command.
#[derive(Clone, Copy)]
struct Place {
    name: &'static str,
    words: &'static [&'static str],
}

const USER_NAMESPACE: Place = Place { name: "user namespace", words: &["unshare", "--map-current-user"] };

/// All of an ordinary user's.
const PLACES: [Place; 4] = [
    USER_NAMESPACE,
    Place { name: "pid namespace", words: &["unshare", "--map-current-user", "--pid", "--fork", "--mount-proc"] },
    Place {
        name: "pid namespace without a /proc of its own",
        words: &["unshare", "--map-current-user", "--pid", "--fork"],
    },
    Place {
        name: "no /proc",
        words: &["unshare", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs none /proc && exec \"$@\"", "sh"],
    },
];

/// A command of `lab` there: the words of the user's own program stay what they are.
fn there(lab: &Lab, place: Place, args: &[&str]) -> Command {
    let plain = lab.command(args);
    let words: Vec<OsString> =
        std::iter::once(plain.get_program()).chain(plain.get_args()).map(OsString::from).collect();
    // `setpriv --reuid=... PROGRAM ...` becomes `setpriv --reuid=... unshare ... PROGRAM ...`
    let at = words.iter().position(|word| Path::new(word).file_name().is_some_and(|name| name == "wringer")).unwrap();
    let mut all = words[..at].to_vec();
    all.extend(place.words.iter().map(OsString::from));
    all.extend_from_slice(&words[at..]);
    let mut command = Command::new(&all[0]);
    command.args(&all[1..]).current_dir(lab.home()).stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap());
    }
    command
}

fn can_be_entered(lab: &Lab, place: Place) -> bool {
    there(lab, place, &["--version"]).output().is_ok_and(|output| output.status.success())
}

/// A lab with a server that stands; its process.
fn server(lab: &Lab) -> Option<u64> {
    let deployed = lab.run(["sandbox", "deploy", "postgresql", "--name", "k3", "--start"]);
    if deployed.code == Some(3) && deployed.stderr.contains("can be fetched") {
        return None;
    }
    deployed.expect_code(0);
    json(&lab.run(["sandbox", "status", "k3", "-o", "json"]))["sandboxes"][0]["pid"].as_u64()
}

#[track_caller]
fn expect_unharmed(lab: &Lab, server: u64, after: &str) {
    assert!(is_alive(server), "{after}: the server is gone");
    assert!(lab.home().join("sandboxes/k3/data/PG_VERSION").is_file(), "{after}: its data are gone");
    let runs = fs::read_dir(lab.home().join("journal")).unwrap().flatten();
    assert_eq!(
        runs.filter(|it| it.file_name().to_string_lossy().starts_with("w-")).count(),
        1,
        "{after}: its journal is gone"
    );
}

/// Every command that removes, stops or releases.
const COMMANDS: [&[&str]; 9] = [
    &["sandbox", "delete", "k3"],
    &["sandbox", "delete", "k3", "--force"],
    &["sandbox", "stop", "k3"],
    &["sandbox", "stop", "--all"],
    &["sandbox", "start", "k3"],
    &["sandbox", "restart", "k3"],
    &["sandbox", "restart", "--all"],
    &["sandbox", "deploy", "postgresql", "--name", "k3"],
    &["undo"],
];

#[test]
fn what_cannot_be_seen_is_neither_stopped_nor_removed() {
    let (_alone, lab) = (alone(), Lab::as_ordinary_user(WRINGER));
    let Some(server) = server(&lab) else { testkit::skip!("no postgresql to be had") };
    let run = json(&lab.run(["status", "-o", "json"]))["runs"][0]["run"].as_str().unwrap().to_owned();
    // of each place every second command, of the next place the others: every command looks several times before it gives up. All with
    // `WRINGER_FAULTS=full`
    let is_full = takes_every_case();
    for (nth_place, place) in PLACES.into_iter().enumerate() {
        if !can_be_entered(&lab, place) {
            println!("SKIPPED {}: it cannot be made here", place.name);
            continue;
        }
        let undo_one: [&str; 2] = ["undo", &run];
        let commands = COMMANDS.into_iter().chain([&undo_one[..]]).enumerate();
        for (_, args) in commands.filter(|(nth, _)| is_full || (nth + nth_place).is_multiple_of(2)) {
            let what = format!("{}: {}", place.name, args.join(" "));
            let ran = Ran::of(&mut there(&lab, place, args));
            assert_eq!(ran.code, Some(3), "{what}\n{}\n{}", ran.stdout, ran.stderr);
            assert!(ran.stderr.contains("hint: "), "{what}: what to do is not said:\n{}", ran.stderr);
            expect_unharmed(&lab, server, &what);
        }
        let shown = Ran::of(&mut there(&lab, place, &["sandbox", "list"]));
        if place.name == "no /proc" {
            // nobody can say there whose `/` is
            assert_eq!(shown.code, Some(3), "{}", shown.stdout);
            assert!(shown.stderr.contains("hint: go on outside of this user namespace"), "{}", shown.stderr);
            continue;
        }
        let shown = shown.expect_code(0);
        assert!(shown.stdout.contains("unknown: "), "{}: {}", place.name, shown.stdout);
        let shown = Ran::of(&mut there(&lab, place, &["status", "-o", "json"])).expect_code(0);
        assert_eq!(json(&shown)["runs"][0]["condition"], "unknown", "{}: {}", place.name, shown.stdout);
    }
    expect_the_right_answers_outside(&lab, server);
}

/// Where it is seen, it is stopped; and from then on, everybody may know.
fn expect_the_right_answers_outside(lab: &Lab, server: u64) {
    let _ = lab.run(["sandbox", "delete", "k3"]).expect_code(3).expect_said(&["running already"]);
    let _ = lab.run(["sandbox", "stop", "k3"]).expect_code(0);
    assert!(!is_alive(server));
    let shown = Ran::of(&mut there(lab, USER_NAMESPACE, &["sandbox", "list"])).expect_code(0);
    assert!(shown.stdout.contains(" stopped"), "{}", shown.stdout);
    let _ = Ran::of(&mut there(lab, USER_NAMESPACE, &["sandbox", "delete", "k3"])).expect_code(0);
    assert!(!lab.home().join("sandboxes/k3").exists());
}

/// A squeezed command of an ordinary user is in a user namespace, for the layer's sake.
#[test]
fn a_squeezed_command_deletes_no_live_server_and_clears_no_journal() {
    let (_alone, lab) = (alone(), Lab::as_ordinary_user(WRINGER));
    let Some(server) = server(&lab) else { testkit::skip!("no postgresql to be had") };
    let slow = lab.home().join("slow");
    fs::create_dir(&slow).unwrap();
    if is_root() {
        std::os::unix::fs::chown(&slow, Some(65_534), Some(65_534)).unwrap();
    }
    let disk = format!("{}=read=1ms", slow.display());
    let program = if is_root() { lab.home().join("wringer") } else { WRINGER.into() };
    let squeeze = ["squeeze", "--no-probe", "--disk-mechanism", "fuse", "--disk", &disk, "--"];
    let args: Vec<&str> = squeeze.into_iter().chain([program.to_str().unwrap(), "sandbox", "delete", "k3"]).collect();
    let deleted = Ran::of(&mut with_fuse_for_all(&lab, &args));
    if deleted.stderr.contains("--disk cannot be had here") {
        testkit::skip!("{}", deleted.stderr);
    }
    expect_unharmed(&lab, server, "sandbox delete");
    deleted.expect_code(3).expect_said(&["cannot tell from here", "hint: "]);
    // what a run that begins takes for over, it clears away
    let begun = Ran::of(&mut there(&lab, USER_NAMESPACE, &["squeeze", "--cpuset", "0", "--", "true"]));
    expect_unharmed(&lab, server, &format!("a run that begins in a user namespace: {}", begun.stderr));
    expect_the_right_answers_outside(&lab, server);
}

/// In a mount namespace where `/dev/fuse` is open to every user, as distributions have it.
fn with_fuse_for_all(lab: &Lab, args: &[&str]) -> Command {
    let plain = lab.command(args);
    let mut command = Command::new(plain.get_program());
    if is_root() {
        let node = lab.home().join("fuse");
        let make = "mknod -m 666 \"$1\" c 10 229 && mount --bind \"$1\" /dev/fuse && shift && exec \"$@\"";
        command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", make, "sh"]).arg(node).arg(plain.get_program());
    }
    command.args(plain.get_args()).current_dir(lab.home()).stdin(Stdio::null());
    for (name, value) in plain.get_envs() {
        command.env(name, value.unwrap());
    }
    command
}

/// With `hidepid=2` an ordinary user sees his own processes, which is all that it takes.
#[test]
fn with_hidepid_ones_own_are_seen_and_another_users_are_not() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::as_ordinary_user(WRINGER));
    let Some(server) = server(&lab) else { testkit::skip!("no postgresql to be had") };
    let hidden = |user: &[&str], args: &[&str]| {
        let plain = lab.command(args);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", "mount -t proc -o hidepid=2 proc /proc && exec \"$@\"", "sh"]);
        command.args(user).arg(lab.home().join("wringer")).args(args).current_dir(lab.home()).stdin(Stdio::null());
        for (name, value) in plain.get_envs() {
            command.env(name, value.unwrap());
        }
        command
    };
    let nobody: &[&str] = &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let shown = Ran::of(&mut hidden(nobody, &["sandbox", "list"])).expect_code(0);
    assert!(shown.stdout.contains(&format!("running, process {server}")), "{}", shown.stdout);
    let _ = Ran::of(&mut hidden(nobody, &["sandbox", "delete", "k3"])).expect_code(3).expect_said(&["running already"]);
    // the same user, who has a user namespace between himself and his server as well
    let within: Vec<&str> = nobody.iter().copied().chain(["unshare", "--map-current-user"]).collect();
    for args in COMMANDS {
        let ran = Ran::of(&mut hidden(&within, args));
        assert_eq!(ran.code, Some(3), "{}\n{}\n{}", args.join(" "), ran.stdout, ran.stderr);
        expect_unharmed(&lab, server, &args.join(" "));
    }
    // somebody else, who may not even pass through to it
    let other: &[&str] = &["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"];
    for args in COMMANDS {
        let ran = Ran::of(&mut hidden(other, args));
        assert_ne!(ran.code, Some(0), "{}: {}", args.join(" "), ran.stdout);
        expect_unharmed(&lab, server, &args.join(" "));
    }
    let _ = lab.run(["sandbox", "delete", "k3", "--force"]).expect_code(0);
}

/// The mutant "takes unseen for dead": asked from where a squeezed command cannot be seen, an honest undo leaves it alone; this one ends it.
#[test]
fn an_undo_that_takes_unseen_for_dead_is_caught() {
    let (_alone, lab) = (alone(), Lab::as_ordinary_user(WRINGER));
    if !can_be_entered(&lab, USER_NAMESPACE) {
        testkit::skip!("no user namespace can be made here");
    }
    let mut squeezed = lab.command(["squeeze", "--no-probe", "--cpuset", "0", "--", "sleep", "600"]);
    let mut squeezed = Killed(squeezed.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap());
    let runs = || json(&lab.run(["status", "-o", "json"]))["runs"].as_array().map_or(0, Vec::len);
    // a run that is beginning has its folder before its lock, and there is nothing yet that could be hidden
    let begun = || {
        status(&lab)["runs"][0]["steps"].as_array().is_some_and(|steps| {
            steps.iter().any(|it| it["change"].as_str().unwrap().starts_with("server") && it["phase"] == "done")
        })
    };
    assert!(testkit::wait_until(PATIENCE, begun), "the squeeze does not begin");
    let honest = Ran::of(&mut there(&lab, USER_NAMESPACE, &["undo"]));
    assert_eq!((honest.code, runs()), (Some(3), 1), "{}{}", honest.stdout, honest.stderr);
    assert!(squeezed.0.try_wait().unwrap().is_none(), "it goes on");
    let _ = Ran::of(there(&lab, USER_NAMESPACE, &["undo"]).env("WRINGER_FORGET", "unseen"));
    let is_harmed = testkit::wait_until(PATIENCE, || squeezed.0.try_wait().unwrap().is_some());
    assert!(is_harmed, "nobody noticed that the undo takes unseen for dead");
    drop(squeezed);
    let _ = lab.run(["undo"]).expect_code(0);
}

/// Hidden RAM and a slow directory of root's, asked from where their processes cannot be seen.
#[test]
fn what_stands_is_not_released_from_where_it_cannot_be_seen() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let (_alone, lab) = (alone(), Lab::new(WRINGER));
    let folder = lab.home().join("slow");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), vec![7; 2 << 20]).unwrap();
    let path = folder.to_str().unwrap();
    let before = testkit::Snapshot::take();
    lab.run(["ram", "hide", "64M", "--yes"]).expect_code(0);
    let holder = process_of(&lab, "holder");
    lab.run(["disk", "delay", path, "--read", "20ms"]).expect_code(0);
    let table = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let commands: [&[&str]; 4] = [&["ram", "release"], &["disk", "release", path], &["disk", "release"], &["undo"]];
    let is_full = takes_every_case();
    for (nth_place, place) in PLACES.into_iter().filter(|place| can_be_entered(&lab, *place)).enumerate() {
        for (_, args) in
            commands.into_iter().enumerate().filter(|(nth, _)| is_full || (nth + nth_place).is_multiple_of(2))
        {
            let what = format!("{}: {}", place.name, args.join(" "));
            let ran = Ran::of(&mut there(&lab, place, args));
            assert_eq!(ran.code, Some(3), "{what}\n{}\n{}", ran.stdout, ran.stderr);
            assert!(ran.stderr.contains("hint: "), "{what}: what to do is not said:\n{}", ran.stderr);
            assert!(is_alive(holder), "{what}: the RAM was given back");
            assert!(table().contains(path), "{what}: the mount is gone");
        }
    }
    let _ = lab.run(["ram", "release"]).expect_code(0);
    let _ = lab.run(["disk", "release", path]).expect_code(0);
    expect_as_before(&before);
}
