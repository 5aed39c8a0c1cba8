// SPDX-License-Identifier: Apache-2.0
//! The actions of one microsecond.

use super::{All, Client, Doing, NaiveCounts, NaiveSetup, Pool, Thread, count, ladder, stream, unit};
use std::collections::VecDeque;

impl Pool {
    pub(super) fn count(&self) -> usize {
        self.free + self.list.len() + self.writes.len() + self.held
    }

    fn take(&mut self) -> bool {
        if self.free == 0 {
            return false;
        }
        self.free -= 1;
        self.list.push_back(None);
        true
    }

    /// All searches begin at the oldest page, so each page before this one has been looked at.
    fn is_dirty(&mut self, place: usize, share: f64) -> bool {
        if self.list[place].is_none() {
            self.list[place] = Some(share > 0.0 && unit(&mut self.rng) < share);
        }
        self.list[place] == Some(true)
    }

    pub(super) fn may_go_on(&self, asked: &NaiveSetup) -> bool {
        let Some(batch) = &self.batch else { return false };
        let spent = batch.flushed + if asked.chunk.is_none() { batch.evicted } else { 0 };
        spent < batch.budget && self.free < asked.depth && self.list.len() > asked.least
    }

    /// Whether anything was due at `now`.
    fn moves(&mut self, now: u64, asked: &NaiveSetup) -> bool {
        if let Some(place) = self.writes.iter().position(|it| *it <= now) {
            self.writes.remove(place);
            self.free += 1;
            return true;
        }
        let may = self.may_go_on(asked);
        let Some(batch) = &mut self.batch else { return false };
        if let Some(over) = batch.over {
            if over > now {
                return false;
            }
            self.results.push((batch.refiller, batch.flushed, batch.evicted));
            self.batch = None;
            self.try_scan = true;
            return true;
        }
        if batch.step > now {
            return false;
        }
        if !may {
            batch.over = Some(now.max(batch.last_write));
            return true;
        }
        let is_dirty = self.is_dirty(0, asked.dirty);
        self.list.pop_front();
        let Some(batch) = &mut self.batch else { return false };
        batch.step = now + asked.batch_page;
        if is_dirty {
            batch.flushed += 1;
            batch.last_write = now + asked.write;
            self.writes.push(batch.last_write);
        } else {
            batch.evicted += 1;
            self.free += 1;
        }
        let last_write = batch.last_write;
        if !self.may_go_on(asked)
            && let Some(batch) = &mut self.batch
        {
            batch.over = Some(now.max(last_write));
        }
        true
    }
}

impl All {
    pub(super) fn new(asked: &NaiveSetup) -> Self {
        let pool = |index: usize| Pool {
            rng: stream(asked.seed, 2 * index + 2),
            free: asked.free,
            list: (0..asked.pages - asked.free).map(|_| None).collect::<VecDeque<_>>(),
            writes: Vec::new(),
            held: 0,
            try_scan: true,
            batch: None,
            results: Vec::new(),
        };
        let client = |index: usize| Client {
            rng: stream(asked.seed, 2 * index + 1),
            burst: index == asked.threads,
            doing: Doing::Nothing,
            at: 0,
            intended: 0,
            started: 0,
            left: 0,
            cost: 0,
            pool: usize::MAX,
            since: 0,
            tries: 0,
        };
        let thread = |manager: &super::ManagerSetup| Thread {
            manager: Some((manager.clone(), manager.sleep_ms, (usize::from(manager.had_work), 0))),
            period: 0,
            can_be_woken: false,
            from: manager.from,
            until: manager.until,
            asleep: Some(asked.first_wake),
            work: (0, 0, (0, 0)),
            called: false,
        };
        let mut threads: Vec<Thread> = asked.managers.iter().map(thread).collect();
        if let Some((period, first, can_be_woken)) = asked.cleaner {
            threads.push(Thread {
                manager: None,
                period,
                can_be_woken,
                from: 0,
                until: asked.instances,
                asleep: Some(first),
                work: (0, 0, (0, 0)),
                called: false,
            });
        }
        Self {
            before: (0, 0),
            asked: asked.clone(),
            now: 0,
            pools: (0..asked.instances).map(pool).collect(),
            threads,
            clients: (0..asked.threads + usize::from(asked.burst.is_some())).map(client).collect(),
            load_from: 0,
            load_until: 0,
            seen: NaiveCounts::default(),
        }
    }

