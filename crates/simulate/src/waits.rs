// SPDX-License-Identifier: Apache-2.0
//! The steps of clients when the free list is empty: `buf_LRU_get_free_block`, buf/buf0lru.cc, by the rules of the row in `capability`.

use crate::client::Phase;
use crate::instance::{Began, Owner};
use crate::world::World;
use capability::{Algorithm, LADDER, OnEmpty, Refiller, Search};

/// Work that takes no time still takes this: a client that finds nothing to do must not repeat its steps forever at one instant.
const SHORTEST_NS: u64 = 1000;

impl World<'_> {
    pub(crate) fn keeps_half(&self) -> bool {
        let keeps = |it: &Refiller| matches!(it, Refiller::Cleaner { keeps_half: true, .. });
        self.settings.server.refillers.iter().any(keeps)
    }

    fn instance_of(&self, index: usize) -> usize {
        self.clients[index].instance.unwrap_or(0)
    }

    /// Chooses the next step after a look at the empty list has failed.
    pub(crate) fn finds_none(&mut self, index: usize) {
        match self.settings.algorithm {
            Algorithm::Backoff => self.backs_off(index),
            Algorithm::Legacy => self.searches(index),
        }
    }

    // ---- backoff

    fn backs_off(&mut self, index: usize) {
        self.counters.get_free_loops += 1;
        if self.settings.server.backoff_wakes {
            self.call_refillers(self.instance_of(index));
        }
        let n = self.clients[index].tries;
        let wait = if LADDER.is_sleep(n) {
            LADDER.wait_us(n) * 1000 + self.settings.sleep_overhead_ns
        } else {
            self.settings.costs.yield_ns
        };
        self.client_at(index, Phase::Polls, self.now + wait);
    }

    pub(crate) fn polls(&mut self, index: usize) {
        self.clients[index].tries += 1;
        self.counters.wait_free += 1;
        if self.settled(self.instance_of(index)).take_free() {
            self.wait_is_over(index);
        } else {
            self.backs_off(index);
        }
    }

    // ---- legacy: the look at the LRU list, which all servers have

    /// A new round, with a look at the free list.
    fn looks_again(&mut self, index: usize) {
        if self.settled(self.instance_of(index)).take_free() {
            self.wait_is_over(index);
        } else {
            self.searches(index);
        }
    }

    fn searches(&mut self, index: usize) {
        self.counters.get_free_loops += 1;
        let instance = self.instance_of(index);
        let waits = matches!(self.settings.server.legacy, OnEmpty::Searches(Search { waits_for_batch: true, .. }));
        if waits && self.settings.costs.is_doublewrite && self.instances[instance].is_batch_running() {
            return self.waits_for_batch(index);
        }
        let depth = match self.settings.server.legacy {
            OnEmpty::Searches(Search { depth, .. }) => depth.unwrap_or(self.settings.scan_depth),
            OnEmpty::OwnBatch { depth, .. } | OnEmpty::WaitsForCleaner { depth, .. } => depth,
        };
        let is_first = self.clients[index].tries == 0;
        let one = &mut self.instances[instance];
        if is_first && !one.try_scan {
            return self.found_none(index);
        }
        let depth = if is_first { u64::from(depth).min(one.in_use) } else { one.in_use };
        let found = one.tail.find(false, depth);
        let looked = found.map_or(depth, |place| place as u64 + 1);
        self.counters.search_scanned += looked;
        self.counters.search_num_scan += 1;
        let looking = self.settings.costs.look_ns * looked;
        if let Some(place) = found {
            one.tail.take(place);
            one.in_use -= 1;
            one.held += 1;
            return self.client_at(index, Phase::Took, self.now + looking + self.settings.costs.take_ns);
        }
        if is_first {
            one.try_scan = false;
        }
        self.client_at(index, Phase::Searched, self.now + looking);
    }

    pub(crate) fn has_taken(&mut self, index: usize) {
        let instance = self.instance_of(index);
        let one = self.settled(instance);
        one.held -= 1;
        one.in_use += 1;
        self.wait_is_over(index);
    }

    /// The client has found no clean page.
    pub(crate) fn found_none(&mut self, index: usize) {
        match self.settings.server.legacy {
            OnEmpty::Searches(search) => self.before_writing(index, search),
            OnEmpty::OwnBatch { pages, .. } => self.own_batch(index, pages),
            OnEmpty::WaitsForCleaner { longest_ms, .. } => self.on_condition(index, longest_ms),
        }
    }

    fn waits_for_batch(&mut self, index: usize) {
        let look = self.instances[self.instance_of(index)].next_look();
        self.client_at(index, Phase::BehindBatch, look.unwrap_or(self.now).max(self.now + 1));
    }

    pub(crate) fn behind_batch(&mut self, index: usize) {
        if self.settled(self.instance_of(index)).is_batch_running() {
            self.waits_for_batch(index);
        } else {
            self.looks_again(index);
        }
    }

    // ---- legacy of MySQL and Percona Server: the client writes a page itself

    fn before_writing(&mut self, index: usize, search: Search) {
        if search.wakes_cleaner {
            self.call_refillers(self.instance_of(index));
        }
        if self.clients[index].tries > 1 {
            self.counters.get_free_waits += 1;
            let sleep = u64::from(search.sleep_us) * 1000 + self.settings.sleep_overhead_ns;
            self.client_at(index, Phase::Slept, self.now + sleep);
        } else {
            self.writes_one(index);
        }
    }

    pub(crate) fn writes_one(&mut self, index: usize) {
        let OnEmpty::Searches(search) = self.settings.server.legacy else { return };
        let costs = self.settings.costs;
        let write = self.settings.write_ns * if costs.is_doublewrite { 2 } else { 1 };
        let instance = self.instance_of(index);
        let one = self.settled(instance);
        if one.in_use == 0 {
            return self.client_at(index, Phase::Wrote { has_page: false }, self.now + SHORTEST_NS);
        }
        let place = if search.single_flush_takes_clean {
            one.tail.is_dirty(0).then_some(0)
        } else {
            one.tail.find(true, one.in_use)
        };
        if let Some(place) = place {
            // this page is clean now, and the first clean page of the list is taken: the oldest, because the pages before this one are clean
            one.tail.clean(place);
        }
        one.tail.take(0);
        one.in_use -= 1;
        one.held += 1;
        self.counters.single_flush_scanned += place.unwrap_or(0) as u64;
        self.counters.single_flushes += u64::from(place.is_some());
        let takes = if place.is_some() { write } else { costs.take_ns };
        self.client_at(index, Phase::Wrote { has_page: true }, self.now + takes);
    }

    pub(crate) fn has_written(&mut self, index: usize, has_page: bool) {
        if has_page {
            let instance = self.instance_of(index);
            let one = self.settled(instance);
            one.held -= 1;
            one.free += 1;
        }
        self.counters.wait_free += 1;
        self.clients[index].tries += 1;
        self.looks_again(index);
    }

    // ---- MariaDB 10.5: the client runs a batch itself

    fn own_batch(&mut self, index: usize, pages: u32) {
        let (now, instance) = (self.now, self.instance_of(index));
        let one = self.settled(instance);
        match one.begin(now, Owner::Client(index), Some(u64::from(pages))) {
            Began::Refused => self.waits_for_batch(index),
            Began::Idle => self.client_at(index, Phase::Wrote { has_page: false }, now + SHORTEST_NS),
            Began::Runs => {
                let at = one.next_look().unwrap_or(now);
                self.client_at(index, Phase::OwnBatch, at);
            }
        }
    }

    pub(crate) fn in_own_batch(&mut self, index: usize) {
        let now = self.now;
        let one = self.settled(self.instance_of(index));
        if one.ended(Owner::Client(index)).is_some() {
            self.has_written(index, false);
        } else {
            let at = one.next_look().unwrap_or(now);
            self.client_at(index, Phase::OwnBatch, at);
        }
    }

    // ---- MariaDB from 10.6 on: the client waits for the page cleaner

    fn on_condition(&mut self, index: usize, longest_ms: u32) {
        let instance = self.instance_of(index);
        self.counters.wait_free += 1;
        self.call_refillers(instance);
        self.on_condition += 1;
        self.waits_until(index, self.now + u64::from(longest_ms) * 1_000_000);
    }

    fn waits_until(&mut self, index: usize, until: u64) {
        let next = self.instances[self.instance_of(index)].next_free();
        let at = next.map_or(until, |next| next.min(until)).max(self.now);
        self.client_at(index, Phase::OnCondition { until }, at);
    }

    /// A page has become free, or the longest wait is over, or a batch has ended without one.
    pub(crate) fn woken(&mut self, index: usize, until: u64) {
        let now = self.now;
        if self.settled(self.instance_of(index)).take_free() {
            self.on_condition -= 1;
            return self.wait_is_over(index);
        }
        if now < until && self.instances[self.instance_of(index)].next_free().is_none() {
            return self.waits_until(index, until);
        }
        self.on_condition -= 1;
        self.clients[index].tries += 1;
        self.found_none(index);
    }

    /// A batch has begun in `instance`: the clients that wait there look when the batch's first page is due.
    pub(crate) fn tell_waiting(&mut self, instance: usize) {
        if self.on_condition == 0 {
            return;
        }
        for index in 0..self.clients.len() {
            if let Phase::OnCondition { until } = self.clients[index].phase
                && self.clients[index].instance == Some(instance)
            {
                self.waits_until(index, until);
            }
        }
    }
}
