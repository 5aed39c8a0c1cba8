// SPDX-License-Identifier: Apache-2.0
//! Stalls from the counter `Innodb_buffer_pool_wait_free` alone: under `backoff` each failed try is one count, and each try takes a known time.

use crate::cause::{Cause, Evidence};
use crate::explained::{Account, Band, Cost, Counter, Explained, OfCause, Source, Stall, Victim};
use crate::ladder::Lattice;
use capability::Ladder;

/// The counter's rise, and what the caller knows of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// The server, as the caller names it.
    pub server: String,
    pub ladder: Ladder,
    /// The caller knows that `backoff` is in force.
    pub is_in_force: bool,
    /// The algorithm of this version where nobody sets one is `backoff`.
    pub is_default: bool,
    /// By how much the counter rose.
    pub wait_free: u64,
    /// Queries that stalled meanwhile. At least 1.
    pub victims: u64,
    /// By how much one sleep is longer than the server asked for, in microseconds, where that is known.
    pub sleep_overhead_us: Option<f64>,
}

/// By how much a sleep may be longer than the server asked for, in microseconds. Measured were 57 to 60 on an idle host, by the timer slack alone, and 100
/// to 200 on a busy virtual machine.
const OVERHEADS_US: (f64, f64) = (50.0, 200.0);
/// Victims that are listed one by one.
const LISTED: u64 = 200;

/// How long the stalls were and what they cost.
pub fn explain(counted: &Counted) -> Explained {
    let Counted { ladder, wait_free, .. } = counted;
    let victims = counted.victims.max(1);
    let tries_each = *wait_free as f64 / victims as f64;
    let band = |of: &dyn Fn(f64) -> f64| match counted.sleep_overhead_us {
        Some(known) => Band { least: of(known), likely: of(known), most: of(known) },
        None => Band { least: of(OVERHEADS_US.0), likely: of(Lattice::USUAL_OVERHEAD_US), most: of(OVERHEADS_US.1) },
    };
    let lattice = Lattice::new(ladder, Lattice::USUAL_OVERHEAD_US);
    let length = |overhead: f64| lattice.clone().with_overhead(overhead).length_us_of(tries_each).round();
    let counter = Counter {
        victims,
        tries_each,
        length_us: band(&length),
        lost_query_us: band(&|overhead| length(overhead) * victims as f64),
        sleep_overhead_us: band(&|overhead| overhead),
    };
    let length_us = whole(counter.length_us.likely);
    let lost_query_us = length_us.saturating_mul(victims);
    let of_cause = OfCause { stalls: 1, victims, lost_query_us, longest_us: length_us };
    let account = Account {
        lost_query_us,
        attributed_query_us: lost_query_us,
        by_cause: [(Cause::FreeListBackoff, of_cause)].into(),
        wait_free: Some(*wait_free),
        wait_free_by_stalls: Some(*wait_free),
        sleep_overhead_us: Some(counter.sleep_overhead_us.likely),
        ..Account::default()
    };
    let stalls = if *wait_free == 0 { Vec::new() } else { vec![stall(counted, victims, length_us, lost_query_us)] };
    let notes = notes(counted, counter.length_us.likely);
    let account = if stalls.is_empty() {
        Account { wait_free: Some(0), wait_free_by_stalls: Some(0), ..Account::default() }
    } else {
        account
    };
    Explained {
        schema: 1,
        source: Source { format: Some("counter"), server: Some(counted.server.clone()), least_us: 0 },
        stalls,
        stalls_left_out: 0,
        account,
        classes: Vec::new(),
        cost: Cost::default(),
        skipped: Vec::new(),
        counter: Some(counter),
        notes,
    }
}

/// The LRU manager sleeps this long at most; a refill may take some time more.
const LONGEST_SLEEP_US: f64 = 1_100_000.0;

fn notes(counted: &Counted, length_us: f64) -> Vec<String> {
    let mut notes = Vec::new();
    if !counted.is_in_force && !counted.is_default {
        let server = &counted.server;
        notes.push(format!(
            "all of this is true only if innodb_empty_free_list_algorithm was backoff. {server} has legacy unless somebody sets it, and then the counter \
             says nothing about time: SELECT @@innodb_empty_free_list_algorithm, then --algorithm backoff"
        ));
    }
    if length_us > LONGEST_SLEEP_US {
        notes.push(
            "the LRU manager sleeps a second at most, so no query waits for it much longer at once: there were more victims than --victims says, or \
             they waited several times"
                .to_owned(),
        );
    }
    notes.push(
        "the counter does not say who waited, nor when: the victims are taken to have waited equally long, each once"
            .to_owned(),
    );
    notes.push("threads of the server itself (purge, read-ahead, loading the pool) count, too".to_owned());
    notes
}

