// SPDX-License-Identifier: Apache-2.0
//! The section `[matrix]` of an experiment file: by it one file describes many settings, each of which is run many times.
//!
//! In: the text of a file. Out: a [`Matrix`] with its [`Setting`]s, each the whole text of an experiment of its own, with an id: settings that
//! run the same have the same id. Or every [`keyfile::Problem`] at once, with its line. [`order`] says which setting runs
//! when. No I/O, no clock, no randomness but that of the file's seed.
//!
//! | module | what it does |
//! | --- | --- |
//! | `read` | the section: which keys vary, by which values |
//! | `axis` | keys and their values, crossed and paired |
//! | `alone` | the problems of each key and value, where others prevent the settings |
//! | `sample` | values that are drawn |
//! | `exclude` | rules by which settings are left out |
//! | `follow` | keys that are computed from others |
//! | `variant` | one setting: the file with its keys set |
//! | `order` | shuffled blocks |
//!
//! This crate runs nothing, and does not know what a key means; crate `experiment` reads each setting.
//!
//! Invariants: a `Matrix` has at least one setting; no two are the same; the text of each is read by `Experiment::parse`.

mod alone;
mod axis;
mod budget;
mod draw;
mod exclude;
mod follow;
mod matrix;
mod order;
mod path;
mod quantity;
mod read;
mod sample;
mod variant;

pub use budget::Budget;
pub use matrix::{MOST_CELLS, Matrix, Setting, is_matrix};
pub use order::order;
