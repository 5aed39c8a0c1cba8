// SPDX-License-Identifier: Apache-2.0
//! Readers of the host, of processes and of servers; raw samples out.
//!
//! In: files below `/proc` and `/sys`, kept open, and the answers of a server. Out: points, into an
//! [`evidence::SampleSink`], and the [`evidence::Host`] that a result was measured on. Nothing is turned into a rate here.
//!
//! | module | what it reads |
//! | --- | --- |
//! | [`host_readers`] | meminfo, vmstat, pressure, diskstats, cpu, load |
//! | [`process`] | stat, io, and memory in three tiers: smaps_rollup, status, statm |
//! | [`server`] | status counters, InnoDB's metrics, PostgreSQL's statistics views |
//! | [`busy`] | whose work the CPUs and the disk do: own, others', another run's, the hypervisor's |
//! | [`memory`] | what a server's memory is made of: mappings, allocator, contexts, its own rows |
//! | [`conditions`] | what the host is, and what could weaken a result on it |
//! | [`connections`] | limits of connections, and who has how many |
//! | [`stalls`] | what a server's threads do, every 10 ms, and what it says that its connections wait for |
//!
//! Each reader says how often it may be read ([`Reader::interval`]), from 10 ms to minutes: an observer that looks fast leaves out what is
//! dear, or changes seldom, in the rounds between.
//!
//! Invariants: observing has a budget. Each reading is timed; a reader above its share goes to a cheaper tier, or is read less
//! often, and the report says so. What the observer itself costs is in the samples (source `observer`). Parsers take text, never a path.

pub mod busy;
pub mod conditions;
pub mod connections;
pub mod host_readers;
pub mod memory;
pub mod parse;
pub mod process;
pub mod server;
pub mod stalls;

mod collect;
mod error;
mod observer;
mod procfile;
mod reopening;

pub use collect::{Collector, Kind};
pub use error::Error;
pub use observer::{Observer, Options, Pace, Reader, Report};
pub use reopening::Reopening;
