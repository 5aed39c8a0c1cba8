// SPDX-License-Identifier: Apache-2.0
//! What the server has said until now: which thread serves which connection, what connections did, and the counters. Old answers are forgotten, so that
//! memory is bounded.

use super::sample::{Answer, Counters, Doing, Sample, Says, Session};
use super::track::{SLACK_QUEUED_US, Wait, Way};
use std::collections::{HashMap, HashSet, VecDeque};

/// The most answers that are kept for one connection.
const MOST_SAID: usize = 40;
const MOST_COUNTERS: usize = 4000;
const MOST_LISTS: usize = 1000;

/// The most time from an answer to a wait that may be the rest of the one that it named: the server is asked again meanwhile.
const RECENT_US: u64 = 250_000;

#[derive(Debug)]
struct Said {
    asked_us: u64,
    answered_us: u64,
    session: Session,
}

/// A time for which one statement ran for sure: until the server was asked. When, between question and answer, the server looked, is not known: the statement began at
/// `from_us` at the latest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ran {
    pub(super) from_us: u64,
    pub(super) to_us: u64,
    /// The answer came at once, so that the statement began near `from_us`.
    pub(super) is_prompt: bool,
}

impl Ran {
    /// Whether the statement began before this moment, and ran on.
    pub(super) fn has(&self, us: u64) -> bool {
        self.from_us < us && us <= self.to_us
    }
}

#[derive(Debug, Clone, Copy)]
struct Counted {
    asked_us: u64,
    answered_us: u64,
    counters: Counters,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    /// The connection of each thread, by the last list.
    connections: HashMap<u32, u64>,
    background: HashSet<u32>,
    said: HashMap<u32, VecDeque<Said>>,
    /// When each list was asked for, and when the answer came.
    lists: VecDeque<(u64, u64)>,
    /// Whether a list has said which threads the connections have.
    tells_threads: bool,
    first: Option<Counters>,
    counted: VecDeque<Counted>,
    /// Threads that were seen waiting for a client.
    seen_idle: HashSet<u32>,
    /// Threads that are new since the last list, or were seen to serve a client since then.
    strangers: HashSet<u32>,
    /// Threads that were not in a list that was made while they were busy: threads of the server's own.
    unlisted: HashSet<u32>,
    were_clients: HashSet<u32>,
    has_locks: bool,
    polls: Polls,
    /// The fewest free pages of each instance that were read.
    least_free: Vec<u64>,
    /// Readings of the instance with the fewest free pages: when it was asked for, when the answer came, and the pages.
    scarcest: VecDeque<(u64, u64, u64)>,
}

impl Known {
    pub(super) fn answer(&mut self, answer: Answer) {
        let Answer { asked_us, answered_us, sessions, counters, free_by_instance, .. } = answer;
        if let Some(free) = free_by_instance {
            self.instance(asked_us, answered_us, &free);
        }
        if let Some(counters) = counters {
            self.first.get_or_insert(counters);
            self.counted.push_back(Counted { asked_us, answered_us, counters });
            if self.counted.len() > MOST_COUNTERS {
                self.counted.pop_front();
            }
        }
        if let Some(sessions) = sessions {
            self.lists.push_back((asked_us, answered_us));
            if self.lists.len() > MOST_LISTS {
                self.lists.pop_front();
            }
            self.list(asked_us, answered_us, sessions);
        }
    }

    fn list(&mut self, asked_us: u64, answered_us: u64, sessions: Vec<Session>) {
        self.connections.clear();
        self.background.clear();
        self.has_locks = sessions.iter().any(|it| matches!(it.says, Says::RowLock | Says::MetadataLock));
        let strangers = std::mem::take(&mut self.strangers);
        for (thread, session) in one_of_each_thread(sessions) {
            self.tells_threads = true;
            if session.says == Says::Background {
                self.background.insert(thread);
                continue;
            }
            self.connections.insert(thread, session.connection);
            self.polls.learn(thread, session.says, asked_us, answered_us);
            let said = self.said.entry(thread).or_default();
            said.push_back(Said { asked_us, answered_us, session });
            if said.len() > MOST_SAID {
                said.pop_front();
            }
            self.were_clients.insert(thread);
        }
        let is_listed = |thread: &u32| self.connections.contains_key(thread) || self.background.contains(thread);
        self.unlisted.extend(strangers.into_iter().filter(|thread| !is_listed(thread)));
        if self.said.len() > 2 * self.connections.len() + 1000 {
            self.said.retain(|thread, _| self.connections.contains_key(thread));
        }
    }

