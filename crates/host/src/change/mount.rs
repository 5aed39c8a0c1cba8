// SPDX-License-Identifier: Apache-2.0
//! Unmounts a mount of the run, and never another one. umount2(2) takes the mount on top at a path, and between a look and the call somebody may
//! have mounted another one there. So a mount is first marked (`MNT_EXPIRE`), then looked at, and then unmounted by a second call that takes only
//! a marked mount: a mount that came on top meanwhile has no mark, and stays.

use crate::mounts::{Look, OwnMount, is_on_top, users};
use crate::permit::Permit;
use crate::{Error, Holder, holder_list, interrupt, moment, tool};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount as umount2};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long to wait for others to unmount mounts of their own: unlike an open file, such a mount seldom ends by itself.
const PATIENCE_FOR_MOUNTS: Duration = Duration::from_secs(1);
/// The mark is lost when somebody's path walk crosses the mount. This many tries are made before the next pause.
const TRIES: u32 = 50;
const REST: Duration = Duration::from_millis(50);

/// Whether the file system is still served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// A live process serves it: the other mounts of the file system (bind mounts, copies in other namespaces) must go first. Until then all its
    /// users see the same files, with the same locks.
    Yes,
    /// Its process is dead, or the kernel serves it: the other mounts of the file system do not matter.
    No,
}

/// Unmounts the run's mount, wherever it is now, and no other mount; never lazily. Other processes have `patience` to close their files. Returns
/// whether the mount was there.
///
/// # Errors
/// [`Error::InUse`] with everything that uses the mount or covers it: the mount stays.
pub fn unmount(_permit: &Permit, ours: &OwnMount, served: Served, patience: Duration) -> Result<bool, Error> {
    let began = Instant::now();
    let mut was_there = false;
    loop {
        let (look, taken) = try_once(ours, served)?;
        if look.is_empty() {
            return Ok(was_there);
        }
        let patience = if taken == Taken::Hindered { patience.min(PATIENCE_FOR_MOUNTS) } else { patience };
        match taken {
            Taken::Yes => was_there = true,
            Taken::Failed(errno) => return Err(Error::path("unmount", path_of(&look), errno)),
            _ if began.elapsed() < patience && !interrupt::impatient() => std::thread::sleep(REST),
            _ => return Err(in_use(look)),
        }
    }
}

/// Makes one try, for the process that has made the mount. `false`: somebody uses the mount.
pub(crate) fn try_unmount(ours: &OwnMount, served: Served) -> Result<bool, Error> {
    let (look, taken) = try_once(ours, served)?;
    Ok(taken == Taken::Yes || look.is_empty())
}

fn try_once(ours: &OwnMount, served: Served) -> Result<(Look, Taken), Error> {
    #[cfg_attr(not(feature = "failpoints"), allow(unused_mut))]
    let mut look = Look::take(ours, served == Served::Yes)?;
    #[cfg(feature = "failpoints")]
    if forgets("whose_mount") {
        look.obstacles.clear();
    }
    let taken = match look.ours.as_ref().filter(|_| look.obstacles.is_empty()) {
        Some(found) => try_to_take(ours, found.id, &found.target),
        None => Taken::Hindered,
    };
    Ok((look, taken))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Yes,
    /// Other mounts prevent it.
    Hindered,
    /// Open files, or path walks through the mount, prevent it.
    Busy,
    Failed(Errno),
}

