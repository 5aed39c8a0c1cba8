// SPDX-License-Identifier: Apache-2.0
//! One run on disk: an embedded SQLite file with the observed data, and nothing that was computed from them.
//!
//! In: the types of `evidence`, while the run goes on ([`Recording`] is cheap to clone and may be used from several threads). Out:
//! [`Recording::read`] returns the whole [`evidence::Evidence`], equal to what was written; [`Recording::read_for`] leaves out the series that its
//! caller does not need, [`Recording::read_reduced`] also what it does not need of a snapshot; [`Snapshots`] returns the snapshots of one source one by one.
//!
//! Not here: rates, ledgers, findings. They are computed when the recording is read, so that an old run can be explained
//! anew.
//!
//! Invariants:
//! - While the run goes on, writes go to SQLite's write-ahead log and do not wait for the disk: the recorder must not disturb the storage that is
//!   being measured. [`Recording::finish`] merges the log into the file, so that one file is left.
//! - A recording whose writer was killed is readable up to its last committed batch; it then lacks the `finished` mark.
//! - The schema has a number. A file with a newer number is refused; its meaning is never guessed.
//!
//! The tables are documented in `docs/recording.md`; a test compares the document with the schema.

mod cell;
mod error;
mod read;
mod reader;
mod schema;
mod snapshots;
mod write;

pub use error::Error;
pub use schema::SCHEMA;
pub use snapshots::Snapshots;
pub use write::{Recording, Start};
