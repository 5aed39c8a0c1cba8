// SPDX-License-Identifier: Apache-2.0
//! Single cases beside the matrix.

use super::scene::{Doing, NEXT_TRY, Place, Scene, shell};
use super::standing::{kill_together, process_of};
use std::fs;
use std::process::{Command, Stdio};
use testkit::{alone, announce_cases, is_root, wait_until};

/// The mutant: an undo that unmounts by its path takes somebody's data with it.
#[test]
fn an_undo_that_unmounts_what_is_not_ours_is_caught() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    if !cfg!(feature = "failpoints") {
        testkit::skip!("needs the feature failpoints");
    }
    let _alone = alone();
    for (mutant, is_lost) in [(None, false), (Some("whose_mount"), true)] {
        let mut scene = Scene::new(Place::ForeignMountAbove, Doing::Idle, "1h");
        kill_together(&[process_of(&scene.lab, "watchdog"), scene.supervisor]);
        let mut undo = scene.lab.command(["undo"]);
        mutant.map(|mutant| undo.env("WRINGER_FORGET", mutant));
        undo.output().unwrap();
        assert_eq!(!scene.data().join("precious").exists(), is_lost, "{mutant:?}");
        if !is_lost {
            scene.leave();
        }
    }
    announce_cases("single::an_undo_that_unmounts_what_is_not_ours_is_caught", 2);
}

/// `mount --move`, and a folder that is renamed twice: ours is found wherever it is.
#[test]
fn a_mount_that_was_moved_is_found() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let _alone = alone();
    let mut scene = Scene::new(Place::PrivateNamespace, Doing::Idle, "1h");
    scene.leave();
    let (from, to) = (scene.home("parent/data"), scene.home("elsewhere"));
    shell(&format!("mount --move {} {}", from.display(), to.display()));
    // what is mounted where it was is somebody else's
    shell(&format!("mount -t tmpfs theirs {0}; echo theirs > {0}/precious", from.display()));
    scene.lab.run(["disk", "release"]).expect_code(0);
    assert_eq!(fs::read_to_string(from.join("precious")).unwrap(), "theirs\n");
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!table.contains(&scene.run), "{table}");
    announce_cases("single::a_mount_that_was_moved_is_found", 1);
}

/// Who has unmounted ours himself, and kept a bind mount of it, keeps that one.
#[test]
fn a_bind_mount_that_is_left_alone_is_not_taken_for_ours() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let _alone = alone();
    let mut scene = Scene::new(Place::BindMountElsewhere, Doing::Writing, "1h");
    shell(&format!("umount {}", scene.home("parent/data").display()));
    scene.lab.run(["disk", "release"]).expect_code(5).expect_said(&["is busy: ", "elsewhere"]);
    scene.expect_no_harm();
    scene.leave();
    assert!(wait_until(NEXT_TRY, || scene.runs() == 0), "nobody takes it away later");
    announce_cases("single::a_bind_mount_that_is_left_alone_is_not_taken_for_ours", 1);
}

/// `umount -l` takes the mount out of every table, and its files live on: so does the layer.
#[test]
fn files_of_a_mount_that_was_taken_out_lazily_live_on() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let _alone = alone();
    let mut scene = Scene::new(Place::PrivateNamespace, Doing::Idle, "1h");
    scene.leave();
    let held = scene.home("parent/data/lazy");
    let mut holder = Command::new("sh");
    let script = format!("exec 4>> {}; echo ready; read line; echo more >&4 && echo written", held.display());
    let mut holder = holder.args(["-c", &script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(holder.stdout.as_mut().unwrap(), &mut ready).unwrap();
    shell(&format!("umount -l {}", scene.home("parent/data").display()));
    let pid = holder.id().to_string();
    scene.lab.run(["disk", "release"]).expect_code(5).expect_said(&["the slow layer (process", &pid]);
    drop(holder.stdin.take());
    let output = holder.wait_with_output().unwrap();
    assert!(output.stdout.ends_with(b"written\n"), "{output:?}");
    assert!(wait_until(NEXT_TRY, || scene.runs() == 0), "nobody takes it away later");
    assert_eq!(fs::read_to_string(held).unwrap(), "more\n");
    announce_cases("single::files_of_a_mount_that_was_taken_out_lazily_live_on", 1);
}

/// Whoever walks through the mount takes the mark away: a listing in a loop is no user of the mount, and does not keep it for ever.
#[test]
fn a_listing_in_a_loop_keeps_no_mount() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let _alone = alone();
    let mut scene = Scene::new(Place::PrivateNamespace, Doing::Idle, "1h");
    scene.leave();
    let data = scene.home("parent/data");
    let script = format!("while ls -l {} > /dev/null; do :; done", data.display());
    let mut lister = Command::new("sh").args(["-c", &script]).spawn().unwrap();
    scene.lab.run(["disk", "release"]).expect_code(0);
    let lives = lister.try_wait().unwrap().is_none();
    lister.kill().unwrap();
    lister.wait().unwrap();
    assert!(lives, "a listing failed");
    assert!(!scene.is_mounted());
    announce_cases("single::a_listing_in_a_loop_keeps_no_mount", 1);
}

/// The kernel keeps a mount of its own of what an overlay is made of, which stands in no table.
#[test]
fn an_overlay_that_is_made_of_it_keeps_it() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let _alone = alone();
    let mut scene = Scene::new(Place::PrivateNamespace, Doing::Idle, "1h");
    scene.leave();
    let (data, over) = (scene.data(), scene.home("over"));
    let (at, upper, work) = (over.join("at"), over.join("upper"), over.join("work"));
    [&at, &upper, &work].into_iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
    let [lower, upper, work, at] = [&data, &upper, &work, &at].map(|path| path.display().to_string());
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    let mounted = Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options, &at]).output().unwrap();
    if !mounted.status.success() {
        testkit::skip!("no overlay can be mounted: {}", String::from_utf8_lossy(&mounted.stderr));
    }
    let told = format!("the overlay at {at} is made of it");
    scene.lab.run(["disk", "release"]).expect_code(5).expect_said(&["is busy: ", &told]);
    assert!(scene.is_mounted(), "whoever uses the overlay would see other files than we do");
    assert!(fs::read_dir(&at).unwrap().all(|entry| entry.is_ok()), "it serves on");
    shell(&format!("umount {at}"));
    assert!(wait_until(NEXT_TRY, || scene.runs() == 0), "nobody takes it away later");
    scene.expect_everything_back();
    announce_cases("single::an_overlay_that_is_made_of_it_keeps_it", 1);
}
