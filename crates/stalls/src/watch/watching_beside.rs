// SPDX-License-Identifier: Apache-2.0
//! What a watch takes beside samples and answers, and what it shows before they are over.

use super::super::group::{Group, Judgement, MOST_VICTIMS};
use super::super::page_writes::Own;
use super::super::sample::{Doing, Sample, Stop};
use super::super::seen::SeenWaits;
use super::super::side_evidence::{Canary, Logged};
use super::super::track::{LEAST_SAMPLES, Wait, Way};
use super::Watching;
use crate::explained::Stall;

/// Evidence beside samples and answers.
impl Watching {
    /// The caller reads the server's slow log. Stalls are then told somewhat later, so that the entries of their victims are there.
    pub fn follows_log(&mut self) {
        self.beside.follows_log();
    }

    pub fn logged(&mut self, entry: Logged) {
        self.beside.logged(entry);
    }

    pub fn canary(&mut self, run: Canary) {
        self.wholes.canary(run, self.watch.least_us, false);
        self.beside.canary(run);
    }

    /// Watching ends, and this run has no answer yet.
    pub fn canary_waits(&mut self, run: Canary) {
        self.wholes.canary(run, self.watch.least_us, true);
        self.beside.canary(run);
    }

    /// Takes whether the server is stopped at one look.
    pub fn stopped(&mut self, at_us: u64, stop: Option<Stop>) {
        self.wholes.look(at_us, stop, self.watch.least_us);
    }

    /// Names a connection of this watch's own. It is no victim; and a wait for a lock that it holds is caused by the watch.
    pub fn own_connection(&mut self, connection: u64) {
        self.beside.own(connection);
    }
}

impl Watching {
    /// What is seen, kept for a recording if that is wanted.
    pub fn seen(&mut self) -> &mut SeenWaits {
        &mut self.seen
    }

    /// Whether a client's thread waits now.
    pub fn is_waiting(&self) -> bool {
        self.waiting().any(|wait| wait.samples >= LEAST_SAMPLES)
    }

    /// Whether the thread serves a client, or may: it should be sampled as often as possible.
    pub fn is_client(&self, thread: u32) -> bool {
        self.known.is_client(thread) || self.known.was_client(thread)
    }

    /// Whether the thread waits for its client, so that its `schedstat` need not be read.
    pub fn is_at_rest(&self, sample: &Sample) -> bool {
        matches!(self.known.meant(sample), Doing::Idle | Doing::Polling(_))
    }
}

impl Watching {
    /// The stalls that are not over: the waits that have lasted for `least_us` by now, judged by what is known so far. Nothing is booked.
    pub fn going_on(&mut self, now_us: u64, least_us: u64) -> Vec<Stall> {
        let is_long = |wait: &Wait| wait.samples >= LEAST_SAMPLES && wait.length_us() >= least_us;
        let so_far = |wait: Wait| Wait { to_us: now_us, is_open: true, ..wait };
        let waits: Vec<Wait> = self.waiting().collect();
        let (page_writes, woken, known) = (&mut self.page_writes, &self.woken, &self.known);
        let last_part = |wait: Wait| match wait.way {
            Way::WritingPages => page_writes.parts(&wait, known).pop().map(|(wait, writes)| (so_far(wait), writes)),
            _ => Some((woken.last_part(&so_far(wait), known), Own::default())),
        };
        let waits: Vec<(Wait, Own)> = waits.into_iter().filter_map(last_part).filter(|(it, _)| is_long(it)).collect();
        let (since_us, free_list) = (self.watch.started_unix_us, self.watch.free_list);
        let mut groups = Vec::new();
        for kept in waits.into_iter().filter_map(|(wait, writes)| self.kept(wait, writes)) {
            if let Judgement::Victim(judged) = kept.judgement(free_list, since_us) {
                Group::gather(&mut groups, *judged);
            }
        }
        let mut stalls: Vec<Stall> = groups.into_iter().map(|group| group.stall(since_us)).collect();
        stalls.iter_mut().for_each(|stall| stall.victims.truncate(MOST_VICTIMS));
        let whole = self.wholes.going_on(now_us, least_us).filter(|_| stalls.is_empty());
        stalls.extend(whole.map(|whole| whole.stall(since_us)));
        stalls
    }
}
