// SPDX-License-Identifier: Apache-2.0
//! The sizes of the heap at all moments of a file, without the trees.

use crate::damage::Damage;
use crate::format::Format;
use crate::snapshot::{Snapshot, TimeUnit};

#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    pub format: Format,
    /// The command that was profiled. `None`: the format does not say it.
    pub command: Option<Vec<u8>>,
    /// `None`: the format has no times.
    pub time_unit: Option<TimeUnit>,
    pub snapshots: Vec<Snapshot>,
    /// On the average the profiler looked at one allocation in so many bytes, so that each size is an estimate. `None`: it looked at all allocations.
    pub sampled_every_bytes: Option<u64>,
    /// The place from which on the file cannot be read.
    pub damage: Option<Damage>,
    /// For each snapshot, the line after which it was taken. Only for formats that record events.
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

    /// The places in `snapshots` of the snapshots that have a tree.
    pub fn with_trees(&self) -> impl DoubleEndedIterator<Item = usize> {
        self.snapshots.iter().enumerate().filter(|(_, it)| it.has_tree()).map(|(place, _)| place)
    }
}
