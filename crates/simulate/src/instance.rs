// SPDX-License-Identifier: Apache-2.0
//! One buffer pool instance: its free list, the end of its LRU list, and the batch that fills the free list.
//!
//! Pages are moved only at a look ([`Instance::settle`]), to the nanosecond at which the server would have moved them.

use crate::settings::THREADS_MAX;
use crate::tail::Tail;
use capability::BatchLimit;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) free: u64,
    /// Pages of the LRU list.
    pub(crate) in_use: u64,
    /// Pages that a batch writes: no longer in the list, not free yet.
    writes: VecDeque<u64>,
    /// Pages that a client has taken off the list and that no query uses yet.
    pub(crate) held: u64,
    pub(crate) tail: Tail,
    pub(crate) try_scan: bool,
    batch: Option<Batch>,
    /// Batches that have ended, with their owner and their result, until the owner asks for the result.
    ended: Vec<(Owner, Done)>,
    pub(crate) rules: Rules,
    pub(crate) evicted: u64,
    pub(crate) flushed: u64,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) depth: u64,
    pub(crate) least_in_use: u64,
    pub(crate) limit: BatchLimit,
    pub(crate) first_ns: u64,
    pub(crate) page_ns: u64,
    pub(crate) write_ns: u64,
}

/// The thread that runs a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    Refiller(usize),
    Client(usize),
}

/// Pages that a batch has written and taken away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) flushed: u64,
    pub(crate) evicted: u64,
}

#[derive(Debug)]
struct Batch {
    owner: Owner,
    done: Done,
    budget: u64,
    /// The time of the look at the next page.
    step_at: u64,
    /// The end of the batch, known when it looks at no further page: its writes may take longer.
    ends_at: Option<u64>,
    last_write: u64,
}

/// The result of an attempt to begin a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Began {
    Runs,
    /// There is nothing to do.
    Idle,
    /// Another batch runs.
    Refused,
}

impl Instance {
    pub(crate) fn new(pages: u64, free: u64, tail: Tail, rules: Rules) -> Self {
        Self {
            free,
            in_use: pages - free,
            writes: VecDeque::new(),
            held: 0,
            tail,
            try_scan: true,
            batch: None,
            ended: Vec::new(),
            rules,
            evicted: 0,
            flushed: 0,
        }
    }

    /// Every page of the instance, wherever it is: always the same number.
    pub(crate) fn pages(&self) -> u64 {
        self.free + self.in_use + self.held + self.writes.len() as u64
    }

    /// Moves every page that moves until `now`, this instant included.
    pub(crate) fn settle(&mut self, now: u64) {
        loop {
            let write = self.writes.front().copied().unwrap_or(u64::MAX);
            let step = self.batch.as_ref().map_or(u64::MAX, |batch| batch.ends_at.unwrap_or(batch.step_at));
            if write.min(step) > now {
                return;
            }
            if write <= step {
                self.writes.pop_front();
                self.free += 1;
            } else {
                self.step(step);
            }
        }
    }

    /// The next page of the batch, or its end.
    fn step(&mut self, now: u64) {
        let can_go_on = self.can_go_on();
        let Some(batch) = self.batch.as_mut() else { return };
        if batch.ends_at.is_some() {
            let (owner, done) = (batch.owner, batch.done);
            self.ended.push((owner, done));
            self.batch = None;
            self.try_scan = true;
            return;
        }
        if !can_go_on {
            batch.ends_at = Some(now.max(batch.last_write));
            return;
        }
        self.in_use -= 1;
        if self.tail.is_dirty(0) {
            batch.done.flushed += 1;
            batch.last_write = now + self.rules.write_ns;
            self.writes.push_back(batch.last_write);
            self.flushed += 1;
        } else {
            batch.done.evicted += 1;
            self.evicted += 1;
            self.free += 1;
        }
        self.tail.take(0);
        batch.step_at = now + self.rules.page_ns;
        if !self.can_go_on()
            && let Some(batch) = self.batch.as_mut()
        {
            batch.ends_at = Some(now.max(batch.last_write));
        }
    }

    fn can_go_on(&self) -> bool {
        let left = self.batch.as_ref().is_some_and(|batch| self.spent(batch.done) < batch.budget);
        left && self.free < self.rules.depth && self.in_use > self.rules.least_in_use
    }

    fn spent(&self, done: Done) -> u64 {
        match self.rules.limit {
            BatchLimit::Pages => done.flushed + done.evicted,
            BatchLimit::ChunksOfWrites(_) => done.flushed,
        }
    }

    pub(crate) fn is_batch_running(&self) -> bool {
        self.batch.is_some()
    }

    /// Begins a batch of `pages` at most; `None`: as many as the server's own rule says. The instance is settled.
    pub(crate) fn begin(&mut self, now: u64, owner: Owner, pages: Option<u64>) -> Began {
        if self.batch.is_some() {
            return Began::Refused;
        }
        let whole = self.rules.depth.min(self.in_use);
        let budget = match (pages, self.rules.limit) {
            (Some(pages), _) => pages,
            (None, BatchLimit::Pages) => whole,
            (None, BatchLimit::ChunksOfWrites(chunk)) => whole.next_multiple_of(u64::from(chunk)),
        };
        let step_at = now + self.rules.first_ns;
        self.batch = Some(Batch { owner, done: Done::default(), budget, step_at, ends_at: None, last_write: 0 });
        if self.can_go_on() {
            return Began::Runs;
        }
        self.batch = None;
        self.try_scan = true;
        Began::Idle
    }

    /// The time of the next look for the end of the running batch; the batch does not end before this time. `None`: no batch runs.
    pub(crate) fn next_look(&self) -> Option<u64> {
        let batch = self.batch.as_ref()?;
        if let Some(end) = batch.ends_at {
            return Some(end);
        }
        let spare = self.in_use.saturating_sub(self.rules.least_in_use);
        // the batch can end earlier when clients write pages, or when there are as many clients as pages that the batch may still take
        if !self.tail.is_clean() || spare < self.rules.depth + u64::from(THREADS_MAX) {
            return Some(batch.step_at);
        }
        let budget = match self.rules.limit {
            BatchLimit::Pages => batch.budget.saturating_sub(batch.done.evicted),
            BatchLimit::ChunksOfWrites(_) => u64::MAX,
        };
        let to_full = self.rules.depth.saturating_sub(self.free);
        let steps = budget.min(to_full).min(spare).max(1);
        Some(batch.step_at + (steps - 1) * self.rules.page_ns)
    }

    /// The earliest time at which a page may become free.
    pub(crate) fn next_free(&self) -> Option<u64> {
        let step = self.batch.as_ref().filter(|batch| batch.ends_at.is_none()).map(|batch| batch.step_at);
        self.writes.front().copied().into_iter().chain(step).min()
    }

    /// The result of the batch of `owner`, once the batch is over.
    pub(crate) fn ended(&mut self, owner: Owner) -> Option<Done> {
        let place = self.ended.iter().position(|(whose, _)| *whose == owner)?;
        Some(self.ended.swap_remove(place).1)
    }

    /// Takes one free page, if there is one.
    pub(crate) fn take_free(&mut self) -> bool {
        if self.free == 0 {
            return false;
        }
        self.free -= 1;
        self.in_use += 1;
        true
    }
}