fn try_to_take(ours: &OwnMount, id: u64, target: &Path) -> Taken {
    for _ in 0..TRIES {
        match expire(ours, id, target) {
            Ok(true) => return Taken::Yes,
            Ok(false) => {}
            // the mount may be at another path by now
            Err(Errno::BUSY | Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => return Taken::Busy,
            Err(Errno::PERM) => return by_helper(ours, id, target),
            Err(errno) => return Taken::Failed(errno),
        }
    }
    Taken::Busy
}

/// Whether the mount was unmounted. `false`: somebody's path walk has crossed it, or somebody has mounted something on it.
fn expire(ours: &OwnMount, id: u64, target: &Path) -> Result<bool, Errno> {
    #[cfg(feature = "failpoints")]
    if forgets("whose_mount") || forgets("the_mark") && is_on_top(ours, id, target) {
        moment("after the first look");
        return umount2(target, UnmountFlags::NOFOLLOW).map(|()| true);
    }
    let flags = UnmountFlags::EXPIRE | UnmountFlags::NOFOLLOW;
    // a path walk removes the mark of an earlier try
    unmark(target);
    if !is_on_top(ours, id, target) {
        return Ok(false);
    }
    moment("after the first look");
    match umount2(target, flags) {
        Err(Errno::AGAIN) => {}
        other => return other.map(|()| true),
    }
    moment("after the mark");
    // Only the run's mount can have the mark now: a mount that was put on top earlier would still be there, or would be gone together with its mark.
    let second = if is_on_top(ours, id, target) {
        moment("after the second look");
        umount2(target, flags)
    } else {
        Err(Errno::AGAIN)
    };
    match second {
        Ok(()) => Ok(true),
        Err(errno) => {
            unmark(target);
            if errno == Errno::AGAIN { Ok(false) } else { Err(errno) }
        }
    }
}

/// Removes the mark of a mount by a path walk through it. The file system is not asked, because only the path is opened.
fn unmark(target: &Path) {
    drop(open(target, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()));
}

/// Two mutants, for tests: one unmounts the topmost mount without a look (`whose_mount`), the other looks first, and then unmounts it without a mark
/// (`the_mark`).
#[cfg(feature = "failpoints")]
fn forgets(what: &str) -> bool {
    std::env::var("WRINGER_FORGET").is_ok_and(|forgotten| forgotten == what)
}

/// Unmounts an ordinary user's FUSE mount through the set-uid helper that made it. The helper does not use marks, so it would unmount a mount that
/// was put on top between this look and its call. It only unmounts FUSE mounts of the same user.
fn by_helper(ours: &OwnMount, id: u64, target: &Path) -> Taken {
    let Some(helper) = ["fusermount3", "fusermount"].iter().find_map(|name| tool::find(name)) else {
        return Taken::Failed(Errno::PERM);
    };
    if !is_on_top(ours, id, target) {
        return Taken::Busy;
    }
    match tool::command(helper).arg("-u").arg(target).output() {
        Ok(output) if output.status.success() => Taken::Yes,
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("busy") => Taken::Busy,
        _ => Taken::Failed(Errno::PERM),
    }
}

fn path_of(look: &Look) -> PathBuf {
    look.ours.as_ref().map_or_else(|| PathBuf::from("a mount of ours"), |ours| ours.target.clone())
}

fn in_use(look: Look) -> Error {
    let (path, holders) = (path_of(&look), users(&look));
    let nobody = look.obstacles.is_empty().then(|| format!("held open by {}", holder_list(&[])));
    let by = words(look.obstacles, &holders);
    Error::InUse { path, by: if by.is_empty() { nobody.into_iter().collect() } else { by } }
}

fn words(mut obstacles: Vec<String>, holders: &[Holder]) -> Vec<String> {
    if !holders.is_empty() {
        obstacles.insert(0, format!("held open by {}", holder_list(holders)));
    }
    obstacles
}

/// The users of the mounts of the file system that are left, and where they use it, in words. Empty: no user can be seen.
///
/// # Errors
/// `/proc` cannot be read.
pub fn who_uses(ours: &OwnMount) -> Result<Vec<String>, Error> {
    let look = Look::take(ours, true)?;
    let here = look.ours.as_ref().map(|ours| format!("it is mounted at {}", ours.target.display()));
    let holders = users(&look);
    Ok(words(look.obstacles.into_iter().chain(here).collect(), &holders))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods)] // a permit without a journal
    fn what_is_not_ours_is_not_unmounted() {
        let ours = OwnMount { source: "w-other".into(), fstype: "fuse.wringer".into(), mark: None };
        let was_there = unmount(&Permit::issue(1), &ours, Served::No, Duration::ZERO).expect("looks");
        assert!(!was_there);
        assert!(Path::new("/proc/self").exists());
    }
}
