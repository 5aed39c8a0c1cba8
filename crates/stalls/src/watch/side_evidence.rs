// SPDX-License-Identifier: Apache-2.0
//! Evidence beside samples and answers: how long a query of Wringer's own took that needs no data and no lock (the canary), the entries of victims in the
//! server's slow log, and which connections are Wringer's own. It is added to a stall before the stall is reported.

use super::parts::Part;
use super::sample::Session;
use super::verdict::UNSEEN_SYNC;
use crate::cause::{Cause, ms};
use crate::explained::{Stall, Victim};
use logs::Figures;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An entry of the server's slow log. Times in microseconds since the watch began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    pub connection: u64,
    /// The earliest and the latest time at which the statement can have begun: many logs have whole seconds, and an entry is read some time after the end.
    pub began_us: (u64, u64),
    pub figures: Figures,
}

impl Logged {
    /// Whether the statement can have begun before this time and ended after it.
    fn has(&self, from_us: u64, to_us: u64) -> bool {
        let (earliest, latest) = self.began_us;
        let ends_late = to_us.saturating_sub(self.figures.took_us.unwrap_or(0).saturating_add(SLACK_US));
        earliest.max(ends_late) <= latest.min(from_us.saturating_add(SLACK_US))
    }
}

/// As a part of a recording, which begins at the latest moment that is possible.
impl Logged {
    /// `connection`, `earliest_us` (the earliest begin), and the fields of the entry that are used here.
    pub fn attributes(&self) -> BTreeMap<String, String> {
        let Figures { lock_us, row_lock_us, read_us, queue_us, rows_examined, .. } = &self.figures;
        let numbers = [
            ("connection", Some(self.connection)),
            ("earliest_us", Some(self.began_us.0)),
            ("lock_us", *lock_us),
            ("row_lock_us", *row_lock_us),
            ("read_us", *read_us),
            ("queue_us", *queue_us),
            ("rows_examined", *rows_examined),
        ];
        numbers.into_iter().filter_map(|(name, number)| Some((name.to_owned(), number?.to_string()))).collect()
    }

    /// `None`: of a recording that has not these fields.
    pub fn of(part: &Part) -> Option<Self> {
        let number = |name: &str| part.attributes.get(name)?.parse::<u64>().ok();
        let figures = Figures {
            took_us: Some(part.length_us),
            lock_us: number("lock_us"),
            row_lock_us: number("row_lock_us"),
            read_us: number("read_us"),
            queue_us: number("queue_us"),
            rows_examined: number("rows_examined"),
            ..Figures::default()
        };
        let began_us = (number("earliest_us")?, u64::try_from(part.started_us?).ok()?);
        Some(Self { connection: number("connection")?, began_us, figures })
    }
}

/// One run of the canary: a statement that needs nothing, on a connection of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Canary {
    pub from_us: u64,
    pub took_us: u64,
    /// It got no answer: its connection was lost, as when the server ends.
    pub is_lost: bool,
}

/// An entry of the slow log may be read so long after the end of its statement.
const LATE_US: u64 = 600_000;
/// By how much the begin or the end of a victim's entry may lie within the wait that was seen: a look or two.
const SLACK_US: u64 = 30_000;
const MOST_LOGGED: usize = 10_000;
const MOST_RUNS: usize = 2000;
/// An answer to the canary within this time is a quick one.
const QUICK_US: u64 = 10_000;

#[derive(Debug, Default)]
pub(super) struct Beside {
    logged: VecDeque<Logged>,
    runs: VecDeque<Canary>,
    own: BTreeSet<u64>,
    /// Whether the slow log is read.
    has_log: bool,
}

impl Beside {
    pub(super) fn follows_log(&mut self) {
        self.has_log = true;
    }

    /// With all of these entries, however many they are.
    pub(super) fn with_log(entries: impl Iterator<Item = Logged>) -> Self {
        Self { logged: entries.collect(), ..Self::default() }
    }

    pub(super) fn logged(&mut self, entry: Logged) {
        keep(&mut self.logged, entry, MOST_LOGGED);
    }

    pub(super) fn canary(&mut self, run: Canary) {
        keep(&mut self.runs, run, MOST_RUNS);
    }

    pub(super) fn own(&mut self, connection: u64) {
        self.own.insert(connection);
    }

    pub(super) fn is_own(&self, connection: Option<u64>) -> bool {
        connection.is_some_and(|it| self.own.contains(&it))
    }

