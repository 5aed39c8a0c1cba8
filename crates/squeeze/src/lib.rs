// SPDX-License-Identifier: Apache-2.0
//! Squeezes: reversible limits on the host or on one server. Each change goes through a [`run::Run`], so that its undo is on disk
//! first. Each is measured by a witness that shares no code with it.
//!
//! | module | squeeze | mechanism | needs |
//! | --- | --- | --- | --- |
//! | [`ram`] | RAM of the whole host | a process that holds reserved huge pages | root |
//! | [`limits`] | RAM, swap and CPUs of one command or server | cgroups that it is started in, else its CPU affinity | root; CPU affinity nothing |
//! | [`disk`] | storage of a sandbox, or of one command | a FUSE layer in a mount namespace of its own | `/dev/fuse` |
//! | [`preloaded`] | the same, where nothing can be mounted | a library in the programs | dynamic programs |
//! | [`directory`] | storage below any directory | the same layer, for everybody | `/dev/fuse`, root |
//! | [`device`] | an unused block device | device-mapper's delay target | its module, root |
//! | [`loop_disk`] | an image file, or an unused block device | a loop device over a FUSE file | `/dev/fuse`, loop, root |
//!
//! [`huge_pool`] takes nothing away: it makes room for one server in the host's pool of huge pages. [`host_thp`] sets the host's transparent huge
//! pages for one server.
//!
//! Callers use all of them by one face: a [`Plan`] is applied, measured, changed and released by [`Squeezes`]. [`Slowed`] finds a disk that is slow for
//! everybody by its run's journal, and changes it. [`standing`] has what commands print of squeezes that affect everybody.
//!
//! [`foreign_cache`] finds page cache that a limit of RAM does not count, because others are charged for it. [`probe`] is the
//! witness of a slow disk. [`databases`] finds servers of others that a squeeze of the host would affect.
//!
//! Refused, and why:
//! - RAM below a floor of max(1 GiB, 5 % of RAM): the kernel would kill processes at random.
//! - RAM while another program has free huge pages: the reservation would take them.
//! - A directory with open files or mounts below it: programs that have it open already would not see the layer's files, and the others would.
//! - A database's own data directory: storage is never swapped under a live server; squeezes are for sandboxes and copies.

pub mod access_lists;
pub mod cgroup;
pub mod databases;
pub mod device;
pub mod directory;
pub mod disk;
pub mod foreign_cache;
pub mod host_thp;
pub mod huge_pool;
pub mod limits;
pub mod loop_disk;
pub mod preloaded;
pub mod probe;
pub mod ram;
pub mod standing;

mod constant;
mod error;
mod files_in_use;
mod imitation;
mod in_force;
mod layer_plan;
mod looks;
mod meminfo;
mod plan;
mod slowed;
mod squeezes;
mod way;

pub use error::Error;
pub use in_force::InForce;
pub use layer_plan::{LayerPlan, Owner};
pub use looks::accept;
pub use meminfo::Meminfo;
pub use plan::{Kind, Plan};
pub use slowed::Slowed;
pub use squeezes::Squeezes;
pub use way::WAY;
