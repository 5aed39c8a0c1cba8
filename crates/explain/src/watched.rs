// SPDX-License-Identifier: Apache-2.0
//! The results of a watch of the server's threads in a recording: its stalls, and its account if it reached its end. Both are joined with the load's
//! own slow statements, which show how long a client waited, but not for what.

use crate::watched_seen::{Seen, seen};
use capability::{Version, free_list};
use evidence::{
    CANARY_MEANWHILE, Evidence, LOGGED, SERVER_SAID, STALL, STALL_VICTIM, STALLS_WATCHED, Span, THREAD_WAIT,
};
use serde_json::Value;
use stalls::recorded::Recorded;
use stalls::watch::{Kept, KeptParts, Logged, Part, Parts, Sung, Whole, again};
use stalls::{Account, Asked, Cause, ClassOf, Cost, Dialect, Explained, Source, Stall};
use std::collections::BTreeMap;

/// Facts about a watch, without its stalls.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct WatchedArm {
    /// Stalls shorter than this may not have been seen. `None`: the watch was cut off, so neither this nor the fields below are known.
    pub resolution_us: Option<u64>,
    /// The cost of watching: `cpu_share` of one CPU, `statements`, ...
    pub cost: Option<Value>,
    /// The facts that it could not read, the reasons, and what would help.
    pub missing: Option<Value>,
    /// The number of all stalls that it reported, and of their victims.
    pub stalls: u64,
    pub victims: u64,
}

/// The results of the watch while one arm ran. Times are those of the run's clock.
#[derive(Debug)]
pub(crate) struct OfWatch {
    pub(crate) arm: WatchedArm,
    /// In the order in which they began.
    pub(crate) stalls: Vec<Stall>,
    /// The summary that the watch wrote; `Null`: the watch was cut off.
    said: Value,
}

/// `None`: that arm was not watched, or nothing is known of the watch.
pub(crate) fn of(evidence: &Evidence, arm: &str) -> Option<OfWatch> {
    let said = evidence.snapshots.iter().rev().find(|it| it.source == STALLS_WATCHED && it.arm.as_deref() == Some(arm));
    let said = said.and_then(|it| serde_json::from_str::<Value>(&it.content).ok()).unwrap_or_default();
    let mut stalls = judged_again(evidence, arm).unwrap_or_else(|| as_told(evidence, arm));
    if said.is_null() && stalls.is_empty() {
        return None;
    }
    stalls.sort_by_key(|stall| stall.started_us);
    let known = |key: &str| said.get(key).filter(|value| !value.is_null()).cloned();
    let arm = WatchedArm {
        resolution_us: said["resolution_us"].as_u64(),
        cost: known("cost"),
        missing: known("missing"),
        stalls: stalls.len() as u64,
        victims: stalls.iter().map(|stall| stall.victim_count).sum(),
    };
    Some(OfWatch { arm, stalls, said })
}

/// The parts of one kind, as the watch of this arm recorded them.
fn of_kind<'a>(evidence: &'a Evidence, arm: &'a str, kind: &'static str) -> impl Iterator<Item = Part> + 'a {
    evidence.spans.iter().filter(move |it| it.kind == kind && it.entity == arm).map(part)
}

/// The stalls that the watch told.
fn as_told(evidence: &Evidence, arm: &str) -> Vec<Stall> {
    let mut victims: BTreeMap<Option<u64>, Vec<Part>> = BTreeMap::new();
    for part in of_kind(evidence, arm, STALL_VICTIM) {
        victims.entry(part.number()).or_default().push(part);
    }
    let stall = |stall: Part| Parts { victims: victims.remove(&stall.number()).unwrap_or_default(), stall }.stall();
    of_kind(evidence, arm, STALL).map(stall).collect()
}

