// SPDX-License-Identifier: Apache-2.0
//! What a watch saw, as parts with attributes, for a recording, and back. Each wait that was judged has a number and its surroundings; what the server said of it
//! are parts of their own, with the number of their wait. Attributes that are missing are not known, or 0.

use super::kept::{Facts, Kept};
use super::meanwhile::{DiskTimes, Meanwhile};
use super::parts::Part;
use super::sample::{Says, Session, Stop};
use super::server_stalls::Whole;
use super::track::{Wait, Way};
use std::collections::BTreeMap;
use std::str::FromStr;

type Attributes = BTreeMap<String, String>;

/// A judged wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptParts {
    /// Of a wait: `number`, `thread`, `way`, `samples`, `turns`, `cut` (it had begun before watching began), `goes_on`. Of one that was judged, also `untold`, `connection`, `statement` (its class),
    /// `statement_with_values`, `backoff`, `probed`, `tries`, `wait_free_rose`, `lru_flushed_rose`, `began_us`, `pages_free`, `synced_us`, `queued_us`, `page_writes`, `doublewrites`, `others_page_writes_us`, `ours`, and from two readings of the host around it
    /// `host_us`, `memory_us`, `disk_reads`, `disk_read_ms`, `disk_writes`, `disk_write_ms`.
    pub wait: Part,
    /// Answers that followed each other and said the same are one: `wait` (its number), `thread`, `connection`, `says`, `words`, `answers`, `age_us`, `blocked_by`, `perhaps_blocked_by`.
    pub said: Vec<Part>,
}

impl KeptParts {
    /// `number`: distinguishes this wait from the others of the same watch.
    pub fn of(kept: &Kept, number: u64) -> Self {
        let Kept { wait, facts, .. } = kept;
        let mut part = of_wait(wait);
        let host = facts.meanwhile;
        let disk = host.and_then(|it| it.disk);
        let surroundings = [
            ("number", number.to_string()),
            ("untold", kept.untold.iter().map(|(from, to)| format!("{from}-{to}")).collect::<Vec<_>>().join(" ")),
            ("tries", facts.tries.to_string()),
            ("connection", text(kept.connection)),
            ("statement", kept.statement.to_string()),
            ("statement_with_values", kept.with_values.clone().unwrap_or_default()),
            ("backoff", facts.backoff.map_or("", |it| if it { "yes" } else { "no" }).to_owned()),
            ("probed", facts.probed.clone().unwrap_or_default()),
            ("wait_free_rose", text(facts.wait_free)),
            ("lru_flushed_rose", text(facts.lru_flushed)),
            ("began_us", text(facts.began_us)),
            ("pages_free", text(facts.pages_free)),
            ("synced_us", not_zero(facts.synced_us)),
            ("queued_us", not_zero(facts.queued_us)),
            ("page_writes", not_zero(facts.page_writes)),
            ("doublewrites", not_zero(facts.doublewrites)),
            ("others_page_writes_us", not_zero(facts.others_page_writes_us)),
            ("ours", yes(facts.is_ours)),
            ("host_us", text(host.map(|it| it.over_us))),
            ("memory_us", text(host.and_then(|it| it.memory_us))),
            ("disk_reads", text(disk.map(|it| it.reads))),
            ("disk_read_ms", text(disk.map(|it| it.read_ms))),
            ("disk_writes", text(disk.map(|it| it.writes))),
            ("disk_write_ms", text(disk.map(|it| it.write_ms))),
        ];
        part.attributes.extend(known(surroundings));
        Self { wait: part, said: said_of(kept, number) }
    }

