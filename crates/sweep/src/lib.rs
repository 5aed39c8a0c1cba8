// SPDX-License-Identifier: Apache-2.0
//! Many cells, one after the other: their order, the state that survives any kill, and what all of them say together.
//!
//! In: a [`Plan`], which is settings and how often each is run; and a [`Bench`], which runs one cell. Out: a folder with a recording for each
//! attempt, and its `sweep.json`, a [`State`]. Where the cells come from does not matter: a matrix is one kind of plan.
//!
//! | module | what it does |
//! | --- | --- |
//! | `plan` | what is to be done |
//! | `state` | what was done: the content of `sweep.json` |
//! | `merge` | an earlier state under a plan that may have changed since |
//! | `store` | the folder: its lock, and `sweep.json` written whole or not at all |
//! | `conduct` | the loop: recover, wait for a quiet host, run, keep |
//! | `bench` | who runs one cell, and what it is told |
//! | `seen` | what counts of one recording |
//! | `together` | figures of settings, and the verdicts between them |
//! | `remaining` | how long the rest takes, learnt from what is done |
//! | `quiet` | whether the host is quiet |
//! | `recover` | what a killed cell left is undone |
//!
//! What it is not: it knows neither terminal nor files of experiments, and asks nobody.
//!
//! Invariants: the state is on the disk before a cell changes anything, and after it ended. A cell that is done is never run again; one that was
//! interrupted is, after what it left was undone through the journal. Whether a cell counts is decided by the host's figures, never by the
//! cell's own.

mod bench;
mod conduct;
mod error;
mod merge;
mod plan;
mod quiet;
mod recover;
mod remaining;
mod seen;
mod state;
mod store;
mod together;

pub use bench::{Bench, Due, News, run_cell};
pub use conduct::{Ended, Sweep, Wish};
pub use error::Error;
pub use plan::{Budget, Plan, Planned};
pub use state::{
    Attempt, AttemptEnd, Cell, CellState, Comparison, FigureOf, Remaining, SCHEMA, STATE_FILE, Setting, State, Value,
};
pub use store::{is_running, read};
