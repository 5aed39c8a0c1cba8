// SPDX-License-Identifier: Apache-2.0
//! The page cache of the server's files: of those in its data directory and its tablespaces, and of others that its first process has open.
//!
//! The kernel tells how much of an open file is cached. No file is read and no process is held. A server that is read repeatedly is not asked for it.

mod walk;

use super::processes;
use super::reading::Reading;
use crate::ptrace_rights;
use capability::Flavour;
use host::process::server_program;
use ledger::{FilesSeen, Missing};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use walk::{Found, Limits, Shared, Walk};

/// 21,000 files take some 120 ms.
const LIMITS: Limits = Limits { look: Duration::from_millis(500), count: Duration::from_secs(1) };
/// A file system that does not answer for this long is left alone: one over the network, or in the hands of a program.
const STALLED: Duration = Duration::from_secs(2);

/// `None`: not asked for, not for this user, or the process is no server.
pub(super) fn read(pid: u32, flavour: Option<Flavour>, reading: &mut Reading) -> Option<FilesSeen> {
    let is_asked = !reading.options.lightly && !reading.options.is_repeated();
    // another program may work in any directory
    let is_server = flavour.is_some() || server_program(pid).is_some();
    (is_asked && is_server).then_some(())?;
    let version = (flavour == Some(Flavour::Postgresql)).then(|| processes::version_of_data(pid)).flatten();
    let limits = (!reading.options.deep).then_some(LIMITS);
    let found = Shared::default();
    let (own, process) = (found.clone(), PathBuf::from(format!("/proc/{pid}")));
    let ended = within(STALLED, &found, move || Walk::of(&process, version, limits, own)?.all());
    let found = found.get();
    for (why, remedy) in lacks(&found, &ended, reading.remedy()) {
        reading.missing(Missing::FILES, why, remedy);
    }
    (found.seen.looked_at > 0).then_some(found.seen)
}

/// How a walk has ended.
#[derive(Debug)]
enum Ended {
    Done,
    Failed(io::Error),
    /// It goes on by itself until the program ends.
    Stalled,
}

/// Calls `walk`, and waits for it as long as it gets on.
fn within(patience: Duration, found: &Shared, walk: impl FnOnce() -> io::Result<()> + Send + 'static) -> Ended {
    let (done, ended) = channel();
    thread::spawn(move || done.send(walk()));
    let mut steps = found.get().steps;
    loop {
        match ended.recv_timeout(patience) {
            Ok(Ok(())) | Err(RecvTimeoutError::Disconnected) => return Ended::Done,
            Ok(Err(error)) => return Ended::Failed(error),
            Err(RecvTimeoutError::Timeout) if found.get().steps == steps => return Ended::Stalled,
            Err(RecvTimeoutError::Timeout) => steps = found.get().steps,
        }
    }
}

/// Why the figure is none, or less than the whole, and what would help. `deep`: what sets no limit.
fn lacks(found: &Found, ended: &Ended, deep: &'static str) -> Vec<(String, Option<&'static str>)> {
    let FilesSeen { looked_at, left, .. } = found.seen;
    let mut lacks = Vec::new();
    match ended {
        Ended::Done => {}
        Ended::Failed(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            lacks.push((format!("not for this user: {error}"), Some(ptrace_rights::for_mappings())));
        }
        Ended::Failed(error) => lacks.push((error.to_string(), None)),
        Ended::Stalled => {
            let seconds = STALLED.as_secs();
            lacks.push((format!("{looked_at} files were looked at; the next one took more than {seconds} s"), None));
        }
    }
    if let Some(error) = &found.refused {
        let count = found.refusals;
        let remedy = "run as root or as the server's user";
        lacks.push((format!("{count} of its files and folders cannot be looked at: {error}"), Some(remedy)));
    }
    if found.is_over {
        let (all, limit) = (looked_at + left, LIMITS.look.as_millis());
        let least = if found.is_counted { "" } else { "at least " };
        lacks.push((format!("{looked_at} of {least}{all} files were looked at: the limit is {limit} ms"), Some(deep)));
    }
    lacks
}

#[cfg(test)]
mod tests;
