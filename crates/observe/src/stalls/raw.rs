// SPDX-License-Identifier: Apache-2.0
//! What a watch sees, before anything is concluded from it, as spans for a recording: waits of clients' threads, calls of the probed function, and, while a thread
//! waits, what the server says of it and of its counters. A later version can judge these waits again.

use ::stalls::watch::{Answer, Counters, Doing, Hit, LEAST_SAMPLES, Sample, Says, Session, Stop, Tracker, Wait, Way};
use evidence::{PROBED_CALL, SERVER_COUNTED, SERVER_SAID, Span, THREAD_WAIT};
use std::collections::{BTreeMap, HashMap};

/// More spans than this are not kept in one minute; they are counted.
const MOST_A_MINUTE: u64 = 3000;
const MINUTE_US: u64 = 60_000_000;
/// A shorter call of the probed function is no wait.
const LEAST_CALL_US: u64 = 1000;

#[derive(Debug, Default)]
pub(super) struct Raw {
    trackers: BTreeMap<u32, Tracker>,
    /// What the server said last, by thread.
    said: BTreeMap<u32, Said>,
    /// When a call began that has not returned.
    calls: HashMap<u32, u64>,
    /// Whether a thread has waited since the last reading of counters that is kept.
    has_waited: bool,
    spans: Vec<Span>,
    /// The begin of the minute, and the number of its spans.
    minute: (u64, u64),
    left_out: u64,
}

/// What the server said of a thread, in answers that follow each other.
#[derive(Debug)]
struct Said {
    from_us: u64,
    to_us: u64,
    answers: u64,
    session: Session,
}

impl Raw {
    /// `is_at_rest`: whether a thread that polls waits for its client.
    pub(super) fn sample(&mut self, at_us: u64, samples: &[&Sample], is_at_rest: &dyn Fn(&Sample) -> bool) {
        for sample in samples {
            let polls = matches!(sample.doing, Doing::Polling(_));
            let doing = if polls && !is_at_rest(sample) { Doing::Blocked } else { sample.doing };
            let tracker = self.trackers.entry(sample.thread).or_insert_with(|| Tracker::new(sample.thread));
            for wait in tracker.sample(at_us, &Sample { doing, ..**sample }) {
                self.waited(&wait);
            }
        }
    }

    pub(super) fn gone(&mut self, at_us: u64, thread: u32) {
        let wait = self.trackers.remove(&thread).and_then(|mut tracker| tracker.close(at_us));
        wait.iter().for_each(|wait| self.waited(wait));
        self.calls.remove(&thread);
    }

    pub(super) fn hits(&mut self, hits: &[Hit]) {
        for hit in hits {
            if !hit.is_return {
                self.calls.insert(hit.thread, hit.at_us);
            } else if let Some(from_us) = self.calls.remove(&hit.thread)
                && hit.at_us.saturating_sub(from_us) >= LEAST_CALL_US
            {
                self.keep(PROBED_CALL, (from_us, hit.at_us), vec![("thread", hit.thread.to_string())]);
            }
        }
    }

    pub(super) fn answer(&mut self, answer: &Answer) {
        let waits: Vec<u32> =
            self.trackers.values().filter_map(Tracker::open).filter(is_long).map(|wait| wait.thread).collect();
        self.has_waited |= !waits.is_empty();
        if let Some(sessions) = &answer.sessions {
            let of_waits = sessions.iter().filter(|it| it.thread.is_some_and(|thread| waits.contains(&thread)));
            self.said_of(answer, &of_waits.cloned().collect::<Vec<Session>>());
        }
        if let Some(counters) = answer.counters.filter(|_| std::mem::take(&mut self.has_waited)) {
            self.keep(SERVER_COUNTED, (answer.asked_us, answer.answered_us), of_counters(counters, answer.backoff));
        }
    }

    fn said_of(&mut self, answer: &Answer, sessions: &[Session]) {
        let before = std::mem::take(&mut self.said);
        for session in sessions {
            let Some(thread) = session.thread else { continue };
            let new =
                Said { from_us: answer.asked_us, to_us: answer.answered_us, answers: 1, session: session.clone() };
            let said = match before.get(&thread).filter(|it| it.is_same(session)) {
                Some(last) => Said { from_us: last.from_us, answers: last.answers + 1, ..new },
                None => new,
            };
            self.said.insert(thread, said);
        }
        let goes_on = |thread: &u32, said: &Said| self.said.get(thread).is_some_and(|now| now.from_us == said.from_us);
        let over: Vec<Said> =
            before.into_iter().filter(|(thread, said)| !goes_on(thread, said)).map(|(_, said)| said).collect();
        over.into_iter().for_each(|said| self.keep_said(said));
    }

