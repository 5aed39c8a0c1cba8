// SPDX-License-Identifier: Apache-2.0
//! The experiment file: what it may contain, its mistakes, and the ordered plan for it.
//!
//! In: the text of a TOML file, and for the plan the facts about a host. Out: an [`Experiment`] whose arms are fully resolved, or every [`Problem`]
//! at once, each with its place and with what to write instead; then a [`Plan`], which is data and changes nothing. No I/O, no clock, no randomness.
//!
//! This crate does not know whether a server is available or a mechanism works here. `HostFacts` says so, and the stations check again before they
//! touch anything.
//!
//! Invariants: an `Experiment` has at least one arm; arm names differ; every arm runs on the same server version and the same
//! data; when one arm has a disk squeeze, every arm has one (with delay 0), so that all arms use one mechanism.

mod beside;
mod driver;
mod model;
mod moments;
mod plan;
mod read;
mod replayed;
mod required;
mod server_start;
mod squeezed;

use keyfile::{problem, section, tree};

pub use beside::Beside;
pub use keyfile::Problem;
pub use model::{
    Arm, Asserted, Driver, DriverProgram, Experiment, Fill, FillSize, Flavour, Load, LoadBeside, Observe, OnMiss,
    Preheat, RamSqueeze, RowShape, Server, Squeeze, WatchStalls,
};
pub use moments::{At, is_same_value, sql_value};
pub use plan::{HostFacts, LeftOut, Plan, Step, disk_mechanism, plan};
pub use read::{is_name, problems_in, replaced_whole};
pub use replayed::{Replay, Speed};
pub use server_start::{HugePages, Malloc, PgBouncer, PoolMode, ServerStart, Thp};
pub use squeezed::Squeezed;
