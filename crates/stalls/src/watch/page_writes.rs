// SPDX-License-Identifier: Apache-2.0
//! Clients' threads that write pages of tables to their files themselves. In MySQL's way (`legacy`) a query that finds no free page and no clean one does so: it
//! writes a page to the doublewrite buffer, then to the file of its table, and waits for other queries that do the same before, between and after that. In samples this is a chain of
//! short waits of several ways; what the server says of the age of its statement tells where in the chain a statement began.

use super::sample::{Doing, Sample, Written};
use super::server_answers::Known;
use super::track::{GAP, LEAST_SAMPLES, Wait, Way};
use super::verdict::{cause_of, is_commit};
use std::collections::{BTreeMap, VecDeque};

/// A chain with more samples is told in several parts.
const MOST_LOOKS: usize = 3000;
/// The most times that are kept of all threads.
const MOST_WRITES: usize = 5000;
const MOST_TOLD: usize = 1000;
/// How long a wait is held back because the chain that it belongs to goes on.
const PATIENCE_US: u64 = 5_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Waits for another thread, or sleeps.
    Waits,
    Doublewrite,
    Table,
}

#[derive(Debug, Clone, Copy)]
struct Look {
    at_us: u64,
    kind: Kind,
    turns: Option<u64>,
}

/// In how many samples the thread wrote itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// To the file of a table.
    pub(super) tables: u64,
    /// To the doublewrite buffer.
    pub(super) doublewrites: u64,
}

#[derive(Debug, Clone)]
struct Chain {
    from_us: u64,
    to_us: u64,
    looks: Vec<Look>,
    /// Samples since the last one of it in which the thread ran.
    awake: usize,
}

impl Chain {
    fn own(&self) -> Own {
        let count = |kind: Kind| self.looks.iter().filter(|look| look.kind == kind).count() as u64;
        Own { tables: count(Kind::Table), doublewrites: count(Kind::Doublewrite) }
    }

    fn wait(&self, thread: u32, is_open: bool) -> Wait {
        let (first, last) = (self.looks.first(), self.looks.last());
        let turns = first.and_then(|it| it.turns).zip(last.and_then(|it| it.turns));
        Wait {
            thread,
            way: Way::WritingPages,
            from_us: self.from_us,
            to_us: self.to_us,
            samples: u32::try_from(self.looks.len()).unwrap_or(u32::MAX),
            turns: turns.map(|(first, last)| last.saturating_sub(first)),
            is_cut: false,
            is_open,
        }
    }

    /// The parts before and after this moment.
    fn cut(self, at_us: u64) -> (Self, Self) {
        let (before, after) = self.looks.into_iter().partition(|look| look.at_us < at_us);
        let first = Self { from_us: self.from_us, to_us: at_us, looks: before, awake: 0 };
        (first, Self { from_us: at_us, to_us: self.to_us, looks: after, awake: self.awake })
    }

