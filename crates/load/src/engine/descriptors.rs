// SPDX-License-Identifier: Apache-2.0
//! Raises this process's limit of open files for the sockets.

use crate::Error;
use host::open_files::{SPARE, limits, open_now, raise};

/// Descriptors of a worker: its epoll instance, its waker, and a new connection while the broken one is still open.
const EACH_WORKER: u64 = 3;

/// # Errors
/// [`Error::Descriptors`]: the hard limit is too low.
pub(super) fn make_room(connections: u32, workers: u32) -> Result<(), Error> {
    let needed = open_now() + u64::from(connections) + u64::from(workers) * EACH_WORKER + SPARE;
    let limits = limits();
    // `None` is no limit at all.
    if limits.current.is_none_or(|soft| soft >= needed) {
        return Ok(());
    }
    let refused = |limit| Error::Descriptors { connections, needed, limit };
    if let Some(hard) = limits.maximum.filter(|hard| *hard < needed) {
        return Err(refused(hard));
    }
    match raise(limits, needed) {
        true => Ok(()),
        false => Err(refused(limits.current.unwrap_or(u64::MAX))),
    }
}