    /// What the thread does; for a thread that polls, the known descriptors tell for whom it waits.
    pub(super) fn resolved(&mut self, sample: &Sample, at_us: u64) -> Doing {
        self.polls.seen(sample, at_us);
        let doing = self.meant(sample);
        let thread = sample.thread;
        let is_at_rest = matches!(doing, Doing::Idle | Doing::Polling(_));
        if is_at_rest {
            self.seen_idle.insert(thread);
        } else {
            self.unlisted.remove(&thread);
        }
        let is_listed = self.connections.contains_key(&thread) || self.background.contains(&thread);
        if is_at_rest && self.tells_threads && !is_listed && !self.unlisted.contains(&thread) {
            self.strangers.insert(thread);
        }
        doing
    }

    /// A new thread is there.
    pub(super) fn came(&mut self, thread: u32) {
        if self.tells_threads {
            self.strangers.insert(thread);
        }
    }

    pub(super) fn went(&mut self, thread: u32) {
        self.strangers.remove(&thread);
        self.unlisted.remove(&thread);
        self.were_clients.remove(&thread);
        self.seen_idle.remove(&thread);
        self.polls.forget(thread);
    }

    /// Whether the thread served a client before. It may serve another one now, and it is not known which.
    pub(super) fn was_client(&self, thread: u32) -> bool {
        self.were_clients.contains(&thread) && !self.is_client(thread)
    }

    pub(super) fn meant(&self, sample: &Sample) -> Doing {
        match sample.doing {
            Doing::Polling(descriptor) => self.polls.meant(sample.thread, descriptor),
            doing => doing,
        }
    }

    /// Whether threads have come since the last list.
    pub(super) fn has_strangers(&self) -> bool {
        !self.strangers.is_empty()
    }

    pub(super) fn is_client(&self, thread: u32) -> bool {
        if self.tells_threads { self.connections.contains_key(&thread) } else { self.seen_idle.contains(&thread) }
    }

    pub(super) fn connection(&self, thread: u32) -> Option<u64> {
        self.connections.get(&thread).copied()
    }

    pub(super) fn last_said_us(&self, thread: u32) -> Option<u64> {
        self.said.get(&thread)?.back().map(|said| said.asked_us)
    }

    /// Whether the last answer names a wait of this thread.
    pub(super) fn names_a_wait(&self, thread: u32) -> bool {
        let last = self.said.get(&thread).and_then(VecDeque::back);
        last.is_some_and(|said| !matches!(said.session.says, Says::Idle | Says::Busy))
    }

    pub(super) fn counted_since(&self, us: u64) -> bool {
        self.counted.back().is_some_and(|counted| counted.asked_us >= us)
    }

    pub(super) fn listed_since(&self, us: u64) -> bool {
        self.lists.back().is_some_and(|(asked, _)| *asked >= us)
    }

    /// Whether a list was made while the wait lasted.
    pub(super) fn was_listed_within(&self, wait: &Wait) -> bool {
        self.lists.iter().rev().any(|(asked, answered)| *asked >= wait.from_us && *answered <= wait.to_us)
    }

    /// What the server said of the thread's connection while the wait lasted. Where no question and its answer lie within the wait:
    /// those that overlap it, if they say that the connection was busy or waited. With the times of question and answer.
    pub(super) fn said_of(&self, wait: &Wait) -> Vec<((u64, u64), Session)> {
        let said = self.said.get(&wait.thread);
        let said = || said.into_iter().flatten();
        let of = |it: &Said| ((it.asked_us, it.answered_us), it.session.clone());
        let within: Vec<((u64, u64), Session)> =
            said().filter(|it| it.asked_us >= wait.from_us && it.answered_us <= wait.to_us).map(of).collect();
        if !within.is_empty() {
            return within;
        }
        said()
            .filter(|it| it.asked_us < wait.to_us && it.answered_us > wait.from_us)
            .filter(|it| !matches!(it.session.says, Says::Idle | Says::Background))
            .map(of)
            .collect()
    }

