// SPDX-License-Identifier: Apache-2.0
//! What a file says of all times, without who held what.

use crate::damage::Damage;
use crate::format::Format;
use crate::snapshot::{Snapshot, TimeUnit};

#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    pub format: Format,
    /// The command that was profiled. `None`: the format does not say it.
    pub command: Option<Vec<u8>>,
    /// `None`: the format says no time.
    pub time_unit: Option<TimeUnit>,
    pub snapshots: Vec<Snapshot>,
    /// The profiler looked at one allocation for so many bytes on the average: each size is an estimate. `None`: it looked at all.
    pub sampled_every_bytes: Option<u64>,
    /// Where the file cannot be read any more.
    pub damage: Option<Damage>,
    /// Of each snapshot: behind which line it was taken. Only of formats that record events.
    pub(crate) lines: Vec<u64>,
}

impl Outline {
    pub(crate) fn of(format: Format) -> Self {
        Self {
            format,
            command: None,
            time_unit: None,
            snapshots: Vec::new(),
            sampled_every_bytes: None,
            damage: None,
            lines: Vec::new(),
        }
    }

    /// The places in `snapshots` of those that have a tree.
    pub fn with_trees(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.snapshots.iter().enumerate().filter(|(_, it)| it.has_tree()).map(|(place, _)| place)
    }
}
