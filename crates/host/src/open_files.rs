// SPDX-License-Identifier: Apache-2.0
//! This process's limit of open files. It is raised only as far as needed, because programs that are started later inherit it, and a server derives its own
//! limits from it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for everything beside those that are counted: connections, password and option files, libraries, logs, readers of counters.
pub const SPARE: u64 = 64;

/// How many descriptors are open already; a guess when /proc cannot be read.
pub fn open_now() -> u64 {
    std::fs::read_dir("/proc/self/fd").map_or(SPARE, |entries| entries.count() as u64)
}

/// The soft and the hard limit. `None`: there is none.
pub fn limits() -> Rlimit {
    getrlimit(Resource::Nofile)
}

/// Sets the soft limit. Returns whether that was allowed.
pub fn raise(limits: Rlimit, soft: u64) -> bool {
    setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum: limits.maximum }).is_ok()
}
