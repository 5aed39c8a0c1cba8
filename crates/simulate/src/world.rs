// SPDX-License-Identifier: Apache-2.0
//! The server and its clients at one instant, and the events that are to come. The steps of a client and of a refiller are in files of their own.
//!
//! At equal times pages become free first, then refillers wake up, then clients look, each by its number.

use crate::client::{Client, Phase};
use crate::draws::Draws;
use crate::instance::{Done, Instance, Rules};
use crate::outcome::{Counters, Recorder};
use crate::refiller::{Kind, Refiller, State};
use crate::settings::Settings;
use crate::tail::Tail;
use capability::Refiller as Known;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// At a server's start the two refillers of MariaDB 10.1 were seen 7 ms apart (10.1.23, traced).
const PHASE_NS: u64 = 7_000_000;

/// Time, whether it is a client's, number, ticket.
type Event = (u64, bool, usize, u32);

#[derive(Debug)]
pub(crate) struct World<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) now: u64,
    pub(crate) instances: Vec<Instance>,
    pub(crate) refillers: Vec<Refiller>,
    pub(crate) clients: Vec<Client>,
    /// Clients that wait on a condition.
    pub(crate) on_condition: usize,
    events: BinaryHeap<Reverse<Event>>,
    pub(crate) counters: Counters,
    pub(crate) recorder: Recorder,
    /// From here on no client begins a query.
    pub(crate) load_ends: u64,
}

impl<'a> World<'a> {
    pub(crate) fn new(settings: &'a Settings) -> Self {
        let depth = u64::from(settings.scan_depth);
        let rules = Rules {
            depth,
            least_in_use: u64::from(settings.server.least_in_use),
            limit: settings.server.batch,
            first_ns: settings.costs.batch_first_ns,
            page_ns: settings.costs.batch_page_ns,
            write_ns: settings.write_ns,
        };
        let free = settings.initial_free.unwrap_or(depth);
        let instance = |index| {
            let tail = Tail::new(Draws::of_instance(settings.seed, index), settings.dirty);
            Instance::new(settings.instance_pages, free, tail, rules)
        };
        let count = settings.instances as usize;
        let threads = settings.threads as usize;
        let client =
            |index| Client::new(Draws::of_client(settings.seed, index), index == threads && settings.burst.is_some());
        let mut world = Self {
            settings,
            now: 0,
            instances: (0..count).map(instance).collect(),
            refillers: refillers(settings, count),
            clients: (0..threads + usize::from(settings.burst.is_some())).map(client).collect(),
            on_condition: 0,
            events: BinaryHeap::new(),
            counters: Counters::default(),
            recorder: Recorder::new(u64::MAX, 1),
            load_ends: 0,
        };
        let first = world.first_wake();
        let phase = settings.start.phase_ns.unwrap_or(PHASE_NS);
        let has_manager = world.refillers.iter().any(|it| matches!(it.kind, Kind::Manager { .. }));
        for index in 0..world.refillers.len() {
            let at = match world.refillers[index].kind {
                Kind::Cleaner { period_ns, .. } if has_manager => (first + phase) % period_ns,
                _ => first,
            };
            world.wake_at(index, at);
        }
        world
    }

    fn first_wake(&self) -> u64 {
        let start = self.settings.start;
        let asleep = match self.refillers.first().map(|it| it.kind) {
            Some(Kind::Manager { sleep_ms, .. }) => sleep_ms * 1_000_000,
            Some(Kind::Cleaner { period_ns, .. }) => period_ns,
            None => 0,
        };
        let by_load = start.wake_offset_ns.map(|offset| self.settings.pause_ns + offset);
        by_load.or(start.first_wake_ns).unwrap_or(asleep)
    }

    /// The next event of this refiller, instead of the one that it had.
    pub(crate) fn wake_at(&mut self, index: usize, at: u64) {
        let refiller = &mut self.refillers[index];
        refiller.ticket = refiller.ticket.wrapping_add(1);
        self.events.push(Reverse((at, false, index, refiller.ticket)));
    }

    /// The next event of this client, instead of the one that it had.
    pub(crate) fn client_at(&mut self, index: usize, phase: Phase, at: u64) {
        let client = &mut self.clients[index];
        client.phase = phase;
        client.ticket = client.ticket.wrapping_add(1);
        self.events.push(Reverse((at, true, index, client.ticket)));
    }

    /// Runs everything before `until`; then the time is `until`.
    pub(crate) fn run(&mut self, until: u64) {
        while self.step(until) {}
        self.now = until;
    }

    /// Runs until no client does anything any more, but at most until `until`.
    pub(crate) fn run_out(&mut self, until: u64) {
        while self.is_anybody_left() && self.step(until) {}
    }

    pub(crate) fn is_anybody_left(&self) -> bool {
        self.clients.iter().any(|it| it.phase != Phase::Out)
    }

    fn step(&mut self, until: u64) -> bool {
        let Some(Reverse((at, is_client, index, ticket))) = self.events.peek().copied() else { return false };
        if at >= until {
            return false;
        }
        self.events.pop();
        self.now = at;
        if is_client {
            if self.clients[index].ticket == ticket {
                self.client_event(index);
            }
        } else if self.refillers[index].ticket == ticket {
            self.refiller_event(index);
        }
        true
    }

    /// An instance after everything that happens in it until now.
    pub(crate) fn settled(&mut self, instance: usize) -> &mut Instance {
        let now = self.now;
        let instance = &mut self.instances[instance];
        instance.settle(now);
        instance
    }

    /// Free pages of all instances.
    pub(crate) fn free(&mut self) -> u64 {
        (0..self.instances.len()).map(|index| self.settled(index).free).sum()
    }

    /// Counters of the server until now, with those that instances keep.
    pub(crate) fn counted(&mut self) -> Counters {
        for index in 0..self.instances.len() {
            self.settled(index);
        }
        let mut counters = self.counters;
        counters.lru_evicted = self.instances.iter().map(|it| it.evicted).sum();
        counters.lru_flushed = self.instances.iter().map(|it| it.flushed).sum();
        counters
    }
}

/// The refillers. A page cleaner that works only while clients write is left out when no client writes.
fn refillers(settings: &Settings, count: usize) -> Vec<Refiller> {
    let one = |kind, instances| Refiller { kind, instances, state: State::Asleep, is_called: false, ticket: 0 };
    let mut all = Vec::new();
    for known in settings.server.refillers {
        match *known {
            Known::Manager { per_instance, adapt } => {
                let clock = settings.clock.unwrap_or(adapt.clock);
                let last = Done { flushed: u64::from(settings.start.had_work), evicted: 0 };
                let kind = Kind::Manager { adapt, clock, sleep_ms: settings.initial_sleep_ms, last };
                if per_instance {
                    all.extend((0..count).map(|index| one(kind, index..index + 1)));
                } else {
                    all.push(one(kind, 0..count));
                }
            }
            Known::Cleaner { period_ms, can_be_woken, only_if_active, keeps_half } => {
                if !only_if_active || settings.active {
                    let period_ns = u64::from(period_ms) * 1_000_000;
                    all.push(one(Kind::Cleaner { period_ns, can_be_woken, keeps_half }, 0..count));
                }
            }
        }
    }
    all
}
