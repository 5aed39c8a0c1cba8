// SPDX-License-Identifier: Apache-2.0
//! The victims: statements that took far longer than their class usually does. In a log that has only slow statements: statements whose work was little and
//! that took long.

use crate::class::{Class, Classes, Kind};
use crate::needs::{Most, Parts, is_little, is_said, work_us};
use crate::no_stall::NoStall;
use logs::Figures;
use std::collections::HashMap;

/// An entry that took long enough to be looked at.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) class: usize,
    pub(crate) connection: String,
    /// By the log's clock; the step of that clock is in the figures.
    pub(crate) ended_us: i64,
    pub(crate) took_us: u64,
    pub(crate) figures: Figures,
    /// The statement with its values, if it was asked for.
    pub(crate) statement: Option<String>,
    /// The number of its server ([`crate::judgement::Around::writers`]).
    pub(crate) server: usize,
    /// How long a watch of the server's threads saw it wait, where that is half of its time or more.
    pub(crate) seen_us: Option<u64>,
}

#[derive(Debug, Clone)]
pub(crate) struct Stalled {
    pub(crate) candidate: Candidate,
    pub(crate) lost_us: u64,
    pub(crate) parts: Parts,
    pub(crate) kind: Kind,
    /// Whether the usual time of its class is known.
    pub(crate) has_usual: bool,
}

impl Stalled {
    pub(crate) fn began_us(&self) -> i64 {
        self.candidate.ended_us.saturating_sub_unsigned(self.candidate.took_us)
    }

    /// Whether the log says when it was.
    pub(crate) fn is_dated(&self) -> bool {
        self.candidate.figures.step_us > 0
    }

    /// Whether it says nothing alone: neither its class nor its entry tells how much work it had.
    pub(crate) fn needs_company(&self) -> bool {
        !self.has_usual && !is_said(&self.candidate.figures) && !self.is_told_to_wait()
    }

    /// Whether the log's fields or a watch of the server's threads tell that it waited.
    pub(crate) fn is_told_to_wait(&self) -> bool {
        self.parts.most() == Most::Locks || self.candidate.seen_us.is_some()
    }
}

/// A statement that took this many times the median of its class, and exceeded the median by the shortest stall that is looked for, has stalled.
const FAR_ABOVE: u64 = 4;

/// The candidates that stalled, and the others.
pub(crate) fn stalled(candidates: Vec<Candidate>, classes: &Classes, least_us: u64) -> (Vec<Stalled>, NoStall) {
    // a log that has no quick statement at all does not show whether waits are usual
    let has_quick = classes.iter().any(|class| class.min_us < least_us);
    let usual = usual(&candidates, classes, least_us);
    let mut no_stall = NoStall::default();
    let mut found = Vec::new();
    for candidate in candidates {
        let Some(class) = classes.get(candidate.class) else { continue };
        let usual = usual.get(&candidate.class).copied().flatten();
        let judged = match usual {
            Some(usual) => against_class(class.kind, &candidate, usual, least_us),
            // only the entry itself tells how much work the statement had
            None => alone(class.kind, &candidate, has_quick),
        };
        let is_unknown = usual.is_none();
        let judged = judged.or_seen(candidate.seen_us);
        match judged {
            Judged::Usual if is_unknown => no_stall.usual(&candidate.figures, candidate.took_us),
            Judged::Usual => no_stall.as_class(candidate.took_us),
            Judged::OwnWork(us) => no_stall.own_work_us = no_stall.own_work_us.saturating_add(us),
            Judged::Stalled(lost_us) => {
                let parts = Parts::of(&candidate.figures, lost_us);
                found.push(Stalled { candidate, lost_us, parts, kind: class.kind, has_usual: !is_unknown });
            }
        }
    }
    (found, no_stall)
}

enum Judged {
    Usual,
    /// It took long because of its own work.
    OwnWork(u64),
    /// It stalled, and lost so much time.
    Stalled(u64),
}

impl Judged {
    /// A statement that was seen to wait stalled, whatever its class is. Then the time for which it was seen is lost.
    fn or_seen(self, seen_us: Option<u64>) -> Self {
        match (self, seen_us) {
            (Self::Usual | Self::OwnWork(_), Some(us)) => Self::Stalled(us),
            (judged, _) => judged,
        }
    }
}

/// A statement whose usual time is not known.
fn alone(kind: Kind, candidate: &Candidate, has_quick: bool) -> Judged {
    let (figures, took) = (&candidate.figures, candidate.took_us);
    // the server writes such a message about a wait that is longer than usual (deadlock_timeout)
    let tells_waits = has_quick || figures.has_wait_message;
    if is_small(kind, figures, took) || (tells_waits && waited_for_locks(kind, figures, took)) {
        Judged::Stalled(took)
    } else if kind == Kind::AskedToWait {
        Judged::OwnWork(took)
    } else {
        Judged::Usual
    }
}

