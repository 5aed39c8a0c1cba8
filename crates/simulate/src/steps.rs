// SPDX-License-Identifier: Apache-2.0
//! The steps of clients: they begin a query, take pages, end the query, begin the next.

use crate::client::Phase;
use crate::outcome::Recorder;
use crate::world::World;

impl World<'_> {
    /// All clients begin.
    pub(crate) fn begin_load(&mut self) {
        self.recorder = Recorder::new(self.now, self.settings.time_ns);
        self.load_ends = self.now + self.settings.time_ns;
        for index in 0..self.clients.len() {
            self.clients[index].intended = self.now;
            match self.settings.burst {
                Some(burst) if self.clients[index].is_burst => self.starts_at(index, self.now + burst.every_ns / 2),
                _ => self.next_query(index, self.now),
            }
        }
    }

    /// Clients that still wait after the end of a load are taken away.
    pub(crate) fn end_load(&mut self) {
        for index in 0..self.clients.len() {
            let (phase, instance, since) = {
                let client = &self.clients[index];
                (client.phase, client.instance, client.since)
            };
            if phase == Phase::Out {
                continue;
            }
            if let (Phase::Took | Phase::Wrote { has_page: true }, Some(instance)) = (phase, instance) {
                self.instances[instance].held -= 1;
                self.instances[instance].free += 1;
            }
            if instance.is_some() {
                let client = &self.clients[index];
                let is_burst = client.is_burst;
                // a burst that waits is reported by its stall alone
                let (intended, started) =
                    if is_burst { (self.now, self.now) } else { (client.intended, client.started) };
                self.recorder.given_up(intended, started, self.now);
                self.recorder.wait(since, self.now.max(since), index, is_burst);
            }
            if matches!(phase, Phase::OnCondition { .. }) {
                self.on_condition -= 1;
            }
            let client = &mut self.clients[index];
            client.phase = Phase::Out;
            client.instance = None;
            client.ticket = client.ticket.wrapping_add(1);
        }
    }

    pub(crate) fn client_event(&mut self, index: usize) {
        match self.clients[index].phase {
            Phase::Out => {}
            Phase::Starts => self.starts(index),
            Phase::NextPage => self.needs_pages(index),
            Phase::Polls => self.polls(index),
            Phase::BehindBatch => self.behind_batch(index),
            Phase::Searched => self.found_none(index),
            Phase::Slept => self.writes_one(index),
            Phase::Took => self.has_taken(index),
            Phase::Wrote { has_page } => self.has_written(index, has_page),
            Phase::OwnBatch => self.in_own_batch(index),
            Phase::OnCondition { until } => self.woken(index, until),
        }
    }

    /// The query after one that ended at `ended`.
    fn next_query(&mut self, index: usize, ended: u64) {
        let Some(rate) = self.settings.rate_per_second else {
            self.clients[index].intended = ended;
            return self.starts_at(index, ended);
        };
        let mean_ns = f64::from(self.settings.threads) * 1e9 / rate;
        let client = &mut self.clients[index];
        client.intended = client.intended.saturating_add(client.draws.gap_ns(mean_ns));
        let at = client.intended.max(ended);
        self.starts_at(index, at);
    }

    /// A query that would begin after the load does not.
    fn starts_at(&mut self, index: usize, at: u64) {
        if at < self.load_ends {
            self.client_at(index, Phase::Starts, at);
        } else {
            self.clients[index].phase = Phase::Out;
        }
    }

    fn starts(&mut self, index: usize) {
        let settings = self.settings;
        let client = &mut self.clients[index];
        client.started = self.now;
        match settings.burst {
            Some(burst) if client.is_burst => {
                client.left = burst.pages;
                client.cost_ns = settings.service_ns + settings.read_ns;
            }
            _ => {
                let reads = client.draws.count(settings.reads_per_query);
                let without = client.draws.count(settings.pages_without_read);
                client.left = reads + without;
                client.cost_ns = settings.service_ns + reads * settings.read_ns;
                self.counters.pages_without_read += without;
            }
        }
        self.needs_pages(index);
    }

    /// Takes pages as long as there are any, and waits where there is none.
    pub(crate) fn needs_pages(&mut self, index: usize) {
        while self.clients[index].left > 0 {
            let instances = self.instances.len();
            let client = &mut self.clients[index];
            let instance = if instances == 1 { 0 } else { client.draws.one_of(instances) };
            self.counters.get_free_search += 1;
            if !self.settled(instance).take_free() {
                let client = &mut self.clients[index];
                client.instance = Some(instance);
                client.since = self.now;
                client.tries = 0;
                return self.finds_none(index);
            }
            if !self.got(index, instance) {
                return;
            }
        }
        self.ends(index);
    }

    /// The client has waited, and now has its page.
    pub(crate) fn wait_is_over(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let (since, is_burst) = (client.since, client.is_burst);
        let Some(instance) = client.instance.take() else { return };
        self.recorder.wait(since, self.now, index, is_burst);
        if self.got(index, instance) {
            self.needs_pages(index);
        }
    }

    /// The client got one page. `false`: the next one is needed later.
    fn got(&mut self, index: usize, instance: usize) -> bool {
        if self.keeps_half() && self.instances[instance].free * 2 < u64::from(self.settings.scan_depth) {
            self.call_refillers(instance);
        }
        let client = &mut self.clients[index];
        client.left -= 1;
        if !client.is_burst || client.left == 0 {
            return true;
        }
        let at = self.now + client.cost_ns;
        self.client_at(index, Phase::NextPage, at);
        false
    }

    fn ends(&mut self, index: usize) {
        let client = &self.clients[index];
        let ended = self.now + client.cost_ns;
        match self.settings.burst {
            Some(burst) if client.is_burst => self.starts_at(index, ended.saturating_add(burst.every_ns)),
            _ => {
                self.recorder.query(client.intended, client.started, ended);
                self.next_query(index, ended);
            }
        }
    }
}
