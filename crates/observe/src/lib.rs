// SPDX-License-Identifier: Apache-2.0
//! Readers of the host, of processes and of servers; they return raw samples.
//!
//! In: files below `/proc` and `/sys`, kept open, and the answers of a server. Out: points, into an [`evidence::SampleSink`], and the
//! [`evidence::Host`] on which a result was measured. Nothing is turned into a rate here.
//!
//! | module | what it reads |
//! | --- | --- |
//! | [`host_readers`] | meminfo, vmstat, pressure, diskstats, cpu, load |
//! | [`process`] | stat, io, and memory in three tiers: smaps_rollup, status, statm |
//! | [`server`] | status counters, InnoDB's metrics, PostgreSQL's statistics views |
//! | [`busy`] | the CPU time and disk traffic of this run, of other programs, of another run, of the hypervisor |
//! | [`memory`] | the parts of a server's memory: mappings, allocator, contexts, its own rows |
//! | [`conditions`] | the properties of the host, and the facts that could weaken a result on it |
//! | [`connections`] | limits of connections, and the sessions of each account |
//! | [`stalls`] | the activity of a server's threads, every 10 ms, and the server's words for what its connections wait for |
//!
//! Each reader sets how often it may be read ([`Reader::interval`]), from 10 ms to minutes: a fast observer skips expensive and rarely changing
//! sources in most rounds.
//!
//! Invariants: observing has a budget. Each reading is timed. A reader above its share changes to a cheaper tier, or is read less often, and the
//! report says so. The observer's own cost is in the samples (source `observer`). Parsers take text, never a path.

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
mod ptrace_rights;
mod reopening;

pub use collect::{Collector, Kind};
pub use error::Error;
pub use observer::{Observer, Options, Pace, Reader, Report};
pub use reopening::{OwnConnections, PATIENCE, Reopening};
