// SPDX-License-Identifier: Apache-2.0
//! What one wait was for: how the thread waited, and what the server said meanwhile. What neither tells is [`Cause::Unknown`].

use super::sample::{Says, Session};
use super::track::{QUICK_READ_US, SLACK_QUEUED_US, Wait, Way};
use crate::cause::{Cause, Evidence};

/// What is known of a wait beside the wait itself.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// What the server said of its connection, while it lasted.
    pub said: &'a [Session],
    /// `innodb_empty_free_list_algorithm` is `backoff`. `None`: nothing says which algorithm the server has.
    pub backoff: Option<bool>,
    /// By how much `wait_free` rose between the readings before and after the wait, and by how much it must have risen for this one alone.
    pub wait_free: Option<u64>,
    pub tries: u64,
    /// When the statement began of which the server spoke last. `None`: the server does not say.
    pub began_us: Option<u64>,
    /// Pages that were free, at the lowest that was read meanwhile.
    pub pages_free: Option<u64>,
}

/// What a wait was.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Stall {
        cause: Cause,
        /// From 0 to 1; 0 for `unknown`.
        confidence: f64,
        evidence: Evidence,
    },
    /// The statement asked for it, or did that much itself.
    OwnWork,
    /// No statement waited.
    Nothing,
}

/// So many quick reads, one after another, are the statement's own work.
const MANY_READS: u64 = 20;

/// A statement waits soon after its begin; what two clocks and a sample say of one moment may differ by this.
const SLACK_US: u64 = 30_000;
/// A thread that was given a CPU so seldom, in the middle, waits for one: a quota gives some milliseconds of each tenth of a second.
const TURN_EACH_US: u64 = 15_000;

pub fn judge(wait: &Wait, around: &Around<'_>) -> Verdict {
    let said = Said::count(around.said);
    // a thread that would run is idle to the server until it does: its client's request has come
    let may_rest = |it| it == Says::Background || it == Says::Idle && wait.way != Way::Queued;
    if said.is_all(may_rest) {
        return Verdict::Nothing;
    }
    if said.most() == Some(Says::AskedToWait) {
        return Verdict::OwnWork;
    }
    if !is_of_one_statement(wait, around) {
        return Verdict::Nothing;
    }
    match wait.way {
        Way::Asleep => asleep(wait, around, &said),
        Way::Blocked => blocked(around, &said),
        Way::Reading => reading(wait, &said),
        Way::Syncing => named(Cause::Sync, 0.9, format!("waited for the disk to write, for {}", ms(wait.length_us()))),
        Way::Queued => named(Cause::Cpu, 0.9, format!("could run for {}, and got no CPU", ms(wait.length_us()))),
    }
}

/// Waits for the disk or for a CPU of one statement after another are found in a row, too. The server's word, how long the statement runs, tells
/// them apart; without it, one wait that is long enough.
fn is_of_one_statement(wait: &Wait, around: &Around<'_>) -> bool {
    if !matches!(wait.way, Way::Reading | Way::Syncing | Way::Queued) {
        return true;
    }
    match (around.began_us, wait.turns) {
        (Some(began_us), _) if wait.way == Way::Queued => began_us <= wait.from_us + SLACK_QUEUED_US,
        (Some(began_us), _) => began_us <= wait.from_us + SLACK_US,
        (None, Some(turns)) if wait.way == Way::Queued => wait.length_us() / (turns + 1) >= TURN_EACH_US,
        (None, Some(turns)) => wait.length_us() / (turns + 1) >= SLACK_US,
        (None, None) => true,
    }
}

fn asleep(wait: &Wait, around: &Around<'_>, said: &Said) -> Verdict {
    let slept = format!("{} samples in a plain sleep, over {}", wait.samples, ms(wait.length_us()));
    if let Some(cause) = said.cause() {
        return said.verdict(cause, slept);
    }
    let unknown = |why: &str| unknown(vec![slept.clone()], format!("free_list_backoff: {why}"));
    match around.backoff {
        Some(true) => {}
        Some(false) => return unknown("innodb_empty_free_list_algorithm is not backoff there"),
        None => return unknown("nothing says that the server has it"),
    }
    let mut evidence = Evidence {
        speaks_for: vec![slept.clone(), "innodb_empty_free_list_algorithm is backoff".to_owned()],
        against: Vec::new(),
    };
    let confidence = match around.wait_free {
        // half of it: what a reading saw of the tries is not known to the millisecond
        Some(rose) if rose.saturating_mul(2) >= around.tries => {
            let what = format!("wait_free rose by {rose} meanwhile; this wait alone makes about {}", around.tries);
            evidence.speaks_for.push(what);
            0.97
        }
        Some(rose) => {
            let why = format!("wait_free rose by {rose} meanwhile, and this wait alone would make {}", around.tries);
            return unknown(&why);
        }
        None => {
            evidence.against.push("wait_free could not be read meanwhile".to_owned());
            0.7
        }
    };
    match around.pages_free {
        Some(free) if free < 100 => evidence.speaks_for.push(format!("{free} free pages")),
        Some(free) => evidence.against.push(format!("{free} pages were free when the server was asked")),
        None => {}
    }
    Verdict::Stall { cause: Cause::FreeListBackoff, confidence, evidence }
}

