// SPDX-License-Identifier: Apache-2.0
//! Whether this process may mount the layer, and what holds below it. A filter (seccomp) or a security module may forbid what uid, capabilities and
//! `/dev/fuse` seem to allow, so it is tried: a file system that nobody serves, in a mount namespace of this process's own. Both are
//! gone with the process.

use host::namespace::{self, Reach};
use rustix::fd::AsFd as _;
use rustix::fs::{Mode, OFlags, open};
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountRight {
    /// To call mount(2) at all, for FUSE.
    Mount,
    /// To a mount namespace of its own.
    Namespace,
    /// To open `/dev/fuse`.
    Device,
}

/// The first right that is missing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MissingRight {
    pub right: MountRight,
    pub why: String,
}

/// `None`: everything that the layer needs is there. Must be called before the process starts a thread, in a process that does
/// nothing else.
pub fn missing_right() -> Option<MissingRight> {
    tried().err().map(|(right, error)| MissingRight { right, why: host::chain(&error) })
}

/// Whether POSIX access lists hold below a layer that this process mounts. They must be able to name whom they name: the user namespace that an
/// ordinary user's layer makes maps one user, and shows all others as none.
pub fn keeps_access_lists() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn tried() -> Result<(), (MountRight, host::Error)> {
    namespace::ask_for_mount().map_err(|error| (MountRight::Mount, error))?;
    let private = namespace::enter_private().map_err(|error| (MountRight::Namespace, error))?;
    let device = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| (MountRight::Device, host::Error::path("open", "/dev/fuse", errno)))?;
    namespace::mount_fuse(Reach::Private(&private), device.as_fd(), Path::new("/"), "wringer-tries")
        .map_err(|error| (MountRight::Mount, error))
}
