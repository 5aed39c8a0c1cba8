// SPDX-License-Identifier: Apache-2.0
//! Takes samples and answers, and returns stalls when they are settled.
//!
//! A wait is judged when the server has been asked once more after the end of the wait, or has not answered for two seconds. A stall is settled when no
//! thread still waits whose wait began within the stall.

use super::account::Books;
use super::changes::{Others, Woken};
use super::group::{Group, Judgement, MOST_VICTIMS};
use super::joining::Pieces;
use super::kept::{Facts, Kept};
use super::meanwhile::{HostReading, Readings};
use super::page_writes::{Own, PageWrites};
use super::probed::{Calls, Hit, Leaving, Probe};
use super::sample::{Answer, Counters, Doing, Missing, Sample, Session};
use super::seen::SeenWaits;
use super::server_answers::Known;
use super::server_stalls::{Whole, Wholes};
use super::side_evidence::Beside;
use super::track::{LEAST_SAMPLES, Tracker, Wait, Way};
use super::watched::{Pressure, Tier, WatchCost, Watched};
use crate::cause::Cause;
use crate::explained::{Source, Stall};
use crate::ladder::Lattice;
use capability::{FreeList, LADDER, OnEmpty};
use sql::Dialect;
use std::collections::BTreeMap;

/// The settings of a watch.
#[derive(Debug, Clone)]
pub struct Watch {
    /// The shortest stall that is reported, in microseconds.
    pub least_us: u64,
    /// Whether `innodb_empty_free_list_algorithm` is `backoff` at the beginning; later answers may say otherwise. `None`: nothing says which algorithm the server has.
    pub backoff: Option<bool>,
    /// What this version does when the free list is empty. `None`: Wringer's authors have not read this version's source.
    pub free_list: Option<&'static FreeList>,
    /// The function in which queries wait for a free page, where it is probed.
    pub probe: Option<Probe>,
    /// Whether threads are looked at more often.
    pub is_deep: bool,
    pub with_values: bool,
    pub dialect: Dialect,
    /// The server's name and version, in words.
    pub server: Option<String>,
    /// When the watch began, since 1970. All other times are relative to it.
    pub started_unix_us: u64,
}

/// How long a judgement waits for an answer, in microseconds.
const PATIENCE_US: u64 = 2_000_000;
/// How long a stall is kept open for victims that end a little later.
const COMPANY_US: u64 = 100_000;
/// After this time a stall is reported although some thread of it still waits.
const HELD_BACK_US: u64 = 3_000_000;
/// A call of the probed function that took less than this may have made no try: its tries are left out of the account.
const COUNTED_FROM_US: u64 = 1000;

#[derive(Debug)]
pub struct Watching {
    watch: Watch,
    trackers: BTreeMap<u32, Tracker>,
    known: Known,
    pieces: Pieces,
    pending: Vec<Wait>,
    groups: Vec<Group>,
    books: Books,
    beside: Beside,
    lattice: Lattice,
    calls: Calls,
    leaving: Leaving,
    readings: Readings,
    wholes: Wholes,
    woken: Woken,
    others: Others,
    page_writes: PageWrites,
    /// Whether the server had `backoff` at some time: then the counter was a clock.
    had_backoff: bool,
    seen: SeenWaits,
}

impl Watching {
    pub fn new(watch: Watch) -> Self {
        let lattice = Lattice::new(&LADDER, Lattice::USUAL_OVERHEAD_US);
        let books = Books::new(watch.dialect, watch.with_values);
        let calls = Calls::new(watch.probe.map_or(0, |probe| probe.least_us.min(COUNTED_FROM_US)));
        Self {
            had_backoff: watch.backoff == Some(true),
            watch,
            trackers: BTreeMap::new(),
            known: Known::default(),
            pieces: Pieces::default(),
            pending: Vec::new(),
            groups: Vec::new(),
            books,
            beside: Beside::default(),
            lattice,
            calls,
            leaving: Leaving::default(),
            readings: Readings::default(),
            wholes: Wholes::default(),
            woken: Woken::default(),
            others: Others::default(),
            page_writes: PageWrites::default(),
            seen: SeenWaits::default(),
        }
    }

    /// Sets by how much one sleep is longer than was asked for, in microseconds, as measured on this host.
    pub fn sleep_overhead(&mut self, us: f64) {
        self.lattice = self.lattice.clone().with_overhead(us);
    }