fn stall(counted: &Counted, victims: u64, length_us: u64, lost_query_us: u64) -> Stall {
    let what = format!("the counter rose by {}, and each failed try for a free page is one", counted.wait_free);
    let mut evidence = Evidence { speaks_for: vec![what], against: Vec::new() };
    if counted.is_in_force {
        evidence.speaks_for.push("innodb_empty_free_list_algorithm is backoff".to_owned());
    } else {
        let what =
            "whether innodb_empty_free_list_algorithm is backoff was not said; otherwise the counter is no clock";
        evidence.against.push(what.to_owned());
    }
    let victim = Victim {
        thread: None,
        connection: None,
        statement: "".into(),
        statement_with_values: None,
        started_us: None,
        length_us,
        lost_query_us: length_us,
    };
    Stall {
        started_us: None,
        length_us,
        cause: Cause::FreeListBackoff,
        confidence: match (counted.is_in_force, counted.is_default) {
            (true, _) => 0.9,
            (false, true) => 0.6,
            (false, false) => 0.3,
        },
        lost_query_us,
        ends_within_us: 0,
        goes_on: false,
        evidence,
        held_by: Vec::new(),
        victim_count: victims,
        victims: (0..victims.min(LISTED)).map(|_| victim.clone()).collect(),
    }
}

fn whole(us: f64) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a length of the ladder: bounded, and not negative"
    )]
    let us = us.clamp(0.0, 1e15) as u64;
    us
}

#[cfg(test)]
mod tests {
    use super::*;
    use capability::LADDER;

    fn counted(wait_free: u64, victims: u64) -> Explained {
        let server = "percona 8.0.29".to_owned();
        let (ladder, is_in_force, is_default, sleep_overhead_us) = (LADDER, true, false, None);
        explain(&Counted { server, ladder, is_in_force, is_default, wait_free, victims, sleep_overhead_us })
    }

    #[test]
    fn a_server_whose_usual_algorithm_is_legacy_is_told_with_a_condition() {
        let of = |is_in_force, is_default| {
            let (server, ladder) = ("percona 8.0.29".to_owned(), LADDER);
            explain(&Counted {
                server,
                ladder,
                is_in_force,
                is_default,
                wait_free: 479,
                victims: 5,
                sleep_overhead_us: None,
            })
        };
        assert!(of(false, false).notes[0].contains("only if"), "{:?}", of(false, false).notes);
        assert!(!of(true, false).notes[0].contains("only if") && !of(false, true).notes[0].contains("only if"));
        assert!(of(false, false).stalls[0].confidence < of(false, true).stalls[0].confidence);
    }

    #[test]
    fn so_many_counts_that_one_victim_cannot_have_waited_for_them_are_counted_in_full() {
        let once = counted(1_000_000, 1).account.lost_query_us;
        let twice = counted(2_000_000, 1);
        assert!(once > 120_000_000 && twice.account.lost_query_us.abs_diff(2 * once) < once / 100, "{once}");
        assert!(twice.notes[0].contains("more victims"), "{:?}", twice.notes);
    }

    /// The article: five stalls, the longest 554.83 ms, and 479 counts.
    #[test]
    fn the_counts_of_the_article_are_the_stalls_of_the_article() {
        let explained = counted(479, 5);
        let counter = explained.counter.expect("a counter");
        assert!((counter.length_us.likely - 554_830.0).abs() < 0.03 * 554_830.0, "{counter:?}");
        assert!(
            counter.length_us.least <= counter.length_us.likely && counter.length_us.likely <= counter.length_us.most
        );
        assert_eq!(explained.account.lost_query_us, explained.stalls[0].length_us * 5);
        assert_eq!(explained.account.wait_free_by_stalls, Some(479));
    }

    #[test]
    fn a_counter_that_stood_still_is_no_stall() {
        let explained = counted(0, 3);
        assert!(explained.stalls.is_empty() && explained.account.lost_query_us == 0);
    }
}
