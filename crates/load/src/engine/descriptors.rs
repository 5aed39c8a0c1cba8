// SPDX-License-Identifier: Apache-2.0
//! Room for a socket a connection among this process's open files. Raised as far as is needed and no further, because programs
//! that are started later inherit it, and a server takes its own limits from it.

use crate::Error;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Of a worker: its epoll instance, its waker, and a connection that is made anew while the broken one is still there.
const EACH_WORKER: u64 = 3;
/// For whatever else this process opens meanwhile: password and option files, libraries, readers of counters.
const SPARE: u64 = 64;

/// # Errors
/// [`Error::Descriptors`] when the hard limit is below what is needed.
pub(super) fn make_room(connections: u32, workers: u32) -> Result<(), Error> {
    let needed = open_now() + u64::from(connections) + u64::from(workers) * EACH_WORKER + SPARE;
    let limits = getrlimit(Resource::Nofile);
    // no limit at all is `None`
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

/// What is open already; some guess where /proc cannot be read.
fn open_now() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(64, |entries| entries.count() as u64)
}