    /// Whether the server names the connections that hold the lock, and all of them are Wringer's own.
    pub(super) fn is_ours(&self, said: &[Session]) -> bool {
        let mut holders = said.iter().flat_map(|session| &session.blocked_by).peekable();
        holders.peek().is_some() && holders.all(|holder| self.own.contains(holder))
    }

    /// How long a stall is held back before it is reported, because entries of its victims in the slow log come late.
    pub(super) fn patience_us(&self) -> u64 {
        if self.has_log { LATE_US } else { 0 }
    }

    /// `started_unix_us`: when the watch began.
    /// Returns what the canary's query showed while the stall lasted.
    pub(super) fn speaks_of(&self, stall: &mut Stall, started_unix_us: u64) -> Option<Sung> {
        let since = |us: Option<i64>| us.and_then(|us| u64::try_from(us).ok()?.checked_sub(started_unix_us));
        self.log_speaks_of(stall, &since);
        let sung = since(stall.started_us).and_then(|from_us| self.sung(from_us, stall.length_us));
        sung.iter().for_each(|sung| sung.speaks_of(stall));
        sung
    }

    fn log_speaks_of(&self, stall: &mut Stall, since: &dyn Fn(Option<i64>) -> Option<u64>) {
        let found: Vec<(&Victim, &Logged)> = stall
            .victims
            .iter()
            .filter_map(|victim| Some((victim, self.entry(victim, since(victim.started_us)?)?)))
            .collect();
        let Some((victim, longest)) = found.iter().max_by_key(|(_, entry)| entry.figures.took_us).copied() else {
            return;
        };
        let said = said_of(&longest.figures);
        let told = format!(
            "the slow log has {} of {}: connection {} took {said}",
            found.len(),
            units::counted(stall.victim_count, "victim"),
            longest.connection
        );
        let named = field(&longest.figures, victim.lost_query_us);
        let is_against = named.is_some_and(|named| stall.cause != Cause::Unknown && !is_like(named, stall.cause));
        let side = if is_against { &mut stall.evidence.against } else { &mut stall.evidence.speaks_for };
        side.push(told);
        // a cause that the server itself has measured replaces `unknown`
        let of_most = |cause: Cause| {
            let of = found.iter().filter(|(victim, entry)| field(&entry.figures, victim.lost_query_us) == Some(cause));
            of.count() * 2 >= stall.victims.len()
        };
        if let Some(cause) = named.filter(|cause| stall.cause == Cause::Unknown && of_most(*cause)) {
            stall.cause = cause;
            stall.confidence = BY_LOG;
        }
    }

    /// The entry of the connection that has the whole wait in it; of several, the one that ended first. A connection's statements end one after another.
    fn entry(&self, victim: &Victim, from_us: u64) -> Option<&Logged> {
        let connection: u64 = victim.connection.as_deref()?.parse().ok()?;
        let to_us = from_us.saturating_add(victim.length_us);
        self.logged.iter().filter(|entry| entry.connection == connection).find(|entry| entry.has(from_us, to_us))
    }

    fn sung(&self, from_us: u64, length_us: u64) -> Option<Sung> {
        let to_us = from_us.saturating_add(length_us);
        let meanwhile = |run: &&Canary| run.from_us < to_us && run.from_us.saturating_add(run.took_us) > from_us;
        let runs: Vec<&Canary> = self.runs.iter().filter(meanwhile).collect();
        let slowest = runs.iter().max_by_key(|run| run.took_us)?;
        let times = runs.iter().filter(|run| !run.is_lost).count() as u64;
        let (slowest_us, is_lost, usual_us) = (slowest.took_us, slowest.is_lost, self.usual_us());
        Some(Sung { from_us, to_us, times, slowest_us, usual_us, is_lost })
    }

    /// The median.
    fn usual_us(&self) -> u64 {
        let mut took: Vec<u64> = self.runs.iter().filter(|run| !run.is_lost).map(|run| run.took_us).collect();
        took.sort_unstable();
        took.get(took.len() / 2).copied().unwrap_or(0)
    }
}

/// What the canary's query showed in one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sung {
    from_us: u64,
    to_us: u64,
    times: u64,
    slowest_us: u64,
    usual_us: u64,
    /// Whether the slowest one got no answer.
    is_lost: bool,
}

