// SPDX-License-Identifier: Apache-2.0
//! What the tests of a watch begin with.

use super::sample::{Says, Session};
use super::watching::{Watch, Watching};
use capability::FreeList;
use sql::Dialect;

/// Threads are looked at so often.
pub(super) const STEP_US: u64 = 10_000;

/// A watch by default, of a server that does not tell its version. Stalls of 50 ms and more are told.
pub(super) fn watching(dialect: Dialect, backoff: bool, started_unix_us: u64) -> Watching {
    watching_of(None, dialect, backoff, started_unix_us)
}

/// The same, of a server that does this when its free list is empty.
pub(super) fn watching_of(
    free_list: Option<&'static FreeList>,
    dialect: Dialect,
    backoff: bool,
    started_unix_us: u64,
) -> Watching {
    let mut watching = Watching::new(Watch {
        least_us: 50_000,
        backoff: Some(backoff),
        free_list,
        probe: None,
        is_deep: false,
        with_values: false,
        dialect,
        server: None,
        started_unix_us,
    });
    watching.seen().keep();
    watching
}

/// The connection of a thread, of which the server says this.
pub(super) fn session(thread: u32, says: Says) -> Session {
    Session {
        connection: 100 + u64::from(thread),
        thread: Some(thread),
        says,
        words: String::new(),
        statement: None,
        age_us: None,
        blocked_by: Vec::new(),
        perhaps_blocked_by: Vec::new(),
    }
}