    /// What the server said of the thread's connection, from first to last, where question and answer lie within the wait.
    pub(super) fn answers_within(&self, wait: &Wait) -> impl Iterator<Item = (u64, u64, &Session)> {
        let (from_us, to_us) = (wait.from_us, wait.to_us);
        let said = self.said.get(&wait.thread).into_iter().flatten();
        let within = said.filter(move |it| it.asked_us >= from_us && it.answered_us <= to_us);
        within.map(|it| (it.asked_us, it.answered_us, &it.session))
    }

    /// When the statement began that the server named last while the wait lasted. It is not known when, between question and answer, the server looked: the
    /// earliest moment counts. For a thread without a CPU, the earliest of all statements that were named counts: the next statement may have begun when the
    /// server is given a CPU and answers. So a late answer tells nothing about such a thread, unless its statement is as old as the wait.
    pub(super) fn began_us(&self, wait: &Wait) -> Option<u64> {
        let within = self.said.get(&wait.thread)?.iter().rev();
        let mut within = within.filter(|it| it.asked_us >= wait.from_us && it.answered_us <= wait.to_us);
        let begun = |it: &Said| it.session.age_us.map(|age| it.asked_us.saturating_sub(age));
        if wait.way != Way::Queued {
            return begun(within.next()?);
        }
        let is_prompt = |it: &Said| it.answered_us.saturating_sub(it.asked_us) < SLACK_QUEUED_US;
        let tells = |it: &&Said| is_prompt(it) || begun(it).is_some_and(|us| us <= wait.from_us + SLACK_QUEUED_US);
        within.filter(tells).filter_map(begun).min()
    }

    /// When the statement began that the server named last, at once, while the wait lasted: the earliest moment. `None`: the server does not say.
    pub(super) fn began_at_once_us(&self, wait: &Wait) -> Option<u64> {
        let (asked_us, answered_us, session) = self.answers_within(wait).last()?;
        let is_prompt = answered_us.saturating_sub(asked_us) < SLACK_QUEUED_US && session.says != Says::Idle;
        session.age_us.filter(|_| is_prompt).map(|age| asked_us.saturating_sub(age))
    }

    /// When the server was last asked what the thread does, if it said that it is idle.
    pub(super) fn last_idle_us(&self, thread: u32) -> Option<u64> {
        let last = self.said.get(&thread)?.back()?;
        (last.session.says == Says::Idle).then_some(last.asked_us)
    }

    /// What the answers to questions since the beginning of a wait for a CPU tell of the times for which one statement ran, from first to last. An answer that came
    /// after the wait may tell that the statement ran on over its last turns.
    pub(super) fn ran_within(&self, wait: &Wait) -> Vec<Ran> {
        let said = self.said.get(&wait.thread).into_iter().flatten();
        let since = said.filter(|it| it.asked_us >= wait.from_us);
        let ran = since.filter_map(|it| {
            let from_us = it.answered_us.saturating_sub(it.session.age_us?);
            let is_prompt = it.answered_us.saturating_sub(it.asked_us) < SLACK_QUEUED_US;
            Some(Ran { from_us, to_us: it.asked_us, is_prompt })
        });
        ran.filter(|it| it.from_us < it.to_us).collect()
    }

    /// When the server was last asked what the thread does.
    pub(super) fn last_asked_us(&self, thread: u32) -> Option<u64> {
        Some(self.said.get(&thread)?.back()?.asked_us)
    }

