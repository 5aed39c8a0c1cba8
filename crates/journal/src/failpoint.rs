// SPDX-License-Identifier: Apache-2.0
//! Lets tests leave out a part of an undo. Does nothing without the feature `failpoints`.

/// `WRINGER_FORGET=<kind>`: an undo leaves out steps of this kind (`value`, `cgroup`, `mount`, `loop_device`, `process`, ...) and reports that it did
/// nothing; `whose_mount`, `the_mark`: an undo unmounts the topmost mount, without a look, or after a look that may be out of date; `sync`: records
/// are written, but nothing waits until they are on the disk; `standstill`: a watchdog goes by the clock, and kills a layer that was frozen;
/// `bad_record`: bytes that are no record count as the end of the journal; `unread`: a run whose journal was not read as a whole counts as one that
/// is over.
pub const FORGET_VARIABLE: &str = "WRINGER_FORGET";

/// Whether a test wants the undo of this step to be left out, to see that this is noticed.
#[cfg(feature = "failpoints")]
pub fn forgets(change: &crate::Step) -> bool {
    serde_json::json!(change)["kind"].as_str().is_some_and(forgets_kind)
}

/// Whether a test wants every undo of this kind to be left out.
#[cfg(feature = "failpoints")]
pub fn forgets_kind(kind: &str) -> bool {
    std::env::var(FORGET_VARIABLE).is_ok_and(|forgotten| forgotten == kind)
}

#[cfg(not(feature = "failpoints"))]
pub fn forgets_kind(_kind: &str) -> bool {
    false
}

/// Whether a test wants records not to be synced.
#[cfg(feature = "failpoints")]
pub(crate) fn forgets_sync() -> bool {
    forgets_kind("sync")
}

#[cfg(not(feature = "failpoints"))]
pub(crate) fn forgets_sync() -> bool {
    false
}

#[cfg(not(feature = "failpoints"))]
pub fn forgets(_change: &crate::Step) -> bool {
    false
}
