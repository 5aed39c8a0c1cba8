// SPDX-License-Identifier: Apache-2.0
//! One pass through a log. Everything that is kept has a bound; candidates that exceed it are judged on the way.

use crate::asked::Asked;
use crate::class::Classes;
use crate::explained::{Account, ClassOf, Cost, Explained, SkippedPart, Source, Stall};
use crate::heads::{Heads, Writer};
use crate::judgement::{Around, Settled};
use crate::ladder::Lattice;
use crate::server::Backoff;
use crate::victim::Candidate;
use logs::{Entry, Format, Log, Skipped, Zone, cut};
use std::io::{self, BufRead};

/// The most bytes of a statement that the reader of the log keeps ([`logs::open_timed`]).
pub const MOST_STATEMENT_BYTES: usize = 1 << 20;
/// The most bytes of a statement with its values.
const MOST_VALUES_BYTES: usize = 500;
/// The most bytes of a connection's name.
const MOST_NAME_BYTES: usize = 64;
/// The most candidates that wait to be judged. Each takes some 300 bytes, and its statement if that was asked for.
const MOST_CANDIDATES: usize = 20_000;
/// Candidates of this last time are not judged on the way: other victims of their burst may still come.
const KEPT_US: i64 = 2_000_000;

/// The stalls of a log.
///
/// # Errors
/// The beginning of the log cannot be read. Where the log breaks off later, everything before that place counts, and the place is among the skipped
/// parts.
pub fn explain<R: BufRead>(log: &mut Log<R>, asked: &Asked) -> io::Result<Explained> {
    let mut gathering = Gathering { heads: Heads::new(asked), ..Gathering::default() };
    let mut broken = None;
    while let Some(entry) = log.next() {
        match entry {
            Ok(entry) => gathering.entry(entry, log.format(), asked),
            Err(error) if log.bytes() == 0 => return Err(error),
            Err(error) => broken = Some(error),
        }
    }
    // a server may have written its head, and nothing else
    gathering.heads.number(log.head());
    let writers = gathering.writers(asked, log.format());
    let candidates = std::mem::take(&mut gathering.candidates);
    let wait_free = asked.wait_free.filter(|_| !gathering.settled_early && !gathering.heads.are_several());
    let around = Around { least_us: asked.least_us, writers: &writers, wait_free };
    gathering.settled.settle(candidates, &mut gathering.classes, around);
    Ok(gathering.explained(log, asked, broken))
}

#[derive(Debug, Default)]
struct Gathering {
    heads: Heads,
    classes: Classes,
    candidates: Vec<Candidate>,
    settled: Settled,
    /// Some candidates were judged before the end. The counter covers all stalls, so it cannot be compared with a part of them.
    settled_early: bool,
    is_perconas: bool,
    is_mariadbs: bool,
    /// MariaDB's figures of its engine.
    has_engine: bool,
    /// MySQL's further figures: `log_slow_extra`.
    has_extra: bool,
    has_rows: bool,
    is_coarse: bool,
    entries: u64,
    untimed: u64,
    /// PostgreSQL's durations without a text.
    textless: u64,
    shortest_us: Option<u64>,
    /// The largest such number of an entry.
    one_in: Option<u64>,
}

impl Gathering {
    fn entry(&mut self, entry: Entry, format: Format, asked: &Asked) {
        self.entries += 1;
        let figures = entry.figures;
        let server = self.heads.entry(entry.head.as_ref(), figures.is_perconas);
        let Some(took_us) = figures.took_us else {
            self.untimed += 1;
            return;
        };
        self.textless += u64::from(entry.sql.is_empty() && format.dialect() == sql::Dialect::Postgresql);
        self.is_perconas |= figures.is_perconas;
        self.is_mariadbs |= figures.is_mariadbs;
        self.has_engine |= figures.engine_us.is_some();
        // Percona Server and MariaDB write bytes beside the changed rows
        self.has_extra |= figures.bytes_sent.is_some() && figures.rows_affected.is_none();
        self.has_rows |= figures.rows_examined.is_some();
        self.is_coarse |= figures.step_us > 1000;
        self.one_in = self.one_in.max(figures.one_in);
        self.shortest_us = Some(self.shortest_us.map_or(took_us, |shortest| shortest.min(took_us)));
        let class = self.classes.record(&entry.sql, format.dialect(), took_us, &figures);
        if took_us < asked.least_us {
            return;
        }
        let statement = asked.with_values.then(|| cut(&entry.sql, MOST_VALUES_BYTES).to_owned());
        let mut connection = entry.session;
        let end = cut(&connection, MOST_NAME_BYTES).len();
        connection.truncate(end);
        let ended_us = entry.at.us.saturating_add_unsigned(took_us);
        let seen_us = None;
        self.candidates.push(Candidate { class, connection, ended_us, took_us, figures, statement, server, seen_us });
        if self.candidates.len() >= MOST_CANDIDATES {
            let writers = self.writers(asked, format);
            self.settle_early(Around { least_us: asked.least_us, writers: &writers, wait_free: None });
        }
    }

