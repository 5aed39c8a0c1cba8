// SPDX-License-Identifier: Apache-2.0
//! The actions of the threads that refill free lists, in one microsecond.

use super::{All, Batch};

impl All {
    pub(super) fn refill(&mut self) {
        for index in 0..self.threads.len() {
            match self.threads[index].asleep {
                Some(until) if until == self.now => self.wake(index),
                Some(_) => {}
                None => self.work(index),
            }
        }
    }

    fn wake(&mut self, index: usize) {
        let (from, until) = (self.threads[index].from, self.threads[index].until);
        let free: usize = self.pools[from..until].iter().map(|it| it.free).sum();
        let length: usize = self.pools[from..until].iter().map(|it| it.list.len()).sum();
        let all = self.asked.depth * (until - from);
        let thread = &mut self.threads[index];
        thread.called = false;
        if let Some((rule, sleep, last)) = &mut thread.manager {
            let target = if rule.is_target_limited { all.min(length) } else { all };
            let progress = if rule.counts_evicted { last.0 + last.1 } else { last.0 };
            if free < target / 100 && progress > 0 {
                *sleep = 0;
            } else if free > target / 5 || (free < target / 100 && progress == 0) {
                *sleep = 1000.min(*sleep + rule.up);
            } else if free < target / 20 && *sleep >= 50 {
                *sleep -= 50;
            }
        }
        thread.work = (self.now, from, (0, 0));
        self.next_pool(index);
    }

    /// Begins a batch in the first instance that has something to do; after the last instance, the thread sleeps.
    fn next_pool(&mut self, index: usize) {
        self.threads[index].asleep = None;
        while self.threads[index].work.1 < self.threads[index].until {
            let at = self.threads[index].work.1;
            let pool = &mut self.pools[at];
            if pool.batch.is_none() {
                let most = self.asked.depth.min(pool.list.len());
                let budget = self.asked.chunk.map_or(most, |chunk| most.div_ceil(chunk) * chunk);
                pool.batch = Some(Batch {
                    refiller: index,
                    flushed: 0,
                    evicted: 0,
                    budget,
                    step: self.now + self.asked.batch_first,
                    over: None,
                    last_write: 0,
                });
                if pool.may_go_on(&self.asked) {
                    return;
                }
                pool.batch = None;
                pool.try_scan = true;
            }
            self.threads[index].work.1 += 1;
        }
        self.sleep(index);
    }

    fn work(&mut self, index: usize) {
        let at = self.threads[index].work.1;
        let found = self.pools[at].results.iter().position(|it| it.0 == index);
        if let Some(found) = found {
            let (_, flushed, evicted) = self.pools[at].results.remove(found);
            let work = &mut self.threads[index].work;
            work.2 = (work.2.0 + flushed, work.2.1 + evicted);
            work.1 += 1;
            self.next_pool(index);
        }
    }

    fn sleep(&mut self, index: usize) {
        let idle = self.asked.idle.min(self.asked.loop_overhead);
        let ready = self.now + idle;
        let thread = &mut self.threads[index];
        let (woke, _, done) = thread.work;
        let mut rest = 0;
        if !thread.called {
            rest = (woke + thread.period).saturating_sub(ready);
            if let Some((rule, sleep, last)) = &mut thread.manager {
                *last = done;
                let rest_ms = if rule.truncates {
                    (woke + *sleep * 1000).saturating_sub(ready) / 1000
                } else {
                    (woke / 1000 + *sleep).saturating_sub(ready / 1000)
                };
                rest = rest_ms * 1000;
            }
        }
        if self.asked.is_select && self.asked.loop_overhead > 0 && rest > 50_000 {
            rest += rest / 1000 - 50;
        }
        let next = ready + rest + self.asked.loop_overhead - idle;
        thread.asleep = Some(next.max(self.now + 1));
    }

    pub(super) fn call(&mut self) {
        let latency = self.asked.loop_overhead - self.asked.idle.min(self.asked.loop_overhead);
        let now = self.now;
        for thread in self.threads.iter_mut().filter(|it| it.can_be_woken && !it.called) {
            thread.called = true;
            if thread.asleep.is_some() {
                thread.asleep = Some(now + latency.max(1));
            }
        }
    }
}
