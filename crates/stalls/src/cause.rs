// SPDX-License-Identifier: Apache-2.0
//! What a burst of stalls waited for. Where the log's fields name a cause, it is that; where they name none, a cause that they do not show is weighed.
//! Each cause has its evidence for and against it.

use crate::burst::Burst;
use crate::class::Kind;
use crate::ladder_fit::Lengths;
use crate::needs::{Parts, is_said};
use crate::server::{Backoff, Server};
use serde::{Deserialize, Serialize};

/// The causes, with the names that all of Wringer uses. A log can show only the first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    FreeListBackoff,
    RowLock,
    MetadataLock,
    DiskReads,
    Sync,
    Unknown,
    // a log alone does not show the following causes
    FreeListLegacy,
    FreeListWait,
    RedoOrCheckpoint,
    Mutex,
    BufferPin,
    Cpu,
    Reclaim,
    Probe,
    OwnWork,
}

impl Cause {
    pub const ALL: [Self; 15] = [
        Self::FreeListBackoff,
        Self::RowLock,
        Self::MetadataLock,
        Self::DiskReads,
        Self::Sync,
        Self::Unknown,
        Self::FreeListLegacy,
        Self::FreeListWait,
        Self::RedoOrCheckpoint,
        Self::Mutex,
        Self::BufferPin,
        Self::Cpu,
        Self::Reclaim,
        Self::Probe,
        Self::OwnWork,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::FreeListBackoff => "free_list_backoff",
            Self::RowLock => "row_lock",
            Self::MetadataLock => "metadata_lock",
            Self::DiskReads => "disk_reads",
            Self::Sync => "sync",
            Self::Unknown => "unknown",
            Self::FreeListLegacy => "free_list_legacy",
            Self::FreeListWait => "free_list_wait",
            Self::RedoOrCheckpoint => "redo_or_checkpoint",
            Self::Mutex => "mutex",
            Self::BufferPin => "buffer_pin",
            Self::Cpu => "cpu",
            Self::Reclaim => "reclaim",
            Self::Probe => "probe",
            Self::OwnWork => "own_work",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Evidence {
    #[serde(rename = "for")]
    pub speaks_for: Vec<String>,
    pub against: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) cause: Cause,
    /// From 0 to 1; 0 for `unknown`.
    pub(crate) confidence: f64,
    pub(crate) evidence: Evidence,
}

/// A cause that no field of the log names must have at least this confidence to be told.
const NAMED_FROM: f64 = 0.5;
/// The longest stall under `backoff`: the refiller sleeps at most a second, and then needs some time for its work.
const LONGEST_BACKOFF_US: u64 = 1_150_000;

/// Facts about the server and the host, beside the burst itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) backoff: Backoff,
    /// `None`: nothing says which server it was.
    pub(crate) server: Option<&'a Server>,
    pub(crate) lengths: &'a Lengths,
    pub(crate) clock: Option<Clock>,
}

/// `Innodb_buffer_pool_wait_free` as a clock: under `backoff` it goes up by one with each sleep.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// By how much the counter rose over all stalls.
    pub(crate) rose: u64,
    /// How many sleeps stalls of these lengths take, for those that may have been waits for a free page.
    pub(crate) by_lengths: u64,
}

impl Clock {
    /// Smaller numbers are not compared: so few sleeps end within 18 ms.
    const LEAST: u64 = 19;

    pub(crate) fn agrees(self) -> bool {
        self.rose >= Self::LEAST && self.rose.abs_diff(self.by_lengths) <= self.rose / 10
    }

    /// Whether the stalls are longer than the counter allows. A counter that allows more is no contradiction, because shorter stalls were not looked for.
    fn contradicts(self) -> bool {
        self.by_lengths > self.rose + self.rose / 4
    }
}

pub(crate) fn judge(burst: &Burst, known: Known<'_>) -> Verdict {
    let parts = parts(burst);
    by_fields(burst, &parts, known.server).unwrap_or_else(|| left_over(burst, known, &parts))
}