    fn settle_early(&mut self, around: Around<'_>) {
        let last = self.candidates.iter().map(|it| it.ended_us).max().unwrap_or(0);
        let all = std::mem::take(&mut self.candidates);
        let (mut early, late): (Vec<Candidate>, Vec<Candidate>) =
            all.into_iter().partition(|it| it.ended_us < last.saturating_sub(KEPT_US));
        // more candidates at one time than memory allows
        if late.len() > MOST_CANDIDATES / 2 {
            early.extend(late);
        } else {
            self.candidates = late;
        }
        self.settled.settle(early, &mut self.classes, around);
        self.settled_early = true;
    }

    fn writers(&self, asked: &Asked, format: Format) -> Vec<Writer> {
        let mut writers = self.heads.writers(asked);
        if format.dialect() == sql::Dialect::Postgresql {
            writers.iter_mut().for_each(|writer| writer.backoff = Backoff::NotThere);
        }
        writers
    }

    fn explained<R: BufRead>(mut self, log: &Log<R>, asked: &Asked, broken: Option<io::Error>) -> Explained {
        let notes = self.notes(log, asked);
        let (stalls, stalls_left_out, account) = close(std::mem::take(&mut self.settled), asked);
        let classes = by_time(&self.classes);
        let part = |(place, why): &(logs::Place, &str)| SkippedPart {
            offset: place.offset,
            bytes: place.bytes,
            why: (*why).to_owned(),
        };
        let mut skipped: Vec<SkippedPart> = log.skipped().places.iter().map(part).collect();
        skipped.extend(broken.map(|error| SkippedPart {
            offset: log.bytes(),
            bytes: 0,
            why: format!("not read from here on: {error}"),
        }));
        Explained {
            schema: 1,
            source: Source { format: Some(log.format().name()), server: self.heads.shown(), least_us: asked.least_us },
            stalls,
            stalls_left_out,
            account,
            classes,
            cost: Cost {
                bytes: log.bytes(),
                entries: self.entries,
                untimed_entries: self.untimed,
                no_statement: log.skipped().no_statement.values().map(|skip| skip.count).sum(),
                skipped_bytes: log.skipped().bytes,
            },
            skipped,
            counter: None,
            notes,
        }
    }

    fn notes<R: BufRead>(&self, log: &Log<R>, asked: &Asked) -> Vec<String> {
        let format = log.format();
        if self.entries == 0 && log.bytes() > 0 {
            return vec![no_entry(format, log.skipped())];
        }
        let mut notes: Vec<String> = zone_of_times(log.zone()).into_iter().collect();
        notes.extend(self.heads.notes(asked));
        let mut note = |is_so: bool, text: &str| notes.extend(is_so.then(|| text.to_owned()));
        let is_of_slow = self.shortest_us.is_some_and(|shortest| shortest >= asked.least_us);
        note(
            is_of_slow,
            "the log has only slow statements: it does not tell how long their classes usually take, so the whole time of each victim counts as lost",
        );
        let waited = self.settled.no_stall.note(is_of_slow);
        note(waited.is_some(), waited.as_deref().unwrap_or_default());
        note(
            format == Format::MysqlSlow && !self.has_rows && self.entries > 0,
            "the log does not say how many rows a statement looked at",
        );
        note(format == Format::MysqlSlow && self.has_rows && !self.is_perconas, self.waits_told());
        note(self.is_coarse, "the log's clock shows seconds: which stalls ended together cannot be seen");
        note(
            self.untimed > 0,
            "some entries do not say how long they took: they are in no class (PostgreSQL: log_min_duration_statement=0 writes the time of each)",
        );
        if let Some(many @ 2..) = self.one_in {
            notes.push(format!(
                "one of {many} statements, or sessions, is in the log (log_slow_rate_limit): what was lost is about {many} times as much, and a stall with few victims may be in \
                 no entry"
            ));
        }
        if self.textless > 0 {
            notes.push(format!(
                "{} entries have no text of their statement: they are one class, whatever their statements were (PostgreSQL: log_min_duration_statement=0 writes the \
                 text of each, and log_duration does not)",
                self.textless
            ));
        }
        notes
    }