    /// Takes what threads do at one moment: all threads, or some of them.
    pub fn sample(&mut self, at_us: u64, samples: &[Sample]) {
        for sample in samples {
            let sample = Sample { doing: self.known.resolved(sample, at_us), ..*sample };
            let known = &mut self.known;
            let tracker = self.trackers.entry(sample.thread).or_insert_with(|| {
                known.came(sample.thread);
                Tracker::new(sample.thread)
            });
            let ended = tracker.sample(at_us, &sample);
            tracker.woke().into_iter().for_each(|woke| self.woken.add(sample.thread, woke));
            let is_answered = sample.stop.is_none() && matches!(sample.doing, Doing::Idle | Doing::Polling(_));
            ended.into_iter().for_each(|wait| self.ended(wait, is_answered));
            if self.looks_for_page_writes() && self.known.is_client(sample.thread) {
                let chain = self.page_writes.sample(at_us, &sample);
                self.chained(chain);
            }
        }
    }

    /// Whether queries may write pages of tables out themselves, and only samples show it.
    pub fn looks_for_page_writes(&self) -> bool {
        let searches = self.watch.free_list.is_some_and(|row| matches!(row.legacy, OnEmpty::Searches(_)));
        searches && self.watch.backoff == Some(false) && self.watch.probe.is_none()
    }

    fn chained(&mut self, chain: Option<Wait>) {
        let Some(chain) = chain else { return };
        if self.is_long(&chain) {
            self.pending.push(chain);
        } else {
            self.page_writes.forget(&chain);
        }
    }

    /// Takes the hits of the probe since the last call. Those of the last millisecond may come with the next call.
    pub fn hits(&mut self, hits: &[Hit]) {
        let calls = self.calls.take(hits);
        calls.into_iter().for_each(|call| self.called(call));
        self.leaving.over().into_iter().for_each(|thread| self.left(thread));
    }

    fn called(&mut self, call: Wait) {
        self.seen.call(&call);
        if self.watch.backoff == Some(true) {
            let tries = self.tries(&call);
            self.books.backoff(tries);
        }
        let is_long = self.watch.probe.is_some_and(|probe| call.length_us() >= probe.least_us);
        if is_long && (self.known.is_client(call.thread) || self.known.was_client(call.thread)) {
            self.pending.push(call);
        }
    }

    /// Takes a reading of the host's counters.
    pub fn host(&mut self, at_us: u64, reading: HostReading) {
        self.readings.add(at_us, reading);
    }

    /// Whether threads may be waiting for memory, so that the caller should look where in the kernel each of them waits.
    pub fn is_memory_short(&self) -> bool {
        self.readings.is_memory_short()
    }

    /// The thread has ended. With a probe, its last hits are still to come.
    pub fn gone(&mut self, at_us: u64, thread: u32) {
        let wait = self.trackers.remove(&thread).and_then(|mut tracker| tracker.close(at_us));
        wait.into_iter().for_each(|wait| self.ended(wait, true));
        let chain = self.page_writes.gone(thread);
        self.chained(chain);
        self.woken.gone(thread);
        if self.watch.probe.is_some() {
            self.leaving.add(thread);
        } else {
            self.known.went(thread);
        }
    }

    /// No more hits of the thread come.
    fn left(&mut self, thread: u32) {
        self.calls.gone(thread);
        self.known.went(thread);
    }

    pub fn answer(&mut self, answer: Answer) {
        self.watch.backoff = answer.backoff.or(self.watch.backoff);
        self.had_backoff |= self.watch.backoff == Some(true);
        self.known.answer(answer);
    }

    /// The waits of clients' threads that go on now.
    fn waiting(&self) -> impl Iterator<Item = Wait> {
        let open = self.trackers.values().filter_map(Tracker::open);
        let open = open.filter(|wait| self.known.is_client(wait.thread));
        open.map(|wait| self.page_writes.open(wait.thread).unwrap_or(wait))
    }

    /// `is_answered`: whether the thread has sent its answer.
    fn ended(&mut self, wait: Wait, is_answered: bool) {
        self.others.add(&wait);
        if !self.known.is_client(wait.thread) || self.watch.probe.is_some() && self.calls.cover(&wait) {
            return;
        }
        if wait.way == Way::Blocked && self.known.tells_age(wait.thread) {
            self.pieces.add(wait, is_answered);
        } else if self.is_long(&wait) {
            self.pending.push(wait);
        } else {
            self.seen.wait(&wait);
            if wait.way == Way::Asleep && self.watch.backoff == Some(true) && self.watch.probe.is_none() {
                self.books.short_sleep(self.tries(&wait));
            }
        }
    }

    /// Whether the wait is to be told, if it is one.
    fn is_long(&self, wait: &Wait) -> bool {
        wait.samples >= LEAST_SAMPLES && wait.length_us() >= self.watch.least_us
    }

    /// Puts pieces together, and keeps the waits that are over and long enough.
    fn join(&mut self, now_us: u64) {
        for chain in self.page_writes.over(&self.known) {
            self.chained(Some(chain));
        }
        let over = self.pieces.over(now_us, &mut self.trackers, &self.known);
        let (long, short): (Vec<Wait>, _) = over.into_iter().partition(|wait| self.is_long(wait));
        short.iter().for_each(|wait| self.seen.wait(wait));
        self.pending.extend(long);
    }