/// Whether the log's fields leave it open what the victims waited for, so that it may have been a free page.
pub(crate) fn is_left_over(burst: &Burst) -> bool {
    by_fields(burst, &parts(burst), None).is_none() && !are_commits(burst)
}

fn are_commits(burst: &Burst) -> bool {
    burst.victims.iter().all(|victim| victim.kind == Kind::Commit)
}

fn parts(burst: &Burst) -> Parts {
    let mut parts = Parts::default();
    burst.victims.iter().for_each(|victim| parts.add(&victim.parts));
    parts
}

/// The verdict by the log's own fields. `None`: they leave most of the time unexplained.
fn by_fields(burst: &Burst, parts: &Parts, server: Option<&Server>) -> Option<Verdict> {
    let lost = burst.lost_us().max(1);
    let is_most = |us: u64| us >= lost / 2;
    let said = |what: &str, us: u64| format!("{what}: {} of {}", ms(us), ms(lost));
    let verdict = |cause, confidence, speaks_for: Vec<String>| {
        let evidence = Evidence { speaks_for, against: Vec::new() };
        Some(Verdict { cause, confidence, evidence })
    };
    if is_most(parts.row_locks) {
        return verdict(Cause::RowLock, 0.95, vec![said("waited for locks of rows", parts.row_locks)]);
    }
    if is_most(parts.row_locks + parts.locks) {
        return Some(lock(burst, server, said("waited for locks", parts.row_locks + parts.locks)));
    }
    if is_most(parts.reads) {
        return verdict(Cause::DiskReads, 0.9, vec![said("waited for reads from disk", parts.reads)]);
    }
    if is_most(parts.queue) {
        let queue = said("waited to be let into InnoDB (innodb_thread_concurrency)", parts.queue);
        return verdict(Cause::Unknown, 0.0, vec![queue]);
    }
    if !is_most(parts.rest) {
        let mixed = format!(
            "no cause has half of it: locks {}, reads {}, unexplained {}",
            ms(parts.row_locks + parts.locks),
            ms(parts.reads),
            ms(parts.rest)
        );
        return verdict(Cause::Unknown, 0.0, vec![mixed]);
    }
    None
}

/// The verdict on waits for locks, where the log does not say which locks. A statement that takes no locks of rows has not waited for one.
fn lock(burst: &Burst, server: Option<&Server>, said: String) -> Verdict {
    let waited = |of: &dyn Fn(Kind) -> bool| {
        let victims = burst.victims.iter().filter(|victim| of(victim.kind));
        victims.map(|victim| victim.parts.row_locks + victim.parts.locks).fold(0, u64::saturating_add)
    };
    let all = waited(&|_| true);
    let reading = waited(&|kind| matches!(kind, Kind::Read | Kind::Counting | Kind::Definition | Kind::Commit));
    let writing = waited(&|kind| matches!(kind, Kind::Write | Kind::LockingRead));
    let tells_apart = burst.victims.iter().all(|victim| victim.candidate.figures.row_lock_us.is_some());
    let is_mariadbs = burst.victims.iter().all(|victim| victim.candidate.figures.is_mariadbs);
    // without a head, the log does not tell whether this MariaDB counts them
    let has_none_of_rows = is_mariadbs && server.is_some_and(|it| !it.counts_row_locks());
    let (cause, confidence, why) = if has_none_of_rows {
        (Cause::MetadataLock, 0.85, "MariaDB's Lock_time has no waits for locks of rows, from 10.6 on")
    } else if tells_apart {
        (Cause::MetadataLock, 0.85, "none of that was for locks of rows")
    } else if reading == all {
        (Cause::MetadataLock, 0.7, "the victims take no locks of rows")
    } else if writing == all {
        (Cause::RowLock, 0.7, "all victims take locks of rows")
    } else if reading >= all - all / 10 {
        (Cause::MetadataLock, 0.65, "nine tenths of it were waits of statements that take no locks of rows")
    } else if writing >= all - all / 10 {
        (Cause::RowLock, 0.65, "nine tenths of it were waits of statements that take locks of rows")
    } else if reading > 0 {
        (Cause::MetadataLock, 0.55, "statements that take locks of rows waited, and so did statements that take none")
    } else {
        (
            Cause::Unknown,
            0.0,
            "statements waited of which the log does not say what locks they take, such as calls of routines",
        )
    };
    Verdict { cause, confidence, evidence: Evidence { speaks_for: vec![said, why.to_owned()], against: Vec::new() } }
}