    /// Whether two waits of a thread, one right after the other, are one wait. `None`: an answer may still come that tells it.
    ///
    /// They are one if the server names a wait of the same kind after the begin of the second one, and the statement began before the first one was half over. Where no
    /// such answer came: if it named a wait within the first one a short time before.
    pub(super) fn is_one(&self, first: &Wait, next: &Wait) -> Option<bool> {
        let said = || self.said.get(&first.thread).into_iter().flatten();
        let names = |it: &&Said| !matches!(it.session.says, Says::Idle | Says::Busy | Says::Background);
        let before =
            said().rev().filter(names).find(|it| it.asked_us >= first.from_us && it.answered_us <= first.to_us);
        if said().any(|it| !names(&it) && it.asked_us >= next.from_us && it.answered_us <= next.to_us) {
            return Some(false);
        }
        if let Some(after) = said().filter(names).find(|it| it.asked_us >= next.from_us) {
            let began_us = after.session.age_us.map(|age| after.answered_us.saturating_sub(age));
            if began_us.is_some_and(|us| us <= first.from_us + first.length_us() / 2) {
                let is_same = |it: &Said| it.session.connection == after.session.connection;
                return Some(before.is_none_or(|it| is_same(it) && it.session.says == after.session.says));
            }
            if began_us.is_none_or(|us| us <= next.to_us) {
                return Some(false);
            }
        } else if !self.listed_since(next.to_us) {
            return None;
        }
        let is_recent =
            |it: &Said| it.session.age_us.is_some() && it.asked_us.saturating_add(RECENT_US) >= next.from_us;
        Some(before.is_some_and(is_recent))
    }

    /// Whether the server tells for how long the statement of this thread's connection has run.
    pub(super) fn tells_age(&self, thread: u32) -> bool {
        self.said.get(&thread).and_then(VecDeque::back).is_some_and(|said| said.session.age_us.is_some())
    }

    /// Whether some connection waited for a lock when the server was asked last.
    pub(super) fn has_locks(&self) -> bool {
        self.has_locks
    }

    /// By how much a counter rose between the last reading before the wait and the first one after it.
    pub(super) fn rose(&self, wait: &Wait, counter: impl Fn(&Counters) -> Option<u64>) -> Option<u64> {
        let before = self.counted.iter().rev().find(|it| it.answered_us <= wait.from_us).or(self.counted.front())?;
        let after = self.counted.iter().find(|it| it.asked_us >= wait.to_us)?;
        counter(&after.counters)?.checked_sub(counter(&before.counters)?)
    }

    /// The fewest free pages that were read while the wait lasted. Where each instance was asked for: those of the instance that had the fewest.
    pub(super) fn pages_free(&self, wait: &Wait) -> Option<u64> {
        let is_within = |asked_us: u64, answered_us: u64| asked_us >= wait.from_us && answered_us <= wait.to_us;
        let all = self.counted.iter().filter(|it| is_within(it.asked_us, it.answered_us));
        let all = all.filter_map(|it| it.counters.pages_free);
        let each = self.scarcest.iter().filter(|(asked, answered, _)| is_within(*asked, *answered));
        all.chain(each.map(|(_, _, free)| *free)).min()
    }

    fn instance(&mut self, asked_us: u64, answered_us: u64, free: &[u64]) {
        if self.least_free.len() != free.len() {
            self.least_free = free.to_vec();
        }
        for (least, now) in self.least_free.iter_mut().zip(free) {
            *least = (*least).min(*now);
        }
        self.scarcest.extend(free.iter().min().map(|free| (asked_us, answered_us, *free)));
        if self.scarcest.len() > MOST_COUNTERS {
            self.scarcest.pop_front();
        }
    }

    /// The fewest free pages that were read, for each instance of the buffer pool.
    pub(super) fn least_free(&self) -> Vec<u64> {
        self.least_free.clone()
    }

    pub(super) fn first_and_last(&self) -> Option<[Counters; 2]> {
        Some([self.first?, self.counted.back()?.counters])
    }
}

/// The connection that each thread serves. In a pool of threads, a list has many connections with the same thread; one of them at most runs a statement
/// there, and the others are idle.
fn one_of_each_thread(sessions: Vec<Session>) -> HashMap<u32, Session> {
    let rank = |session: &Session| match session.says {
        Says::Background => 0,
        Says::Idle => 1,
        _ => 2,
    };
    let mut of_thread: HashMap<u32, Session> = HashMap::new();
    for session in sessions {
        let Some(thread) = session.thread else { continue };
        match of_thread.get_mut(&thread) {
            Some(kept) if rank(kept) >= rank(&session) => {}
            Some(kept) => *kept = session,
            None => drop(of_thread.insert(thread, session)),
        }
    }
    of_thread
}