fn against_class(kind: Kind, candidate: &Candidate, usual: Usual, least_us: u64) -> Judged {
    let Usual { median_us: median, rows_each } = usual;
    let lost = candidate.took_us.saturating_sub(median);
    let waited = waited_for_locks(kind, &candidate.figures, candidate.took_us);
    let is_long = is_far_above(candidate.took_us, median, least_us) || (waited && lost >= least_us);
    if !is_long {
        return Judged::Usual;
    }
    let mut beyond = candidate.figures;
    beyond.rows_examined = beyond.rows_examined.map(|rows| rows.saturating_sub(rows_each));
    let is_own = matches!(kind, Kind::AskedToWait | Kind::Definition | Kind::Other) || work_us(&beyond) >= lost / 2;
    if is_own && !waited { Judged::OwnWork(lost) } else { Judged::Stalled(lost) }
}

/// Whether waits for locks, by the log's own fields or messages, are nearly all of its time. Who asks for a lock by a function asked to wait.
fn waited_for_locks(kind: Kind, figures: &Figures, took_us: u64) -> bool {
    let Parts { row_locks, locks, .. } = Parts::of(figures, took_us);
    kind != Kind::AskedToWait && row_locks.saturating_add(locks) >= took_us - took_us / 10
}

fn is_far_above(took_us: u64, median_us: u64, least_us: u64) -> bool {
    took_us >= median_us.saturating_mul(FAR_ABOVE).max(median_us.saturating_add(least_us))
}

fn is_small(kind: Kind, figures: &Figures, took_us: u64) -> bool {
    let is_known = match kind {
        Kind::Read | Kind::LockingRead | Kind::Write | Kind::Commit | Kind::NotSaid => true,
        // the number of pages that it looked at tells its work; the number of rows does not
        Kind::Counting => figures.pages.is_some(),
        Kind::AskedToWait | Kind::Definition | Kind::Other => false,
    };
    is_known && is_little(figures, took_us)
}

/// How a class is outside stalls.
#[derive(Debug, Clone, Copy)]
struct Usual {
    median_us: u64,
    /// The rows that each of its statements examines.
    rows_each: u64,
}

/// The usual time of each class that has candidates. `None`: it is not known, because the class has no quick statement, or few among many slow ones.
fn usual(candidates: &[Candidate], classes: &Classes, least_us: u64) -> HashMap<usize, Option<Usual>> {
    let mut lengths: HashMap<usize, Vec<(u64, bool)>> = HashMap::new();
    for candidate in candidates {
        let Some(class) = classes.get(candidate.class) else { continue };
        let waited = candidate.seen_us.is_some() || waited_for_locks(class.kind, &candidate.figures, candidate.took_us);
        lengths.entry(candidate.class).or_default().push((candidate.took_us, waited));
    }
    let of_class = |(id, lengths): (usize, Vec<(u64, bool)>)| {
        let class = classes.get(id)?;
        Some((id, (class.min_us < least_us).then(|| outside_stalls(class, &lengths, least_us)).flatten()))
    };
    lengths.into_iter().filter_map(of_class).collect()
}

