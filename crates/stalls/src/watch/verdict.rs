// SPDX-License-Identifier: Apache-2.0
//! The cause of one wait, from the way in which the thread waited and from what the server said meanwhile. Where neither tells it, it is
//! [`Cause::Unknown`].

use super::free_page;
use super::meanwhile::DiskTimes;
use super::sample::{Says, Session};
use super::server_stalls::stopped;
use super::track::{QUICK_READ_US, SLACK_QUEUED_US, Wait, Way};
use super::wait_context::{Around, Verdict, named, unknown};
use crate::cause::{Cause, Evidence, ms};

/// From so many quick reads on, one after another, reads are the statement's own work.
const MANY_READS: u64 = 20;

/// A statement's wait may seem to begin before the statement by this much: two clocks and a sample do not agree better on one moment.
pub(super) const SLACK_US: u64 = 30_000;
/// A thread that was given a CPU less often than once in this time, on the average, waits for a CPU: a quota gives some milliseconds of each tenth of a
/// second.
const TURN_EACH_US: u64 = 15_000;

/// What is not known of the victims of a stopped server, which cannot be asked.
const OF_A_STOP: &str = "that these clients waited is known by what their threads did when they were stopped, or right after it; when a client had sent its \
                         statement is not known: it may have waited for less";

pub fn judge(wait: &Wait, around: &Around<'_>) -> Verdict {
    let said = Said::count(around.said);
    if wait.way == Way::FreePage {
        // the server's answers may be older than the wait, or younger
        let is_own = said.is_all(|it| it == Says::Background);
        return if is_own { Verdict::Nothing } else { free_page::probed(wait, around) };
    }
    // a thread that could run, or is stopped, is idle for the server until it runs: its client's request has come already
    let has_request = matches!(wait.way, Way::Queued | Way::Stopped(_));
    let may_rest = |it| it == Says::Background || it == Says::Idle && !has_request;
    if said.is_all(may_rest) {
        return Verdict::Nothing;
    }
    if was_asked_for(wait, &said) {
        return Verdict::OwnWork;
    }
    if !is_of_one_statement(wait, around) {
        return Verdict::Nothing;
    }
    match wait.way {
        Way::Asleep => asleep(wait, around, &said),
        Way::Blocked => blocked(wait, around, &said),
        Way::Faulting => faulting(wait, around, &said),
        Way::Reclaiming => reclaiming(wait, around),
        Way::FreePage => free_page::probed(wait, around),
        Way::WritingPages => writing_pages(wait, around, &said),
        Way::Stopped(stop) => unknown(vec![stopped(stop, wait.length_us())], OF_A_STOP.to_owned()),
        Way::Reading => with_disk(reading(wait, &said), around, false),
        Way::Syncing => {
            let what = format!("waited for the disk to write, for {}", ms(wait.length_us()));
            with_disk(named(Cause::Sync, 0.9, what), around, true)
        }
        Way::Queued => queued(wait, around),
    }
}

/// Whether the statement asked to wait. In a wait for another thread nothing changes: an answer that names no wait is about the moment before or after
/// it, because begin and end are known to half an interval. In the other waits the system call tells what it is, unless most answers say otherwise.
fn was_asked_for(wait: &Wait, said: &Said) -> bool {
    let said = if wait.way == Way::Blocked { said.most_named() } else { said.most() };
    said == Some(Says::AskedToWait)
}

