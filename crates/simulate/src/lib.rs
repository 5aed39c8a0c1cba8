// SPDX-License-Identifier: Apache-2.0
//! InnoDB's free list and the threads that fill it, as events on a simulated clock: how much a load suffers from an empty list.
//!
//! In: [`Settings`], with a row of `capability` that describes the server. Out: a [`Load`] for each load, and a [`Band`] over the facts about a
//! running server that cannot be known. [`parameters`] lists every input number, with its source.
//!
//! Not here: this crate asks no server, and adjusts nothing to a measurement. No I/O, no clock; random numbers come from the seed in the settings, so
//! that the same settings give the same result.
//!
//! Left out: contention of CPUs and mutexes, the pages of one extent that are read ahead or written together, and, for 5.6, the limit of a second for
//! one pass and its way of going from instance to instance (here the instances are filled one after the other).

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