    fn keep_said(&mut self, said: Said) {
        let Session { connection, thread, says, words, age_us, blocked_by, .. } = said.session;
        let facts = vec![
            ("thread", thread.map_or_else(String::new, |it| it.to_string())),
            ("connection", connection.to_string()),
            ("says", word(says).to_owned()),
            ("words", words),
            ("answers", said.answers.to_string()),
            ("age_us", age_us.map_or_else(String::new, |it| it.to_string())),
            ("blocked_by", blocked_by.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")),
        ];
        self.keep(SERVER_SAID, (said.from_us, said.to_us), facts);
    }

    fn waited(&mut self, wait: &Wait) {
        if !is_long(wait) {
            return;
        }
        self.has_waited = true;
        let yes = |it: bool| if it { "yes" } else { "" }.to_owned();
        let facts = vec![
            ("thread", wait.thread.to_string()),
            ("way", name(wait.way).to_owned()),
            ("samples", wait.samples.to_string()),
            ("turns", wait.turns.map_or_else(String::new, |it| it.to_string())),
            ("cut", yes(wait.is_cut)),
            ("goes_on", yes(wait.is_open)),
        ];
        self.keep(THREAD_WAIT, (wait.from_us, wait.to_us), facts);
    }

    fn keep(&mut self, kind: &str, (from_us, to_us): (u64, u64), facts: Vec<(&str, String)>) {
        let (began_us, count) = self.minute;
        self.minute = if to_us >= began_us + MINUTE_US { (to_us, 1) } else { (began_us, count + 1) };
        if self.minute.1 > MOST_A_MINUTE {
            self.left_out += 1;
            return;
        }
        let known = facts.into_iter().filter(|(_, fact)| !fact.is_empty());
        let attributes = known.map(|(name, fact)| (name.to_owned(), fact)).collect();
        self.spans.push(Span { from_us, to_us, kind: kind.to_owned(), entity: String::new(), attributes });
    }

    /// The spans since the last call.
    pub(super) fn spans(&mut self) -> Vec<Span> {
        std::mem::take(&mut self.spans)
    }

    /// Watching ends: waits that go on end now.
    pub(super) fn stop(&mut self, at_us: u64) {
        let trackers = std::mem::take(&mut self.trackers);
        let waits = trackers.into_values().filter_map(|mut it| it.close(at_us));
        waits.for_each(|wait| self.waited(&Wait { is_open: true, ..wait }));
        std::mem::take(&mut self.said).into_values().for_each(|said| self.keep_said(said));
    }

    /// What a reader of the recording should know.
    pub(super) fn note(&self) -> Option<String> {
        let left_out = units::counted(self.left_out, "span");
        (self.left_out > 0).then(|| {
            format!("{left_out} of waits, and of what the server said of them, were not recorded: at most {MOST_A_MINUTE} are in a minute")
        })
    }
}

impl Said {
    fn is_same(&self, now: &Session) -> bool {
        let of = |it: &Session| (it.connection, it.says, it.words.clone(), it.blocked_by.clone());
        of(&self.session) == of(now)
    }
}

fn is_long(wait: &Wait) -> bool {
    wait.samples >= LEAST_SAMPLES
}

fn name(way: Way) -> &'static str {
    match way {
        Way::Asleep => "asleep",
        Way::Blocked => "blocked",
        Way::Faulting => "faulting",
        Way::Reclaiming => "reclaiming",
        Way::Reading => "reading",
        Way::Syncing => "syncing",
        Way::Queued => "queued",
        Way::FreePage => "free_page",
        Way::Stopped(Stop::Signal) => "stopped_by_signal",
        Way::Stopped(Stop::Tracer) => "stopped_by_tracer",
        Way::Stopped(Stop::Freezer) => "stopped_by_freezer",
    }
}

fn word(says: Says) -> &'static str {
    match says {
        Says::Idle => "idle",
        Says::Busy => "busy",
        Says::RowLock => "row_lock",
        Says::MetadataLock => "metadata_lock",
        Says::DiskRead => "disk_read",
        Says::Sync => "sync",
        Says::Checkpoint => "checkpoint",
        Says::BufferPin => "buffer_pin",
        Says::Mutex => "mutex",
        Says::AskedToWait => "asked_to_wait",
        Says::Background => "background",
    }
}