impl Sung {
    pub(super) fn is_of(&self, stall: &Stall) -> bool {
        let from_us = stall.started_us.and_then(|us| u64::try_from(us).ok());
        from_us == Some(self.from_us) && self.to_us - self.from_us == stall.length_us
    }

    pub(super) fn speaks_of(&self, stall: &mut Stall) {
        let Self { times, slowest_us, usual_us, is_lost, .. } = *self;
        let evidence = &mut stall.evidence;
        if slowest_us.saturating_mul(2) >= stall.length_us {
            let took = ms(slowest_us);
            let took = if is_lost {
                format!("waited {took} and got no answer, because its connection was lost")
            } else {
                format!("took {took} meanwhile")
            };
            let told = format!(
                "a query of our own that needs nothing {took}, and usually takes {}: the server or its host answered nobody",
                ms(usual_us)
            );
            // neither a wait for a lock nor a write makes a query wait that needs none
            let is_alone = matches!(stall.cause, Cause::RowLock | Cause::MetadataLock | Cause::Probe | Cause::Sync);
            if is_alone { &mut evidence.against } else { &mut evidence.speaks_for }.push(told);
            if stall.cause == Cause::Sync && stall.confidence <= UNSEEN_SYNC {
                stall.cause = Cause::Unknown;
                stall.confidence = 0.0;
            }
        } else if !is_lost && slowest_us <= QUICK_US.max(stall.length_us / 10) {
            let times = units::counted(times, "time");
            let told = format!(
                "a query of our own that needs nothing was answered {times} meanwhile, within {}",
                ms(slowest_us)
            );
            let is_of_all = matches!(stall.cause, Cause::Cpu | Cause::Reclaim);
            if is_of_all { &mut evidence.against } else { &mut evidence.speaks_for }.push(told);
        }
    }

    /// `answers`, `slowest_us`, `usual_us`; `lost` (`yes`).
    pub fn part(&self) -> Part {
        let numbers = [("answers", self.times), ("slowest_us", self.slowest_us), ("usual_us", self.usual_us)];
        let numbers = numbers.into_iter().map(|(name, number)| (name.to_owned(), number.to_string()));
        let lost = self.is_lost.then(|| ("lost".to_owned(), "yes".to_owned()));
        let attributes = numbers.chain(lost).collect();
        Part { started_us: i64::try_from(self.from_us).ok(), length_us: self.to_us - self.from_us, attributes }
    }

    pub fn of(part: &Part) -> Option<Self> {
        let number = |name: &str| part.attributes.get(name)?.parse::<u64>().ok();
        let from_us = u64::try_from(part.started_us?).ok()?;
        let to_us = from_us.saturating_add(part.length_us);
        let (times, slowest_us, usual_us) = (number("answers")?, number("slowest_us")?, number("usual_us")?);
        let is_lost = part.attributes.contains_key("lost");
        Some(Self { from_us, to_us, times, slowest_us, usual_us, is_lost })
    }
}

/// The confidence of a cause that only an entry of the log names.
const BY_LOG: f64 = 0.8;

/// The cause whose field explains at least half of the lost time.
fn field(figures: &Figures, lost_us: u64) -> Option<Cause> {
    let is_half = |us: Option<u64>| us.is_some_and(|us| us > 0 && us.saturating_mul(2) >= lost_us);
    if is_half(figures.row_lock_us) {
        Some(Cause::RowLock)
    } else if is_half(figures.read_us) {
        Some(Cause::DiskReads)
    } else {
        None
    }
}

fn is_like(named: Cause, cause: Cause) -> bool {
    named == cause || (named == Cause::RowLock && cause == Cause::Probe)
}

fn said_of(figures: &Figures) -> String {
    let time = |name: &str, us: Option<u64>| us.filter(|us| *us > 0).map(|us| format!("{name} {}", ms(us)));
    let parts = [
        time("locks", figures.lock_us),
        time("locks of rows", figures.row_lock_us),
        time("reads", figures.read_us),
        time("InnoDB's queue", figures.queue_us),
        figures.rows_examined.map(|rows| format!("rows examined {rows}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let took = ms(figures.took_us.unwrap_or(0));
    if parts.is_empty() { took } else { format!("{took} ({})", parts.join(", ")) }
}

fn keep<T>(kept: &mut VecDeque<T>, one: T, most: usize) {
    kept.push_back(one);
    if kept.len() > most {
        kept.pop_front();
    }
}

#[cfg(test)]
#[path = "beside_tests.rs"]
mod tests;
