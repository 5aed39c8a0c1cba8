// SPDX-License-Identifier: Apache-2.0
//! The moments between the looks and the calls: somebody mounts upon ours while it is taken away. In a build with `failpoints` that happens in each
//! of these moments for certain; beside it two threads run free.

use host::change::{Served, unmount};
use host::mounts::{MountEntry, OwnMount, mounts_at};
use host::permit::Permit;
use rustix::mount::{MountFlags, UnmountFlags};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use testkit::{alone, announce_cases, is_root};

const LASTS: Duration = Duration::from_secs(3);
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
    let ours = OwnMount { source: "wringer-race".into(), fstype: "tmpfs".into(), mark: None };
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
    take_all_away(at);
    (rounds, mounted.into_inner(), lost.into_inner())
}

fn take_all_away(at: &Path) {
    while !mounts_at(at).unwrap().is_empty() {
        rustix::mount::unmount(at, UnmountFlags::DETACH).unwrap();
    }
}

/// How often two threads meet is a matter of luck: it is told, and nothing is asked of it.
#[test]
fn what_comes_on_top_while_both_run_free_stays() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (rounds, mounted, lost) = race(folder.path());
    println!("{rounds} rounds, {mounted} mounts upon ours, {lost} of them taken away");
    assert_eq!(lost, 0);
    announce_cases("race::what_comes_on_top_while_both_run_free_stays", rounds);
}

#[test]
fn what_comes_on_top_in_the_last_moment_stays() {
    if !is_root() {
        testkit::skip!("needs root");
    }
    certain::what_comes_on_top_in_the_last_moment_stays();
}

#[cfg(not(feature = "failpoints"))]
mod certain {
    pub(super) fn what_comes_on_top_in_the_last_moment_stays() {
        testkit::skip!("needs the feature failpoints");
    }
}

#[cfg(feature = "failpoints")]
mod certain {
    use super::*;
    use std::process::Command;
    use std::sync::{Arc, MutexGuard};

    const TEST: &str = "race::what_comes_on_top_in_the_last_moment_stays";
    const MOMENTS: [&str; 3] = ["after the first look", "after the mark", "after the second look"];

    /// What the other one does in a moment.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Act {
        Nothing,
        Mounts,
        /// What he has mounted last, if there is such a mount.
        TakesAway,
    }

    type Plan = [Act; 3];

    fn plans() -> Vec<Plan> {
        let acts = [Act::Nothing, Act::Mounts, Act::TakesAway];
        let pairs = acts.iter().flat_map(|first| acts.iter().map(move |second| (*first, *second)));
        pairs.flat_map(|(first, second)| acts.iter().map(move |third| [first, second, *third])).collect()
    }

    /// The other one: each act once, in its moment.
    struct Intruder {
        left: [Option<Act>; 3],
        theirs: Vec<String>,
        at: std::path::PathBuf,
    }

    impl Intruder {
        fn act(&mut self, moment: &str) {
            let number = MOMENTS.iter().position(|known| *known == moment).unwrap();
            match self.left[number].take() {
                Some(Act::Mounts) => {
                    let source = format!("theirs-{number}");
                    mount(&source, &self.at);
                    self.theirs.push(source);
                }
                Some(Act::TakesAway) if !self.theirs.is_empty() => {
                    let source = self.theirs.pop().unwrap();
                    assert_eq!(mounts_at(&self.at).unwrap().last().map(|top| top.source.clone()), Some(source));
                    rustix::mount::unmount(&self.at, UnmountFlags::DETACH).unwrap();
                }
                _ => {}
            }
        }
    }

    struct Tried {
        mounted: usize,
        lost: usize,
        /// The acts whose moment came.
        acted: usize,
    }

    fn try_plan(at: &Path, plan: Plan) -> Tried {
        let ours = OwnMount { source: "wringer-race".into(), fstype: "tmpfs".into(), mark: None };
        mount(&ours.source, at);
        let other = Intruder { left: plan.map(Some), theirs: Vec::new(), at: at.to_owned() };
        let other = Arc::new(Mutex::new(other));
        let shared = Arc::clone(&other);
        host::at_each_moment(move |moment| shared.lock().unwrap().act(moment));
        // what is in the way is told, and that is right
        let _ = unmount(&Permit::issue(1), &ours, Served::No, Duration::ZERO);
        let other: MutexGuard<'_, Intruder> = other.lock().unwrap();
        let lost = other.theirs.iter().filter(|source| !is_there(source, at)).count();
        let acted = other.left.iter().filter(|act| act.is_none()).count();
        let mounted = other.theirs.len();
        drop(other);
        take_all_away(at);
        Tried { mounted, lost, acted }
    }

    #[allow(clippy::print_stdout)] // the mutant is heard by its parent
    pub(super) fn what_comes_on_top_in_the_last_moment_stays() {
        let folder = tempfile::tempdir().unwrap();
        // the mutant runs in a process of its own, for it is chosen by the environment
        let is_mutant = std::env::var_os(journal::FORGET_VARIABLE).is_some();
        let _alone = (!is_mutant).then(alone);
        let (mut mounted, mut lost, mut acted) = (0, 0, 0);
        for plan in plans() {
            let tried = try_plan(folder.path(), plan);
            assert!(is_mutant || tried.lost == 0, "{plan:?}: {} of {} are gone", tried.lost, tried.mounted);
            (mounted, lost, acted) = (mounted + tried.mounted, lost + tried.lost, acted + tried.acted);
        }
        println!("mounted {mounted} acted {acted} lost {lost}");
        if is_mutant {
            return;
        }
        assert!(
            mounted > 10 && acted > 2 * plans().len(),
            "{mounted} mounts in {acted} moments: too few to show anything"
        );
        let mutant = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(journal::FORGET_VARIABLE, "the_mark")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&mutant.stdout).into_owned();
        let lost = said.split("lost ").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse::<usize>().ok());
        assert!(
            lost.is_some_and(|lost| lost > 0),
            "without a mark nothing of theirs is lost, and this shows nothing: {said}"
        );
        announce_cases(TEST, plans().len());
    }
}
