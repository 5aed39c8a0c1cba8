// SPDX-License-Identifier: Apache-2.0
//! Checks whether an image file, or a block device, may be put below a slow disk: no program may use it, and its writes must find room.

use crate::Error;
use crate::device::{check_unused, users_of_device};
use crate::directory::require_text;
use crate::files_in_use::{is_other, refuse_users};
use host::in_use::InUse;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use units::Bytes;

/// A probe would read the same blocks of a smaller image again and again.
const LEAST_BYTES: u64 = 1 << 20;
const SECTOR: u32 = 512;
/// Room that must stay free on the image's file system, in addition to the missing blocks of a sparse image.
const MARGIN_BYTES: u64 = 64 << 20;

/// An image that [`check`] has accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The canonical path.
    pub path: PathBuf,
    pub is_device: bool,
    pub bytes: u64,
    /// Bytes of a sector of the slow device.
    pub block_bytes: u32,
}

impl Image {
    /// The look at its users once more, when it is served: somebody may have come between the first look and now. `own`: the processes that serve it.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub(super) fn check_again(&self, own: &[u32]) -> Result<(), Error> {
        if !self.is_device {
            return check_users(&self.path, own);
        }
        // the keeper's O_EXCL keeps mounts and other exclusive users out, and nobody who just opens the device
        let users = users_of_device(&self.path)?;
        users.into_iter().try_for_each(|(shown, in_use)| refuse_others(Path::new(&shown), &in_use, own))
    }
}

fn refused<T>(what: impl Into<String>, hint: impl Into<String>) -> Result<T, Error> {
    Err(Error::Refused { what: what.into(), hint: hint.into() })
}

/// What this machine lacks for a slow loop device, and the remedy. Changes and loads nothing.
pub fn missing() -> Option<(String, String)> {
    if !Path::new("/dev/fuse").exists() {
        return Some((
            "there is no /dev/fuse".into(),
            "modprobe fuse; in a container, pass it in: --device /dev/fuse".into(),
        ));
    }
    if !Path::new("/dev/loop-control").exists() || !Path::new("/sys/block/loop0").exists() {
        let hint = "modprobe loop; in a container, pass in /dev/loop-control and the loop devices";
        return Some(("there are no loop devices".into(), hint.into()));
    }
    None
}

/// Checks whether the image can be slowed down.
///
/// # Errors
/// [`Error::Refused`]: it is neither a file nor a device, a program uses it in any way, it is read-only, too small, or sparse
/// without room, the kernel has no FUSE or loop devices, or the user is not root.
pub fn check(path: &Path) -> Result<Image, Error> {
    let Ok(path) = path.canonicalize() else {
        return refused(format!("there is no image {}", path.display()), "make one: fallocate -l 8G IMAGE");
    };
    let path = require_text(path)?;
    let metadata = fs::metadata(&path).map_err(Error::file("look at", &path))?;
    if !metadata.is_file() && !metadata.file_type().is_block_device() {
        return refused(
            format!("{} is neither a file nor a block device", path.display()),
            "name an image, or a device",
        );
    }
    if !rustix::process::geteuid().is_root() {
        return refused("a loop device needs root", "run it with sudo; an experiment's own sandbox needs no root");
    }
    if let Some((what, hint)) = missing() {
        return refused(what, hint);
    }
    if !metadata.is_file() {
        let device = check_unused(&path)?;
        let block_bytes = block_bytes(&device.numbers);
        return Ok(Image { path, is_device: true, bytes: device.sectors * u64::from(SECTOR), block_bytes });
    }
    check_file(&path, &metadata)?;
    Ok(Image { path, is_device: false, bytes: metadata.len(), block_bytes: SECTOR })
}

fn block_bytes(numbers: &str) -> u32 {
    let file = format!("/sys/dev/block/{numbers}/queue/logical_block_size");
    fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(SECTOR)
}

fn check_file(path: &Path, metadata: &fs::Metadata) -> Result<(), Error> {
    let shown = path.display();
    if metadata.len() < LEAST_BYTES || !metadata.len().is_multiple_of(SECTOR.into()) {
        return refused(
            format!("{shown} holds {}, and an image is at least 1 MiB of whole sectors", Bytes(metadata.len())),
            format!("make it larger: fallocate -l 8G {shown}"),
        );
    }
    if ["/proc", "/sys", "/dev"].iter().any(|kernels| path.starts_with(kernels)) {
        return refused(format!("{shown} is the kernel's own"), "name a file on a disk");
    }
    check_users(path, &[])?;
    host::files::open_existing(path).map(drop).or_else(|error| {
        refused(
            format!("{shown} cannot be written: {error}"),
            "name an image that can be, on a file system that is not read-only",
        )
    })?;
    check_room(path, metadata)
}

fn check_users(path: &Path, own: &[u32]) -> Result<(), Error> {
    refuse_others(path, &host::in_use::file(path)?, own)
}

fn refuse_others(path: &Path, in_use: &InUse, own: &[u32]) -> Result<(), Error> {
    let hint = "stop it: umount, losetup -d, swapoff, or end the process; what goes past the slow disk is not slow, and two writers destroy \
        a file system";
    refuse_users(path, in_use, &|user| is_other(user, own), hint)
}

/// A hole that finds no room when it is written is an I/O error for the file system above.
fn check_room(path: &Path, metadata: &fs::Metadata) -> Result<(), Error> {
    let missing = metadata.len().saturating_sub(metadata.blocks() * 512);
    if missing == 0 {
        return Ok(());
    }
    let file = File::open(path).map_err(Error::file("open", path))?;
    let statistics = rustix::fs::fstatvfs(&file).map_err(|errno| Error::file("look at", path)(errno.into()))?;
    let free = statistics.f_bavail * statistics.f_frsize;
    if missing.saturating_add(MARGIN_BYTES) <= free {
        return Ok(());
    }
    refused(
        format!(
            "{} is sparse: it lacks {}, and its file system has {} free",
            path.display(),
            Bytes(missing),
            Bytes(free)
        ),
        "free some room, or make the image smaller: a write that finds none is an I/O error",
    )
}
