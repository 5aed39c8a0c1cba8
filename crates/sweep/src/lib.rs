// SPDX-License-Identifier: Apache-2.0
//! Many cells, run one after the other: their order, a state on the disk that survives any kill, and figures and verdicts over all cells.
//!
//! In: a [`Plan`], which has the settings and how often each is run; and a [`Bench`], which runs one cell. Out: a folder with a recording for each
//! attempt, and its `sweep.json`, a [`State`]. Where the cells come from does not matter: a matrix is one kind of plan.
//!
//! | module | what it does |
//! | --- | --- |
//! | `plan` | which cells are to be run |
//! | `state` | which cells were run, with their results: the content of `sweep.json` |
//! | `merge` | brings an earlier state in line with a plan that may have changed since |
//! | `killed` | the time of attempts that were killed |
//! | `store` | the folder: its lock, and `sweep.json` written whole or not at all |
//! | `conduct` | the loop: recover, wait for a quiet host, run, keep |
//! | `bench` | the interface of the code that runs one cell |
//! | `cell_figures` | the figures and outcomes of one recording that a sweep uses |
//! | `pair` | which cells of two settings are compared, and why others hinder that |
//! | `together` | figures of settings, and the verdicts between them |
//! | `best` | the setting with the most transactions |
//! | `remaining` | how long the remaining cells take, learnt from the cells that are done |
//! | `quiet` | whether the host is quiet |
//! | `recover` | undoes the changes that a killed cell left |
//!
//! What it is not: it knows neither the terminal nor files of experiments, and asks the user nothing.
//!
//! Invariants: the state is on the disk before a cell changes anything, and again after the cell ended. A cell that is done is never run again. A cell
//! that was interrupted is run again, after its changes were undone through the journal. The host's figures decide whether a cell counts; the
//! cell's own figures never do.

mod bench;
mod best;
mod cell_figures;
mod conduct;
mod error;
mod killed;
mod merge;
mod pair;
mod plan;
mod quiet;
mod recover;
mod remaining;
mod state;
mod store;
mod together;

pub use bench::{Bench, Due, News, run_cell};
pub use best::{most_transactions, throughput};
pub use conduct::{Ended, Sweep, Wish};
pub use error::Error;
pub use pair::{Pair, differing_keys};
pub use plan::{Budget, Plan, Planned};
pub use state::{
    ALL_ARMS, Attempt, AttemptEnd, Cell, CellState, Comparable, Comparison, FigureOf, Remaining, SCHEMA, STATE_FILE,
    Setting, State, Value,
};
pub use store::{is_running, read, read_for};