/// A process of PostgreSQL waits at one `epoll` descriptor for its client, and at another one for other processes. The descriptor of the client is
/// learned when the server says that a connection is idle.
#[derive(Debug, Default)]
struct Polls {
    now: HashMap<u32, (u64, u64)>,
    idle: HashMap<u32, u64>,
    /// Threads that the server said were idle, and when that answer came.
    supposed: HashMap<u32, u64>,
    /// How often each descriptor was the client's, over all processes: they open their descriptors in the same order.
    usual: HashMap<u64, u64>,
}

impl Polls {
    /// Remembers when the thread began to poll this descriptor. The server's answer that a thread is idle is believed if the thread still polls the same
    /// descriptor after the answer.
    fn seen(&mut self, sample: &Sample, at_us: u64) {
        let thread = sample.thread;
        let Doing::Polling(descriptor) = sample.doing else {
            self.now.remove(&thread);
            self.supposed.remove(&thread);
            return;
        };
        if !matches!(self.now.get(&thread), Some((same, _)) if *same == descriptor) {
            self.now.insert(thread, (descriptor, at_us));
            self.supposed.remove(&thread);
        }
        if self.supposed.get(&thread).is_some_and(|answered_us| at_us > *answered_us) {
            self.supposed.remove(&thread);
            if self.idle.insert(thread, descriptor) != Some(descriptor) {
                *self.usual.entry(descriptor).or_default() += 1;
            }
        }
    }

    fn forget(&mut self, thread: u32) {
        self.now.remove(&thread);
        self.idle.remove(&thread);
        self.supposed.remove(&thread);
    }

    fn learn(&mut self, thread: u32, says: Says, asked_us: u64, answered_us: u64) {
        let Some((descriptor, since_us)) = self.now.get(&thread).copied() else { return };
        if since_us > asked_us {
            return;
        }
        if says == Says::Idle {
            self.supposed.insert(thread, answered_us);
        } else if says != Says::Busy && self.idle.get(&thread) == Some(&descriptor) {
            // the thread waits for another process there
            self.idle.remove(&thread);
            self.usual.entry(descriptor).and_modify(|count| *count = count.saturating_sub(1));
        }
    }

    fn meant(&self, thread: u32, descriptor: u64) -> Doing {
        let usual = || {
            self.usual
                .iter()
                .filter(|(_, count)| **count > 0)
                .max_by_key(|(_, count)| **count)
                .map(|(descriptor, _)| *descriptor)
        };
        match self.idle.get(&thread).copied().or_else(usual) {
            Some(idle) if idle != descriptor => Doing::Blocked,
            _ => Doing::Idle,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(connection: u64, says: Says) -> Session {
        let (thread, words, blocked_by) = (Some(7), String::new(), Vec::new());
        let perhaps_blocked_by = Vec::new();
        Session { connection, thread, says, words, statement: None, age_us: None, blocked_by, perhaps_blocked_by }
    }

    #[test]
    fn of_many_connections_of_one_thread_the_one_that_waits_counts() {
        let mut known = Known::default();
        for nth in 0..3 {
            let mut sessions =
                vec![session(100, Says::Idle), session(101, Says::RowLock), session(102, Says::Background)];
            sessions.extend((0..2 * MOST_SAID as u64).map(|other| session(200 + other, Says::Idle)));
            let (asked_us, sessions) = (1000 + nth * 1000, Some(sessions));
            known.answer(Answer { asked_us, answered_us: asked_us + 500, sessions, ..Answer::default() });
        }
        let way = Way::Blocked;
        let wait = Wait {
            thread: 7,
            way,
            from_us: 500,
            to_us: 5000,
            samples: 4,
            turns: Some(0),
            is_cut: false,
            is_open: false,
        };
        let said: Vec<(u64, Says)> = known.said_of(&wait).iter().map(|(_, it)| (it.connection, it.says)).collect();
        assert_eq!((said, known.connection(7)), (vec![(101, Says::RowLock); 3], Some(101)));
    }
}
