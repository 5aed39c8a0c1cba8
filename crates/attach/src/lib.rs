// SPDX-License-Identifier: Apache-2.0
//! Finds a server from what a user has written about it (a sandbox's name, a connection string, flags, option files, a process): how to
//! connect, which server it is, which processes it has on this host, and what can be read from it.
//!
//! - [`Wanted`]: what was asked for. Plain data: a command line or another program fills it in. [`Wanted::target`] completes it from the
//!   places that people use already: the environment (`MYSQL_PWD`, `PGHOST`, ...), `~/.my.cnf`, `~/.pg_service.conf`, `~/.pgpass`.
//! - [`Attached`]: the server that answers there, and its process on this host: also a server that is in no sandbox.
//! - [`Attached::inventory`]: one inventory of the server's memory.
//! - [`Group`]: readers of the host, of its processes, and of its counters. Each group is for an [`observe::Observer`] of its own.
//!
//! Not here: starting a server (`sandbox`), sending it load (`load`), what a reader reads (`observe`), command lines and the terminal.
//!
//! Invariants: nothing is changed, neither on the host nor in the server. Contradictory requests are refused: work on
//! another server than the one that was meant is worse than no work. A process is held (pidfd), so that a later process with its number is
//! not mistaken for it.

mod attached;
mod connection_looks;
mod error;
mod files;
mod group;
mod inventory;
mod listener;
pub mod option_file;
mod parts;
pub mod process;
mod same;
mod stalls;
mod surroundings;
mod wanted;

pub use attached::{Attached, Server};
pub use connection_looks::ConnectionLooks;
pub use error::Error;
pub use group::Group;
pub use parts::Parts;
pub use surroundings::{Surroundings, variable};
pub use wanted::Wanted;
