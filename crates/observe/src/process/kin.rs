// SPDX-License-Identifier: Apache-2.0
//! The processes that a process has started: by the kernel's lists, or, where it has none (CONFIG_PROC_CHILDREN), by a search among all processes of the host.

use crate::Error;
use host::process::{Identity, children_of, descendants};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is to be said where the processes are searched for.
pub(crate) const SEARCHED: &str = "this kernel has no lists of children (CONFIG_PROC_CHILDREN): the server's processes are searched for among all processes \
     of the host, every 0.2 s, and less often where a search takes longer than 4 ms";

/// The processes below one process.
#[derive(Debug)]
pub(crate) struct Kin {
    root: u32,
    /// With the children's children; and the process itself first.
    is_family: bool,
    /// Whether the kernel has lists of children.
    are_listed: bool,
    search: Search,
}

impl Kin {
    pub(crate) fn children_of(root: u32) -> Self {
        Self { root, is_family: false, are_listed: are_listed(), search: Search::default() }
    }

    pub(super) fn family_of(root: u32) -> Self {
        Self { is_family: true, ..Self::children_of(root) }
    }

    /// Whether the kernel has no lists: processes are then seen somewhat late, and short ones not at all.
    pub(crate) fn is_searched(&self) -> bool {
        !self.are_listed
    }

    /// # Errors
    /// Files of a process that goes on cannot be read; of children alone, also when the process has ended.
    pub(crate) fn pids(&mut self) -> Result<Vec<u32>, Error> {
        let root = self.root;
        match (self.are_listed, self.is_family) {
            (true, true) => family(root),
            (true, false) => children(root),
            (false, true) => Ok(self.search.pids(Instant::now, || searched_family(root))),
            (false, false) => {
                let path = PathBuf::from(format!("/proc/{root}"));
                fs::metadata(&path).map_err(|source| Error::File { operation: "read", path, source })?;
                Ok(self.search.pids(Instant::now, || children_of(root)))
            }
        }
    }
}

/// The least time from one search to the next.
const PAUSE: Duration = Duration::from_millis(200);
/// A search may take one part in this number of the time.
const SHARE: u32 = 50;

/// What the last search has found.
#[derive(Debug, Default)]
struct Search {
    found: Vec<u32>,
    /// When the next search may begin.
    due: Option<Instant>,
}

impl Search {
    fn pids(&mut self, mut now: impl FnMut() -> Instant, search: impl FnOnce() -> Vec<u32>) -> Vec<u32> {
        let began = now();
        if self.due.is_none_or(|due| began >= due) {
            self.found = search();
            let ended = now();
            self.due = Some(ended + PAUSE.max((ended - began) * SHARE));
        }
        self.found.clone()
    }
}

fn searched_family(root: u32) -> Vec<u32> {
    let below = Identity::of(root).map(|root| descendants(&[root])).unwrap_or_default();
    let others = below.into_iter().map(|it| it.pid).filter(|pid| *pid != root);
    std::iter::once(root).chain(others).collect()
}

/// Whether the kernel has lists, as this process shows it.
fn are_listed() -> bool {
    let first = fs::read_dir("/proc/self/task").ok().and_then(|mut tasks| tasks.next()?.ok());
    first.is_none_or(|task| task.path().join("children").exists())
}

/// Why a process could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failed {
    Ended,
    /// This user may not read it.
    Refused,
    /// For example, this process has no descriptor left.
    Otherwise,
}

impl Failed {
    pub(super) fn of(error: &Error) -> Self {
        match error {
            _ if error.says_gone() => Self::Ended,
            Error::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => Self::Refused,
            _ => Self::Otherwise,
        }
    }
}

/// The process and all its descendants, by the kernel's lists.
///
/// # Errors
/// Files of a process that goes on cannot be read: the family would be too small.
fn family(root: u32) -> Result<Vec<u32>, Error> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(&pid) = found.get(next) {
        next += 1;
        match children(pid) {
            Err(error) if Failed::of(&error) == Failed::Otherwise => return Err(error),
            // a process that has ended has none; that one may not be read is said of its own figures
            children => found.extend(children.unwrap_or_default()),
        }
    }
    Ok(found)
}

fn children(pid: u32) -> Result<Vec<u32>, Error> {
    let of = |path: &Path, source| Error::File { operation: "read", path: path.to_owned(), source };
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let mut found = Vec::new();
    for thread in fs::read_dir(&tasks).map_err(|source| of(&tasks, source))? {
        let path = thread.map_err(|source| of(&tasks, source))?.path().join("children");
        match fs::read_to_string(&path).map_err(|source| of(&path, source)) {
            Ok(text) => found.extend(text.split_ascii_whitespace().filter_map(|word| word.parse::<u32>().ok())),
            Err(error) if Failed::of(&error) == Failed::Otherwise => return Err(error),
            // a thread that has ended
            Err(_) => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_end_or_a_refusal_leaves_a_process_out() {
        let failed = |code| {
            let source = io::Error::from_raw_os_error(code);
            Failed::of(&Error::File { operation: "open", path: PathBuf::new(), source })
        };
        assert_eq!([libc::ENOENT, libc::ESRCH].map(failed), [Failed::Ended; 2]);
        assert_eq!([libc::EACCES, libc::EPERM].map(failed), [Failed::Refused; 2]);
        assert_eq!([libc::EMFILE, libc::ENFILE, libc::EIO].map(failed), [Failed::Otherwise; 3]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test starts its own process")]
    fn without_lists_the_same_processes_are_found_by_a_search() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("sleep");
        let own = std::process::id();
        let found = [Kin::children_of(own), Kin::family_of(own)].map(|kin| {
            let mut searched = Kin { are_listed: false, ..kin };
            assert!(searched.is_searched());
            let first = searched.pids().expect("processes");
            (first.contains(&child.id()), first.first() == Some(&own), searched)
        });
        child.kill().and_then(|()| child.wait()).expect("our own");
        let [(is_child, _, children), (is_below, is_first, _)] = found;
        assert!(is_child && is_below && is_first);
        let mut later = Kin { search: Search::default(), ..children };
        assert!(!later.pids().expect("processes").contains(&child.id()), "it has ended");
        let gone = |kin: Kin| Kin { are_listed: false, ..kin }.pids();
        // no process has this number
        assert!(gone(Kin::children_of(u32::MAX)).is_err());
        assert_eq!(gone(Kin::family_of(u32::MAX)).expect("its own figures tell that it has ended"), [u32::MAX]);
    }

    #[test]
    fn a_search_takes_a_small_share_of_the_time() {
        let begin = Instant::now();
        let mut search = Search::default();
        // each search takes `took_ms`
        let mut searched = |at_ms: u64, took_ms: u64| {
            let mut times = [at_ms, at_ms + took_ms].into_iter();
            let now = || begin + Duration::from_millis(times.next().expect("two times"));
            let mut is_new = false;
            search.pids(now, || {
                is_new = true;
                vec![7]
            });
            is_new
        };
        assert!(searched(0, 1));
        assert_eq!([100, 200, 201].map(|at_ms| searched(at_ms, 40)), [false, false, true]);
        assert_eq!([450, 2240, 2241].map(|at_ms| searched(at_ms, 1)), [false, false, true], "fifty times 40 ms later");
    }
}
