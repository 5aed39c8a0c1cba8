// SPDX-License-Identifier: Apache-2.0
//! What a watch sees, as spans for a recording: waits of clients' threads with what the server said of each and with all else that the verdict on it rests on, calls of
//! the probed function, and, while a thread waits, the server's counters. `stalls explain` judges these waits again.

use ::stalls::watch::{Answer, Counters, KeptParts, Part, Seen, of_wait};
use evidence::{CANARY_MEANWHILE, PROBED_CALL, SERVER_COUNTED, SERVER_SAID, Span, THREAD_WAIT};
use std::collections::BTreeMap;

/// More spans than this are not kept in one minute; they are counted. Waits that became a part of a stall are kept in any case.
const MOST_A_MINUTE: u64 = 3000;
const MINUTE_US: u64 = 60_000_000;
/// A shorter call of the probed function is no wait.
const LEAST_CALL_US: u64 = 1000;

#[derive(Debug, Default)]
pub(super) struct Raw {
    /// The number of the next judged wait.
    number: u64,
    /// Whether a thread waited when the server answered last, or has waited since then.
    has_waited: bool,
    spans: Vec<Span>,
    /// The begin of the minute, and the number of its spans.
    minute: (u64, u64),
    left_out: u64,
}

impl Raw {
    pub(super) fn seen(&mut self, seen: Vec<Seen>) {
        for seen in seen {
            match seen {
                Seen::Wait(wait) => {
                    self.has_waited = true;
                    self.keep(THREAD_WAIT, of_wait(&wait));
                }
                Seen::Call(call) if call.length_us() >= LEAST_CALL_US => {
                    let Part { started_us, length_us, attributes } = of_wait(&call);
                    let attributes = attributes.into_iter().filter(|(name, _)| name == "thread").collect();
                    self.keep(PROBED_CALL, Part { started_us, length_us, attributes });
                }
                Seen::Call(_) => {}
                Seen::Whole(whole) => self.write(THREAD_WAIT, whole.part()),
                Seen::Sung(sung) => self.write(CANARY_MEANWHILE, sung.part()),
                // how the counters rose around it is a part of it
                Seen::Judged { kept, is_victim } => {
                    let KeptParts { wait, said } = KeptParts::of(&kept, self.number);
                    self.number += 1;
                    let parts = said.into_iter().map(|said| (SERVER_SAID, said)).chain([(THREAD_WAIT, wait)]);
                    for (kind, part) in parts {
                        if is_victim { self.write(kind, part) } else { self.keep(kind, part) }
                    }
                }
            }
        }
    }

    /// `is_waiting`: whether a client's thread waits now.
    pub(super) fn answer(&mut self, answer: &Answer, is_waiting: bool) {
        let Some(counters) = answer.counters else { return };
        if std::mem::replace(&mut self.has_waited, is_waiting) || is_waiting {
            let length_us = answer.answered_us.saturating_sub(answer.asked_us);
            let attributes = of_counters(counters, answer.backoff);
            self.keep(SERVER_COUNTED, Part { started_us: i64::try_from(answer.asked_us).ok(), length_us, attributes });
        }
    }

    fn keep(&mut self, kind: &str, part: Part) {
        let to_us = from_us(&part).saturating_add(part.length_us);
        let (began_us, count) = self.minute;
        self.minute = if to_us >= began_us + MINUTE_US { (to_us, 1) } else { (began_us, count + 1) };
        if self.minute.1 > MOST_A_MINUTE {
            self.left_out += 1;
        } else {
            self.write(kind, part);
        }
    }

    fn write(&mut self, kind: &str, part: Part) {
        let from_us = from_us(&part);
        let to_us = from_us.saturating_add(part.length_us);
        let (kind, attributes) = (kind.to_owned(), part.attributes);
        self.spans.push(Span { from_us, to_us, kind, entity: String::new(), attributes });
    }