    /// `None`: it is a wait that was not judged, or one of a kind that this build does not know.
    pub fn kept(&self) -> Option<Kept> {
        let of = &self.wait.attributes;
        let number = |name: &str| number::<u64>(of, name);
        let disk = number("disk_reads").map(|reads| DiskTimes {
            reads,
            read_ms: number("disk_read_ms").unwrap_or(0),
            writes: number("disk_writes").unwrap_or(0),
            write_ms: number("disk_write_ms").unwrap_or(0),
        });
        let facts = Facts {
            backoff: of.get("backoff").map(|it| it == "yes"),
            probed: of.get("probed").cloned(),
            wait_free: number("wait_free_rose"),
            tries: number("tries")?,
            lru_flushed: number("lru_flushed_rose"),
            began_us: number("began_us"),
            pages_free: number("pages_free"),
            synced_us: number("synced_us").unwrap_or(0),
            queued_us: number("queued_us").unwrap_or(0),
            page_writes: number("page_writes").unwrap_or(0),
            doublewrites: number("doublewrites").unwrap_or(0),
            others_page_writes_us: number("others_page_writes_us").unwrap_or(0),
            meanwhile: number("host_us").map(|over_us| Meanwhile { over_us, memory_us: number("memory_us"), disk }),
            is_ours: of.contains_key("ours"),
        };
        let answers = self.said.iter().flat_map(|part| {
            let times = self::number::<usize>(&part.attributes, "answers").unwrap_or(1);
            session(part).into_iter().flat_map(move |it| std::iter::repeat_n(it, times.clamp(1, MOST_ANSWERS)))
        });
        let (said_at, said) = answers.unzip();
        Some(Kept {
            wait: wait(&self.wait)?,
            untold: of.get("untold").into_iter().flat_map(|it| it.split(' ')).filter_map(span).collect(),
            connection: number("connection"),
            said,
            said_at,
            statement: of.get("statement").map(String::as_str).unwrap_or_default().into(),
            with_values: of.get("statement_with_values").cloned(),
            facts,
        })
    }
}

fn span(text: &str) -> Option<(u64, u64)> {
    let (from, to) = text.split_once('-')?;
    Some((from.parse().ok()?, to.parse().ok()?))
}

/// More answers are not kept of a thread; a damaged number must not fill the memory.
const MOST_ANSWERS: usize = 40;

/// A wait without its surroundings.
pub fn of_wait(wait: &Wait) -> Part {
    let attributes = [
        ("thread", wait.thread.to_string()),
        ("way", name(wait.way).to_owned()),
        ("samples", wait.samples.to_string()),
        ("turns", text(wait.turns)),
        ("cut", yes(wait.is_cut)),
        ("goes_on", yes(wait.is_open)),
    ];
    part((wait.from_us, wait.to_us), known(attributes))
}

fn wait(part: &Part) -> Option<Wait> {
    let of = &part.attributes;
    let from_us = u64::try_from(part.started_us?).ok()?;
    Some(Wait {
        thread: number(of, "thread")?,
        way: WAYS.iter().find(|(_, name)| of.get("way").is_some_and(|it| it == name))?.0,
        from_us,
        to_us: from_us.saturating_add(part.length_us),
        samples: number(of, "samples")?,
        turns: number(of, "turns"),
        is_cut: of.contains_key("cut"),
        is_open: of.contains_key("goes_on"),
    })
}

impl Whole {
    /// `whole` (`yes`), `way` (of a stop; without one, only the canary has shown it), `goes_on`.
    pub fn part(&self) -> Part {
        let way = self.stop.map_or("", |stop| name(Way::Stopped(stop))).to_owned();
        let attributes = [("whole", yes(true)), ("way", way), ("goes_on", yes(self.is_open))];
        part((self.from_us, self.to_us), known(attributes))
    }

    /// `None`: it is another part.
    pub fn of(part: &Part) -> Option<Self> {
        let of = &part.attributes;
        of.get("whole")?;
        let from_us = u64::try_from(part.started_us?).ok()?;
        let stop = of.get("way").and_then(|way| {
            let stops = [Stop::Signal, Stop::Tracer, Stop::Freezer];
            stops.into_iter().find(|stop| name(Way::Stopped(*stop)) == way)
        });
        let (to_us, is_open) = (from_us.saturating_add(part.length_us), of.contains_key("goes_on"));
        Some(Self { from_us, to_us, stop, is_open })
    }
}

