// SPDX-License-Identifier: Apache-2.0
//! Everything that changes the machine goes through this crate (invariant 1).
//!
//! Any crate may read `/proc`, `/sys` and its own files. Changes are restricted: only functions of this crate write files, start processes, make
//! mounts and set values. Functions that change something outside Wringer's own folders ask for a [`permit::Permit`]. Only the journal issues a
//! permit, after the intent has reached the disk. `clippy.toml` forbids the rest of the workspace the functions of the standard library that would
//! bypass this crate.
//!
//! | module | what goes through it | permit |
//! | --- | --- | --- |
//! | [`places`] | where journal, cache, sandboxes and recordings live | no |
//! | [`files`] | Wringer's own folders and files | no |
//! | [`tool`] | helper programs that read, or write only into Wringer's own folders: package clients, initdb | no |
//! | [`process`] | long-lived children with the run's token: servers, holder, slow layer | yes |
//! | [`change`] | kernel values, cgroups, mounts, huge pages, mapped devices, loop devices | yes |
//! | [`namespace`] | a process's own mount namespace, its own mount and its own protection | no |
//! | [`inherited`] | anonymous memory that this process shares with those that inherit its descriptor | no |
//! | [`input`] | files that the user names, read whole | no |
//! | [`interrupt`] | the user's wish to stop, and the wish to stop at once | no |
//! | [`looks`] | which looks of a watcher count after a standstill | no |
//! | [`mapper`] | a look at device-mapper's devices and targets | no |
//! | [`named_cgroups`] | a look at cgroups by their name | no |
//! | [`meminfo`] | lines of `/proc/meminfo` | no |
//! | [`mounts`] | a look at what is mounted, in every mount namespace | no |
//! | [`open_files`] | the limit of open files of this process | no |
//! | [`shared_memory`] | a look at segments that have a name; removal of those that nobody uses and that the caller has proven to be a dead sandbox's | no |
//! | [`uprobe`] | a look at the calls of a function in running processes; the kernel removes the probes with this process | no |
//! | [`clock`] | the run's monotonic clock, wall time | no |

pub mod change;
pub mod clock;
pub mod files;
pub mod in_use;
pub mod inherited;
pub mod input;
pub mod interrupt;
pub mod looks;
pub mod mapper;
pub mod meminfo;
pub mod mounts;
pub mod named_cgroups;
pub mod namespace;
pub mod open_files;
pub mod permit;
pub mod places;
pub mod process;
pub mod shared_memory;
pub mod tool;
pub mod uprobe;

mod distrust;
mod error;
mod failpoint;
mod mounted_at;
mod user_names;

pub(crate) use error::holder_list;
pub use error::{Error, Holder, chain};
#[cfg(feature = "failpoints")]
pub use failpoint::at_each_moment;
pub(crate) use failpoint::moment;
pub use failpoint::{BUSY_VARIABLE, CRASH_VARIABLE, PAUSE_VARIABLE, failpoint, pause_point};
