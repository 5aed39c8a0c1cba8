// SPDX-License-Identifier: Apache-2.0
use serde::{Deserialize, Serialize};

/// How long requests waited for each limit of a disk, in nanoseconds. Time in which several requests waited counts once: divided by the elapsed time,
/// it is the share in which the limit held a request back. When two limits hold a request back, it waited for the limit that let it go last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// Waits for the limit of operations.
    pub operations_ns: u64,
    /// Waits for the limit of bytes.
    pub bytes_ns: u64,
    /// Waits for a free server of the disk: the disk serves only so many requests at once.
    pub queue_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Operations,
    Bytes,
    Queue,
}

/// The sums, and the time up to which each sum is counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Waits {
    pub(crate) waited: Waited,
    until: [u64; 3],
}

impl Waits {
    /// A request waits from `from` to `to` for this limit.
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