/// Whether the wait belongs to one statement. Waits of one statement after another, for the disk or for a CPU, may look like one long wait. The server's
/// answer how long the statement runs decides it; without an answer, a single wait that is long enough does.
fn is_of_one_statement(wait: &Wait, around: &Around<'_>) -> bool {
    if !matches!(wait.way, Way::Reading | Way::Syncing | Way::WritingPages | Way::Queued) {
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

fn queued(wait: &Wait, around: &Around<'_>) -> Verdict {
    let verdict = named(Cause::Cpu, 0.9, format!("could run for {}, and got no CPU", ms(wait.length_us())));
    if around.began_us.is_some() {
        return verdict;
    }
    verdict.but(
        "the server did not say then how old its statement was: it may be longer, because it counts only until the thread was given a CPU"
            .to_owned(),
    )
}

fn asleep(wait: &Wait, around: &Around<'_>, said: &Said) -> Verdict {
    match said.cause() {
        Some(cause) => {
            let slept = format!("{} samples in a plain sleep, over {}", wait.samples, ms(wait.length_us()));
            said.verdict(cause, slept)
        }
        None => free_page::asleep(wait, around),
    }
}

/// The verdict on several ways in turn. If it was no wait for a page, each of them is judged by itself.
fn writing_pages(wait: &Wait, around: &Around<'_>, said: &Said) -> Verdict {
    let is_elsewhere = said.cause().is_some() || said.words.iter().any(|it| is_commit(it));
    let verdict = if is_elsewhere { None } else { free_page::writing(wait, around) };
    verdict.unwrap_or(Verdict::Nothing)
}

/// The states of MySQL and MariaDB in which a statement that has written waits for its commit.
const COMMITS: [&str; 6] = [
    "updating status",
    "commit",
    "starting commit",
    "waiting for prior transaction to commit",
    "waiting for handler commit",
    "query end",
];

/// Whether the server's words say that the statement commits.
pub(super) fn is_commit(words: &str) -> bool {
    COMMITS.iter().any(|it| words.eq_ignore_ascii_case(it))
}

fn blocked(wait: &Wait, around: &Around<'_>, said: &Said) -> Verdict {
    let held = "waited for another thread".to_owned();
    if let Some(verdict) = committing(wait, around, said, &held) {
        return verdict;
    }
    if let Some(cause) = said.cause() {
        return said.verdict(cause, held);
    }
    if let Some(verdict) = free_page::blocked(around) {
        return verdict;
    }
    let why = if around.said.is_empty() {
        "the server was not asked while it lasted".to_owned()
    } else {
        format!("the server named no lock: {}", said.words.join(", "))
    };
    unknown(vec![held], why)
}

/// The confidence in a wait for the disk that only the server's word for the state of a commit names.
pub(super) const UNSEEN_SYNC: f64 = 0.6;

/// The verdict on a wait within a commit. `None`: it is none, or its state alone names no cause.
///
/// A commit waits for whoever writes for it, and the server's state is the same whether that thread waits for the disk or for a CPU. So the state names the disk for
/// sure only if some thread was seen waiting for it.
fn committing(wait: &Wait, around: &Around<'_>, said: &Said, held: &str) -> Option<Verdict> {
    let state = said.words.iter().find(|it| is_commit(it))?;
    let is_named = match said.cause() {
        None => false,
        Some(Cause::Sync) => true,
        Some(_) => return None,
    };
    let is_half = |us: u64| us.saturating_mul(2) >= wait.length_us();
    let synced = |only: &str| {
        format!("another thread waited for the disk to write for {only}{} meanwhile", ms(around.synced_us))
    };
    let waited = || format!("{held}, and the server said: {state}");
    if is_half(around.synced_us) {
        if is_named {
            return Some(said.verdict(Cause::Sync, held.to_owned()).with(synced("")));
        }
        return Some(named(Cause::Sync, 0.7, waited()).with(synced("")));
    }
    if is_half(around.queued_us) {
        let queued = format!("another thread could run for {} meanwhile, and got no CPU", ms(around.queued_us));
        return Some(named(Cause::Cpu, 0.7, waited()).with(queued).but(format!("sync: {}", synced("only "))));
    }
    is_named.then(|| said.verdict(Cause::Sync, held.to_owned()).at_most(UNSEEN_SYNC).but(synced("only ")))
}

/// The verdict on a page fault: the kernel fetches the page from a file or from swap, or has no free page to give.
fn faulting(wait: &Wait, around: &Around<'_>, said: &Said) -> Verdict {
    if let Some(cause) = said.cause() {
        return said.verdict(cause, "waited in a page fault".to_owned());
    }
    let waited = format!("waited in a page fault for {}", ms(wait.length_us()));
    let (is_short, pressure) = memory(wait, around);
    if is_short {
        let evidence = Evidence { speaks_for: std::iter::once(waited).chain(pressure).collect(), against: Vec::new() };
        return Verdict::Stall { cause: Cause::Reclaim, confidence: 0.8, evidence };
    }
    let against = pressure.unwrap_or_else(|| "nothing says whether the host was short of memory".to_owned());
    unknown(vec![waited], format!("reclaim: {against}"))
}

/// The verdict on a wait for memory: the kernel's function in which the thread waits tells it.
fn reclaiming(wait: &Wait, around: &Around<'_>) -> Verdict {
    let waited =
        format!("{} samples in the kernel's search for free memory, over {}", wait.samples, ms(wait.length_us()));
    let (is_short, pressure) = memory(wait, around);
    let confidence = if is_short { 0.95 } else { 0.8 };
    let mut evidence = Evidence { speaks_for: vec![waited], against: Vec::new() };
    let side = if is_short { &mut evidence.speaks_for } else { &mut evidence.against };
    side.extend(pressure);
    Verdict::Stall { cause: Cause::Reclaim, confidence, evidence }
}

/// Whether tasks waited for memory for at least half of the wait's time; and a sentence that says how long.
fn memory(wait: &Wait, around: &Around<'_>) -> (bool, Option<String>) {
    let Some(us) = around.meanwhile.and_then(|it| it.memory_us) else { return (false, None) };
    (us.saturating_mul(2) >= wait.length_us(), Some(format!("some task waited for memory for {} meanwhile", ms(us))))
}

/// Adds to the verdict what the disk of the data directory did meanwhile.
fn with_disk(verdict: Verdict, around: &Around<'_>, writes: bool) -> Verdict {
    let Some((meanwhile, disk)) = around.meanwhile.and_then(|it| Some((it, it.disk?))) else { return verdict };
    let Verdict::Stall { cause, confidence, mut evidence } = verdict else { return verdict };
    let DiskTimes { reads, read_ms, writes: written, write_ms } = disk;
    let (count, took_ms, what) = if writes { (written, write_ms, "writes") } else { (reads, read_ms, "reads") };
    let over = ms(meanwhile.over_us);
    match took_ms.saturating_mul(1000).checked_div(count) {
        None => {
            let what = format!("the disk of the data directory ended no {what} in {over}: they may still be under way");
            evidence.against.push(what);
        }
        Some(each) => {
            let what = format!("the disk of the data directory ended {count} {what} in {over}, {} each", ms(each));
            evidence.speaks_for.push(what);
        }
    }
    Verdict::Stall { cause, confidence, evidence }
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

/// What the server said, with counts.
struct Said {
    /// How often each was said; the one that was said most often stands first.
    counts: Vec<(Says, usize)>,
    words: Vec<String>,
}

impl Said {
    fn count(said: &[Session]) -> Self {
        let mut counts: Vec<(Says, usize)> = Vec::new();
        let mut words: Vec<String> = Vec::new();
        for session in said {
            match counts.iter_mut().find(|(says, _)| *says == session.says) {
                Some((_, count)) => *count += 1,
                None => counts.push((session.says, 1)),
            }
            if !session.words.is_empty() && !words.contains(&session.words) {
                words.push(session.words.clone());
            }
        }
        counts.sort_by_key(|(says, count)| (std::cmp::Reverse(*count), *says));
        Self { counts, words }
    }

    fn is_all(&self, of: impl Fn(Says) -> bool) -> bool {
        !self.counts.is_empty() && self.counts.iter().all(|(says, _)| of(*says))
    }

    fn most(&self) -> Option<Says> {
        self.counts.first().map(|(says, _)| *says)
    }

    /// What was said most often by the answers that name a wait.
    fn most_named(&self) -> Option<Says> {
        let names_none = |says| matches!(says, Says::Idle | Says::Busy | Says::Background);
        self.counts.iter().map(|(says, _)| *says).find(|says| !names_none(*says))
    }

    fn of(&self, cause: Cause) -> usize {
        self.counts.iter().filter(|(says, _)| cause_of(*says) == Some(cause)).map(|(_, count)| count).sum()
    }

    /// The cause that the server named most often, if it named one.
    fn cause(&self) -> Option<Cause> {
        self.counts.iter().find_map(|(says, _)| cause_of(*says))
    }

    fn verdict(&self, cause: Cause, how: String) -> Verdict {
        let all: usize = self.counts.iter().map(|(_, count)| count).sum();
        let named = self.of(cause);
        let times = format!("the server named this wait {named} of {all} times: {}", self.words.join(", "));
        let speaks_for = vec![how, times];
        let against = if named < all { vec![format!("{} of {all} times it did not", all - named)] } else { Vec::new() };
        // a wait that all answers named is sure enough, even with one answer; a wait that half of them named is not
        let confidence = 0.95 * (0.5 + 0.5 * named as f64 / all.max(1) as f64);
        Verdict::Stall { cause, confidence, evidence: Evidence { speaks_for, against } }
    }
}

pub(super) fn cause_of(says: Says) -> Option<Cause> {
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

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
