// SPDX-License-Identifier: Apache-2.0
//! Stalls of a running server: its threads are sampled, and the server is asked what its connections wait for; [`::stalls::watch`] interprets both.
//!
//! Read-only: nothing is set on the server but a limit of time for our own session, no thread is stopped. A thread of its own asks the server, once a second,
//! and up to ten times a second while a client's thread is seen waiting; less often where the answers take long.

mod account_rights;
mod asker;
mod asking;
mod canary;
mod descriptors;
mod host_side;
mod keeping;
mod mysql;
mod namespaced;
mod pace;
mod postgresql;
mod probe;
mod raw;
mod slow_log;
mod surroundings;
mod syscall;
mod table_locks;
mod threads;
mod waits;
mod written;

use crate::server::ServerKind;
use crate::{Error, OwnConnections, Reopening};
use ::stalls::Stall;
use ::stalls::watch::{Missing, Pressure, Watch, WatchCost, Watched, Watching};
use asker::{Answered, Asker, Question, Scope};
use capability::Protocol;
use host::clock::RunClock;
use host::process::Identity;
use host_side::HostSide;
pub use keeping::{Keeper, Recorded, Recorder};
use pace::{Budget, Pacer};
use probe::Probing;
use raw::Raw;
use sql::Dialect;
use std::collections::BTreeMap;
use std::time::Duration;
use surroundings::Surroundings;
use threads::Threads;

/// The settings of a watch.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The time from one sweep to the next. `None`: 10 ms, or longer so that the watching thread takes less than 1 % of a CPU, but at most 20 ms.
    pub interval: Option<Duration>,
    /// The shortest stall that is reported.
    pub least: Duration,
    /// Report statements with their values.
    pub with_values: bool,
    /// Sweep more often, and ask for wait events and each instance's free pages.
    pub is_deep: bool,
    /// Probe the function in which queries wait for a free page, and report calls that take at least this long.
    pub probes: Option<Duration>,
    /// The time from one run of the canary's query to the next, on a connection of its own; `None`: none is sent.
    pub canary: Option<Duration>,
    /// Follow the server's slow log.
    pub slow_log: bool,
    /// Keep the waits and answers from which stalls are concluded, as spans for a recording ([`Watcher::spans`]).
    pub raw: bool,
    /// The clock of a recording. `None`: a clock that begins with the watch.
    pub clock: Option<RunClock>,
}

impl Options {
    /// The shortest stall that is reported, by default.
    pub const LEAST: Duration = Duration::from_millis(50);
    /// The same with `is_deep`.
    const DEEP_LEAST: Duration = Duration::from_millis(20);
    /// The shortest call of the probed function that is reported, by default.
    const PROBED_LEAST: Duration = Duration::from_millis(5);

    /// Options of a tier: `is_deep`, and `has_probes` in addition. `least`: the shortest stall that is reported; `None`: the shortest that the tier sees.
    pub fn of_tier(least: Option<Duration>, is_deep: bool, has_probes: bool) -> Self {
        Self {
            least: least.unwrap_or(if is_deep { Self::DEEP_LEAST } else { Self::LEAST }),
            is_deep,
            probes: has_probes.then(|| least.unwrap_or(Self::PROBED_LEAST)),
            ..Self::default()
        }
    }
}

impl Default for Options {
    /// Options of the default tier, with no additions.
    fn default() -> Self {
        Self {
            interval: None,
            least: Self::LEAST,
            with_values: false,
            is_deep: false,
            probes: None,
            canary: None,
            slow_log: false,
            raw: false,
            clock: None,
        }
    }
}

/// The server to ask.
pub struct Asked {
    pub connection: Reopening,
    pub kind: ServerKind,
    /// A second connection, for the canary.
    pub canary: Option<Reopening>,
    /// Connections that this program has to the server for other work.
    pub own: OwnConnections,
    /// The server's settings, by name.
    pub variables: BTreeMap<String, String>,
    /// The server's name, in words.
    pub name: String,
}

/// The end of a watch.
#[derive(Debug)]
pub struct Finished {
    /// The stalls that were not returned yet.
    pub last: Vec<Stall>,
    /// The result of the whole watch.
    pub watched: Watched,
    /// As [`Watcher::spans`]; waits that went on end with the watch.
    pub spans: Vec<evidence::Span>,
}

