// SPDX-License-Identifier: Apache-2.0
//! One list of all processes, with their marks, which serves all questions of one command.

use super::RUN_VARIABLE;
use super::found_processes::{Look, MOMENT, Sight, Unlisted, Unseen};
use super::identity::{Identity, Stat};
use super::proc_files::{links, lock_held, pids, variable};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The mark that every process of a run carries.
#[derive(Debug, Clone)]
pub struct Mark {
    /// The path of the token, which the process holds open.
    pub token: PathBuf,
    /// The value of `WRINGER_RUN` in its environment.
    pub run_id: String,
}

/// The processes of one moment, with the files and the environment that each showed. Answers name only processes that existed then and are still
/// alive.
#[derive(Debug)]
pub struct Census {
    residents: Vec<Resident>,
    unlisted: Option<Unlisted>,
}

#[derive(Debug)]
pub(super) struct Resident {
    pub(super) identity: Identity,
    /// It is the caller, or a child of the caller between fork and exec: such a child still has all descriptors of the caller, and loses them with
    /// exec.
    is_us: bool,
    /// The entries below `/proc/PID/fd`, and what they link to.
    pub(super) links: io::Result<Vec<(PathBuf, PathBuf)>>,
    pub(super) environment: io::Result<Vec<u8>>,
}

impl Census {
    /// Lists all processes, once.
    pub fn take() -> Self {
        Self::of(pids())
    }

    pub(super) fn of(pids: impl Iterator<Item = u32>) -> Self {
        let own = std::process::id();
        let mut residents: Vec<Resident> = pids.filter_map(|pid| Resident::look(pid, own)).collect();
        // a process that ends, or executes another program, refuses the look for a moment
        if residents.iter().any(Resident::refuses) {
            std::thread::sleep(MOMENT);
            let again = |it: Resident| if it.refuses() { Resident::look(it.identity.pid, own) } else { Some(it) };
            residents = residents.into_iter().filter_map(again).collect();
        }
        Self { residents, unlisted: Unlisted::now() }
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.residents.iter().map(|it| it.identity.pid)
    }

    /// All processes but the caller and its forks.
    pub(super) fn others(&self) -> impl Iterator<Item = &Resident> {
        self.residents.iter().filter(|it| !it.is_us)
    }

    /// Every live process that carries the mark, except the caller and its forks. Sorted by start.
    pub fn with_mark(&self, mark: &Mark) -> Sight {
        let is_token = lock_held(&mark.token);
        let mut sight = Sight { unseen: Unseen { unlisted: self.unlisted, ..Unseen::default() }, ..Sight::default() };
        for resident in self.others() {
            match resident.carries(&is_token, &mark.run_id) {
                Look::Wanted => sight.found.extend(Some(resident.identity).filter(Identity::is_alive)),
                Look::Refused => sight.unseen.add(resident.identity.pid),
                Look::Other => {}
            }
        }
        sight.found.sort_by_key(|identity| (identity.start_time, identity.pid));
        sight
    }
}

/// Whether the process is a child of the caller between fork and exec. It still has all descriptors of the caller, and loses them with exec.
pub fn is_fork_of_caller(pid: u32) -> bool {
    Stat::read(pid).is_some_and(|stat| is_fork(pid, &stat, std::process::id()))
}

fn is_fork(pid: u32, stat: &Stat, own: u32) -> bool {
    let arguments = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).ok();
    stat.parent == own && arguments(pid) == arguments(own)
}

impl Resident {
    /// `None`: the process has ended.
    fn look(pid: u32, own: u32) -> Option<Self> {
        let stat = Stat::read(pid)?;
        let identity = stat.identity_of(pid)?;
        // This is asked first: a child that executes its program after this moment was given the token, if it holds the token.
        let is_us = pid == own || is_fork(pid, &stat, own);
        let environment = fs::read(format!("/proc/{pid}/environ"));
        Some(Self { identity, is_us, links: links(pid), environment })
    }

    fn refuses(&self) -> bool {
        let refused = |error: Option<&io::Error>| error.is_some_and(|it| Look::refusal(it) == Look::Refused);
        !self.is_us && (refused(self.links.as_ref().err()) || refused(self.environment.as_ref().err()))
    }

    /// Whether the process carries the mark. Its environment may be readable where its files are not.
    fn carries(&self, is_token: &dyn Fn(&Path, &Path) -> bool, run_id: &str) -> Look {
        let by_token = match &self.links {
            Ok(links) => Look::of(Ok(links.iter().any(|(path, link)| is_token(path, link)))),
            Err(error) => Look::refusal(error),
        };
        let by_variable = match &self.environment {
            Ok(environment) => Look::of(Ok(variable(environment, RUN_VARIABLE) == Some(run_id.as_bytes()))),
            Err(error) => Look::refusal(error),
        };
        by_token.or(by_variable)
    }
}
