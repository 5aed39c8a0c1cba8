// SPDX-License-Identifier: Apache-2.0
use crate::mounts::mounts_at;
use crate::permit::Permit;
use crate::process::open_below;
use crate::{Error, interrupt, tool};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::path::Path;
use std::time::{Duration, Instant};

/// Unmounts the topmost mount at `target` when it is the one with this source and type; never lazily. Others have `patience` to
/// close their files. Returns whether it was there.
///
/// # Errors
/// [`Error::Busy`] with the processes that hold it open.
pub fn unmount(_permit: &Permit, target: &Path, source: &str, fstype: &str, patience: Duration) -> Result<bool, Error> {
    let deadline = Instant::now() + patience;
    loop {
        let top = mounts_at(target)?.pop();
        if !top.is_some_and(|entry| entry.source == source && entry.fstype == fstype) {
            return Ok(false);
        }
        match unmount_once(target) {
            Ok(()) => return Ok(true),
            Err(Errno::BUSY) if Instant::now() < deadline && !interrupt::impatient() => {
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(Errno::BUSY) => return Err(super::busy_by(target, open_below(target).found)),
            Err(errno) => return Err(Error::path("unmount", target, errno)),
        }
    }
}

/// An ordinary user's FUSE mount goes through the set-uid helper that made it.
fn unmount_once(target: &Path) -> Result<(), Errno> {
    match rustix::mount::unmount(target, UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => unmount_by_helper(target),
        other => other,
    }
}

fn unmount_by_helper(target: &Path) -> Result<(), Errno> {
    let helper = ["fusermount3", "fusermount"].iter().find_map(|name| tool::find(name)).ok_or(Errno::PERM)?;
    let output = tool::command(helper).arg("-u").arg(target).output().map_err(|_| Errno::PERM)?;
    let busy = String::from_utf8_lossy(&output.stderr).contains("busy");
    if output.status.success() { Ok(()) } else { Err(if busy { Errno::BUSY } else { Errno::PERM }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods)] // a permit without a journal
    fn what_is_not_ours_is_not_unmounted() {
        let patience = Duration::ZERO;
        let was_there =
            unmount(&Permit::issue(1), Path::new("/proc"), "w-other", "fuse.wringer", patience).expect("looks");
        assert!(!was_there);
        assert!(Path::new("/proc/self").exists());
    }
}
