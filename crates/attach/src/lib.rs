// SPDX-License-Identifier: Apache-2.0
//! From what somebody says of a server (a sandbox's name, a connection string, flags, option files, a process) to the server: how to
//! connect, what it is, which processes it has on this host, and what can be read of it.
//!
//! - [`Wanted`]: what was asked for. Plain: a command line or another program fills it in. [`Wanted::target`] completes it from where
//!   people have it already: the environment (`MYSQL_PWD`, `PGHOST`, ...), `~/.my.cnf`, `~/.pg_service.conf`, `~/.pgpass`.
//! - [`Attached`]: the server that answers there, and its process on this host: also of a server that no sandbox holds.
//! - [`Attached::inventory`]: what the server's memory is made of, read once.
//! - [`Group`]: readers of the host, of its processes, and of its counters. Each group is for an [`observe::Observer`] of its own.
//!
//! Not here: starting a server (`sandbox`), sending it load (`load`), what a reader reads (`observe`), command lines and the terminal.
//!
//! Invariants: nothing is changed, neither on the host nor in the server. What contradicts itself is refused: work that goes to
//! another server than the one that was meant is worse than none. A process is held (pidfd), so that a later one with its number is
//! not taken for it.

mod attached;
mod connection_looks;
mod error;
mod files;
mod group;
mod inventory;
mod parts;
pub mod process;
mod stalls;
mod wanted;

pub use attached::{Attached, Server};
pub use connection_looks::ConnectionLooks;
pub use error::Error;
pub use group::Group;
pub use parts::Parts;
pub use wanted::{Surroundings, Wanted, variable};