fn said_of(kept: &Kept, number: u64) -> Vec<Part> {
    let mut said: Vec<(Part, u64)> = Vec::new();
    for (session, (asked_us, answered_us)) in kept.said.iter().zip(&kept.said_at) {
        let attributes = known([
            ("wait", number.to_string()),
            ("thread", text(session.thread)),
            ("connection", session.connection.to_string()),
            ("says", word(session.says).to_owned()),
            ("words", session.words.clone()),
            ("blocked_by", listed(&session.blocked_by)),
            ("perhaps_blocked_by", listed(&session.perhaps_blocked_by)),
        ]);
        match said.last_mut().filter(|(last, _)| last.attributes == attributes) {
            Some((last, answers)) => {
                *answers += 1;
                let from_us = last.started_us.and_then(|us| u64::try_from(us).ok()).unwrap_or(*asked_us);
                last.length_us = answered_us.saturating_sub(from_us);
            }
            None => said.push((part((*asked_us, *answered_us), attributes), 1)),
        }
    }
    let ages = kept.said.iter().map(|it| it.age_us);
    let mut ages = ages.collect::<Vec<_>>().into_iter();
    let with_answers = |(mut part, answers): (Part, u64)| {
        let age = ages.by_ref().take(usize::try_from(answers).unwrap_or(usize::MAX)).last().flatten();
        part.attributes.extend(known([("answers", answers.to_string()), ("age_us", text(age))]));
        part
    };
    said.into_iter().map(with_answers).collect()
}

fn session(part: &Part) -> Option<((u64, u64), Session)> {
    let of = &part.attributes;
    let from_us = u64::try_from(part.started_us?).ok()?;
    let numbers = |name: &str| of.get(name).into_iter().flat_map(|it| it.split(' ')).flat_map(str::parse).collect();
    let session = Session {
        connection: number(of, "connection")?,
        thread: number(of, "thread"),
        says: SAYS.iter().find(|(_, name)| of.get("says").is_some_and(|it| it == name))?.0,
        words: of.get("words").cloned().unwrap_or_default(),
        statement: None,
        age_us: number(of, "age_us"),
        blocked_by: numbers("blocked_by"),
        perhaps_blocked_by: numbers("perhaps_blocked_by"),
    };
    Some(((from_us, from_us.saturating_add(part.length_us)), session))
}

const WAYS: [(Way, &str); 12] = [
    (Way::Asleep, "asleep"),
    (Way::Blocked, "blocked"),
    (Way::Faulting, "faulting"),
    (Way::Reclaiming, "reclaiming"),
    (Way::Reading, "reading"),
    (Way::Syncing, "syncing"),
    (Way::Queued, "queued"),
    (Way::FreePage, "free_page"),
    (Way::WritingPages, "writing_pages"),
    (Way::Stopped(Stop::Signal), "stopped_by_signal"),
    (Way::Stopped(Stop::Tracer), "stopped_by_tracer"),
    (Way::Stopped(Stop::Freezer), "stopped_by_freezer"),
];

const SAYS: [(Says, &str); 11] = [
    (Says::Idle, "idle"),
    (Says::Busy, "busy"),
    (Says::RowLock, "row_lock"),
    (Says::MetadataLock, "metadata_lock"),
    (Says::DiskRead, "disk_read"),
    (Says::Sync, "sync"),
    (Says::Checkpoint, "checkpoint"),
    (Says::BufferPin, "buffer_pin"),
    (Says::Mutex, "mutex"),
    (Says::AskedToWait, "asked_to_wait"),
    (Says::Background, "background"),
];

fn name(way: Way) -> &'static str {
    WAYS.iter().find(|(it, _)| *it == way).map_or("", |(_, name)| name)
}

fn word(says: Says) -> &'static str {
    SAYS.iter().find(|(it, _)| *it == says).map_or("", |(_, word)| word)
}

fn part((from_us, to_us): (u64, u64), attributes: Attributes) -> Part {
    Part { started_us: i64::try_from(from_us).ok(), length_us: to_us.saturating_sub(from_us), attributes }
}

fn known<const N: usize>(attributes: [(&str, String); N]) -> Attributes {
    let known = attributes.into_iter().filter(|(_, text)| !text.is_empty());
    known.map(|(name, text)| (name.to_owned(), text)).collect()
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(String::new, |it| it.to_string())
}

fn not_zero(value: u64) -> String {
    text(Some(value).filter(|it| *it > 0))
}

fn yes(it: bool) -> String {
    if it { "yes" } else { "" }.to_owned()
}

fn listed(connections: &[u64]) -> String {
    connections.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

fn number<T: FromStr>(of: &Attributes, name: &str) -> Option<T> {
    of.get(name)?.parse().ok()
}