    fn tries(&self, wait: &Wait) -> u64 {
        self.lattice.tries(wait.length_us() as f64) as u64
    }

    /// The stalls that are settled by now, in the order of their begins.
    pub fn settled(&mut self, now_us: u64) -> Vec<Stall> {
        self.join(now_us);
        let pending = std::mem::take(&mut self.pending);
        let is_held = |wait: &Wait| self.page_writes.holds(wait, now_us);
        let (ready, pending): (Vec<Wait>, _) = pending.into_iter().partition(|wait| {
            let is_counted = !self.is_counted(wait) || self.known.counted_since(wait.to_us);
            !is_held(wait) && ((is_counted && self.is_listed(wait)) || now_us >= wait.to_us + PATIENCE_US)
        });
        self.pending = pending;
        self.judge_all(ready);
        let begun: Vec<u64> =
            self.waiting().filter(|wait| wait.samples >= LEAST_SAMPLES).map(|wait| wait.from_us).collect();
        let begun: Vec<u64> =
            begun.into_iter().chain(self.pending.iter().map(|wait| wait.from_us)).chain(self.pieces.begins()).collect();
        let is_over = |group: &Group| {
            let is_last = now_us >= group.to_us + COMPANY_US + self.beside.patience_us()
                && begun.iter().all(|from| *from >= group.to_us);
            is_last || now_us >= group.to_us + HELD_BACK_US
        };
        let (over, groups): (Vec<Group>, _) = self.groups.drain(..).partition(is_over);
        self.groups = groups;
        over.iter().for_each(|group| self.wholes.told(group.from_us, group.to_us));
        let is_alone = |whole: &Whole| {
            let begun = begun.iter().copied().chain(self.groups.iter().map(|group| group.from_us));
            let is_last = now_us >= whole.to_us + COMPANY_US && begun.min().is_none_or(|from| from >= whole.to_us);
            is_last || now_us >= whole.to_us + HELD_BACK_US
        };
        let wholes = self.wholes.over(is_alone);
        self.close(over, wholes)
    }

    /// `wholes`: stalls of the whole server without a victim.
    fn close(&mut self, groups: Vec<Group>, wholes: Vec<Whole>) -> Vec<Stall> {
        let since_us = self.watch.started_unix_us;
        wholes.iter().for_each(|whole| self.seen.whole(*whole));
        let wholes = wholes.into_iter().map(|whole| whole.stall(since_us));
        let mut stalls: Vec<Stall> = groups.into_iter().map(|group| group.stall(since_us)).chain(wholes).collect();
        stalls.sort_by_key(|stall| stall.started_us);
        for stall in &mut stalls {
            self.seen.sung(self.beside.speaks_of(stall, since_us));
            self.books.account(stall);
            stall.victims.truncate(MOST_VICTIMS);
            self.books.keep(stall);
        }
        stalls
    }

    fn judge_all(&mut self, waits: Vec<Wait>) {
        // chains first: what is told of them is not told of the waits in them
        let (chains, waits): (Vec<Wait>, Vec<Wait>) = waits.into_iter().partition(|it| it.way == Way::WritingPages);
        let chains: Vec<(Wait, Own)> =
            chains.iter().flat_map(|wait| self.page_writes.parts(wait, &self.known)).collect();
        let parts =
            waits.iter().flat_map(|wait| self.woken.parts(wait, &self.known)).map(|wait| (wait, Own::default()));
        // a part may be shorter than what is told
        let parts: Vec<(Wait, Own)> = chains
            .into_iter()
            .chain(parts)
            .filter(|(it, _)| it.length_us() >= self.watch.least_us || it.way == Way::FreePage)
            .collect();
        for (wait, own) in parts {
            let is_chain = wait.way == Way::WritingPages;
            let kept = if !is_chain && self.page_writes.has_told(&wait) { None } else { self.kept(wait, own) };
            let Some(kept) = kept else {
                self.seen.wait(&wait);
                continue;
            };
            let judgement = kept.judgement(self.watch.free_list, self.watch.started_unix_us);
            if is_chain {
                let Judgement::Victim(_) = &judgement else { continue };
                self.page_writes.tell(&wait);
            }
            self.seen.judged(kept, matches!(judgement, Judgement::Victim(_)));
            match judgement {
                Judgement::Victim(judged) => {
                    // where the function is probed, the account has each call already
                    if judged.cause == Cause::FreeListBackoff && self.watch.probe.is_none() {
                        let tries = self.tries(&judged.wait);
                        self.books.backoff(tries);
                    }
                    Group::gather(&mut self.groups, *judged);
                }
                Judgement::OwnWork(us) => self.books.own_work(us),
                Judgement::Nothing => {}
            }
        }
    }