/// Statements that are told to have waited, and those far above the median, are left out, and the median is computed again, until it does not change.
/// `lengths`: of the candidates, and whether each is told to have waited.
///
/// Where most statements of the class stalled, the first median is the time of a stall: then the lengths are in two groups that are far apart, and the lower
/// group is the usual time, if enough statements are in it.
fn outside_stalls(class: &Class, lengths: &[(u64, bool)], least_us: u64) -> Option<Usual> {
    const ROUNDS: usize = 8;
    const ENOUGH: u64 = 3;
    const ENOUGH_OF: u64 = 4;
    let stalled = |is_out: &dyn Fn(u64, bool) -> bool| {
        class.stalled + lengths.iter().filter(|(took, waited)| is_out(*took, *waited)).count() as u64
    };
    let with_stalls = stalled(&|_, waited| waited);
    let mut median_us = class.median_without_us(with_stalls);
    let mut rows_each = class.rows_each();
    if let Some(lower) = class.below_gap(median_us, |below, above| is_far_above(above, below, least_us)) {
        let all = class.count.saturating_sub(with_stalls);
        if lower.count < ENOUGH || lower.count < all / ENOUGH_OF {
            return None;
        }
        // the rows of the slow statements may be the reason why they are slow
        (median_us, rows_each) = (lower.median_us, 0);
    }
    for _ in 0..ROUNDS {
        let out = stalled(&|took, waited| waited || is_far_above(took, median_us, least_us));
        let next = class.median_without_us(out);
        if next == median_us {
            break;
        }
        median_us = next;
    }
    Some(Usual { median_us, rows_each })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::Dialect;

    fn log(entries: &[(&str, u64, Figures)]) -> (Vec<Candidate>, Classes) {
        let mut classes = Classes::default();
        let mut candidates = Vec::new();
        for (sql, took_us, figures) in entries {
            let class = classes.record(sql, Dialect::Mysql, *took_us, figures);
            let (connection, statement) = (String::new(), None);
            if *took_us >= 20_000 {
                let ended_us = 0;
                candidates.push(Candidate {
                    class,
                    connection,
                    ended_us,
                    took_us: *took_us,
                    figures: *figures,
                    statement,
                    server: 0,
                    seen_us: None,
                });
            }
        }
        (candidates, classes)
    }

    fn losses(entries: &[(&str, u64, Figures)]) -> (Vec<u64>, u64) {
        let (candidates, classes) = log(entries);
        let (found, no_stall) = stalled(candidates, &classes, 20_000);
        (found.iter().map(|it| it.lost_us).collect(), no_stall.own_work_us)
    }

    const QUICK: (&str, u64, Figures) = ("select 1", 100, NOTHING);
    const NOTHING: Figures = Figures {
        one_in: None,
        took_us: None,
        lock_us: None,
        row_lock_us: None,
        queue_us: None,
        reads: None,
        read_us: None,
        pages: None,
        engine_us: None,
        rows_sent: None,
        rows_examined: None,
        rows_affected: None,
        bytes_sent: None,
        step_us: 1,
        is_perconas: false,
        is_mariadbs: false,
        has_wait_message: false,
        is_damaged: false,
    };

    #[test]
    fn a_victim_loses_its_time_less_its_classs_median_outside_stalls() {
        let mut entries = vec![QUICK; 10];
        entries.extend([("select 2", 300_100, NOTHING); 4]);
        assert_eq!(losses(&entries), (vec![300_000; 4], 0));
    }

    #[test]
    fn what_its_own_rows_explain_is_no_stall_and_neither_is_what_asked_to_wait() {
        let mut entries = vec![QUICK; 10];
        entries.push(("select 3", 300_100, Figures { rows_examined: Some(100_000), ..NOTHING }));
        assert_eq!(losses(&entries), (vec![], 300_000));
        let sleeps = [
            ("select sleep(1)", 100, NOTHING),
            ("select sleep(1)", 100, NOTHING),
            ("select sleep(2)", 5_000_000, NOTHING),
        ];
        assert_eq!(losses(&sleeps), (vec![], 4_999_900));
    }

    #[test]
    fn slow_statements_of_a_slow_class_are_as_they_always_are() {
        let report = ("select a from t", 2_000_000, Figures { rows_examined: Some(1_000_000), ..NOTHING });
        assert_eq!(losses(&[report; 5]), (vec![], 0));
        let altered = ("alter table t force", 60_000_000, Figures { rows_examined: Some(0), ..NOTHING });
        assert_eq!(losses(&[altered]), (vec![], 0));
    }

    #[test]
    fn where_a_log_has_slow_statements_alone_those_that_need_little_stalled() {
        let little = ("select c from t where id=1", 744_840, Figures { rows_examined: Some(1), ..NOTHING });
        assert_eq!(losses(&[little]), (vec![744_840], 0));
    }

    #[test]
    fn where_most_statements_of_a_class_stalled_its_quick_ones_are_its_usual_time() {
        for slow in [59, 61, 120] {
            let mut entries = vec![QUICK; 60];
            entries.extend(vec![("select 1", 900_000, NOTHING); slow]);
            assert_eq!(losses(&entries), (vec![899_900; slow], 0), "{slow} slow ones");
        }
        // the rows of each slow statement explain its time
        let many = Figures { rows_examined: Some(1_000_000), ..NOTHING };
        let mut entries = vec![QUICK; 4];
        entries.extend([("select 1", 900_000, many); 6]);
        assert_eq!(losses(&entries), (vec![], 6 * 899_900));
    }

    #[test]
    fn one_quick_statement_among_many_slow_ones_does_not_tell_the_usual_time() {
        let mut entries = vec![("select a from t", 300, NOTHING)];
        let many = Figures { rows_examined: Some(1_000_000), ..NOTHING };
        entries.extend([("select a from t", 2_000_000, many); 9]);
        let (candidates, classes) = log(&entries);
        let (found, no_stall) = stalled(candidates, &classes, 20_000);
        assert_eq!((found.len(), no_stall.usual_us), (0, 9 * 2_000_000), "reports are as they always are");
        let one = Figures { rows_examined: Some(1), ..NOTHING };
        entries.iter_mut().for_each(|(_, _, figures)| *figures = one);
        assert_eq!(losses(&entries), (vec![2_000_000; 9], 0), "their work is little");
    }

    #[test]
    fn lengths_without_a_gap_are_one_group() {
        let entries: Vec<_> = (1..=100).map(|ms| ("select a from t", ms * 1000, NOTHING)).collect();
        assert_eq!(losses(&entries), (vec![], 0));
    }
}
