// SPDX-License-Identifier: Apache-2.0
//! InnoDB's free list and those who fill it, as events on a simulated clock: what a load suffers from an empty list.
//!
//! In: [`Settings`], with a row of `capability` that says what the server does. Out: a [`Load`] for each load, and a [`Band`] over what
//! nobody can know of a server that runs. [`parameters`] lists every number that went in, with its source.
//!
//! What it is not: it asks no server, and adjusts nothing to a measurement. No I/O, no clock; random numbers come from the seed in
//! the settings, so that the same settings give the same result.
//!
//! What it leaves out: contention of CPUs and mutexes, the pages of one extent that are read ahead or written together, and, of 5.6, the
//! limit of a second for one pass and its way of going from instance to instance (here they are filled one after the other).

mod band;
mod client;
mod draws;
mod instance;
mod outcome;
mod parameters;
mod refill;
mod refiller;
mod run;
mod settings;
mod steps;
mod tail;
mod waits;
mod world;

pub use band::{Band, Range, starts};
pub use outcome::{Counters, Load, Part, STALL_NS, Stall};
pub use parameters::{Parameter, parameters};
pub use run::{simulate, simulate_with_band};
pub use settings::{Burst, Costs, Error, Settings, Start};