/// Watches one server.
pub struct Watcher {
    clock: RunClock,
    /// When the watch began, on `clock`.
    began_us: u64,
    pid: u32,
    threads: Threads,
    asker: Option<Asker>,
    probing: Option<Probing>,
    host_side: HostSide,
    watching: Watching,
    surroundings: Surroundings,
    /// `None`: nobody records them.
    raw: Option<Raw>,
    pacer: Pacer,
    missing: Vec<Missing>,
    of_server: Vec<Missing>,
    cost: WatchCost,
    cpu_before: Duration,
    /// This thread's CPU time at the end of the last sweep.
    cpu_of_rounds: Duration,
    asker_cpu: Duration,
    pressure_before: Option<Pressure>,
    budget: Budget,
    listed_us: u64,
    counted_us: u64,
}

/// The list of threads is read at this interval, because threads come and go.
const LISTED_EVERY_US: u64 = 100_000;
/// The server is asked at this interval when no client waits.
const COUNTED_EVERY_US: u64 = 1_000_000;
/// Threads that serve no client are sampled once in this many sweeps.
const STRANGERS_EVERY: u64 = 8;
const ALGORITHM: &str = "innodb_empty_free_list_algorithm";
/// How long to wait for the first answer.
const PATIENCE: Duration = Duration::from_secs(6);

impl Watcher {
    /// `asked`: the server, if one can be asked. Waits for its first answer.
    ///
    /// # Errors
    /// [`Error::Gone`]: the process has ended. [`Error::Threads`]: this user may not read its threads. [`Error::Thread`].
    pub fn start(
        process: Identity,
        by_process: bool,
        mut asked: Option<Asked>,
        options: &Options,
    ) -> Result<Self, Error> {
        let clock = options.clock.unwrap_or_else(RunClock::start);
        let began_us = clock.now_us();
        if !process.is_alive() {
            return Err(Error::Gone { pid: process.pid });
        }
        let (threads, mut missing) = Threads::of(process.pid, by_process)?;
        let is_postgresql = by_process;
        let backoff = match &asked {
            Some(asked) => Some(asked.variables.get(ALGORITHM).is_some_and(|it| it.eq_ignore_ascii_case("backoff"))),
            None => {
                missing.push(Missing {
                    what: "which connections wait, and for whose locks".into(),
                    why: "no server is asked: waits of one thread for another cannot be told from threads at rest, and are left out".into(),
                    remedy: Some("a connection: --sandbox, --dsn, --mysql-socket, ...".into()),
                });
                None
            }
        };
        let kind = asked.as_ref().map(|asked| &asked.kind);
        let probing = options.probes.map(|_| Probing::start(process.pid, kind, clock));
        let probing = probing.and_then(|it| it.map_err(|why| missing.push(why)).ok());
        let host_side = HostSide::of(process.pid, data_directory(asked.as_ref()));
        if options.is_deep && !host_side.knows_the_disk() {
            missing.push(Missing {
                what: "how long the disk of the data directory took".into(),
                why: "it has no line of its own in /proc/diskstats, or the server does not name its data directory"
                    .into(),
                remedy: None,
            });
        }
        let mut watching = Watching::new(Watch {
            least_us: micros(options.least),
            backoff,
            free_list: kind.and_then(|kind| capability::free_list(kind.flavour, &kind.version)),
            probe: probing.as_ref().zip(options.probes).map(|(probing, least)| probing.probe(least)),
            is_deep: options.is_deep,
            with_values: options.with_values,
            dialect: if is_postgresql { Dialect::Postgresql } else { Dialect::Mysql },
            server: asked.as_ref().map(|asked| asked.name.clone()),
            started_unix_us: clock.started_unix_us(),
        });
        if options.raw {
            watching.seen().keep();
        }
        let has_algorithm = asked.as_ref().is_some_and(|asked| asked.variables.contains_key(ALGORITHM));
        let scope = Scope { is_deep: options.is_deep, has_algorithm };
        let protocol = if is_postgresql { Protocol::Postgresql } else { Protocol::Mysql };
        let (surroundings, of_surroundings) =
            Surroundings::start(asked.as_mut(), process.pid, protocol, clock, options)?;
        missing.extend(of_surroundings);
        let asker = asked.map(|asked| Asker::start(asked.connection, protocol, clock, scope)).transpose()?;
        let mut watcher = Self {
            clock,
            began_us,
            pid: process.pid,
            threads,
            asker,
            probing,
            host_side,
            watching,
            surroundings,
            raw: options.raw.then(Raw::default),
            pacer: Pacer::new(options.interval, options.is_deep),
            missing,
            of_server: Vec::new(),
            cost: WatchCost::default(),
            cpu_before: pace::cpu_time(),
            cpu_of_rounds: host::clock::thread_cpu_time(),
            asker_cpu: Duration::ZERO,
            pressure_before: pace::pressure(),
            budget: Budget::default(),
            listed_us: 0,
            counted_us: 0,
        };
        watcher.surroundings.begin(&mut watcher.watching);
        watcher.threads.list();
        watcher.sweep();
        watcher.ask(Question { sessions: true, locks: true, counters: true });
        watcher.take_answers(PATIENCE);
        watcher.pacer.begin();
        Ok(watcher)
    }

