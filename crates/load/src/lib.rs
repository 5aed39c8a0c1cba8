// SPDX-License-Identifier: Apache-2.0
//! Drives a database server: fills its tables, sends it an OLTP load, and measures the answers.
//!
//! - [`target`]: the server, its address, and the account.
//! - [`protocol`]: the MySQL and PostgreSQL client protocols as state machines, bytes in and bytes out, without I/O.
//! - [`admin`]: one blocking connection over the same state machines, for set-up work and counters.
//! - [`capacity`]: whether the server accepts this many connections.
//! - [`engine`]: many connections on a few threads, the intended-time scheduler, histograms.
//! - [`prepare()`]: the tables of a workload that wants its own; [`prepare::pgbench`]: the tables of pgbench.
//! - [`fill`]: tables of a given size and shape.
//! - [`replay`]: sends the statements of a real server's log again.
//! - [`reversible`]: statements that change a server, each with its undoing: all or none.
//! - [`server_clock`]: the difference between the server's clock and ours.
//! - [`summary`]: a load's result as text, and in sysbench's shape.
//!
//! Not here: which statements with which values (`workload`), starting a server (`sandbox`), reading its counters (`observe`), printing (`wringer`).

pub mod admin;
pub mod capacity;
pub mod engine;
mod error;
pub mod fill;
mod late;
pub mod prepare;
pub mod protocol;
pub mod replay;
pub mod reversible;
pub mod server_clock;
pub mod summary;
pub mod target;
mod transport;

pub use error::{Busy, Error};
pub use prepare::prepare;
pub use target::{Endpoint, Password, Protocol, Target, Tls};
