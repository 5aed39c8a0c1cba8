// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};

/// For how long requests waited for each limit of a disk, in nanoseconds. Where several waited at the same time, that time counts once:
/// beside the time that passed, it is the share in which the limit held somebody back. A request that two limits hold back waited for the one
/// that let it go last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// For the operations a second.
    pub operations_ns: u64,
    /// For the bytes a second.
    pub bytes_ns: u64,
    /// For one of the disk's servers: it works on so many requests at once.
    pub queue_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Operations,
    Bytes,
    Queue,
}

/// The sums, and up to when each has been counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waits {
    pub(crate) waited: Waited,
    until: [u64; 3],
}

impl Waits {
    /// Somebody waits from `from` to `to` for this.
    pub(crate) fn add(&mut self, cause: Cause, from: u64, to: u64) {
        let until = &mut self.until[cause as usize];
        let new_ns = to.saturating_sub(from.max(*until));
        *until = to.max(*until);
        *match cause {
            Cause::Operations => &mut self.waited.operations_ns,
            Cause::Bytes => &mut self.waited.bytes_ns,
            Cause::Queue => &mut self.waited.queue_ns,
        } += new_ns;
    }
}
