// SPDX-License-Identifier: Apache-2.0
//! Raises this process's limit of open files for the sockets. The limit rises only as far as needed, because programs that are started later inherit
//! the limit, and a server derives its own limits from it.

use crate::Error;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of a worker: its epoll instance, its waker, and a new connection while the broken one is still open.
const EACH_WORKER: u64 = 3;
/// Descriptors for everything else: password and option files, libraries, readers of counters.
const SPARE: u64 = 64;

/// # Errors
/// [`Error::Descriptors`]: the hard limit is too low.
pub(super) fn make_room(connections: u32, workers: u32) -> Result<(), Error> {
    let needed = open_now() + u64::from(connections) + u64::from(workers) * EACH_WORKER + SPARE;
    let limits = getrlimit(Resource::Nofile);
    // `None` is no limit at all.
    if limits.current.is_none_or(|soft| soft >= needed) {
        return Ok(());
    }
    let refused = |limit| Error::Descriptors { connections, needed, limit };
    if let Some(hard) = limits.maximum.filter(|hard| *hard < needed) {
        return Err(refused(hard));
    }
    let raised = Rlimit { current: Some(needed), maximum: limits.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|_| refused(limits.current.unwrap_or(u64::MAX)))
}

/// How many descriptors are open already; a guess when /proc cannot be read.
fn open_now() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(64, |entries| entries.count() as u64)
}
