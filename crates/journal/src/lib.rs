// SPDX-License-Identifier: Apache-2.0
//! The undo journal: it holds each change of a run on the disk before the run makes the change.
//!
//! In: steps and their outcomes. Out: permits for `host`; and, for a later reader of the file, the steps that *may* have happened. This crate changes
//! only its own file. The page `docs/undo.md` has the format and the recovery rules; a test compares it with this code.
//!
//! Invariants: a permit exists only after `fdatasync` of its record. A step that has an intent and no end may have happened. A reading is whole, or
//! ends with a record that a crash has cut, or is damaged, unknown or unreadable: see [`Reading`]. Only a journal that was read as a whole may be
//! removed. An undo never needs disk space, and continues when the journal cannot be written.

mod error;
mod failpoint;
mod file;
mod format;
mod reading;
mod record;
mod run_id;
mod state;

pub use error::Error;
pub use evidence::OomVictim;
pub use failpoint::{FORGET_VARIABLE, forgets, forgets_kind};
pub use file::{Journal, boot_id};
pub use format::FORMAT_VERSION;
pub use host::change::CgroupVersion;
pub use host::process::Namespaces;
pub use host::{CRASH_VARIABLE, failpoint};
pub use reading::{Content, JournalFile, Reading, Unopened, read, read_bytes};
pub use record::{Begun, Computed, Kind, Members, Outcome, Record, Role, Step, StepId};
pub use run_id::RunId;
pub use state::{Phase, State, StepState};