/// The stalls that follow from the waits that the watch saw, by the rules of today. `None`: it recorded no wait with what a verdict needs.
fn judged_again(evidence: &Evidence, arm: &str) -> Option<Vec<Stall>> {
    let mut said: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for part in of_kind(evidence, arm, SERVER_SAID) {
        if let Some(wait) = part.attributes.get("wait") {
            said.entry(wait.clone()).or_default().push(part);
        }
    }
    let waits: Vec<Part> = of_kind(evidence, arm, THREAD_WAIT).collect();
    let wholes: Vec<Whole> = waits.iter().filter_map(Whole::of).collect();
    let mut kept: Vec<(u64, Kept)> = Vec::new();
    for wait in waits {
        let Some(number) = wait.number() else { continue };
        let said = said.remove(&number.to_string()).unwrap_or_default();
        kept.extend(KeptParts { wait, said }.kept().map(|it| (number, it)));
    }
    if kept.is_empty() && wholes.is_empty() {
        return None;
    }
    kept.sort_by_key(|(number, _)| *number);
    let kept: Vec<Kept> = kept.into_iter().map(|(_, it)| it).collect();
    let server = &evidence.conditions.server;
    let version = Version::find_in(&server.version);
    let free_list = server.flavour.parse().ok().zip(version).and_then(|(it, version)| free_list(it, &version));
    let logged = of_kind(evidence, arm, LOGGED).filter_map(|part| Logged::of(&part)).collect();
    let sung = of_kind(evidence, arm, CANARY_MEANWHILE).filter_map(|part| Sung::of(&part)).collect();
    Some(again(stalls::watch::Recorded { kept, wholes, logged, sung }, free_list))
}

fn part(span: &Span) -> Part {
    let (started_us, length_us) = (i64::try_from(span.from_us).ok(), span.length_us());
    Part { started_us, length_us, attributes: span.attributes.clone() }
}

/// When the watch saw a smaller share of a stall's victims, it saw only a part of the stall.
const ENOUGH: f64 = 0.5;

impl OfWatch {
    /// The stalls of the watch alone, when no load kept its statements. `least_us`: the length of the shortest wanted stall.
    pub(crate) fn explained(&self, least_us: u64, server: Option<String>) -> Explained {
        let said = &self.said["account"];
        let stalls: Vec<Stall> = self.stalls.iter().filter(|stall| stall.length_us >= least_us).cloned().collect();
        let account = Account {
            wait_free: said["wait_free"].as_u64(),
            wait_free_by_stalls: said["wait_free_by_stalls"].as_u64(),
            sleep_overhead_us: said["sleep_overhead_us"].as_f64(),
            own_work_query_us: said["own_work_query_us"].as_u64().unwrap_or(0),
            ..account_of(&stalls)
        };
        let classes = classes(&stalls);
        // its classes contain only the statements that stalled: a watch does not see the others
        let mut notes = Vec::new();
        if self.said.is_null() {
            notes.push("the watch was cut off: what it told until then is here, without its cost".to_owned());
        }
        let of_watch = self.said["notes"].as_array().into_iter().flatten();
        notes.extend(of_watch.filter_map(|note| note.as_str().map(str::to_owned)));
        let least_us = least_us.max(self.arm.resolution_us.unwrap_or(0));
        Explained {
            schema: 1,
            source: Source { format: Some("watch"), server, least_us },
            cost: Cost { entries: classes.iter().map(|class| class.count).sum(), ..Cost::default() },
            stalls,
            stalls_left_out: 0,
            account,
            classes,
            skipped: Vec::new(),
            counter: None,
            notes,
        }
    }

    /// The stalls of a load that kept its slow statements. A statement that the watch saw wait is a victim; and a stall has the cause that the watch saw, if it
    /// saw half of the victims or more.
    pub(crate) fn joined(&self, mut recorded: Recorded, dialect: Dialect, asked: &Asked) -> Explained {
        let seen = seen(&mut recorded.slow, &self.stalls);
        let mut explained = stalls::recorded::explain(&recorded, dialect, asked);
        let mut has_changed = false;
        for stall in &mut explained.stalls {
            has_changed |= self.name_cause(stall, &seen);
        }
        // stalls that are not listed keep their causes
        if has_changed && explained.stalls_left_out == 0 {
            explained.account = with_causes_of(explained.account, &explained.stalls);
        }
        explained
    }

