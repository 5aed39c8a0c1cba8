// SPDX-License-Identifier: Apache-2.0
//! Throw-away database servers: found or fetched, made in a folder of their own, started below a run, removed by manifest.
//!
//! - What differs between servers and versions is in crate `capability`; [`Sandbox::ask_capabilities`] holds it against a server.
//! - [`locate`]: a server program on this machine, or fetched without installing it.
//! - [`Sandbox::deploy`], [`Sandbox::open`], [`Sandbox::list`], [`Sandbox::delete`].
//! - [`Origin`]: a data directory, a backup or a dump of somebody's, from which a sandbox is made.
//! - [`filled_key`]: what a filled data directory depends on; crate `fills` keeps such directories, [`Spec::filled`] takes a clone.
//! - [`Sandbox::members`], [`Sandbox::lag`]: a primary with replicas.
//! - [`Pooler`]: pgBouncer in front of PostgreSQL; [`Sandbox::pools`].
//! - [`Sandbox::settings_before_start`]: what settings a server would have, by its program.
//! - [`Sandbox::start`]: through a [`run::Run`], so that nothing is left behind; [`RunningServer::stop`].
//!
//! Not here: slowing or squeezing a server (the caller passes the namespace and cgroups in), tables and load (`load`).
//!
//! Invariants: a sandbox is registered (its manifest written) before anything is made in it. Servers listen on loopback
//! alone, with a generated password. As root, the server runs as an ordinary user that owns only what it must write.
//! Packages are unpacked into Wringer's cache and never installed: installing would start a service.

mod account;
mod apt;
mod before_start;
mod capability_check;
mod client;
mod deploy;
mod digest;
mod elf;
mod error;
mod fetch;
mod filled;
mod huge_need;
mod init;
mod init_options;
mod installation;
mod joint_needs;
mod libraries;
mod locate;
mod manifest;
mod maven;
mod options;
mod origin;
mod pooler;
mod port;
mod progress;
mod random;
mod refused_options;
mod remove;
mod replication;
mod request;
mod server;
mod shared_memory;
mod socket_folder;
mod space;
mod stale_lock_file;
mod start;
mod start_options;
mod suite;
mod tarball;
mod user;
mod wrap;

pub use capability::{Flavour, Version};
pub use capability_check::CapabilityAnswer;
pub use deploy::Spec;
pub use digest::sha256;
pub use error::{Error, status_text};
pub use fetch::{Archive, Offer, fetch, newest, offers, unpack};
pub use filled::{LEFT_OUT, filled_key};
pub use huge_need::shared_memory_bytes;
pub use init_options::init_keys;
pub use installation::{Installation, Source, installed};
pub use joint_needs::check_before_start_of;
pub use libraries::Libraries;
pub use locate::{fetched, locate, newer_fetched, present};
pub use manifest::{Manifest, Member, Sandbox, State, Taken};
pub use options::ServerOption;
pub use origin::{Imported, Origin, Piece, Script};
pub use pooler::{
    Pool, PoolMode, PoolSettings, PoolUser, Pooler, PoolerProgram, PoolerSpec, Pooling, locate_pooler, present_pooler,
};
pub use progress::Progress;
pub use refused_options::Refused;
pub use remove::Deleted;
pub use replication::{Behind, Lag, MOST_REPLICAS};
pub use request::{FETCHED, Request};
pub use server::Server;
pub use start::{End, RunningServer};
pub use start_options::{Preload, StartOptions};
pub use user::ServerUser;
pub use wrap::{
    Got, HugePages, Malloc, MallocStart, Thp, Valgrind, Wrapping, huge_page_bytes, library_of_machine, present_malloc,
};
