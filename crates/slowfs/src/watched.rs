// SPDX-License-Identifier: Apache-2.0
//! Whose change of a file it is: the layer's own, or one past the layer.

use rustix::fs::{FileType, Stat};
use rustix::io::Result;
use std::sync::{Mutex, PoisonError};

/// What the layer last saw of a file's content, and whether it changes the file at this moment.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// How many of the layer's own changes are under way. Meanwhile nobody can tell whose change it is that shows.
    own: u32,
    seen: Option<Mark>,
    /// The last sizes that the kernel may take for the file's end: it was told them, or has written up to there.
    ends: [Option<u64>; ENDS],
    next_end: usize,
    /// How often the kernel is to drop its pages, and has not yet.
    dropping: u32,
}

/// A reply and a write may be under way at the same time.
const ENDS: usize = 4;

/// Size, and time of modification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark(i64, i64, i64);

impl Mark {
    #[allow(clippy::cast_possible_wrap, clippy::unnecessary_cast)] // the type of st_mtime_nsec differs between processors
    fn of(stat: &Stat) -> Self {
        Self(stat.st_size, stat.st_mtime as i64, stat.st_mtime_nsec as i64)
    }
}

impl Watched {
    /// Whether somebody else has changed the file since it was last seen. `stat` reads the file's attributes at that moment.
    pub(crate) fn was_changed(&self, stat: impl FnOnce() -> Result<Stat>) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.own == 0 && state.look(stat)
    }

    /// The kernel may take this size for the file's end from now on.
    pub(crate) fn tell_end(&self, size: u64) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.ends.contains(&Some(size)) {
            let at = state.next_end % ENDS;
            state.ends[at] = Some(size);
            state.next_end += 1;
        }
    }

    /// Whether a write at this place is one to the end of the file, as the kernel knows it. `pwritev2` with `RWF_NOAPPEND` writes elsewhere, also to a file that
    /// is open for appending, and no request tells that.
    pub(crate) fn is_end(&self, offset: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).ends.contains(&Some(offset))
    }

    /// The size that the layer last saw.
    pub(crate) fn size(&self) -> Option<u64> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.seen.and_then(|mark| u64::try_from(mark.0).ok())
    }

    /// Counts a request to drop the file's pages. Returns false when there is one already.
    pub(crate) fn begin_drop(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.dropping += 1;
        state.dropping == 1
    }

    pub(crate) fn end_drop(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.dropping = state.dropping.saturating_sub(1);
    }

    /// Whether old pages may still be there.
    pub(crate) fn is_dropping(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).dropping > 0
    }

    /// Makes a change of the layer's own. Beside its result: whether somebody else had changed the file before.
    pub(crate) fn change<T>(&self, stat: impl Fn() -> Result<Stat>, change: impl FnOnce() -> T) -> (T, bool) {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_changed = {
            let mut state = lock();
            let was_changed = state.own == 0 && state.look(&stat);
            state.own += 1;
            was_changed
        };
        let changed = change();
        let mut state = lock();
        state.own -= 1;
        state.look(&stat);
        (changed, was_changed)
    }
}

impl State {
    fn look(&mut self, stat: impl FnOnce() -> Result<Stat>) -> bool {
        let Ok(stat) = stat() else { return false };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return false;
        }
        let now = Mark::of(&stat);
        self.seen.replace(now).is_some_and(|seen| seen != now)
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // tests make their own files
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::time::Duration;

    #[test]
    fn own_changes_and_those_of_others_are_told_apart() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = || rustix::fs::fstat(file.as_file());
        let write = || {
            // Longer than a tick of the kernel's clock for times of files.
            std::thread::sleep(Duration::from_millis(20));
            file.as_file().write_all(b"more").unwrap();
        };
        let watched = Watched::default();
        assert!(!watched.was_changed(stat), "first seen now");
        assert_eq!(watched.change(stat, write), ((), false));
        assert!(!watched.was_changed(stat), "our own change");
        write();
        assert!(watched.was_changed(stat));
        assert!(!watched.was_changed(stat), "told once");
        write();
        assert_eq!(watched.change(stat, write), ((), true), "before our own change");
        let ((), before) = watched.change(stat, || assert!(!watched.was_changed(stat), "a change is under way"));
        assert!(!before && !watched.was_changed(stat));
    }
}
