// SPDX-License-Identifier: Apache-2.0
//! Checks whether this process may mount the layer, and whether access lists work below it. A seccomp filter or a security module
//! may forbid what uid, capabilities and `/dev/fuse` seem to allow. So the check mounts a file system that nobody serves, in a
//! mount namespace of this process. Mount and namespace end with the process.

use host::files::open_without_links;
use host::namespace::{self, Reach};
use rustix::fd::AsFd as _;
use rustix::fs::{Mode, OFlags, open};
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountRight {
    /// The right to call mount(2), for FUSE.
    Mount,
    /// The right to make a mount namespace.
    Namespace,
    /// The right to open `/dev/fuse`.
    Device,
}

/// The first missing right, and the kernel's reason.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MissingRight {
    pub right: MountRight,
    pub why: String,
}

/// Returns the first missing right. `None`: the layer has all rights. Call it before the process starts a thread, in a process that
/// does nothing else.
pub fn missing_right() -> Option<MissingRight> {
    tried().err().map(|(right, error)| MissingRight { right, why: host::chain(&error) })
}

/// Whether POSIX access lists work below a layer that this process mounts. An access list names users, and the layer must be able
/// to name the same users. The user namespace of an ordinary user's layer maps one user only, and shows all others as nobody.
pub fn keeps_access_lists() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    rustix::process::geteuid().is_root() && map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn tried() -> Result<(), (MountRight, host::Error)> {
    namespace::ask_for_mount().map_err(|error| (MountRight::Mount, error))?;
    let private = namespace::enter_private().map_err(|error| (MountRight::Namespace, error))?;
    let device = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| (MountRight::Device, host::Error::path("open", "/dev/fuse", errno)))?;
    let root = Path::new("/");
    let place =
        open_without_links(root).map_err(|source| (MountRight::Mount, host::Error::path("open", root, source)))?;
    namespace::mount_fuse(Reach::Private(&private), device.as_fd(), (place.as_fd(), root), "wringer-tries")
        .map_err(|error| (MountRight::Mount, error))
}
