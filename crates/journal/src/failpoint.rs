// SPDX-License-Identifier: Apache-2.0
//! Lets tests leave out a part of an undo. Does nothing without the feature `failpoints`.

/// `WRINGER_FORGET=<kind>`: an undo leaves out steps of this kind (`value`, `cgroup`, `mount`, `loop_device`, `process`, ...) and says that it did
/// not; `whose_mount`, `the_mark`: an undo unmounts what lies on top, without a look, or as it was at its look; `sync`: records are written, and not
/// waited for until they are on the disk; `standstill`: a watchdog goes by the clock, and kills a layer that was frozen; `bad_record`: a record that
/// is none is taken for the end of the journal; `unread`: a journal that was not read whole is taken for one that is over.
pub const FORGET_VARIABLE: &str = "WRINGER_FORGET";

/// Whether a test wants this step's undo to be missing, to see that something notices.
#[cfg(feature = "failpoints")]
pub fn forgets(change: &crate::Step) -> bool {
    serde_json::json!(change)["kind"].as_str().is_some_and(forgets_kind)
}

/// Whether a test wants everything that undoes this kind to be missing.
#[cfg(feature = "failpoints")]
pub fn forgets_kind(kind: &str) -> bool {
    std::env::var(FORGET_VARIABLE).is_ok_and(|forgotten| forgotten == kind)
}

#[cfg(not(feature = "failpoints"))]
pub fn forgets_kind(_kind: &str) -> bool {
    false
}

/// Whether a test wants records that are not synced.
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