    /// Which waits of InnoDB a slow log without Percona Server's fields tells, and what would tell more.
    fn waits_told(&self) -> &'static str {
        match (self.is_mariadbs, self.has_engine, self.has_extra) {
            (true, true, _) => {
                "of the waits of InnoDB, this log has those for reads from disk (Pages_read_time); those for locks of rows are a part of Engine_time, with the \
                 engine's work, or of Lock_time (before 10.6), and MariaDB has no setting that tells them apart"
            }
            (true, false, _) => {
                "this log has no waits of InnoDB beside Lock_time: log_slow_verbosity=innodb,query_plan,engine, in versions that have it (10.11 has, 10.2 does \
                 not), adds the time of reads from disk and the time in the engine"
            }
            (false, _, true) => {
                "this log has no waits of InnoDB beside Lock_time: log_slow_extra, which was on, adds counts of rows, bytes and sorts, and no waits; MySQL has no \
                 setting that tells more"
            }
            (false, _, false) => {
                "this log has no waits of InnoDB beside Lock_time: log_slow_verbosity=innodb adds them in Percona Server; log_slow_extra in MySQL adds counts \
                 alone, and no waits"
            }
        }
    }
}

/// The log has content, and no entry: what its lines are.
fn no_entry(format: Format, skipped: &Skipped) -> String {
    let kinds = skipped.no_statement.iter().chain(&skipped.not_understood);
    let mut kinds: Vec<(u64, &str)> = kinds.map(|(what, skip)| (skip.count, *what)).collect();
    kinds.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let kinds: Vec<String> = kinds.into_iter().map(|(count, what)| format!("{what} ({count})")).collect();
    let seen = if kinds.is_empty() { "what the server writes when it starts".to_owned() } else { kinds.join(", ") };
    let needs = match format.dialect() {
        sql::Dialect::Postgresql => {
            "The durations of log_min_duration_statement or log_duration are read, and the waits of log_lock_waits, in English (lc_messages=C)"
        }
        _ => "Are slow_query_log and long_query_time so that statements are logged?",
    };
    format!("no entry of a statement was found. The log has: {seen}. {needs}")
}

/// What the moments of the answer are, where they are not the log's own and in UTC.
fn zone_of_times(zone: &Zone) -> Option<String> {
    match zone {
        Zone::Utc => None,
        Zone::Offset(east) => {
            let (sign, minutes) = (if *east < 0 { '-' } else { '+' }, east.abs() / 60);
            let (hours, minutes) = (minutes / 60, minutes % 60);
            Some(format!("times are UTC; the log's own are at {sign}{hours:02}:{minutes:02}"))
        }
        Zone::Named(name) => Some(format!(
            "times are as the log shows them, in the time zone {name}: its offset from UTC is not known here"
        )),
        Zone::NotTold => Some("times are as the log shows them: it does not tell their time zone".to_owned()),
    }
}

/// The stalls that were judged, and their account with the counter that the caller knows.
pub(crate) fn close(settled: Settled, asked: &Asked) -> (Vec<Stall>, u64, Account) {
    let Settled { stalls, mut account, .. } = settled;
    let (stalls, stalls_left_out) = stalls.into_stalls();
    account.wait_free = asked.wait_free;
    account.sleep_overhead_us =
        account.sleep_overhead_us.or(account.wait_free_by_stalls.map(|_| Lattice::USUAL_OVERHEAD_US));
    (stalls, stalls_left_out, account)
}

/// The classes; the class with the most time stands first.
pub(crate) fn by_time(classes: &Classes) -> Vec<ClassOf> {
    let mut classes: Vec<ClassOf> = classes.iter().map(class).collect();
    classes.sort_by(|one, other| other.sum_us.cmp(&one.sum_us).then_with(|| one.statement.cmp(&other.statement)));
    classes
}

fn class(class: &crate::class::Class) -> ClassOf {
    let outside = class.count.saturating_sub(class.stalled);
    ClassOf {
        statement: class.statement.clone(),
        count: class.count,
        sum_us: class.sum_us,
        max_us: class.max_us,
        median_us: class.quantile_us(0.5),
        p95_us: class.quantile_us(0.95),
        median_outside_stalls_us: (outside > 0).then(|| class.median_without_us(class.stalled)),
        victims: class.stalled,
        lost_query_us: class.lost_us,
    }
}