    /// Sleeps until the next sweep is due, and performs it. Returns the stalls that are settled by then.
    pub fn round(&mut self) -> Vec<Stall> {
        if let Some(overhead) = self.pacer.sleep() {
            self.watching.sleep_overhead(overhead);
        }
        let now_us = self.clock.now_us();
        if now_us >= self.listed_us + LISTED_EVERY_US {
            self.listed_us = now_us;
            for thread in self.threads.list() {
                self.watching.gone(now_us, thread);
            }
            self.watching.host(now_us, self.host_side.read());
            self.threads.memory_is_short(self.watching.is_memory_short());
            self.threads.names_files(self.watching.looks_for_page_writes());
        }
        self.sweep();
        self.take_hits(false);
        self.take_answers(Duration::ZERO);
        self.surroundings.told(&mut self.watching);
        self.ask_what_is_wanted();
        self.watching.settled(self.clock.now_us())
    }

    /// The stalls that are not over and have lasted for `least` by now, with what is known of them so far.
    pub fn going_on(&mut self, least: Duration) -> Vec<Stall> {
        self.watching.going_on(self.clock.now_us(), micros(least))
    }

    /// Takes the last readings.
    pub fn finish(self) -> Finished {
        let before = self.cpu_before;
        self.finish_with(&|_| pace::cpu_time().saturating_sub(before))
    }

    /// Like [`Self::finish`], for a process that does other work, too. `own`: the CPU time of the thread that watched.
    pub fn finish_beside(self, own: &dyn Fn() -> Duration) -> Finished {
        self.finish_with(&|of_asker| own() + of_asker)
    }

    /// `cpu`: computes the CPU time of the watch from that of the thread that asks the server.
    fn finish_with(mut self, cpu: &dyn Fn(Duration) -> Duration) -> Finished {
        self.take_answers(Duration::from_millis(500));
        self.watching.host(self.clock.now_us(), self.host_side.read());
        self.take_hits(true);
        self.watching.stop(self.clock.now_us());
        if self.ask(Question { sessions: true, locks: false, counters: true }) {
            self.take_answers(Duration::from_secs(1));
        }
        let now_us = self.clock.now_us();
        self.surroundings.end(&mut self.watching, now_us);
        let now_us = self.clock.now_us();
        let spans = self.spans();
        let cpu_us = micros(cpu(self.asker_cpu));
        let elapsed_us = now_us.saturating_sub(self.began_us);
        let cost = WatchCost {
            elapsed_us,
            cpu_us,
            cpu_share: cpu_us as f64 / elapsed_us.max(1) as f64,
            statements: self.cost.statements + self.surroundings.statements(),
            sweeps_late: self.pacer.late(),
            interval_us: self.pacer.interval_us(),
            interval_p50_us: self.pacer.median_us(),
            interval_max_us: self.pacer.longest_us(),
            hits: self.probing.as_ref().map_or(0, |it| it.hits),
            hits_lost: self.probing.as_ref().map_or(0, Probing::lost),
            hits_cpu_us: self.probing.as_ref().map_or(0, |it| micros(it.cpu)),
            ..self.cost
        };
        let pressure = self.pressure_before.zip(pace::pressure()).map(|(before, now)| Pressure {
            cpu_us: now.cpu_us.saturating_sub(before.cpu_us),
            io_us: now.io_us.saturating_sub(before.io_us),
            memory_us: now.memory_us.saturating_sub(before.memory_us),
        });
        let (of_surroundings, skipped) = self.surroundings.missing();
        let of_threads = self.threads.missing();
        let missing = self.missing.into_iter().chain(of_threads).chain(self.of_server).chain(of_surroundings).collect();
        let (last, watched, mut seen) = self.watching.finish(cost, pressure, missing);
        let mut raw = self.raw;
        let last_spans = raw.as_mut().map(|raw| {
            raw.seen(seen.take());
            raw.spans()
        });
        let spans = spans.into_iter().chain(last_spans.into_iter().flatten()).collect();
        let notes = watched.notes.iter().cloned().chain(raw.iter().filter_map(Raw::note)).collect();
        Finished { last, watched: Watched { skipped, notes, ..watched }, spans }
    }

