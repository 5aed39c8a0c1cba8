// SPDX-License-Identifier: Apache-2.0
//! The same load under several mallocs: which cells are run, what one cell has shown, which figures differ, and which malloc to take.
//!
//! In: an experiment's server, fill and load, and a [`Study`]. Out: the text of a matrix; each of its cells is one life of the server. Then, from
//! the recordings of these cells, [`Cell`]s, [`Comparison`]s and one [`Recommendation`]. No I/O, no clock, no randomness.
//!
//! | module | what it does |
//! | --- | --- |
//! | `study` | the cycle of a cell as arms of an experiment, and what varies |
//! | `cell` | the figures of one cell, from its recording |
//! | `compare` | compares every malloc with the first one, by crate `verdict` |
//! | `start` | what makes a server take a malloc, as the cells were started |
//! | `lines` | the same as lines for the server's unit |
//! | `recommend` | the rule that recommends one malloc, or none |
//!
//! What it is not: it runs nothing and draws no random order. It does not know how a malloc is put into a server.

mod cell;
mod compare;
mod lines;
mod recommend;
mod start;
mod study;

pub use cell::{Cell, Load, Longest, Marked, cell};
pub use compare::{Comparison, IDLE_RSS, comparisons};
pub use lines::lines;
pub use recommend::{Recommendation, recommend};
pub use study::{BURST, Cpus, SHORTEST_BURST, Study, WARM_UP};
