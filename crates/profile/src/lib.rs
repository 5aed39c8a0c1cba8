// SPDX-License-Identifier: Apache-2.0
//! A sandbox's server under a heap profiler: which functions hold its heap, at moments that the caller chooses.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`Symbols`] | which share of the program's functions a profile can name, and which package has the other names |
//! | [`With`] | the profilers, and what each needs on this machine |
//! | [`Session`] | one life of the server under a profiler: marks, and its end |
//! | `massif`, `vgdb` | asks each process in Valgrind for a snapshot |
//! | `asking` | asks tcmalloc or jemalloc in the server to write a profile |
//! | `heaptrack` | reads the marks from heaptrack's file when the server has ended |
//! | `snapshots` | puts snapshots of several moments into one file, and those of several processes into one snapshot |
//! | [`known`] | known failures in the log of a failed start, and their cures |
//! | [`prepare`] | a sandbox with the server and the data of an experiment, and the load of one of its arms |
//! | [`Pace`] | how long a small query takes: without Valgrind and under Massif |
//! | [`repeat`] | the same statements in blocks with rests between: first without Valgrind, with the ledger; then under Massif; and what leaks |
//!
//! What it is not: it reads no profile (`heap` does), judges no growth (`explain` does), and prints nothing.
//!
//! Invariants: each snapshot is on the disk, in the user's folder, before the next one is asked for, so that a server that is killed leaves a
//! profile. The server belongs to the caller's run: whatever ends that run ends the server, and Valgrind's pipes go with it.

mod asking;
mod error;
mod from_file;
mod heaptrack;
mod known_failures;
mod mark;
mod massif;
mod pace;
mod profiler;
pub mod repeat;
mod session;
mod snapshots;
mod symbols;
mod vgdb;

use heap::{Holdings, NoSymbols};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

pub use error::{Cause, Error};
pub use from_file::{Prepared, Wanted, prepare};
pub use known_failures::{KnownFailure, known};
pub use mark::{Mark, ProcessMark};
pub use pace::Pace;
pub use profiler::{Tools, With};
pub use session::{Ended, Session, Settings, native};
pub use symbols::Symbols;

/// The functions that hold the heap at these marks of a profile; `numbers` are the numbers of the marks.
///
/// # Errors
/// The file cannot be read.
pub fn holdings(profile: &Path, numbers: &[usize]) -> Result<Vec<Holdings>, Error> {
    let unreadable = |source: std::io::Error| Error::Read { path: profile.to_owned(), source };
    let read = || heap::Outline::read(File::open(profile)?);
    let outline = read().map_err(|error| unreadable(std::io::Error::other(error)))?;
    let file = File::open(profile).map_err(unreadable)?;
    let mut found = Vec::new();
    heap::each_tree(BufReader::new(file), &outline, numbers, &mut NoSymbols, &mut |_, tree| {
        found.push(Holdings::of(&tree))
    })
    .map_err(|error| unreadable(std::io::Error::other(error)))?;
    Ok(found)
}
