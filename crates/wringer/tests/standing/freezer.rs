// SPDX-License-Identifier: Apache-2.0
//! Ways to make a process stand still, each for one process alone.

use super::signal;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Means {
    /// Cgroup version 1.
    Freezer,
    /// Version 2.
    Freeze,
    /// SIGSTOP.
    Stop,
}

impl Means {
    /// Those that this machine has.
    pub fn all() -> Vec<Self> {
        let has = |means: &Self| match means {
            Self::Stop => true,
            _ => means.group().is_some_and(|group| fs::remove_dir(group).is_ok()),
        };
        [Self::Freezer, Self::Freeze, Self::Stop].into_iter().filter(has).collect()
    }

    /// A new cgroup.
    fn group(self) -> Option<PathBuf> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let roots: &[&str] = match self {
            Self::Freezer => &["/sys/fs/cgroup/freezer"],
            Self::Freeze => &["/sys/fs/cgroup/unified", "/sys/fs/cgroup"],
            Self::Stop => &[],
        };
        let root = roots.iter().map(Path::new).find(|root| root.join("cgroup.procs").exists())?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let group = root.join(format!("standstill-{}-{number}", std::process::id()));
        fs::create_dir(&group).ok()?;
        group.join(self.file()).exists().then_some(group)
    }

    fn file(self) -> &'static str {
        if self == Self::Freezer { "freezer.state" } else { "cgroup.freeze" }
    }

    fn words(self) -> [&'static str; 2] {
        if self == Self::Freezer { ["FROZEN", "THAWED"] } else { ["1", "0"] }
    }
}

/// One process that stands still, until it goes on or this is dropped.
#[derive(Debug)]
pub struct Still {
    pid: u64,
    means: Means,
    group: Option<PathBuf>,
}

impl Still {
    pub fn make(pid: u64, means: Means) -> Self {
        let group = means.group();
        match &group {
            Some(group) => {
                fs::write(group.join("cgroup.procs"), pid.to_string()).unwrap();
                fs::write(group.join(means.file()), means.words()[0]).unwrap();
            }
            None => signal(pid, Signal::STOP),
        }
        Self { pid, means, group }
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        let Some(group) = &self.group else {
            let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid).unwrap()).unwrap();
            let _ = rustix::process::kill_process(pid, Signal::CONT);
            return;
        };
        fs::write(group.join(self.means.file()), self.means.words()[1]).unwrap();
        // who is there goes back to the root; who has ended is gone
        let above = group.parent().unwrap().join("cgroup.procs");
        let there = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
        there.lines().for_each(|pid| drop(fs::write(&above, pid)));
        assert!(testkit::wait_until(super::PATIENCE, || fs::remove_dir(group).is_ok()), "{}", group.display());
    }
}
