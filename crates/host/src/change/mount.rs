// SPDX-License-Identifier: Apache-2.0
//! Takes a mount of ours away, and never another one. umount2(2) takes whatever lies on top at a path, and between a look and the call that
//! may have become somebody else's. So a mount is marked first (`MNT_EXPIRE`), then looked at, and taken by a second call, which takes a
//! marked mount alone: one that came on top meanwhile bears no mark, and stays.

use crate::mounts::{Look, Ours, is_on_top, users};
use crate::permit::Permit;
use crate::{Error, Holder, holder_list, interrupt, moment, tool};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount as umount2};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What others have to take away a mount of their own: unlike a file that somebody closes in a moment, it seldom goes by itself.
const PATIENCE_FOR_MOUNTS: Duration = Duration::from_secs(1);
/// The mark is gone when somebody walks through the mount. So often it is tried before the next rest.
const TRIES: u32 = 50;
const REST: Duration = Duration::from_millis(50);

/// Who else has a part in the file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// By a live process: its other mounts (bind mounts, copies in other namespaces) must go first. Until then all who use it see the same
    /// files, with the same locks.
    Yes,
    /// Its process is dead, or the kernel serves it: its other mounts are none of our business.
    No,
}

/// Unmounts ours, wherever it is by now, and no other; never lazily. Others have `patience` to close their files. Returns whether it was there.
///
/// # Errors
/// [`Error::InUse`] with everything that is in the way: it serves on.
pub fn unmount(_permit: &Permit, ours: &Ours, served: Served, patience: Duration) -> Result<bool, Error> {
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

/// For who takes away what it has mounted itself: one try. `false`: somebody is in the way.
pub(crate) fn try_unmount(ours: &Ours, served: Served) -> Result<bool, Error> {
    let (look, taken) = try_once(ours, served)?;
    Ok(taken == Taken::Yes || look.is_empty())
}

fn try_once(ours: &Ours, served: Served) -> Result<(Look, Taken), Error> {
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
    /// By other mounts.
    Hindered,
    /// By files, or by those who walk through it.
    Busy,
    Failed(Errno),
}

fn try_to_take(ours: &Ours, id: u64, target: &Path) -> Taken {
    for _ in 0..TRIES {
        match expire(ours, id, target) {
            Ok(true) => return Taken::Yes,
            Ok(false) => {}
            // it may be elsewhere by now
            Err(Errno::BUSY | Errno::INVAL | Errno::NOENT | Errno::NOTDIR) => return Taken::Busy,
            Err(Errno::PERM) => return by_helper(ours, id, target),
            Err(errno) => return Taken::Failed(errno),
        }
    }
    Taken::Busy
}

/// Whether it is taken. `false`: somebody has walked through it, or has mounted something upon it.
fn expire(ours: &Ours, id: u64, target: &Path) -> Result<bool, Errno> {
    #[cfg(feature = "failpoints")]
    if forgets("whose_mount") || forgets("the_mark") && is_on_top(ours, id, target) {
        moment("after the first look");
        return umount2(target, UnmountFlags::NOFOLLOW).map(|()| true);
    }
    let flags = UnmountFlags::EXPIRE | UnmountFlags::NOFOLLOW;
    // whatever lies there bears no mark of an earlier try
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
    // Only ours can be marked now: had something come on top before the mark was set, it would still be there, or have lost its mark by going.
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

/// Whoever lets go of a mount takes its mark away. Nothing is asked of the file system: a path alone is opened.
fn unmark(target: &Path) {
    drop(open(target, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()));
}

/// For tests, two mutants: one takes what lies on top without a look (`whose_mount`), one looks and then takes it (`the_mark`).
#[cfg(feature = "failpoints")]
fn forgets(what: &str) -> bool {
    std::env::var("WRINGER_FORGET").is_ok_and(|forgotten| forgotten == what)
}

/// An ordinary user's FUSE mount goes through the set-uid helper that made it, which knows no marks: what is mounted between this look and its call
/// would be taken. It takes FUSE mounts of the same user alone.
fn by_helper(ours: &Ours, id: u64, target: &Path) -> Taken {
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

/// Who uses what is left of the file system, and where, in words. Empty: nobody that can be seen.
///
/// # Errors
/// `/proc` cannot be read.
pub fn who_uses(ours: &Ours) -> Result<Vec<String>, Error> {
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
        let ours = Ours { source: "w-other".into(), fstype: "fuse.wringer".into(), mark: None };
        let was_there = unmount(&Permit::issue(1), &ours, Served::No, Duration::ZERO).expect("looks");
        assert!(!was_there);
        assert!(Path::new("/proc/self").exists());
    }
}
