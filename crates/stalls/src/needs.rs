// SPDX-License-Identifier: Apache-2.0
//! Where a statement's time went, as far as its log entry tells it; and whether its work is little.

use logs::Figures;

/// Where the time of one statement beyond its usual time went, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    pub(crate) row_locks: u64,
    /// Waits for locks of tables; also for locks of rows, where the log has one number for both.
    pub(crate) locks: u64,
    pub(crate) reads: u64,
    pub(crate) queue: u64,
    /// Time that nothing in the log explains.
    pub(crate) rest: u64,
}

/// Where most of the time of one victim went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Most {
    Locks,
    Reads,
    Queue,
    Rest,
}

impl Parts {
    pub(crate) fn most(&self) -> Most {
        let parts = [
            (self.row_locks + self.locks, Most::Locks),
            (self.reads, Most::Reads),
            (self.queue, Most::Queue),
            (self.rest, Most::Rest),
        ];
        parts.into_iter().max_by_key(|(us, _)| *us).map_or(Most::Rest, |(_, most)| most)
    }

    /// The parts of `lost_us`. The parts that the log explains are limited to it.
    pub(crate) fn of(figures: &Figures, lost_us: u64) -> Self {
        let mut rest = lost_us;
        let mut take = |us: u64| {
            let taken = us.min(rest);
            rest -= taken;
            taken
        };
        let row_locks = take(figures.row_lock_us.unwrap_or(0));
        let locks = take(figures.lock_us.unwrap_or(0).saturating_sub(row_locks));
        let reads = take(figures.read_us.unwrap_or(0));
        let queue = take(figures.queue_us.unwrap_or(0));
        Self { row_locks, locks, reads, queue, rest }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.row_locks = self.row_locks.saturating_add(other.row_locks);
        self.locks = self.locks.saturating_add(other.locks);
        self.reads = self.reads.saturating_add(other.reads);
        self.queue = self.queue.saturating_add(other.queue);
        self.rest = self.rest.saturating_add(other.rest);
    }
}

/// An upper estimate of the CPU time for what a statement did, in microseconds: an in-memory scan takes 0.2 to 1 us for a row, a page that is
/// looked at some microseconds.
pub(crate) fn work_us(figures: &Figures) -> u64 {
    let each = |count: Option<u64>, us: u64| count.unwrap_or(0).saturating_mul(us);
    [
        each(figures.rows_examined, 5),
        each(figures.rows_sent, 10),
        each(figures.rows_affected, 100),
        each(figures.pages, 20),
        figures.bytes_sent.unwrap_or(0) / 20,
    ]
    .into_iter()
    .fold(0, u64::saturating_add)
}

/// Whether the log says how many rows the statement looked at.
pub(crate) fn is_said(figures: &Figures) -> bool {
    figures.rows_examined.is_some()
}

/// Whether the statement's work is little: nothing in the log entry explains more than a tenth of its time. An entry without such fields counts as little.
pub(crate) fn is_little(figures: &Figures, took_us: u64) -> bool {
    const ROWS: u64 = 1000;
    const PAGES: u64 = 1000;
    const READS: u64 = 100;
    const BYTES: u64 = 1 << 20;
    let at_most = |count: Option<u64>, most: u64| count.is_none_or(|count| count <= most);
    let waited = Parts::of(figures, took_us);
    at_most(figures.rows_examined, ROWS)
        && at_most(figures.rows_sent, ROWS)
        && at_most(figures.rows_affected, ROWS)
        && at_most(figures.pages, PAGES)
        && at_most(figures.reads, READS)
        && at_most(figures.bytes_sent, BYTES)
        && waited.rest >= took_us - took_us / 10
        && work_us(figures) <= took_us / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn article() -> Figures {
        Figures {
            lock_us: Some(3),
            row_lock_us: Some(0),
            queue_us: Some(0),
            reads: Some(1),
            read_us: Some(9),
            pages: Some(4),
            rows_sent: Some(1),
            rows_examined: Some(1),
            rows_affected: Some(0),
            bytes_sent: Some(197),
            ..Figures::default()
        }
    }

    #[test]
    fn a_point_select_needs_little_and_each_filled_field_speaks_against_it() {
        let took = 744_840;
        assert!(is_little(&article(), took) && is_little(&Figures::default(), took));
        let filled: [fn(&mut Figures); 9] = [
            |it| it.lock_us = Some(700_000),
            |it| it.row_lock_us = Some(700_000),
            |it| it.queue_us = Some(700_000),
            |it| it.read_us = Some(700_000),
            |it| it.reads = Some(5_000),
            |it| it.pages = Some(20_000),
            |it| it.rows_examined = Some(20_000),
            |it| it.rows_affected = Some(5_000),
            |it| it.rows_sent = Some(5_000),
        ];
        for (index, fill) in filled.iter().enumerate() {
            let mut figures = article();
            fill(&mut figures);
            assert!(!is_little(&figures, took), "field {index}");
        }
    }

    #[test]
    fn no_part_is_more_than_what_was_lost() {
        let figures = Figures { lock_us: Some(80), row_lock_us: Some(70), read_us: Some(50), ..Figures::default() };
        assert_eq!(Parts::of(&figures, 100), Parts { row_locks: 70, locks: 10, reads: 20, queue: 0, rest: 0 });
        assert_eq!(Parts::of(&figures, 200).rest, 70);
    }
}