    /// When the thread wrote, to the doublewrite buffer or to the file of a table: nothing if it never wrote to the latter.
    fn written(&self) -> Vec<(u64, u64)> {
        if self.own().tables == 0 {
            return Vec::new();
        }
        let at = |nth: usize| self.looks.get(nth).map(|look| look.at_us);
        let around = |nth: usize, at_us: u64| {
            let before_us = nth.checked_sub(1).and_then(at).map_or(self.from_us, |us| us.midpoint(at_us));
            (before_us, at(nth + 1).map_or(self.to_us, |us| at_us.midpoint(us)))
        };
        let writing = self.looks.iter().enumerate().filter(|(_, look)| look.kind != Kind::Waits);
        writing.map(|(nth, look)| around(nth, look.at_us)).collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct PageWrites {
    /// The time of each thread's last sample.
    before: BTreeMap<u32, u64>,
    open: BTreeMap<u32, Chain>,
    /// Those that are over, by thread and begin, until they are judged.
    over: BTreeMap<(u32, u64), Chain>,
    /// When which thread wrote.
    written: VecDeque<(u32, u64, u64)>,
    /// Waits for a page that were told.
    told: VecDeque<Wait>,
}

impl PageWrites {
    /// Takes the next sample of a client's thread. Returns the chain that is over by that, if it may be a wait for a page.
    pub(super) fn sample(&mut self, at_us: u64, sample: &Sample) -> Option<Wait> {
        let before_us = self.before.insert(sample.thread, at_us);
        let kind = match sample.doing {
            _ if sample.stop.is_some() => None,
            Doing::Blocked | Doing::Asleep => Some(Kind::Waits),
            Doing::Syncing(Written::Doublewrite) => Some(Kind::Doublewrite),
            Doing::Syncing(Written::Table) => Some(Kind::Table),
            _ => None,
        };
        let Some(kind) = kind else {
            let is_gap = sample.doing == Doing::Running && sample.stop.is_none();
            let goes_on = self.open.get_mut(&sample.thread).is_some_and(|chain| {
                chain.awake += 1;
                is_gap && chain.awake <= GAP
            });
            return if goes_on { None } else { self.end(sample.thread) };
        };
        let begins_us = before_us.map_or(at_us, |us| us.midpoint(at_us));
        let new = || Chain { from_us: begins_us, to_us: at_us, looks: Vec::new(), awake: 0 };
        let ended = if self.open.get(&sample.thread).is_some_and(|it| it.looks.len() >= MOST_LOOKS) {
            self.end(sample.thread)
        } else {
            None
        };
        let chain = self.open.entry(sample.thread).or_insert_with(new);
        chain.looks.push(Look { at_us, kind, turns: sample.sched.map(|sched| sched.turns) });
        (chain.to_us, chain.awake) = (at_us, 0);
        ended
    }

    /// The thread does something else, or has ended.
    pub(super) fn end(&mut self, thread: u32) -> Option<Wait> {
        let chain = self.open.remove(&thread)?;
        self.close(thread, chain)
    }

    fn close(&mut self, thread: u32, chain: Chain) -> Option<Wait> {
        let wait = chain.wait(thread, false);
        if chain.own() == Own::default() {
            return None;
        }
        self.written.extend(chain.written().into_iter().map(|(from, to)| (thread, from, to)));
        let many = self.written.len().saturating_sub(MOST_WRITES);
        self.written.drain(..many);
        self.over.insert((thread, chain.from_us), chain);
        Some(wait)
    }

    /// It is too short to be told.
    pub(super) fn forget(&mut self, wait: &Wait) {
        self.over.remove(&(wait.thread, wait.from_us));
    }

    pub(super) fn gone(&mut self, thread: u32) -> Option<Wait> {
        self.before.remove(&thread);
        self.end(thread)
    }

    /// Ends those in which another statement has begun meanwhile, as the server says.
    pub(super) fn over(&mut self, known: &Known) -> Vec<Wait> {
        let threads: Vec<u32> = self.open.keys().copied().collect();
        threads.into_iter().filter_map(|thread| self.over_by_statement(thread, known)).collect()
    }

    fn over_by_statement(&mut self, thread: u32, known: &Known) -> Option<Wait> {
        let wait = self.open.get(&thread)?.wait(thread, true);
        let begun_us = begins(&wait, known).into_iter().max()?;
        let (first, rest) = self.open.remove(&thread)?.cut(begun_us);
        self.open.insert(thread, rest);
        self.close(thread, first)
    }

    /// The chain that goes on, if the thread itself wrote in it.
    pub(super) fn open(&self, thread: u32) -> Option<Wait> {
        self.open.get(&thread).filter(|chain| chain.own() != Own::default()).map(|chain| chain.wait(thread, true))
    }

    /// Whether it is not known yet if this wait is a part of a chain.
    pub(super) fn holds(&self, wait: &Wait, now_us: u64) -> bool {
        let is_of_it = |from_us: u64, to_us: u64| half(wait, from_us, to_us);
        let is_open = self.open.get(&wait.thread).is_some_and(|chain| is_of_it(chain.from_us, chain.to_us));
        let over = self.over.range((wait.thread, 0)..=(wait.thread, u64::MAX));
        let mut over = over.filter(|(_, chain)| is_of_it(chain.from_us, chain.to_us));
        wait.way != Way::WritingPages && now_us < wait.to_us + PATIENCE_US && (is_open || over.next().is_some())
    }

    /// The statements' parts of a chain that is over or goes on. The time around an answer that names a lock or the commit is a part of its own.
    pub(super) fn parts(&mut self, wait: &Wait, known: &Known) -> Vec<(Wait, Own)> {
        let chain = if wait.is_open {
            self.open.get(&wait.thread).cloned()
        } else {
            self.over.remove(&(wait.thread, wait.from_us))
        };
        let Some(mut rest) = chain else { return Vec::new() };
        let mut parts = Vec::new();
        for at_us in cuts(wait, &rest, known) {
            let (first, after) = rest.cut(at_us);
            parts.push((first, false));
            rest = after;
        }
        parts.push((rest, wait.is_open));
        let told = parts.into_iter().map(|(part, is_open)| (part.wait(wait.thread, is_open), part.own()));
        told.filter(|(part, _)| part.samples >= LEAST_SAMPLES).collect()
    }

    /// This part of a chain was a wait for a page: the waits of which it consists are not told again.
    pub(super) fn tell(&mut self, wait: &Wait) {
        self.told.push_back(*wait);
        if self.told.len() > MOST_TOLD {
            self.told.pop_front();
        }
    }

    pub(super) fn has_told(&self, wait: &Wait) -> bool {
        let of_thread = self.told.iter().filter(|it| it.thread == wait.thread);
        of_thread.into_iter().any(|it| half(wait, it.from_us, it.to_us))
    }

    /// For how long of this wait some other client's thread wrote pages out.
    pub(super) fn others_us(&self, wait: &Wait) -> u64 {
        let open = self
            .open
            .iter()
            .flat_map(|(thread, chain)| chain.written().into_iter().map(|(from, to)| (*thread, from, to)));
        let others = self.written.iter().copied().chain(open).filter(|(thread, ..)| *thread != wait.thread);
        wait.covered_us(others.map(|(_, from, to)| (from, to)))
    }
}

/// Whether half of the wait lies in this time.
fn half(wait: &Wait, from_us: u64, to_us: u64) -> bool {
    let common = wait.to_us.min(to_us).saturating_sub(wait.from_us.max(from_us));
    common.saturating_mul(2) >= wait.length_us()
}

/// When statements began within the wait, as answers say, if none of them says that another statement ran on then.
fn begins(wait: &Wait, known: &Known) -> Vec<u64> {
    let ran = known.ran_within(wait);
    let is_within = |us: &u64| *us > wait.from_us && *us < wait.to_us;
    ran.iter().map(|it| it.from_us).filter(is_within).filter(|us| !ran.iter().any(|it| it.has(*us))).collect()
}

/// Where the chain is to be cut, in order: at the begins of statements; and around an answer that names a lock, or the commit: after the last moment before it at which
/// the thread wrote a page, or the server named no such wait.
fn cuts(wait: &Wait, chain: &Chain, known: &Known) -> Vec<u64> {
    let mut cuts = begins(wait, known);
    let mut before_us = wait.from_us;
    for (asked_us, answered_us, session) in known.answers_within(wait) {
        if cause_of(session.says).is_none() && !is_commit(&session.words) {
            before_us = answered_us;
            continue;
        }
        let mut looks = chain.looks.iter().rev().filter(|look| look.at_us <= asked_us && look.kind != Kind::Waits);
        cuts.push(looks.next().map_or(0, |look| look.at_us + 1).max(before_us));
        cuts.push(answered_us);
    }
    cuts.retain(|us| *us > wait.from_us && *us < wait.to_us);
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

#[cfg(test)]
#[path = "page_writes_tests.rs"]
mod tests;
