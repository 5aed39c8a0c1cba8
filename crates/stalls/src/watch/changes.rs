// SPDX-License-Identifier: Apache-2.0
//! One wait in samples that is several waits one after another. A thread that got its lock waits for its commit right after that: it wakes up in between, and the
//! server names another kind of wait from then on. A thread without a CPU ends a statement and begins the next one: the server says when each statement
//! began.

use super::sample::{Says, Session};
use super::server_answers::{Known, Ran};
use super::track::{LEAST_SAMPLES, Wait, Way, Woke};
use super::verdict::{SLACK_US, is_commit};
use std::collections::{HashMap, VecDeque};

/// The most times that are kept for a thread.
const MOST_WOKEN: usize = 500;
/// What InnoDB shows of its transactions is up to so old.
const STALE_US: u64 = 100_000;
/// When a thread was given a CPU is known to so many microseconds at best: it is the middle between two samples.
const WOKEN_ERROR_US: u64 = 20_000;
/// The most waits of each kind that are kept of all threads.
const MOST_OTHERS: usize = 1000;

/// When threads were given a CPU within their waits.
#[derive(Debug, Default)]
pub(super) struct Woken {
    of: HashMap<u32, VecDeque<Woke>>,
}

impl Woken {
    pub(super) fn add(&mut self, thread: u32, woke: Woke) {
        let of = self.of.entry(thread).or_default();
        of.push_back(woke);
        if of.len() > MOST_WOKEN {
            of.pop_front();
        }
    }

    pub(super) fn gone(&mut self, thread: u32) {
        self.of.remove(&thread);
    }

    /// The last wait of which this one, which goes on, consists.
    pub(super) fn last_part(&self, wait: &Wait, known: &Known) -> Wait {
        self.parts(wait, known).pop().unwrap_or(*wait)
    }

    /// The waits of which this one consists.
    pub(super) fn parts(&self, wait: &Wait, known: &Known) -> Vec<Wait> {
        let woken = self.of.get(&wait.thread);
        if wait.way == Way::Queued {
            let ran = known.ran_within(wait);
            let wait = woken.map_or(*wait, |woken| since_turns_are_known(wait, woken, &ran));
            // of the turns of an open wait since the last answer nobody has said yet whether a statement ended there
            let until_us = known.last_asked_us(wait.thread).filter(|_| wait.is_open).unwrap_or(u64::MAX);
            return statements(&wait, woken.into_iter().flatten().map(|it| it.at_us), &ran, until_us);
        }
        if wait.way != Way::Blocked {
            return vec![*wait];
        }
        let woken: Vec<Woke> = woken.into_iter().flatten().copied().collect();
        let parts = rests(wait, &woken, known).into_iter().flat_map(|part| since_begin(part, known));
        parts.flat_map(|part| kinds(&part, &woken, known)).collect()
    }

    /// Whether the thread was given a CPU after this moment.
    pub(super) fn has_woken_since(&self, thread: u32, us: u64) -> bool {
        self.of.get(&thread).and_then(VecDeque::back).is_some_and(|last| may_be_after(last, us))
    }
}

/// Whether the thread may have been given its CPU at this moment or later.
fn may_be_after(woke: &Woke, us: u64) -> bool {
    woke.at_us + woke.error_us.max(WOKEN_ERROR_US) >= us
}

/// A wait for another thread, cut where the thread took its next statement, or had ended one: a thread of a pool waits for its next client in the same way as for a lock.
fn rests(wait: &Wait, mut woken: &[Woke], known: &Known) -> Vec<Wait> {
    // an answer near the begin or the end may be about the time before or after
    let is_inside = |(asked, answered): (u64, u64)| {
        asked >= wait.from_us.saturating_add(SLACK_US) && answered.saturating_add(SLACK_US) <= wait.to_us
    };
    let said = known.answers_within(wait).map(|(asked, answered, it)| (asked, answered, it.says == Says::Idle));
    let said: Vec<(u64, u64, bool)> =
        said.filter(|(asked, answered, is_idle)| !is_idle || is_inside((*asked, *answered))).collect();
    cut_at_changes(wait, &said, |before, after, last| {
        Some(woken_between(&mut woken, before.0, after, last).unwrap_or(before.1))
    })
}

/// A wait, cut at the begin of the statement that the server named last in it. What lies before that is a wait only if the server said so.
fn since_begin(wait: Wait, known: &Known) -> Vec<Wait> {
    let begun = known.began_at_once_us(&wait).filter(|us| *us > wait.from_us.saturating_add(SLACK_US));
    let Some(begun_us) = begun.filter(|us| *us < wait.to_us) else { return vec![wait] };
    let (before, after) = wait.cut(begun_us);
    let is_wait = known.answers_within(&before).any(|(_, _, it)| it.says != Says::Idle);
    Some(before).filter(|_| is_wait).into_iter().chain([after]).collect()
}

/// A wait for another thread, cut where the thread was awake between two answers that name different kinds of waits.
fn kinds(wait: &Wait, mut woken: &[Woke], known: &Known) -> Vec<Wait> {
    let named: Vec<(u64, u64, Says)> =
        known.answers_within(wait).filter_map(|(asked, answered, it)| Some((asked, answered, kind(it)?))).collect();
    cut_at_changes(wait, &named, |before, after, last| {
        woken_between(&mut woken, before.0.saturating_sub(STALE_US), after, last)
    })
}

/// When an answer was asked for, when it came, and what it said.
type Told<T> = (u64, u64, T);

