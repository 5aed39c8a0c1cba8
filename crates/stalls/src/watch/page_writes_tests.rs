// SPDX-License-Identifier: Apache-2.0
use super::super::WatchCost;
use super::super::kept::{Recorded, again};
use super::super::kept_parts::KeptParts;
use super::super::sample::{Answer, Counters, Says, Sched, Session};
use super::super::seen::Seen;
use super::super::testing::{STEP_US, session, watching_of};
use super::*;
use crate::cause::Cause;
use crate::explained::Stall;
use capability::Flavour::Mariadb;
use sql::Dialect;

const BEGINS_US: u64 = 500_000;

/// What two connections do from 0.5 s on, a letter for each look: `f` waits for another thread, `d` writes to the doublewrite buffer, `t` to the file of a table, `l` to the redo log,
/// `r` runs, ` ` waits for its client.
#[derive(Debug)]
struct Case<'a> {
    looks: [&'a str; 2],
    /// At which look another statement begins.
    statements: &'a [usize],
    /// At which look the server says that the statement commits.
    commits_from: usize,
    /// By how much `wait_free` rises in each look.
    wait_free: u64,
    pages_free: u64,
    backoff: bool,
}

const ONE: Case<'_> = Case {
    looks: ["fffffddfffttff", ""],
    statements: &[],
    commits_from: usize::MAX,
    wait_free: 1,
    pages_free: 3,
    backoff: false,
};

impl Case<'_> {
    fn nth(at_us: u64) -> Option<usize> {
        at_us.checked_sub(BEGINS_US).map(|us| (us / STEP_US) as usize)
    }

    fn doing(&self, thread: u32, at_us: u64) -> Doing {
        let looks = self.looks[thread as usize - 1].as_bytes();
        match Self::nth(at_us).and_then(|nth| looks.get(nth)) {
            Some(b'f') => Doing::Blocked,
            Some(b'd') => Doing::Syncing(Written::Doublewrite),
            Some(b't') => Doing::Syncing(Written::Table),
            Some(b'l') => Doing::Syncing(Written::Log),
            Some(b'r') => Doing::Running,
            _ => Doing::Idle,
        }
    }

    fn session(&self, thread: u32, at_us: u64) -> Session {
        let nth = Self::nth(at_us).unwrap_or(0);
        let began = self.statements.iter().rev().find(|it| thread == 1 && **it <= nth).copied().unwrap_or(0);
        let says = if self.doing(thread, at_us) == Doing::Idle { Says::Idle } else { Says::Busy };
        let words = if nth >= self.commits_from { "query end" } else { "updating" };
        let age_us = Some(at_us.saturating_sub(BEGINS_US + began as u64 * STEP_US));
        let statement = Some("UPDATE t SET a = 1".to_owned());
        Session { statement, words: words.to_owned(), age_us, ..session(thread, says) }
    }

    /// The stalls that are told. Judged once more from the recording, they are the same.
    fn told(&self) -> Vec<Stall> {
        let free_list = capability::free_list(Mariadb, &"10.1.23".parse().expect("a version"));
        let mut it = watching_of(free_list, Dialect::Mysql, self.backoff, 0);
        let answer = |at_us: u64| Answer {
            asked_us: at_us,
            answered_us: at_us + 500,
            sessions: Some([1, 2].map(|thread| self.session(thread, at_us)).to_vec()),
            counters: Some(Counters {
                wait_free: Some(Self::nth(at_us).unwrap_or(0) as u64 * self.wait_free),
                pages_free: Some(self.pages_free),
                lru_flushed: Some(0),
            }),
            ..Answer::default()
        };
        it.answer(answer(0));
        let until_us = BEGINS_US + 2_000_000;
        let mut stalls = Vec::new();
        for at_us in (0..until_us).step_by(10_000) {
            // between two looks it was given a CPU three times
            let sched = Some(Sched { turns: 3 * at_us / STEP_US, ..Sched::default() });
            let of = |thread| Sample { thread, doing: self.doing(thread, at_us), sched, stop: None };
            it.sample(at_us, &[of(1), of(2)]);
            let wants = it.wants(at_us);
            if wants.sessions || wants.counters {
                it.answer(answer(at_us));
            }
            stalls.extend(it.settled(at_us + 1000));
        }
        let cost = WatchCost { elapsed_us: until_us, interval_p50_us: STEP_US, ..WatchCost::default() };
        let (last, _, mut seen) = it.finish(cost, None, Vec::new());
        stalls.extend(last);
        let judged = seen.take().into_iter().filter_map(|it| match it {
            Seen::Judged { kept, .. } => KeptParts::of(&kept, 1).kept(),
            _ => None,
        });
        let recorded = Recorded { kept: judged.collect(), ..Recorded::default() };
        let mut once_more = again(recorded, free_list);
        let by_begin = |stall: &Stall| (stall.started_us, stall.cause.name());
        once_more.sort_by_key(by_begin);
        stalls.sort_by_key(by_begin);
        assert_eq!(once_more, stalls);
        stalls
    }

    /// Victims of waits for a free page: connection, length in looks, confidence.
    fn for_a_page(&self) -> Vec<(String, u64, f64)> {
        let stalls = self.told().into_iter().filter(|stall| stall.cause == Cause::FreeListLegacy);
        let of = |stall: Stall| {
            let confidence = stall.confidence;
            let looks = |us: u64| (us + STEP_US / 2) / STEP_US;
            stall.victims.into_iter().map(move |it| (it.connection.expect("known"), looks(it.length_us), confidence))
        };
        stalls.flat_map(of).collect()
    }
}

