// SPDX-License-Identifier: Apache-2.0
//! One run on disk: an embedded SQLite file with what was seen, and nothing that was computed from it.
//!
//! In: the types of `evidence`, while the run goes on ([`Recording`] is cheap to clone and may be used from several threads).
//! Out: [`Recording::read`] gives the whole [`evidence::Evidence`] back, equal to what went in;
//! [`Recording::read_for`] leaves out the series that its caller does not need; [`Snapshots`] gives those of one source one by one.
//!
//! Not here: rates, ledgers, findings. They are computed when the recording is read, so that an old run can be explained
//! anew.
//!
//! Invariants:
//! - While the run goes on, writes go to SQLite's write-ahead log and wait for no disk: the recorder must not disturb the storage
//!   that is being measured. [`Recording::finish`] folds the log in and leaves one file.
//! - A recording whose writer was killed is readable up to its last committed batch; it then lacks the `finished` mark.
//! - The schema has a number. A file with a newer one is refused, never guessed at.
//!
//! The tables are documented in `docs/recording.md`; a test holds the two together.

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
