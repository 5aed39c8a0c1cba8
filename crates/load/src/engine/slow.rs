// SPDX-License-Identifier: Apache-2.0
//! The slow statements of one worker in one phase, each with its begin and end. The room for them is allocated before the phase begins. A statement
//! that finds no free room is only counted.

use evidence::{SlowStatement, SlowStatements};
use std::time::Duration;

/// The most statements of one worker in one phase: they take 160 KiB.
pub(super) const MOST: usize = 4096;

#[derive(Debug)]
pub(super) struct SlowList {
    /// `u64::MAX`: no statement is kept.
    threshold_ns: u64,
    entries: Vec<Entry>,
    dropped: u64,
}

/// Times are nanoseconds since the load's own zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) begun_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) late_ns: u64,
    /// The connection's number, from 1.
    pub(super) connection: u32,
    pub(super) class: usize,
    pub(super) failed: bool,
}

impl SlowList {
    pub(super) fn new(threshold: Option<Duration>) -> Self {
        let threshold_ns = threshold.and_then(|it| u64::try_from(it.as_nanos()).ok()).unwrap_or(u64::MAX);
        let room = if threshold.is_some() { MOST } else { 0 };
        Self { threshold_ns, entries: Vec::with_capacity(room), dropped: 0 }
    }

    /// Most statements cost only this one comparison.
    #[inline]
    pub(super) fn is_slow(&self, service_ns: u64) -> bool {
        service_ns >= self.threshold_ns
    }

    #[cold]
    pub(super) fn keep(&mut self, entry: Entry) {
        if self.entries.len() < MOST {
            self.entries.push(entry);
        } else {
            self.dropped += 1;
        }
    }
}

/// The slow statements of all workers. `at` converts a time of the load to the run's clock.
pub(super) fn together<'a>(
    threshold: Duration,
    lists: impl Iterator<Item = &'a SlowList>,
    classes: &[String],
    at: impl Fn(u64) -> u64,
) -> SlowStatements {
    let threshold_us = u64::try_from(threshold.as_micros()).unwrap_or(u64::MAX);
    let mut all = SlowStatements { threshold_us, ..SlowStatements::default() };
    for list in lists {
        all.dropped += list.dropped;
        all.kept.extend(list.entries.iter().map(|entry| SlowStatement {
            from_us: at(entry.begun_ns),
            to_us: at(entry.ended_ns),
            late_us: entry.late_ns / 1000,
            connection: entry.connection,
            class: classes.get(entry.class).cloned().unwrap_or_default(),
            failed: entry.failed,
        }));
    }
    all.kept.sort_by_key(|statement| (statement.to_us, statement.connection));
    all
}

#[cfg(test)]
mod tests {
    use super::{Entry, MOST, SlowList, together};
    use std::time::Duration;

    fn entry(ended_ns: u64, connection: u32) -> Entry {
        Entry { begun_ns: 1_000_000, ended_ns, late_ns: 3_000, connection, class: 0, failed: false }
    }

    #[test]
    fn without_a_threshold_nothing_is_slow_and_nothing_is_allocated() {
        let list = SlowList::new(None);
        assert!(!list.is_slow(u64::MAX - 1));
        assert_eq!(list.entries.capacity(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted_and_the_room_does_not_grow() {
        let mut list = SlowList::new(Some(Duration::from_millis(20)));
        let room = list.entries.capacity();
        assert!(list.is_slow(20_000_000) && !list.is_slow(19_999_999));
        (0..MOST as u64 + 7).for_each(|index| list.keep(entry(30_000_000 + index, 1)));
        assert_eq!((list.entries.capacity(), list.dropped), (room, 7));
    }

    #[test]
    fn those_of_all_workers_stand_in_the_order_of_their_ends() {
        let of = |ends: &[u64], connection| {
            let mut list = SlowList::new(Some(Duration::from_millis(20)));
            ends.iter().for_each(|end| list.keep(entry(end * 1_000_000, connection)));
            list
        };
        let lists = [of(&[30, 90], 1), of(&[60], 2)];
        let all = together(Duration::from_millis(20), lists.iter(), &["point_select".to_owned()], |ns| 5 + ns / 1000);
        let ends: Vec<_> = all.kept.iter().map(|it| (it.to_us, it.connection)).collect();
        assert_eq!(ends, [(30_005, 1), (60_005, 2), (90_005, 1)]);
        let first = all.kept.first().unwrap();
        assert_eq!((first.from_us, first.late_us, first.class.as_str()), (1_005, 3, "point_select"));
        assert_eq!((all.threshold_us, all.dropped), (20_000, 0));
    }
}
