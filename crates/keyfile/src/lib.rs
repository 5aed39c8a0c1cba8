// SPDX-License-Identifier: Apache-2.0
//! TOML files that people write by hand. They are read key by key, and all problems are reported at once, each with its line and with the text to
//! write instead.
//!
//! In: a text. Out: a [`tree::Table`] that has the place of everything, a [`section::Section`] that is asked for typed values, and the
//! [`problem::Problem`]s that were found. This crate does not know what the keys mean. No I/O.

pub mod problem;
pub mod section;
pub mod tree;

pub use problem::{Problem, Problems, suggest};
pub use section::{Placed, Section};
pub use tree::{At, Entry, Node, Table, Value};