/// One wait of connection 101. A look more or less: a statement begins between two looks.
#[track_caller]
fn expect_one(case: &Case<'_>, looks: u64, confidence: f64) {
    let found = case.for_a_page();
    let [(connection, told, told_confidence)] = &found[..] else { panic!("{found:?}") };
    assert!(connection == "101" && told.abs_diff(looks) <= 1, "{found:?} is not {looks} looks");
    assert_eq!(*told_confidence, confidence);
}

#[test]
fn several_ways_in_turn_in_which_a_page_was_written_are_one_wait_for_a_page() {
    expect_one(&ONE, 14, 0.9);
    assert_eq!(ONE.told().len(), 1, "and nothing else");
    let awake = Case { looks: ["fffrfddrrfftff", ""], ..ONE };
    expect_one(&awake, 14, 0.9);
    // it writes its commit to the redo log after that
    let commits = Case { looks: ["fffffddfffttllllll", ""], ..ONE };
    expect_one(&commits, 12, 0.9);
    let many_free = Case { pages_free: 70, ..ONE };
    expect_one(&many_free, 14, 0.7);
}

#[test]
fn without_rounds_that_the_server_counts_it_was_no_wait_for_a_page() {
    assert_eq!(Case { wait_free: 0, ..ONE }.for_a_page(), []);
    assert_eq!(Case { backoff: true, ..ONE }.for_a_page(), []);
    // a batch for a late checkpoint: its pages are written to their files by other threads
    assert_eq!(Case { looks: ["fffddddddddddd", ""], ..ONE }.for_a_page(), []);
    assert_eq!(Case { looks: ["ffffffffffffff", ""], ..ONE }.for_a_page(), []);
    assert_eq!(Case { looks: ["fffffllfffllff", ""], ..ONE }.for_a_page(), []);
}

#[test]
fn who_writes_to_the_doublewrite_buffer_alone_waits_for_a_page_if_another_writes_to_tables() {
    let looks_of = |case: &Case<'_>, connection: &str| {
        case.for_a_page().into_iter().filter(|it| it.0 == connection).map(|it| it.1).collect::<Vec<u64>>()
    };
    let both = Case { looks: ["ffffddffffff", "fftfftffffdd"], ..ONE };
    assert!(looks_of(&both, "101").iter().all(|looks| looks.abs_diff(12) <= 1), "{both:?}");
    assert_eq!([looks_of(&both, "101").len(), looks_of(&both, "102").len()], [1, 1]);
    let waits = Case { looks: ["ffffffffffff", "fftfftffffdd"], ..ONE };
    assert_eq!([looks_of(&waits, "101").len(), looks_of(&waits, "102").len()], [0, 1], "it may wait for the log");
}

#[test]
fn each_statement_has_a_wait_of_its_own() {
    let two = Case { looks: ["fffffddtfffffffdddtt", ""], statements: &[9], ..ONE };
    let found: Vec<u64> = two.for_a_page().into_iter().map(|(_, looks, _)| looks).collect();
    assert!(found.len() == 2 && found[0].abs_diff(9) <= 1 && found[1].abs_diff(11) <= 1, "{found:?}");
}

#[test]
fn the_commit_after_it_is_another_wait() {
    let commits = Case { looks: ["ffffddffttffffffffff", ""], commits_from: 11, ..ONE };
    let [(_, looks, _)] = &commits.for_a_page()[..] else { panic!("{:?}", commits.told()) };
    assert!((9..=11).contains(looks), "{looks}");
}
