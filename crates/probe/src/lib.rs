// SPDX-License-Identifier: Apache-2.0
//! Probes: how fast a file is read, and how much of it is in the page cache. Probes only read, and change nothing but the contents
//! of the page cache. They write only to a file without a name that the probe has made itself.
//!
//! | module | question |
//! | --- | --- |
//! | [`residency`] | how much of a file is in the page cache |
//! | [`tree`] | the same for everything below a folder; which file is the largest |
//! | [`evict`] | make a file cold |
//! | [`scan`] | cold and warm sequential reads: does the file fit the page cache |
//! | [`random`] | random reads (or writes of an own file): latency histogram, operations a second, own cost |
//! | [`reads`] | what a read costs, cold and warm, past the page cache and through it: all of it in one order, also by a process of its own |
//! | [`target`] | what to probe: a file, the largest file below a folder, or a new file without a name |
//!
//! The witness of a squeeze is another one (`squeeze::probe`): it runs inside a server's namespace.

pub mod evict;
pub mod random;
pub mod reads;
pub mod residency;
pub mod scan;
pub mod target;
pub mod tree;

mod cpu;
mod error;
mod round;
mod scramble;
mod verdict;

pub use error::Error;
pub use round::Round;
pub use verdict::Verdict;
