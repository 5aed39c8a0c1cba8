// SPDX-License-Identifier: Apache-2.0
//! TOML files that people write by hand: read key by key, with every problem at once, each with its line and what to write instead.
//!
//! In: a text. Out: a [`tree::Table`] that knows where everything stands, a [`section::Section`] to ask for typed values, and the
//! [`problem::Problem`]s met on the way. Not here: what the keys mean. No I/O.

pub mod problem;
pub mod section;
pub mod tree;

pub use problem::{Problem, Problems, suggest};
pub use section::{Placed, Section};
pub use tree::{At, Entry, Node, Table, Value};