    /// The spans since the last call.
    pub(super) fn spans(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.spans)
    }

    /// What a reader of the recording should know.
    pub(super) fn note(&self) -> Option<String> {
        let left_out = units::counted(self.left_out, "span");
        (self.left_out > 0).then(|| {
            format!("{left_out} of waits, and of what the server said of them, were not recorded: at most {MOST_A_MINUTE} are in a minute")
        })
    }
}

fn from_us(part: &Part) -> u64 {
    part.started_us.and_then(|us| u64::try_from(us).ok()).unwrap_or(0)
}

fn of_counters(counters: Counters, backoff: Option<bool>) -> BTreeMap<String, String> {
    let Counters { wait_free, pages_free, lru_flushed } = counters;
    let numbers = [("wait_free", wait_free), ("pages_free", pages_free), ("lru_flushed", lru_flushed)];
    let numbers = numbers.into_iter().filter_map(|(name, of)| Some((name.to_owned(), of?.to_string())));
    let algorithm = backoff.map(|it| ("backoff".to_owned(), if it { "yes" } else { "no" }.to_owned()));
    numbers.chain(algorithm).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::stalls::watch::{Doing, Sample, Says, Sched, Session, Wait, Watch, WatchCost, Watching, Way, Written};
    use sql::Dialect;

    const MS: u64 = 1000;

    fn watching() -> Watching {
        let (free_list, probe, server) = (None, None, None);
        let (least_us, backoff, started_unix_us, dialect) = (50 * MS, Some(false), 0, Dialect::Mysql);
        let (is_deep, with_values) = (false, false);
        let watch =
            Watch { least_us, backoff, free_list, probe, is_deep, with_values, dialect, server, started_unix_us };
        let mut watching = Watching::new(watch);
        watching.seen().keep();
        watching
    }

    fn sample(thread: u32, doing: Doing) -> Sample {
        Sample { thread, doing, sched: Some(Sched::default()), stop: None }
    }

    fn session(thread: u32, says: Says) -> Session {
        Session {
            connection: u64::from(thread) + 100,
            thread: Some(thread),
            says,
            words: "updating".into(),
            statement: Some("update t set a = 4711".into()),
            age_us: Some(70_000),
            blocked_by: vec![7],
            perhaps_blocked_by: Vec::new(),
        }
    }

    /// The threads do what `is` says, and the server is asked at `asked`, each 10 ms.
    fn spans(until: u64, asked: &[u64], is: &dyn Fn(u64, u32) -> (Doing, Says)) -> Vec<Span> {
        let (mut watching, mut raw) = (watching(), Raw::default());
        for at in 0..until {
            let at_us = at * 10 * MS;
            watching.sample(at_us, &[1, 2].map(|thread| sample(thread, is(at, thread).0)));
            if asked.contains(&at) {
                let sessions = [1, 2].map(|thread| session(thread, is(at, thread).1)).to_vec();
                let counters = Some(Counters { wait_free: Some(at_us), ..Counters::default() });
                let (sessions, answered_us) = (Some(sessions), at_us + MS);
                let answer = Answer { asked_us: at_us, answered_us, sessions, counters, ..Answer::default() };
                raw.answer(&answer, watching.is_waiting());
                watching.answer(answer);
            }
            watching.settled(at_us + MS);
            raw.seen(watching.seen().take());
        }
        let cost = WatchCost { elapsed_us: until * 10 * MS, ..WatchCost::default() };
        let (_, _, mut seen) = watching.finish(cost, None, Vec::new());
        raw.seen(seen.take());
        raw.spans()
    }

    fn of_kind<'a>(spans: &'a [Span], kind: &str) -> Vec<&'a Span> {
        spans.iter().filter(|span| span.kind == kind).collect()
    }

    /// Thread 1 waits for another one from 100 to 200 ms; thread 2 is idle.
    fn waited() -> Vec<Span> {
        spans(40, &[0, 5, 14, 17, 25, 28], &|at, thread| match (thread, at) {
            (1, 17) => (Doing::Blocked, Says::RowLock),
            (1, 10..20) => (Doing::Blocked, Says::Busy),
            _ => (Doing::Idle, Says::Idle),
        })
    }

    #[test]
    fn a_wait_is_kept_with_what_the_server_said_of_it_and_no_values() {
        let spans = waited();
        let [wait] = of_kind(&spans, THREAD_WAIT)[..] else { panic!("{spans:#?}") };
        assert_eq!((wait.from_us, wait.to_us), (95 * MS, 195 * MS));
        assert_eq!((wait.attributes["way"].as_str(), wait.attributes["samples"].as_str()), ("blocked", "10"));
        assert_eq!(wait.attributes["statement"], "update t set a = ?");
        let said: Vec<(u64, &str)> =
            of_kind(&spans, SERVER_SAID).iter().map(|it| (it.from_us, it.attributes["says"].as_str())).collect();
        assert_eq!(said, [(140 * MS, "busy"), (170 * MS, "row_lock")], "and of thread 2 nothing");
        assert!(of_kind(&spans, SERVER_SAID).iter().all(|it| it.attributes["wait"] == wait.attributes["number"]));
        assert!(!format!("{spans:?}").contains("4711"), "{spans:?}");
    }

    #[test]
    fn counters_are_kept_from_the_first_answer_in_a_wait_to_the_first_after_it() {
        let spans = waited();
        let counted: Vec<&str> =
            of_kind(&spans, SERVER_COUNTED).iter().map(|it| it.attributes["wait_free"].as_str()).collect();
        assert_eq!(counted, ["140000", "170000", "250000"]);
    }

    #[test]
    fn the_same_words_again_and_again_are_one_span() {
        let spans = spans(50, &[0, 10, 20, 30, 40], &|_, thread| match thread {
            1 => (Doing::Syncing(Written::Unknown), Says::Sync),
            _ => (Doing::Idle, Says::Idle),
        });
        let [said] = of_kind(&spans, SERVER_SAID)[..] else { panic!("{spans:#?}") };
        assert_eq!((said.from_us, said.to_us, said.attributes["answers"].as_str()), (0, 401 * MS, "5"));
        let [wait] = of_kind(&spans, THREAD_WAIT)[..] else { panic!("{spans:#?}") };
        assert_eq!(wait.attributes["goes_on"], "yes");
    }

    #[test]
    fn a_wait_that_is_too_short_to_be_told_is_kept_and_not_one_in_three_looks() {
        let spans = spans(60, &[0], &|at, thread| match (thread, at) {
            (1, 10..14 | 40..43) => (Doing::Blocked, Says::Busy),
            _ => (Doing::Idle, Says::Idle),
        });
        let [wait] = of_kind(&spans, THREAD_WAIT)[..] else { panic!("{spans:#?}") };
        assert_eq!((wait.from_us, wait.attributes.contains_key("number")), (95 * MS, false));
    }

    #[test]
    fn calls_of_the_probed_function_are_kept_from_a_millisecond_on() {
        let mut raw = Raw::default();
        let (way, samples, turns, is_cut, is_open) = (Way::FreePage, 4, None, false, false);
        let call =
            |from_us, to_us| Seen::Call(Wait { thread: 1, way, from_us, to_us, samples, turns, is_cut, is_open });
        raw.seen(vec![call(0, 999), call(2000, 9000)]);
        let spans = raw.spans();
        let [call] = &spans[..] else { panic!("{spans:#?}") };
        assert_eq!((call.kind.as_str(), call.from_us, call.length_us()), (PROBED_CALL, 2000, 7000));
        assert_eq!(call.attributes, BTreeMap::from([("thread".to_owned(), "1".to_owned())]));
    }

    #[test]
    fn too_many_spans_of_a_minute_are_counted() {
        let mut raw = Raw::default();
        let counters = Some(Counters { wait_free: Some(1), ..Counters::default() });
        for at_us in (0..MOST_A_MINUTE + 10).map(|nth| nth * MS) {
            raw.answer(&Answer { asked_us: at_us, answered_us: at_us, counters, ..Answer::default() }, true);
        }
        assert_eq!(raw.spans().len() as u64, MOST_A_MINUTE);
        assert!(raw.note().is_some_and(|it| it.starts_with("10 spans of waits")), "{:?}", raw.note());
    }
}