/// Weighs evidence: each fact that speaks for a cause leaves less doubt.
#[derive(Default)]
struct Scales {
    doubt: f64,
    evidence: Evidence,
}

impl Scales {
    fn speaks_for(&mut self, weight: f64, what: String) {
        self.doubt *= 1.0 - weight;
        self.evidence.speaks_for.push(what);
    }

    fn against(&mut self, left: f64, what: String) {
        self.doubt = 1.0 - (1.0 - self.doubt) * left;
        self.evidence.against.push(what);
    }
}

fn left_over(burst: &Burst, known: Known<'_>, parts: &Parts) -> Verdict {
    let Known { backoff, server, lengths, clock } = known;
    let mut scales = Scales { doubt: 1.0, evidence: Evidence::default() };
    let victims = &burst.victims;
    let is_all_said = victims.iter().all(|victim| is_said(&victim.candidate.figures));
    if is_all_said {
        let weight = if backoff == Backoff::NotKnown { 0.3 } else { 0.4 };
        let what = format!("{} of {} are not locks, reads or rows", ms(parts.rest), ms(burst.lost_us()));
        scales.speaks_for(weight, what);
    } else {
        scales.evidence.against.push("the log does not say what the victims needed".to_owned());
    }
    let in_engine =
        |it: &crate::victim::Stalled| it.candidate.figures.engine_us.is_some_and(|us| us >= it.parts.rest / 2);
    if victims.iter().all(in_engine) {
        scales.evidence.speaks_for.push("they spent it in the storage engine, and not on reads".to_owned());
    }
    if burst.ends_together() {
        let what = format!("{} connections ended within {}", victims.len(), ms(burst.ends_within_us()));
        scales.speaks_for(0.25, what);
    }
    if are_commits(burst) {
        return named(Cause::Sync, scales, "all victims are commits");
    }
    let not_there = match backoff {
        Backoff::NotThere => Some("this server has no such wait for free pages, or it was not in force"),
        Backoff::InForce => {
            scales.speaks_for(0.3, "innodb_empty_free_list_algorithm is backoff".to_owned());
            None
        }
        Backoff::Possible => {
            scales.speaks_for(0.1, "the server has innodb_empty_free_list_algorithm".to_owned());
            None
        }
        Backoff::Unusual => {
            let why = "free_list_backoff: the server has innodb_empty_free_list_algorithm, which is legacy where nobody sets it";
            scales.evidence.against.push(why.to_owned());
            None
        }
        Backoff::NotKnown => {
            scales.evidence.against.push(match server {
                Some(server) => format!("nobody has looked at what {server} does about an empty free list"),
                None => "nothing says which server it was".to_owned(),
            });
            None
        }
    };
    if let Some(why) = not_there {
        scales.evidence.against.push(format!("free_list_backoff: {why}"));
        return Verdict { cause: Cause::Unknown, confidence: 0.0, evidence: scales.evidence };
    }
    let shown = for_backoff(&mut scales, burst, lengths, clock);
    let confidence = 1.0 - scales.doubt;
    // a page that was read shows only that a free page was needed, which any algorithm finds somehow
    let least = if backoff == Backoff::Unusual { Shown::Ladder } else { Shown::Read };
    if confidence < NAMED_FROM || shown < least {
        scales.evidence.against.push("free_list_backoff: too little speaks for it".to_owned());
        return Verdict { cause: Cause::Unknown, confidence: 0.0, evidence: scales.evidence };
    }
    Verdict { cause: Cause::FreeListBackoff, confidence: rounded(confidence), evidence: scales.evidence }
}

