// SPDX-License-Identifier: Apache-2.0
//! Changes of the host that a run journals: kernel values, cgroups, mounts, the page cache, the pool of huge pages, memory blocks, mapped devices,
//! loop devices. Each change is idempotent, reads the present value first, and does not touch a value that somebody else changed.

mod cgroup;
pub mod loop_device;
pub mod mapping;
pub mod memory;
mod mount;
mod pool;
mod value;

pub use crate::mounts::{
    MountEntry, MountedAt, NamespaceMounts, mounted_anywhere, mounts, mounts_at, mounts_everywhere,
};
pub use cgroup::{attach, make_cgroup, members, own_cgroup, remove_cgroup};
pub(crate) use mount::try_unmount;
pub use mount::{Served, unmount, who_uses};
pub use pool::{POOL, PoolSize, Shrunk, compact_memory, grow_pool, pool_of_nodes, pool_pages, shrink_pool};
pub use value::{Restored, chosen, read_value, restore_value, set_value};

use crate::permit::Permit;
use crate::process::{Identity, is_helper};
use crate::{Error, Holder};
use std::path::Path;
use std::time::Duration;

/// How long to wait until others stop using a mount or a device that is to be removed; a second Ctrl-C ends the wait. A test in which somebody never stops
/// makes it shorter, by [`BUSY_VARIABLE`](crate::BUSY_VARIABLE).
pub fn busy_timeout() -> Duration {
    crate::failpoint::busy_timeout().unwrap_or(Duration::from_secs(5))
}

/// Which cgroup hierarchy a folder belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupVersion {
    V1,
    V2,
}

/// The error that these processes use `path`, without Wringer's helpers.
fn busy_by(path: &Path, holders: Vec<Identity>) -> Error {
    let others = holders.into_iter().map(|identity| identity.pid).filter(|pid| !is_helper(*pid));
    Error::Busy { path: path.to_owned(), holders: others.map(Holder::of).collect() }
}

/// Drops clean page cache: `/proc/sys/vm/drop_caches`, 1 (kernel, admin-guide/sysctl/vm.rst). There is nothing to undo, but every program on the host
/// reads from disk again.
pub fn drop_page_cache(_permit: &Permit) -> Result<(), Error> {
    value::write(Path::new("/proc/sys/vm/drop_caches"), "1")
}
