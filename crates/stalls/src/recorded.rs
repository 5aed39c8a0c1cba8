// SPDX-License-Identifier: Apache-2.0
//! The stalls of a load that was recorded. The recording has each slow statement, and for each class the lengths of all its statements.

use crate::asked::Asked;
use crate::class::{Classes, Kind};
use crate::explained::{Cost, Explained, Source};
use crate::gather::{by_time, close};
use crate::heads::Writer;
use crate::judgement::{Around, Settled};
use crate::server::Backoff;
use crate::victim::Candidate;
use logs::Figures;
use sql::Dialect;

/// One part of a load. Times are microseconds.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    pub classes: Vec<RecordedClass>,
    pub slow: Vec<SlowStatement>,
    /// How many slow statements found no room in the recording. Nothing more is known of them.
    pub dropped: u64,
    /// The shortest statement that was kept one by one.
    pub threshold_us: u64,
}

#[derive(Debug, Clone, Default)]
pub struct RecordedClass {
    /// The load's name for the statement (`point_select`), or its text.
    pub statement: String,
    /// Lengths, and how many of its statements had each.
    pub lengths_us: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, Default)]
pub struct SlowStatement {
    /// As [`RecordedClass::statement`].
    pub statement: String,
    pub connection: String,
    /// Since the run began.
    pub ended_us: i64,
    pub took_us: u64,
    /// How long a watch of the server's threads saw it wait, where that is half of its time or more. Then it is a victim, whatever its class is.
    pub seen_us: Option<u64>,
}

/// The stalls of this part of a load, as [`crate::explain`] finds the stalls of a log. A client's measurement has no fields of the server: so the cause is
/// found from the statements that stalled together, from the lengths, and from the counter where the caller has it.
pub fn explain(recorded: &Recorded, dialect: Dialect, asked: &Asked) -> Explained {
    let mut classes = Classes::default();
    for class in &recorded.classes {
        for (length_us, count) in &class.lengths_us {
            let id = classes.record_n(&class.statement, dialect, *length_us, *count, &Figures::default());
            // a load's classes have names (`point_select`), and no words that say what they do
            let is_name = !class.statement.contains(char::is_whitespace);
            if let Some(class) =
                classes.get_mut(id).filter(|class| is_name && matches!(class.kind, Kind::Definition | Kind::Other))
            {
                class.kind = Kind::NotSaid;
            }
        }
    }
    let least_us = asked.least_us.max(recorded.threshold_us);
    let mut candidates = Vec::new();
    for slow in recorded.slow.iter().filter(|slow| slow.took_us >= least_us) {
        let figures = Figures { took_us: Some(slow.took_us), step_us: 1, ..Figures::default() };
        // where no lengths of a class were recorded, only its slow statements are known
        let class = classes
            .id_of(&slow.statement, dialect)
            .unwrap_or_else(|| classes.record(&slow.statement, dialect, slow.took_us, &figures));
        candidates.push(Candidate {
            class,
            connection: slow.connection.clone(),
            ended_us: slow.ended_us,
            took_us: slow.took_us,
            figures,
            statement: None,
            server: 0,
            seen_us: slow.seen_us,
        });
    }
    let backoff = match asked.wait_free {
        Some(0) => Backoff::NotThere,
        _ if dialect == Dialect::Postgresql => Backoff::NotThere,
        _ => Backoff::of(asked.server.as_ref(), asked.algorithm, false),
    };
    let mut settled = Settled::default();
    let writers = [Writer { server: asked.server.clone(), backoff }];
    settled.settle(candidates, &mut classes, Around { least_us, writers: &writers, wait_free: asked.wait_free });
    let dropped =
        || format!("{} slow statements found no room in the recording: they are in no stall", recorded.dropped);
    let notes = [(recorded.dropped > 0).then(dropped), settled.no_stall.note(false), settled.no_stall.note_of_class()];
    let (stalls, stalls_left_out, account) = close(settled, asked);
    let classes = by_time(&classes);
    Explained {
        schema: 1,
        source: Source { format: Some("recording"), server: asked.server.as_ref().map(ToString::to_string), least_us },
        stalls,
        stalls_left_out,
        account,
        cost: Cost { entries: classes.iter().map(|class| class.count).sum(), ..Cost::default() },
        classes,
        skipped: Vec::new(),
        counter: None,
        notes: notes.into_iter().flatten().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;
    use capability::{Algorithm, Flavour};

    const SELECT: &str = "point_select";

    /// Four connections that wait until the same moment, as after an empty free list; the class is otherwise quick.
    fn stalled(algorithm: Algorithm, wait_free: u64) -> Explained {
        let slow = |connection: u32, started_us: i64, took_us: u64| SlowStatement {
            statement: SELECT.to_owned(),
            connection: connection.to_string(),
            ended_us: started_us.saturating_add_unsigned(took_us),
            took_us,
            seen_us: None,
        };
        let recorded = Recorded {
            classes: vec![RecordedClass {
                statement: SELECT.to_owned(),
                lengths_us: vec![(60, 50_000), (401_592, 3), (405_714, 1)],
            }],
            slow: vec![
                slow(1, 5_000_000, 401_592),
                slow(2, 5_000_100, 401_592),
                slow(3, 5_000_200, 401_592),
                slow(4, 5_000_300, 405_714),
            ],
            dropped: 0,
            threshold_us: 20_000,
        };
        let server = Some(crate::Server { flavour: Flavour::Percona, version: "8.0.29".parse().expect("a version") });
        let asked = Asked {
            least_us: 10_000,
            server,
            algorithm: Some(algorithm),
            wait_free: Some(wait_free),
            ..Asked::default()
        };
        explain(&recorded, Dialect::Mysql, &asked)
    }

    #[test]
    fn four_that_wait_together_are_one_stall_and_lose_what_is_above_their_class() {
        let explained = stalled(Algorithm::Backoff, 325);
        let [stall] = &explained.stalls[..] else { panic!("{explained:?}") };
        assert_eq!((stall.cause, stall.victim_count), (Cause::FreeListBackoff, 4));
        assert_eq!(explained.source.least_us, 20_000, "shorter ones were not kept");
        assert_eq!(explained.account.lost_query_us, 3 * 401_592 + 405_714 - 4 * 60);
        assert_eq!(explained.account.attributed_query_us, explained.account.lost_query_us);
        assert_eq!(explained.classes[0].count, 50_004);
        let tries = explained.account.wait_free_by_stalls.expect("tries");
        assert!((250..=350).contains(&tries), "{tries}");
    }

    #[test]
    fn without_backoff_the_same_is_a_stall_of_another_cause() {
        let explained = stalled(Algorithm::Legacy, 325);
        assert_eq!(explained.stalls.len(), 1);
        assert_ne!(explained.stalls[0].cause, Cause::FreeListBackoff);
        assert_eq!(explained.account.wait_free_by_stalls, None);
    }

    #[test]
    fn a_counter_that_rose_too_little_speaks_against_it() {
        let explained = stalled(Algorithm::Backoff, 40);
        let [stall] = &explained.stalls[..] else { panic!("{explained:?}") };
        assert_eq!(stall.cause, Cause::Unknown);
        assert!(stall.evidence.against.iter().any(|what| what.contains("rose by 40")), "{stall:?}");
    }

    #[test]
    fn what_found_no_room_is_told() {
        let recorded = Recorded { dropped: 3, ..Recorded::default() };
        let explained = explain(&recorded, Dialect::Postgresql, &Asked::default());
        assert_eq!(explained.stalls.len(), 0);
        assert!(explained.notes[0].starts_with("3 slow statements found no room"), "{:?}", explained.notes);
    }
}