/// `at`: when, between two answers that differ and within the last part, the one wait ended and the other one began. `None`: not known.
fn cut_at_changes<T: PartialEq>(
    wait: &Wait,
    told: &[Told<T>],
    mut at: impl FnMut(&Told<T>, &Told<T>, &Wait) -> Option<u64>,
) -> Vec<Wait> {
    let (mut parts, mut rest) = (Vec::new(), *wait);
    for (before, after) in told.iter().zip(told.iter().skip(1)).filter(|(before, after)| before.2 != after.2) {
        if let Some(at_us) = at(before, after, &rest) {
            let (first, next) = rest.cut(at_us);
            parts.push(first);
            rest = next;
        }
    }
    parts.push(rest);
    parts
}

/// When the thread was first given a CPU within the wait, from `from_us` on and until this answer. `woken` then has only the later turns: each ends one wait at most.
fn woken_between<T>(woken: &mut &[Woke], from_us: u64, after: &Told<T>, wait: &Wait) -> Option<u64> {
    let (asked_us, answered_us) = (after.0, after.1);
    let may_be = |it: &Woke| it.at_us > wait.from_us && may_be_after(it, from_us);
    let nth = woken.iter().position(may_be)?;
    let (_, rest) = woken.split_at(nth);
    let (woke, later) = rest.split_first()?;
    if woke.at_us.saturating_sub(woke.error_us) > answered_us {
        return None;
    }
    *woken = later;
    // the answer is about the next wait
    let us = if woke.at_us > answered_us { asked_us } else { woke.at_us.max(from_us) };
    Some(us).filter(|us| *us > wait.from_us && *us < wait.to_us)
}

/// A wait for a CPU, cut where another statement began, or may have begun: a thread that is given a CPU may end its statement there, and take the next one, unless
/// the server says later that the statement runs on. `turns`: when the thread was given a CPU. It is not cut after `until_us`.
fn statements(wait: &Wait, turns: impl Iterator<Item = u64>, ran: &[Ran], until_us: u64) -> Vec<Wait> {
    let is_within = |us: &u64| *us > wait.from_us && *us < wait.to_us;
    let is_sure = |us: u64| ran.iter().any(|it| it.has(us));
    let turns: Vec<u64> = turns.filter(is_within).collect();
    let begun = ran.iter().filter(|it| it.is_prompt).map(|it| it.from_us).filter(is_within);
    let mut ends: Vec<u64> = turns.iter().copied().chain(begun).filter(|us| !is_sure(*us) && *us <= until_us).collect();
    ends.sort_unstable();
    let (mut parts, mut rest) = (Vec::new(), *wait);
    for end_us in ends {
        let (first, next) = rest.cut(end_us);
        parts.push(first);
        rest = next;
    }
    parts.push(rest);
    let turns_of = |part: &Wait| turns.iter().filter(|us| **us > part.from_us && **us < part.to_us).count() as u64;
    parts.into_iter().map(|part| Wait { turns: part.turns.map(|_| turns_of(&part)), ..part }).collect()
}

/// A wait for a CPU, without the time before the oldest turn that is kept: whether other statements ended in that time is not known any more, unless the server
/// said that one ran on.
fn since_turns_are_known(wait: &Wait, turns: &VecDeque<Woke>, ran: &[Ran]) -> Wait {
    let oldest = turns
        .front()
        .map(|it| it.at_us)
        .filter(|us| turns.len() == MOST_WOKEN && *us > wait.from_us && *us < wait.to_us);
    match oldest {
        Some(us) if !ran.iter().any(|it| it.has(us)) => Wait { is_cut: true, ..wait.cut(us).1 },
        _ => *wait,
    }
}

/// The kind of wait that the server names. `None`: it names none.
fn kind(session: &Session) -> Option<Says> {
    match session.says {
        Says::Busy if is_commit(&session.words) => Some(Says::Sync),
        Says::Idle | Says::Busy | Says::Background => None,
        says => Some(says),
    }
}

/// When threads of the server waited for the disk to write, and when for a CPU: clients' threads and its own ones.
#[derive(Debug, Default)]
pub(super) struct Others {
    syncing: VecDeque<Wait>,
    queued: VecDeque<Wait>,
}

impl Others {
    pub(super) fn add(&mut self, wait: &Wait) {
        // many threads that wait for a CPU must not make those that write forgotten
        let kept = match wait.way {
            Way::Syncing => &mut self.syncing,
            Way::Queued if wait.samples >= LEAST_SAMPLES => &mut self.queued,
            _ => return,
        };
        kept.push_back(*wait);
        if kept.len() > MOST_OTHERS {
            kept.pop_front();
        }
    }

    /// When other threads waited in this way. `open`: waits that go on.
    fn others<'a>(&'a self, way: Way, wait: &'a Wait, open: &'a [Wait]) -> impl Iterator<Item = (u64, u64)> + 'a {
        let kept = if way == Way::Syncing { &self.syncing } else { &self.queued };
        let others = kept.iter().chain(open).filter(move |it| it.way == way && it.thread != wait.thread);
        others.map(|it| (it.from_us, it.to_us))
    }

    /// The longest time within this wait for which one other thread waited for a CPU.
    pub(super) fn queued_us(&self, wait: &Wait, open: &[Wait]) -> u64 {
        let queued = wait.clip(self.others(Way::Queued, wait, open));
        queued.iter().map(|(from, to)| to - from).max().unwrap_or(0)
    }

    /// For how long of this wait some other thread waited for the disk to write.
    pub(super) fn synced_us(&self, wait: &Wait, open: &[Wait]) -> u64 {
        wait.covered_us(self.others(Way::Syncing, wait, open))
    }
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
