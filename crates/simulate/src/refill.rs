// SPDX-License-Identifier: Apache-2.0
//! What refillers do: wake up, change their sleep, fill one instance after the other, sleep again.

use crate::instance::{Began, Done, Owner};
use crate::refiller::{Kind, State, adapted, rest_ns};
use crate::world::World;

/// A loop that neither sleeps nor has anything to do still takes time.
const SHORTEST_ROUND_NS: u64 = 1000;

impl World<'_> {
    pub(crate) fn refiller_event(&mut self, index: usize) {
        match self.refillers[index].state {
            State::Asleep => self.wakes(index),
            State::AtWork { woke_at, instance, done } => {
                let instance_now = self.settled(instance);
                match instance_now.ended(Owner::Refiller(index)) {
                    Some(more) => {
                        let done = Done { flushed: done.flushed + more.flushed, evicted: done.evicted + more.evicted };
                        self.fills(index, woke_at, instance + 1, done);
                    }
                    None => {
                        let at = instance_now.next_look().unwrap_or(self.now);
                        self.wake_at(index, at);
                    }
                }
            }
        }
    }

    fn wakes(&mut self, index: usize) {
        let instances = self.refillers[index].instances.clone();
        let (mut free, mut length) = (0, 0);
        for instance in instances.clone() {
            let instance = self.settled(instance);
            free += instance.free;
            length += instance.in_use;
        }
        let depth = u64::from(self.settings.scan_depth) * instances.len() as u64;
        let refiller = &mut self.refillers[index];
        refiller.is_called = false;
        if let Kind::Manager { adapt, sleep_ms, last, .. } = &mut refiller.kind {
            *sleep_ms = adapted(adapt, *sleep_ms, free, depth, length, *last);
        }
        let sleep_us = (index == 0).then(|| refiller.sleep_us());
        self.recorder.refill(self.now, free, sleep_us);
        self.fills(index, self.now, instances.start, Done::default());
    }

    /// Fills the instances from `instance` on; the last one ends the round.
    fn fills(&mut self, index: usize, woke_at: u64, instance: usize, done: Done) {
        let now = self.now;
        let keeps_half = matches!(self.refillers[index].kind, Kind::Cleaner { keeps_half: true, .. });
        for instance in instance..self.refillers[index].instances.end {
            let one = self.settled(instance);
            if keeps_half && one.free * 2 >= one.rules.depth {
                continue;
            }
            if one.begin(now, Owner::Refiller(index), None) == Began::Runs {
                let at = one.next_look().unwrap_or(now);
                self.refillers[index].state = State::AtWork { woke_at, instance, done };
                self.wake_at(index, at);
                self.tell_waiting(instance);
                return;
            }
        }
        self.sleeps(index, woke_at, done);
    }

    fn sleeps(&mut self, index: usize, woke_at: u64, done: Done) {
        let overhead = self.settings.loop_overhead_ns;
        let idle = self.settings.costs.idle_ns.min(overhead);
        let ready_at = self.now + idle;
        let refiller = &mut self.refillers[index];
        refiller.state = State::Asleep;
        let rest = match &mut refiller.kind {
            _ if refiller.is_called => 0,
            Kind::Manager { clock, sleep_ms, last, .. } => {
                *last = done;
                rest_ns(*clock, *sleep_ms, woke_at, ready_at)
            }
            Kind::Cleaner { period_ns, .. } => (woke_at + *period_ns).saturating_sub(ready_at),
        };
        // without any overhead no wake-up is late
        let slack = if overhead > 0 { self.settings.server.sleep.more_slack_us(rest / 1000) * 1000 } else { 0 };
        let next = ready_at + rest + slack + (overhead - idle);
        self.wake_at(index, next.max(self.now + SHORTEST_ROUND_NS));
    }

    /// A client needs pages of `instance`: every refiller that can be woken is woken.
    pub(crate) fn call_refillers(&mut self, instance: usize) {
        let overhead = self.settings.loop_overhead_ns;
        let latency = overhead - self.settings.costs.idle_ns.min(overhead);
        for index in 0..self.refillers.len() {
            let refiller = &mut self.refillers[index];
            let can = matches!(refiller.kind, Kind::Cleaner { can_be_woken: true, .. });
            if !can || refiller.is_called || !refiller.instances.contains(&instance) {
                continue;
            }
            refiller.is_called = true;
            if matches!(refiller.state, State::Asleep) {
                self.wake_at(index, self.now + latency.max(SHORTEST_ROUND_NS));
            }
        }
    }
}