fn of_counters(counters: Counters, backoff: Option<bool>) -> Vec<(&'static str, String)> {
    let Counters { wait_free, pages_free, lru_flushed } = counters;
    let number = |of: Option<u64>| of.map_or_else(String::new, |it| it.to_string());
    let algorithm = backoff.map_or("", |it| if it { "yes" } else { "no" });
    vec![
        ("wait_free", number(wait_free)),
        ("pages_free", number(pages_free)),
        ("lru_flushed", number(lru_flushed)),
        ("backoff", algorithm.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::stalls::watch::Sched;

    const MS: u64 = 1000;

    fn sample(thread: u32, doing: Doing) -> Sample {
        Sample { thread, doing, sched: Some(Sched::default()), stop: None }
    }

    fn look(raw: &mut Raw, at_us: u64, samples: &[Sample]) {
        raw.sample(at_us, &samples.iter().collect::<Vec<_>>(), &|_| true);
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

    fn answer(at_us: u64, sessions: Vec<Session>) -> Answer {
        let counters = Counters { wait_free: Some(at_us), ..Counters::default() };
        let (sessions, counters) = (Some(sessions), Some(counters));
        Answer { asked_us: at_us, answered_us: at_us + MS, sessions, counters, ..Answer::default() }
    }

    fn of_kind<'a>(spans: &'a [Span], kind: &str) -> Vec<&'a Span> {
        spans.iter().filter(|span| span.kind == kind).collect()
    }

    /// Thread 1 waits for another one from 100 to 200 ms; thread 2 is idle.
    fn waited() -> Vec<Span> {
        let mut raw = Raw::default();
        for at in 0..30 {
            let doing = if (10..20).contains(&at) { Doing::Blocked } else { Doing::Idle };
            look(&mut raw, at * 10 * MS, &[sample(1, doing), sample(2, Doing::Idle)]);
            if [5, 14, 17, 25, 28].contains(&at) {
                let says = if at == 17 { Says::RowLock } else { Says::Busy };
                raw.answer(&answer(at * 10 * MS, vec![session(1, says), session(2, Says::Idle)]));
            }
        }
        raw.stop(300 * MS);
        raw.spans()
    }

    #[test]
    fn a_wait_is_kept_with_what_the_server_said_of_it_and_no_statement() {
        let spans = waited();
        let [wait] = of_kind(&spans, THREAD_WAIT)[..] else { panic!("{spans:#?}") };
        assert_eq!((wait.from_us, wait.to_us), (95 * MS, 195 * MS));
        assert_eq!((wait.attributes["way"].as_str(), wait.attributes["samples"].as_str()), ("blocked", "10"));
        let said: Vec<(u64, &str)> =
            of_kind(&spans, SERVER_SAID).iter().map(|it| (it.from_us, it.attributes["says"].as_str())).collect();
        assert_eq!(said, [(140 * MS, "busy"), (170 * MS, "row_lock")], "and of thread 2 nothing");
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
        let mut raw = Raw::default();
        (0..10).for_each(|at| look(&mut raw, at * 10 * MS, &[sample(1, Doing::Syncing)]));
        (0..5).for_each(|at| raw.answer(&answer(at * 100 * MS, vec![session(1, Says::Sync)])));
        raw.stop(500 * MS);
        let spans = raw.spans();
        let [said] = of_kind(&spans, SERVER_SAID)[..] else { panic!("{spans:#?}") };
        assert_eq!((said.from_us, said.to_us, said.attributes["answers"].as_str()), (0, 401 * MS, "5"));
        let [wait] = of_kind(&spans, THREAD_WAIT)[..] else { panic!("{spans:#?}") };
        assert_eq!(wait.attributes["goes_on"], "yes");
    }

    #[test]
    fn calls_of_the_probed_function_are_kept_from_a_millisecond_on() {
        let mut raw = Raw::default();
        let hit = |at_us, is_return| Hit { thread: 1, at_us, is_return };
        raw.hits(&[hit(0, false), hit(999, true), hit(2000, false)]);
        raw.hits(&[hit(9000, true), hit(9100, true)]);
        let spans = raw.spans();
        let [call] = &spans[..] else { panic!("{spans:#?}") };
        assert_eq!((call.kind.as_str(), call.from_us, call.length_us()), (PROBED_CALL, 2000, 7000));
    }

    #[test]
    fn a_minute_has_so_many_spans_and_the_others_are_counted() {
        let mut raw = Raw::default();
        let call = |at_us: u64| {
            [false, true].map(|is_return| Hit { thread: 1, at_us: at_us + u64::from(is_return) * MS, is_return })
        };
        (0..MOST_A_MINUTE + 5).for_each(|nth| raw.hits(&call(nth * 2 * MS)));
        assert_eq!(raw.spans().len() as u64, MOST_A_MINUTE);
        assert!(raw.note().is_some_and(|it| it.starts_with("5 spans")), "{:?}", raw.note());
        raw.hits(&call(2 * MINUTE_US));
        assert_eq!(raw.spans().len(), 1, "the next minute");
    }
}