    fn name_cause(&self, stall: &mut Stall, seen: &Seen) -> bool {
        let stall_of = |victim| {
            let number = seen.stall_of(victim)?;
            Some((number, self.stalls.get(number)?))
        };
        let waits: Vec<(usize, &Stall)> = stall.victims.iter().filter_map(stall_of).collect();
        let count_of = |cause: Cause| waits.iter().filter(|(_, it)| it.cause == cause).count();
        let count_in = |number: usize| waits.iter().filter(|(it, _)| *it == number).count();
        let named = waits.iter().filter(|(_, it)| it.cause != Cause::Unknown);
        let most = named.max_by_key(|(number, it)| (count_of(it.cause), count_in(*number)));
        let Some((_, of_watch)) = most else { return false };
        let (count, all) = (count_of(of_watch.cause), stall.victims.len());
        if (count as f64) < ENOUGH * all as f64 {
            return false;
        }
        let evidence = &mut stall.evidence;
        evidence.speaks_for.retain(|_| stall.cause == of_watch.cause);
        evidence.speaks_for.push(format!(
            "a watch of the server's threads saw {count} of {all} of these waits: {} ({:.0} %)",
            of_watch.cause.name(),
            of_watch.confidence * 100.0
        ));
        evidence.speaks_for.extend(of_watch.evidence.speaks_for.iter().cloned());
        evidence.against = of_watch.evidence.against.clone();
        if count < all {
            evidence.against.push(format!("of {} it saw nothing of the kind", all - count));
        }
        let was = std::mem::replace(&mut stall.cause, of_watch.cause);
        stall.confidence = of_watch.confidence;
        was != of_watch.cause
    }
}

/// The same account, with the causes that the stalls have now.
fn with_causes_of(before: Account, stalls: &[Stall]) -> Account {
    let now = account_of(stalls);
    let is_backoff = now.by_cause.contains_key(&Cause::FreeListBackoff);
    Account {
        lost_query_us: now.lost_query_us,
        attributed_query_us: now.attributed_query_us,
        unexplained_query_us: now.unexplained_query_us,
        by_cause: now.by_cause,
        wait_free_by_stalls: before.wait_free_by_stalls.filter(|_| is_backoff),
        ..before
    }
}

fn account_of(stalls: &[Stall]) -> Account {
    let mut account = Account::default();
    stalls.iter().for_each(|stall| account.add(stall));
    account
}

/// The classes of the observed waits, with the length of each wait.
fn classes(stalls: &[Stall]) -> Vec<ClassOf> {
    let mut lengths: BTreeMap<&str, (Vec<u64>, u64)> = BTreeMap::new();
    for victim in stalls.iter().flat_map(|stall| &stall.victims) {
        let (of, lost_us) = lengths.entry(&victim.statement).or_default();
        of.push(victim.length_us);
        *lost_us = lost_us.saturating_add(victim.lost_query_us);
    }
    let class = |(statement, (mut of, lost_query_us)): (&str, (Vec<u64>, u64))| {
        of.sort_unstable();
        let at = |share: usize| of.get((of.len() * share / 100).min(of.len().saturating_sub(1))).copied().unwrap_or(0);
        ClassOf {
            statement: statement.into(),
            count: of.len() as u64,
            sum_us: of.iter().copied().fold(0, u64::saturating_add),
            max_us: of.last().copied().unwrap_or(0),
            median_us: at(50),
            p95_us: at(95),
            median_outside_stalls_us: None,
            victims: of.len() as u64,
            lost_query_us,
        }
    };
    let mut classes: Vec<ClassOf> = lengths.into_iter().map(class).collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.lost_query_us));
    classes
}

#[cfg(test)]
#[path = "watched_tests.rs"]
mod tests;