    /// Slow answers to the canary and entries of the slow log since the last call, for a recording; with [`Options::raw`] also waits and what the server said of
    /// them. Their entity is empty.
    pub fn spans(&mut self) -> Vec<evidence::Span> {
        let watching = &mut self.watching;
        let raw = self.raw.as_mut().map(|raw| {
            raw.seen(watching.seen().take());
            raw.spans()
        });
        self.surroundings.spans().into_iter().chain(raw.into_iter().flatten()).collect()
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    fn take_hits(&mut self, all: bool) {
        let hits = self.probing.as_mut().map(|probing| probing.take(all)).unwrap_or_default();
        self.watching.hits(&hits);
    }

    fn sweep(&mut self) {
        let is_for_all = self.cost.sweeps.is_multiple_of(STRANGERS_EVERY);
        let watching = &self.watching;
        let at_us = self.clock.now_us();
        let swept = self
            .threads
            .sweep(&|thread| is_for_all || watching.is_client(thread), &|sample| watching.is_at_rest(sample));
        let took_us = self.clock.now_us().saturating_sub(at_us);
        // the time of each sample within the sweep is not known, so the middle is used
        self.watching.stopped(at_us + took_us / 2, swept.stop);
        self.watching.sample(at_us + took_us / 2, &swept.samples);
        for thread in swept.gone {
            self.watching.gone(at_us, thread);
        }
        let cpu = host::clock::thread_cpu_time();
        self.pacer.swept(at_us, micros(cpu.saturating_sub(self.cpu_of_rounds)));
        self.cpu_of_rounds = cpu;
        self.cost.sweeps += 1;
        self.cost.threads = self.cost.threads.max(self.threads.count());
    }

    fn ask_what_is_wanted(&mut self) {
        let now_us = self.clock.now_us();
        if !self.budget.allows(now_us) {
            return;
        }
        let wants = self.watching.wants(now_us);
        let is_due = now_us >= self.counted_us + COUNTED_EVERY_US;
        let is_wanted = wants.sessions || wants.counters;
        if is_due || is_wanted {
            self.ask(Question {
                sessions: is_due || wants.sessions,
                locks: wants.locks,
                counters: is_due || wants.counters,
            });
        }
    }

    fn ask(&mut self, question: Question) -> bool {
        let Some(asker) = &mut self.asker else { return false };
        let now_us = self.clock.now_us();
        let is_sent = asker.ask(question);
        if is_sent && question.counters {
            self.counted_us = now_us;
        }
        is_sent
    }

    fn take_answers(&mut self, patience: Duration) {
        let Some(Answered { answers, took_us, missing, statements, cpu, own }) =
            self.asker.as_mut().and_then(|asker| asker.answered(patience))
        else {
            return;
        };
        for mut answer in answers {
            for session in answer.sessions.iter_mut().flatten() {
                session.thread = session.thread.and_then(|thread| self.threads.here(thread));
            }
            if let Some(raw) = &mut self.raw {
                raw.answer(&answer, self.watching.is_waiting());
            }
            self.watching.answer(answer);
        }
        // a server that did not answer is not spared: what it says when it goes on tells why
        let worked_us = if own.is_some() { took_us } else { 0 };
        self.budget.answered(self.clock.now_us(), worked_us);
        self.of_server = missing;
        self.asker_cpu = cpu;
        own.into_iter().for_each(|own| self.watching.own_connection(own));
        self.cost.statements = statements;
        self.cost.statements_us += took_us;
    }
}

/// The server's setting `datadir` or `data_directory`.
fn data_directory(asked: Option<&Asked>) -> Option<&str> {
    let variables = &asked?.variables;
    ["datadir", "data_directory"].iter().find_map(|name| variables.get(*name)).map(String::as_str)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tier_tells_the_shortest_stall_that_it_sees_unless_another_was_asked_for() {
        let ms = Duration::from_millis;
        let told = |least, is_deep, has_probes| {
            let options = Options::of_tier(least, is_deep, has_probes);
            assert_eq!(options.is_deep, is_deep);
            (options.least, options.probes)
        };
        assert_eq!(told(None, false, false), (ms(50), None));
        assert_eq!(told(None, true, false), (ms(20), None));
        assert_eq!(told(None, false, true), (ms(50), Some(ms(5))), "only probes see shorter ones");
        assert_eq!(told(Some(ms(30)), true, true), (ms(30), Some(ms(30))));
    }
}
