// SPDX-License-Identifier: Apache-2.0
//! The moment between the look and the call: somebody mounts upon ours, again and again, while it is taken away.

use host::change::{Served, unmount};
use host::mounts::{MountEntry, Ours, mounts_at};
use host::permit::Permit;
use rustix::mount::{MountFlags, UnmountFlags};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use testkit::{alone, announce_cases, is_root};

const LASTS: Duration = Duration::from_secs(6);
/// `journal::FORGET_VARIABLE`.
const FORGET: &str = "WRINGER_FORGET";

fn mount(source: &str, at: &Path) {
    // the kernel says ENOENT when the mount upon which it was to lie has gone meanwhile
    while let Err(errno) = rustix::mount::mount(source, at, "tmpfs", MountFlags::empty(), None) {
        assert_eq!(errno, rustix::io::Errno::NOENT);
    }
}

fn is_there(source: &str, at: &Path) -> bool {
    mounts_at(at).unwrap().iter().any(|entry: &MountEntry| entry.source == source)
}

/// Each round mounts ours again; meanwhile another thread mounts its own upon whatever is there, looks whether it still is, and takes it away.
/// Returns rounds, mounts of the other's, and how many of them were gone.
fn race(at: &Path) -> (usize, usize, usize) {
    let (over, mounted, lost) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let ours = Ours { source: "wringer-race".into(), fstype: "tmpfs".into(), mark: None };
    let permit = Permit::issue(1);
    // ours is put there when theirs is not: it shall lie below
    let turn = Mutex::new(());
    let mut rounds = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0.. {
                if over.load(SeqCst) {
                    break;
                }
                let source = format!("theirs-{number}");
                let turn = turn.lock().unwrap();
                mount(&source, at);
                mounted.fetch_add(1, SeqCst);
                // so that it is there in each moment of a try, now and then
                let until = Instant::now() + Duration::from_micros(number % 7 * 40);
                while Instant::now() < until {}
                if is_there(&source, at) {
                    rustix::mount::unmount(at, UnmountFlags::DETACH).unwrap();
                } else {
                    lost.fetch_add(1, SeqCst);
                }
                drop(turn);
                let until = Instant::now() + Duration::from_micros(number % 11 * 60);
                while Instant::now() < until {}
            }
        });
        let began = Instant::now();
        while began.elapsed() < LASTS {
            if !is_there(&ours.source, at) {
                let _turn = turn.lock().unwrap();
                mount(&ours.source, at);
            }
            // what is in the way is told, and that is right
            let _ = unmount(&permit, &ours, Served::No, Duration::from_millis(20));
            rounds += 1;
        }
        over.store(true, SeqCst);
    });
    while !mounts_at(at).unwrap().is_empty() {
        rustix::mount::unmount(at, UnmountFlags::DETACH).unwrap();
    }
    (rounds, mounted.into_inner(), lost.into_inner())
}

#[test]
fn what_comes_on_top_in_the_last_moment_stays() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let folder = tempfile::tempdir().unwrap();
    // the mutant runs in a process of its own, for it is chosen by the environment
    if std::env::var_os(FORGET).is_some() {
        let (rounds, mounted, lost) = race(folder.path());
        return println!("rounds {rounds} mounted {mounted} lost {lost}");
    }
    let _alone = alone();
    let (rounds, mounted, lost) = race(folder.path());
    println!("{rounds} rounds, {mounted} mounts upon ours, {lost} of them taken away");
    assert_eq!(lost, 0);
    assert!(rounds > 20 && mounted > 100, "{rounds} rounds, {mounted} mounts: too few to show anything");
    let name = "race::what_comes_on_top_in_the_last_moment_stays";
    let mutant = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(FORGET, "the_mark")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&mutant.stdout).into_owned();
    let lost = said.split("lost ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
    assert!(
        !cfg!(feature = "failpoints") || lost.is_some_and(|lost| lost > 0),
        "an undo without a mark took nothing of theirs: the race shows nothing: {said}"
    );
    announce_cases(name, rounds);
}