    /// All that the judgement of the wait rests on. `own`: what it wrote itself. `None`: it is no wait of a client.
    fn kept(&mut self, wait: Wait, own: Own) -> Option<Kept> {
        let (said_at, said): (Vec<(u64, u64)>, Vec<Session>) = self.known.said_of(&wait).into_iter().unzip();
        let connection = said.last().map(|it| it.connection).or_else(|| self.known.connection(wait.thread));
        // a thread that waited for its next connection, which it may have by now; or a thread of the server's own
        let is_nobodys = wait.way == Way::Blocked
            && said.is_empty()
            && (connection.is_none() || self.known.was_listed_within(&wait));
        if is_nobodys || self.beside.is_own(connection) {
            return None;
        }
        // a wait for another thread depends on what the others wait for
        let open: Vec<Wait> = match wait.way {
            Way::Blocked => self.trackers.values().filter_map(Tracker::open).collect(),
            _ => Vec::new(),
        };
        let facts = Facts {
            backoff: self.watch.backoff,
            probed: self.watch.probe.map(|probe| probe.symbol.to_owned()),
            meanwhile: self.readings.around(&wait),
            lru_flushed: self.known.rose(&wait, |it| it.lru_flushed),
            wait_free: self.known.rose(&wait, |it| it.wait_free),
            tries: self.tries(&wait),
            began_us: self.known.began_us(&wait),
            pages_free: self.known.pages_free(&wait),
            synced_us: self.others.synced_us(&wait, &open),
            queued_us: self.others.queued_us(&wait, &open),
            page_writes: own.tables,
            doublewrites: own.doublewrites,
            others_page_writes_us: self.page_writes.others_us(&wait),
            is_ours: self.beside.is_ours(&said),
        };
        let (statement, with_values) = self.books.statement(said.iter().rev().find_map(|it| it.statement.clone()));
        let untold = self.groups.iter().map(|group| (group.from_us, group.to_us)).collect();
        Some(Kept { wait, untold, connection, said, said_at, statement, with_values, facts })
    }

    /// Watching ends: waits that go on end now. Answers of the server that come after this are still used for the verdicts.
    pub fn stop(&mut self, at_us: u64) {
        // the last hits have been read
        self.leaving.all().into_iter().for_each(|thread| self.left(thread));
        let threads = std::mem::take(&mut self.trackers);
        let waits: Vec<Wait> = threads.into_values().filter_map(|mut tracker| tracker.stop(at_us)).collect();
        waits.into_iter().for_each(|wait| {
            let chain = self.page_writes.end(wait.thread);
            self.chained(chain);
            self.ended(wait, true);
        });
        let calls = self.calls.stop(at_us);
        calls.into_iter().for_each(|call| self.called(call));
        self.wholes.end(at_us, self.watch.least_us);
    }

    /// Returns the last stalls, the result of the watch, and what was seen and not taken.
    pub fn finish(
        mut self,
        cost: WatchCost,
        pressure: Option<Pressure>,
        missing: Vec<Missing>,
    ) -> (Vec<Stall>, Watched, SeenWaits) {
        self.stop(cost.elapsed_us);
        self.join(u64::MAX);
        let pending = std::mem::take(&mut self.pending);
        self.judge_all(pending);
        let groups = std::mem::take(&mut self.groups);
        groups.iter().for_each(|group| self.wholes.told(group.from_us, group.to_us));
        let wholes = self.wholes.over(|_| true);
        let last = self.close(groups, wholes);
        let counters: Option<[Counters; 2]> = self.known.first_and_last();
        let overhead = self.had_backoff.then(|| self.lattice.overhead_us());
        let resolution_us = self.watch.least_us.max(u64::from(LEAST_SAMPLES) * cost.interval_p50_us.max(1));
        let tiers = Tier::of(self.watch.is_deep, self.watch.probe, resolution_us, &cost);
        let least_free_by_instance = self.known.least_free();
        let Watch { server, least_us, .. } = self.watch;
        let source = Source { format: Some("watch"), server, least_us };
        let watched = self.books.watched(source, counters, overhead, cost);
        let open = last.iter().filter(|stall| stall.goes_on).count() as u64;
        let open = (open > 0).then(|| {
            format!("{} went on when watching ended: the lengths are those until then", units::counted(open, "stall"))
        });
        let notes = watched.notes.iter().cloned().chain(open).chain(cost.note(resolution_us)).collect();
        let watched = Watched { resolution_us, tiers, least_free_by_instance, pressure, missing, notes, ..watched };
        (last, watched, self.seen)
    }
}

#[path = "watching_beside.rs"]
mod beside;
#[path = "watching_wants.rs"]
mod wants;
pub use wants::Wants;
#[cfg(test)]
#[path = "watching_probed_tests.rs"]
mod probed_tests;
#[cfg(test)]
#[path = "watching_tests.rs"]
mod tests;