    pub(super) fn pages_move(&mut self) {
        for pool in &mut self.pools {
            let before = pool.results.len();
            while pool.moves(self.now, &self.asked) {}
            for (_, flushed, evicted) in &pool.results[before..] {
                self.before.0 += *flushed as u64;
                self.before.1 += *evicted as u64;
            }
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.clients.iter().all(|it| it.doing == Doing::Nothing)
    }

    /// Pages that batches have written, and pages that they have evicted: in batches that have ended, and in those that run.
    fn batched(&self) -> (u64, u64) {
        let running = self.pools.iter().filter_map(|it| it.batch.as_ref());
        running.fold(self.before, |sum, it| (sum.0 + it.flushed as u64, sum.1 + it.evicted as u64))
    }

    pub(super) fn begin(&mut self) {
        let (flushed, evicted) = self.batched();
        self.seen = NaiveCounts { flushed, evicted, ..NaiveCounts::default() };
        self.load_from = self.now;
        self.load_until = self.now + self.asked.time;
        for index in 0..self.clients.len() {
            self.clients[index].intended = self.now;
            match self.asked.burst {
                Some((_, every)) if self.clients[index].burst => self.start_at(index, self.now + every / 2),
                _ => self.next(index, self.now),
            }
        }
    }

    pub(super) fn give_up(&mut self) {
        for client in self.clients.iter_mut().filter(|it| it.doing != Doing::Nothing) {
            if matches!(client.doing, Doing::Took | Doing::Wrote(true)) {
                self.pools[client.pool].held -= 1;
                self.pools[client.pool].free += 1;
            }
            if !matches!(client.doing, Doing::Start | Doing::NextPage) {
                self.seen.lost += self.now - client.since;
                let lasted = if client.burst { 0 } else { self.now - client.started };
                self.seen.max = self.seen.max.max(lasted);
            }
            client.doing = Doing::Nothing;
        }
    }

    pub(super) fn end(&mut self) -> NaiveCounts {
        let (flushed, evicted) = self.batched();
        let mut seen = std::mem::take(&mut self.seen);
        seen.flushed = flushed - seen.flushed;
        seen.evicted = evicted - seen.evicted;
        seen
    }

    // ---- clients

    pub(super) fn clients_act(&mut self) {
        for index in 0..self.clients.len() {
            loop {
                let client = &self.clients[index];
                let is_due = match client.doing {
                    Doing::Nothing => false,
                    Doing::Behind => self.pools[client.pool].batch.is_none(),
                    _ => client.at == self.now,
                };
                if !is_due {
                    break;
                }
                self.act(index);
            }
        }
    }

    fn set(&mut self, index: usize, doing: Doing, at: u64) {
        self.clients[index].doing = doing;
        self.clients[index].at = at;
    }

    fn start_at(&mut self, index: usize, at: u64) {
        let doing = if at < self.load_until { Doing::Start } else { Doing::Nothing };
        self.set(index, doing, at);
    }

    #[allow(clippy::cast_possible_truncation)] // whole microseconds
    fn next(&mut self, index: usize, ended: u64) {
        let client = &mut self.clients[index];
        match self.asked.mean_gap {
            None => client.intended = ended,
            Some(mean) => client.intended += (-(1.0 - unit(&mut client.rng)).ln() * mean).round() as u64,
        }
        let at = client.intended.max(ended);
        self.start_at(index, at);
    }

    fn act(&mut self, index: usize) {
        let (now, pool) = (self.now, self.clients[index].pool);
        match self.clients[index].doing {
            Doing::Nothing => {}
            Doing::Start => self.start(index),
            Doing::NextPage => self.need(index),
            Doing::Poll => {
                self.seen.wait_free += 1;
                self.clients[index].tries += 1;
                if self.pools[pool].take() { self.waited(index) } else { self.wait(index) }
            }
            Doing::Behind => self.again(index),
            Doing::Searched => self.no_clean_page(index),
            Doing::Slept => self.write_one(index),
            Doing::Took => {
                self.pools[pool].held -= 1;
                self.pools[pool].list.push_back(None);
                self.waited(index);
            }
            Doing::Wrote(has_page) => {
                if has_page {
                    self.pools[pool].held -= 1;
                    self.pools[pool].free += 1;
                }
                self.seen.wait_free += 1;
                self.clients[index].tries += 1;
                self.again(index);
            }
        }
        debug_assert!(self.now == now, "a client has no time of its own");
    }

    fn start(&mut self, index: usize) {
        let asked = &self.asked;
        let client = &mut self.clients[index];
        client.started = self.now;
        match asked.burst {
            Some((pages, _)) if client.burst => {
                client.left = pages;
                client.cost = asked.service + asked.read;
            }
            _ => {
                let reads = count(&mut client.rng, asked.reads);
                let without = count(&mut client.rng, asked.without);
                client.left = reads + without;
                client.cost = asked.service + reads * asked.read;
                self.seen.without += without;
            }
        }
        self.need(index);
    }

    #[allow(clippy::cast_possible_truncation)] // an index
    fn need(&mut self, index: usize) {
        loop {
            let client = &mut self.clients[index];
            if client.left == 0 {
                return self.finish(index);
            }
            let count = self.asked.instances;
            client.pool = if count == 1 { 0 } else { (unit(&mut client.rng) * count as f64) as usize };
            self.seen.searches += 1;
            if !self.pools[client.pool].take() {
                client.since = self.now;
                client.tries = 0;
                return self.wait(index);
            }
            if !self.has_page(index) {
                return;
            }
        }
    }

    fn has_page(&mut self, index: usize) -> bool {
        let client = &mut self.clients[index];
        client.left -= 1;
        if !client.burst || client.left == 0 {
            return true;
        }
        let at = self.now + client.cost;
        self.set(index, Doing::NextPage, at);
        false
    }

    fn finish(&mut self, index: usize) {
        let client = &self.clients[index];
        let ended = self.now + client.cost;
        if client.burst {
            let every = self.asked.burst.map_or(0, |it| it.1);
            return self.start_at(index, ended + every);
        }
        self.seen.queries += u64::from(ended <= self.load_until);
        self.seen.max = self.seen.max.max(ended - client.started);
        self.next(index, ended);
    }

    fn waited(&mut self, index: usize) {
        self.seen.lost += self.now - self.clients[index].since;
        if self.has_page(index) {
            self.need(index);
        }
    }

    fn wait(&mut self, index: usize) {
        if !self.asked.is_backoff {
            return self.search(index);
        }
        self.seen.loops += 1;
        let wait = ladder(self.clients[index].tries).map_or(self.asked.yields, |us| us + self.asked.overhead);
        self.set(index, Doing::Poll, self.now + wait);
    }

    fn again(&mut self, index: usize) {
        if self.pools[self.clients[index].pool].take() { self.waited(index) } else { self.search(index) }
    }

    fn search(&mut self, index: usize) {
        self.seen.loops += 1;
        let (rule, at) = (self.asked.legacy.clone(), self.clients[index].pool);
        let is_first = self.clients[index].tries == 0;
        let pool = &mut self.pools[at];
        if rule.waits_for_batch && self.asked.is_doublewrite && pool.batch.is_some() {
            return self.set(index, Doing::Behind, 0);
        }
        if is_first && !pool.try_scan {
            return self.no_clean_page(index);
        }
        let depth = if is_first { rule.depth.min(pool.list.len()) } else { pool.list.len() };
        self.seen.scans += 1;
        for place in 0..depth {
            self.seen.scanned += 1;
            if !pool.is_dirty(place, self.asked.dirty) {
                pool.list.remove(place);
                pool.held += 1;
                let at = self.now + self.asked.look * (place as u64 + 1) + self.asked.take;
                return self.set(index, Doing::Took, at);
            }
        }
        if is_first {
            pool.try_scan = false;
        }
        self.set(index, Doing::Searched, self.now + self.asked.look * depth as u64);
    }

    fn no_clean_page(&mut self, index: usize) {
        if self.asked.legacy.wakes {
            self.call();
        }
        if self.clients[index].tries < 2 {
            return self.write_one(index);
        }
        self.seen.sleeps += 1;
        self.set(index, Doing::Slept, self.now + self.asked.legacy.sleep + self.asked.overhead);
    }

    fn write_one(&mut self, index: usize) {
        let (dirty, takes_clean) = (self.asked.dirty, self.asked.legacy.takes_clean);
        let pool = &mut self.pools[self.clients[index].pool];
        if pool.list.is_empty() {
            return self.set(index, Doing::Wrote(false), self.now + 1);
        }
        let within = if takes_clean { 1 } else { pool.list.len() };
        let found = (0..within).find(|place| pool.is_dirty(*place, dirty));
        if let Some(place) = found {
            pool.list[place] = Some(false);
            self.seen.passed += place as u64;
            self.seen.single_writes += 1;
        }
        pool.list.pop_front();
        pool.held += 1;
        let writes = self.asked.write * if self.asked.is_doublewrite { 2 } else { 1 };
        let takes = if found.is_some() { writes } else { self.asked.take };
        self.set(index, Doing::Wrote(true), self.now + takes);
    }
}
