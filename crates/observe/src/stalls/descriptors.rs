// SPDX-License-Identifier: Apache-2.0
//! Room for the descriptors of a server's threads: this process's soft limit of open files rises towards the hard limit.

use host::open_files::{SPARE, limits, open_now, raise};
use rustix::process::Rlimit;

/// Makes room for so many more descriptors. Returns for how many of them there is room.
pub(super) fn make_room(more: u64) -> u64 {
    let open = open_now();
    let before = limits();
    if let Some(soft) = raised(open, more, before) {
        // where it is refused, the limit that is in force counts
        raise(before, soft);
    }
    room(open, limit()).min(more)
}

/// The limit of open files. `None`: there is none.
pub(super) fn limit() -> Option<u64> {
    limits().current
}

/// The soft limit that is to be set. `None`: it is high enough, or is as high as it may be.
fn raised(open: u64, more: u64, limits: Rlimit) -> Option<u64> {
    let needed = open.saturating_add(more).saturating_add(SPARE);
    let possible = limits.maximum.map_or(needed, |hard| hard.min(needed));
    let is_too_low = limits.current.is_some_and(|soft| soft < possible);
    is_too_low.then_some(possible)
}

fn room(open: u64, soft: Option<u64>) -> u64 {
    soft.map_or(u64::MAX, |soft| soft.saturating_sub(open.saturating_add(SPARE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_rises_as_far_as_needed_and_not_beyond_the_hard_one() {
        let limits = |current, maximum| Rlimit { current, maximum };
        let soft = |more, hard| raised(100, more, limits(Some(1024), hard));
        assert_eq!(soft(800, Some(4096)), None, "there is room");
        assert_eq!(soft(2000, Some(4096)), Some(2164));
        assert_eq!(soft(9000, Some(4096)), Some(4096));
        assert_eq!(soft(9000, None), Some(9164));
        assert_eq!(soft(9000, Some(1024)), None, "it is as high as it may be");
        assert_eq!(raised(100, 9000, limits(None, None)), None);
        assert_eq!([room(100, Some(1024)), room(1000, Some(1024)), room(100, None)], [860, 0, u64::MAX]);
    }

    #[test]
    fn there_is_room_for_a_few() {
        assert_eq!(make_room(3), 3);
        assert!(limit().is_none_or(|limit| limit >= open_now()));
    }
}