fn blocked(around: &Around<'_>, said: &Said) -> Verdict {
    let held = "waited for another thread".to_owned();
    if let Some(cause) = said.cause() {
        return said.verdict(cause, held);
    }
    let why = if around.said.is_empty() {
        "the server was not asked while it lasted".to_owned()
    } else {
        format!("the server named no lock: {}", said.words.join(", "))
    };
    unknown(vec![held], why)
}

fn reading(wait: &Wait, said: &Said) -> Verdict {
    let reads = wait.turns.map(|turns| turns + 1);
    let each_us = reads.map(|reads| wait.length_us() / reads.max(1));
    match (reads, each_us) {
        (Some(reads), Some(each)) if reads >= MANY_READS && each < QUICK_READ_US => Verdict::OwnWork,
        (Some(reads), Some(each)) => {
            let what = format!("waited for the disk to read: about {reads} times, {} each", ms(each));
            named(Cause::DiskReads, if said.most() == Some(Says::DiskRead) { 0.97 } else { 0.9 }, what)
        }
        _ => named(Cause::DiskReads, 0.8, format!("waited for the disk to read, for {}", ms(wait.length_us()))),
    }
}

/// What the server said, counted.
struct Said {
    /// Those said most often first.
    counts: Vec<(Says, usize)>,
    words: Vec<String>,
    blockers: Vec<u64>,
}

impl Said {
    fn count(said: &[Session]) -> Self {
        let mut counts: Vec<(Says, usize)> = Vec::new();
        let mut words: Vec<String> = Vec::new();
        let mut blockers: Vec<u64> = Vec::new();
        for session in said {
            match counts.iter_mut().find(|(says, _)| *says == session.says) {
                Some((_, count)) => *count += 1,
                None => counts.push((session.says, 1)),
            }
            if !session.words.is_empty() && !words.contains(&session.words) {
                words.push(session.words.clone());
            }
            let new: Vec<u64> = session.blocked_by.iter().copied().filter(|it| !blockers.contains(it)).collect();
            blockers.extend(new);
        }
        counts.sort_by_key(|(says, count)| (std::cmp::Reverse(*count), *says));
        Self { counts, words, blockers }
    }

    fn is_all(&self, of: impl Fn(Says) -> bool) -> bool {
        !self.counts.is_empty() && self.counts.iter().all(|(says, _)| of(*says))
    }

    fn most(&self) -> Option<Says> {
        self.counts.first().map(|(says, _)| *says)
    }

    fn of(&self, cause: Cause) -> usize {
        self.counts.iter().filter(|(says, _)| cause_of(*says) == Some(cause)).map(|(_, count)| count).sum()
    }

    /// The cause that was named most often, if any was.
    fn cause(&self) -> Option<Cause> {
        self.counts.iter().find_map(|(says, _)| cause_of(*says))
    }

    fn verdict(&self, cause: Cause, how: String) -> Verdict {
        let all: usize = self.counts.iter().map(|(_, count)| count).sum();
        let named = self.of(cause);
        let times = format!("the server said so {named} of {all} times: {}", self.words.join(", "));
        let mut speaks_for = vec![how, times];
        if !self.blockers.is_empty() {
            let blockers: Vec<String> = self.blockers.iter().map(u64::to_string).collect();
            speaks_for.push(format!("held by connection {}", blockers.join(", ")));
        }
        let against = if named < all { vec![format!("{} times it did not", all - named)] } else { Vec::new() };
        // said once and not denied is sure enough; what was said of half of the time is not
        let confidence = 0.95 * (0.5 + 0.5 * named as f64 / all.max(1) as f64);
        Verdict::Stall { cause, confidence, evidence: Evidence { speaks_for, against } }
    }
}

fn cause_of(says: Says) -> Option<Cause> {
    Some(match says {
        Says::RowLock => Cause::RowLock,
        Says::MetadataLock => Cause::MetadataLock,
        Says::DiskRead => Cause::DiskReads,
        Says::Sync => Cause::Sync,
        Says::Checkpoint => Cause::RedoOrCheckpoint,
        Says::BufferPin => Cause::BufferPin,
        Says::Mutex => Cause::Mutex,
        Says::Idle | Says::Busy | Says::AskedToWait | Says::Background => return None,
    })
}

fn named(cause: Cause, confidence: f64, why: String) -> Verdict {
    Verdict::Stall { cause, confidence, evidence: Evidence { speaks_for: vec![why], against: Vec::new() } }
}

fn unknown(speaks_for: Vec<String>, against: String) -> Verdict {
    let evidence = Evidence { speaks_for, against: vec![against] };
    Verdict::Stall { cause: Cause::Unknown, confidence: 0.0, evidence }
}

pub(super) fn ms(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1000.0)
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