/// What the burst shows of `backoff` that would be missing for other causes. Waits for locks of tables, for example, also end together and leave nothing
/// in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Nothing,
    /// Each victim read a page.
    Read,
    /// The lengths, or the counter, are those of the ladder of sleeps.
    Ladder,
}

/// Weighs the evidence for `backoff`.
fn for_backoff(scales: &mut Scales, burst: &Burst, lengths: &Lengths, clock: Option<Clock>) -> Shown {
    let victims = &burst.victims;
    let mut shown = Shown::Nothing;
    if victims.iter().all(|victim| victim.candidate.figures.reads.is_some_and(|reads| reads > 0)) {
        shown = Shown::Read;
        scales.speaks_for(0.2, "each victim read a page, for which it needed a free one".to_owned());
    }
    if by_lengths(scales, burst, lengths) {
        shown = Shown::Ladder;
    }
    if clock.is_some_and(|clock| by_clock(scales, clock)) {
        shown = Shown::Ladder;
    }
    let longest = victims.iter().map(|victim| victim.parts.rest).max().unwrap_or(0);
    if longest > LONGEST_BACKOFF_US {
        scales.against(0.3, format!("{} is longer than the refiller ever sleeps", ms(longest)));
    }
    shown
}

/// Whether the lengths are those of the ladder of sleeps.
fn by_lengths(scales: &mut Scales, burst: &Burst, lengths: &Lengths) -> bool {
    let victims = &burst.victims;
    let fit = match lengths {
        Lengths::Silent => return false,
        Lengths::OffLadder(count) => {
            let what = format!("no length of a sleep makes the {count} lengths that were compared those of its ladder");
            scales.against(0.6, what);
            return false;
        }
        Lengths::OnLadder(fit) => fit,
    };
    let count = victims.iter().filter(|victim| fit.has(victim.parts.rest)).count();
    let is_of_it = count * 2 >= victims.len();
    if is_of_it {
        let what = format!(
            "{count} of {} lengths are those of the ladder of sleeps, at {:.1} us more for each sleep; of all {} that were compared, {} are",
            victims.len(),
            fit.lattice.overhead_us(),
            fit.lengths,
            fit.fitting
        );
        scales.speaks_for(0.6, what);
    } else {
        scales.against(0.6, format!("{count} of {} lengths are those of the ladder of sleeps", victims.len()));
    }
    is_of_it
}

/// Whether the counter rose as it does under `backoff` during stalls of these lengths.
fn by_clock(scales: &mut Scales, clock: Clock) -> bool {
    let Clock { rose, by_lengths } = clock;
    let what = format!("Innodb_buffer_pool_wait_free rose by {rose}; stalls of these lengths take {by_lengths}");
    let agrees = clock.agrees();
    if agrees {
        scales.speaks_for(0.6, what);
    } else if clock.contradicts() {
        scales.against(0.5, what);
    }
    agrees
}

fn named(cause: Cause, mut scales: Scales, why: &str) -> Verdict {
    scales.speaks_for(0.35, why.to_owned());
    let confidence = rounded(1.0 - scales.doubt);
    let cause = if confidence < NAMED_FROM { Cause::Unknown } else { cause };
    let confidence = if cause == Cause::Unknown { 0.0 } else { confidence };
    Verdict { cause, confidence, evidence: scales.evidence }
}

/// Rounds a confidence, and keeps it below certainty.
fn rounded(confidence: f64) -> f64 {
    (confidence.min(0.97) * 100.0).round() / 100.0
}

pub(crate) fn ms(us: u64) -> String {
    format!("{:.1} ms", us as f64 / 1000.0)
}
