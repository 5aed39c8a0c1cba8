// SPDX-License-Identifier: Apache-2.0
//! When a start counts as late, and how long those had waited that did not start at all.

use evidence::LatencyHistogram;

/// An intended start that was missed by more than this counts as late.
pub(crate) const LATE_NS: u64 = 1_000_000;

/// Records the wait of a start that was due, and had not been made when its phase ended. One that was due less than [`LATE_NS`] before has not waited yet.
pub(crate) fn record_wait(waits: &mut LatencyHistogram, due_ns: u64, ended_ns: u64) {
    let waited_ns = ended_ns.saturating_sub(due_ns);
    if waited_ns > LATE_NS {
        waits.record(waited_ns);
    }
}
