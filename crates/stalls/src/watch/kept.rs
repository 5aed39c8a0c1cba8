// SPDX-License-Identifier: Apache-2.0
//! A wait with all that its judgement rests on. A watch judges it when it is over, and a recording of it is judged again by the same rules.

use super::group::{Group, Judged, Judgement, MOST_VICTIMS};
use super::meanwhile::Meanwhile;
use super::sample::Session;
use super::server_stalls::Whole;
use super::side_evidence::{Beside, Logged, Sung};
use super::track::Wait;
use super::verdict::{cause_of, judge};
use super::wait_context::{Around, Verdict};
use crate::cause::Cause;
use crate::explained::{Stall, Victim};
use capability::FreeList;
use std::collections::HashSet;
use std::sync::Arc;

/// Times in microseconds, on the watch's clock.
#[derive(Debug, Clone, PartialEq)]
pub struct Kept {
    pub wait: Wait,
    /// From when to when the stalls were, so far, that had not been told when it was judged: it may be a part of one of these.
    pub(super) untold: Vec<(u64, u64)>,
    /// The waiting connection; `None`: the server did not say which one the thread has.
    pub(super) connection: Option<u64>,
    /// What the server said of it while the wait lasted, and when each question was sent and answered.
    pub(super) said: Vec<Session>,
    pub(super) said_at: Vec<(u64, u64)>,
    /// The statement's class, without values.
    pub(super) statement: Arc<str>,
    /// The statement itself, if it was asked for.
    pub(super) with_values: Option<String>,
    pub(super) facts: Facts,
}

/// As in [`Around`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) backoff: Option<bool>,
    pub(super) probed: Option<String>,
    pub(super) wait_free: Option<u64>,
    pub(super) tries: u64,
    pub(super) lru_flushed: Option<u64>,
    pub(super) began_us: Option<u64>,
    pub(super) pages_free: Option<u64>,
    pub(super) synced_us: u64,
    pub(super) queued_us: u64,
    pub(super) page_writes: u64,
    pub(super) doublewrites: u64,
    pub(super) others_page_writes_us: u64,
    pub(super) meanwhile: Option<Meanwhile>,
    /// Whether only connections of this watch hold the lock.
    pub(super) is_ours: bool,
}

impl Kept {
    /// `started_unix_us`: what times of the result count from.
    pub(super) fn judgement(&self, free_list: Option<&'static FreeList>, started_unix_us: u64) -> Judgement {
        let (cause, confidence, evidence) = match judge(&self.wait, &self.around(free_list)) {
            Verdict::Stall { cause, confidence, evidence } => (cause, confidence, evidence),
            Verdict::OwnWork => return Judgement::OwnWork(self.wait.length_us()),
            Verdict::Nothing => return Judgement::Nothing,
        };
        let cause = if self.facts.is_ours { Cause::Probe } else { cause };
        let victim = Victim {
            connection: self.connection.map(|number| number.to_string()),
            thread: Some(self.wait.thread),
            statement: self.statement.clone(),
            statement_with_values: self.with_values.clone(),
            started_us: i64::try_from(started_unix_us + self.wait.from_us).ok(),
            length_us: self.wait.length_us(),
            lost_query_us: self.wait.length_us(),
        };
        // an answer about the lock before this wait names the holder of that lock
        let is_of_it = |it: &&Session| cause == Cause::Probe || cause_of(it.says) == Some(cause);
        let waited_for = self.said.iter().filter(is_of_it).flat_map(|it| &it.blocked_by).copied().collect();
        let perhaps_for = self.said.iter().filter(is_of_it).flat_map(|it| &it.perhaps_blocked_by).copied().collect();
        let (wait, connection) = (self.wait, self.connection);
        let judged = Judged { wait, cause, confidence, evidence, victim, connection, waited_for, perhaps_for };
        Judgement::Victim(Box::new(judged))
    }

    fn around(&self, free_list: Option<&'static FreeList>) -> Around<'_> {
        let facts = &self.facts;
        Around {
            said: &self.said,
            backoff: facts.backoff,
            free_list,
            probed: facts.probed.as_deref(),
            wait_free: facts.wait_free,
            tries: facts.tries,
            lru_flushed: facts.lru_flushed,
            began_us: facts.began_us,
            pages_free: facts.pages_free,
            synced_us: facts.synced_us,
            queued_us: facts.queued_us,
            page_writes: facts.page_writes,
            doublewrites: facts.doublewrites,
            others_page_writes_us: facts.others_page_writes_us,
            meanwhile: facts.meanwhile,
        }
    }
}

/// What a watch recorded.
#[derive(Debug, Default)]
pub struct Recorded {
    /// In the order in which they were judged.
    pub kept: Vec<Kept>,
    pub wholes: Vec<Whole>,
    /// Entries of the server's slow log.
    pub logged: Vec<Logged>,
    pub sung: Vec<Sung>,
}

/// The stalls of recorded waits, in the order of their begins, on the watch's clock.
pub fn again(recorded: Recorded, free_list: Option<&'static FreeList>) -> Vec<Stall> {
    let (mut groups, mut over): (Vec<Group>, Vec<Group>) = (Vec::new(), Vec::new());
    for kept in &recorded.kept {
        let Judgement::Victim(judged) = kept.judgement(free_list, 0) else { continue };
        let is_told = |group: &mut Group| !kept.untold.contains(&(group.from_us, group.to_us));
        over.extend(groups.extract_if(.., is_told));
        Group::gather(&mut groups, *judged);
    }
    let connections: HashSet<u64> = recorded.kept.iter().filter_map(|it| it.connection).collect();
    let logged = recorded.logged.into_iter().filter(|entry| connections.contains(&entry.connection));
    let beside = Beside::with_log(logged);
    let of_groups = over.into_iter().chain(groups).map(|group| group.stall(0));
    let mut stalls: Vec<Stall> = of_groups.chain(recorded.wholes.iter().map(|whole| whole.stall(0))).collect();
    stalls.sort_by_key(|stall| stall.started_us);
    for stall in &mut stalls {
        beside.speaks_of(stall, 0);
        let sung = recorded.sung.iter().find(|it| it.is_of(stall));
        sung.into_iter().for_each(|sung| sung.speaks_of(stall));
        stall.victims.truncate(MOST_VICTIMS);
    }
    stalls
}
