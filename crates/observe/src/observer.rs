// SPDX-License-Identifier: Apache-2.0
use crate::{Collector, Error, Kind};
use evidence::{Event, SampleSink};
use host::clock::RunClock;
use rustix::time::{ClockId, clock_gettime};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Reads one thing, again and again.
pub trait Reader: Send {
    /// For people and for the samples of the observer's own cost: `meminfo`, `process.stat server`.
    fn name(&self) -> String;

    /// # Errors
    /// [`Error::Gone`] ends this reader; any other is reported once, and the reading is tried again.
    fn read(&mut self, into: &mut Collector) -> Result<(), Error>;

    /// Goes to a cheaper tier and returns its name; `None` when this is the cheapest.
    fn cheapen(&mut self) -> Option<String> {
        None
    }

    /// Where the cost arises: `false`, on this thread's CPU, so that waiting for a CPU is no cost; `true`, at whoever answers, so that
    /// the whole time counts.
    fn costs_elsewhere(&self) -> bool {
        false
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Tells this observer's own cost from that of others in the same recording: `host`, `server`.
    pub name: &'static str,
    /// From one reading to the next; at least [`Options::LEAST_INTERVAL`].
    pub interval: Duration,
    /// The share of the interval that one reader may cost, 0 to 1. Above it twice in a row, or once by ten times, the reader goes to a
    /// cheaper tier, or, where there is none, is read half as often.
    pub budget: f64,
}

impl Options {
    /// Below this the observer is what would be seen.
    pub const LEAST_INTERVAL: Duration = Duration::from_millis(10);
}

impl Default for Options {
    fn default() -> Self {
        Self { name: "", interval: Duration::from_secs(1), budget: 0.01 }
    }
}

/// What the observing came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Rounds of readings.
    pub rounds: u64,
    /// Rounds left out because the one before took too long.
    pub missed: u64,
    /// CPU time of the observer's thread.
    pub cpu_us: u64,
    /// Tiers that were left, readers that ended, readings that failed.
    pub notes: Vec<Event>,
}

/// A thread that reads in fixed intervals. Readers that may block (a server's answers) get an observer of their own, so that they
/// do not hold up the others.
#[derive(Debug)]
pub struct Observer {
    thread: Option<JoinHandle<Report>>,
    stop: Sender<()>,
}

impl Observer {
    /// Reads for the first time at once.
    ///
    /// # Errors
    /// [`Error::Interval`]; [`Error::Thread`].
    pub fn start(
        clock: RunClock,
        readers: Vec<Box<dyn Reader>>,
        sink: impl SampleSink + 'static,
        options: Options,
    ) -> Result<Self, Error> {
        if options.interval < Options::LEAST_INTERVAL {
            let (asked_ms, least_ms) = (options.interval.as_millis(), Options::LEAST_INTERVAL.as_millis());
            return Err(Error::Interval { asked_ms, least_ms });
        }
        let (stop, stopped) = channel();
        let rounds = Rounds::new(clock, readers, Box::new(sink), options);
        let thread = thread::Builder::new()
            .name("observer".into())
            .spawn(move || rounds.run(&stopped))
            .map_err(|source| Error::Thread { source })?;
        Ok(Self { thread: Some(thread), stop })
    }

    /// Takes a last reading and ends.
    pub fn stop(mut self) -> Report {
        self.end().unwrap_or_default()
    }

    fn end(&mut self) -> Option<Report> {
        let _ = self.stop.send(());
        self.thread.take()?.join().ok()
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.end();
    }
}

struct Rounds {
    clock: RunClock,
    readers: Vec<Paced>,
    collector: Collector,
    options: Options,
    report: Report,
}

/// A reader, and how often it is read.
struct Paced {
    reader: Box<dyn Reader>,
    name: String,
    /// Every so many rounds.
    every: u64,
    /// The reading before was above the budget.
    dear: bool,
    failing: bool,
    gone: bool,
}

impl Rounds {
    fn new(clock: RunClock, readers: Vec<Box<dyn Reader>>, sink: Box<dyn SampleSink>, options: Options) -> Self {
        let paced = |reader: Box<dyn Reader>| Paced {
            name: reader.name(),
            reader,
            every: 1,
            dear: false,
            failing: false,
            gone: false,
        };
        let readers = readers.into_iter().map(paced).collect();
        Self { clock, readers, collector: Collector::new(sink), options, report: Report::default() }
    }

    fn run(mut self, stopped: &Receiver<()>) -> Report {
        let mut due = Instant::now();
        loop {
            self.round(false);
            due += self.options.interval;
            let now = Instant::now();
            while due < now {
                due += self.options.interval;
                self.report.missed += 1;
            }
            match stopped.recv_timeout(due - now) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.round(true);
        self.report
    }

    /// The last one reads all, however seldom: it is the other end of what was seen.
    fn round(&mut self, is_last: bool) {
        let round = self.report.rounds;
        for index in 0..self.readers.len() {
            let due = is_last || round.is_multiple_of(self.readers[index].every);
            if due && !self.readers[index].gone {
                self.read(index);
            }
        }
        self.report.rounds += 1;
        self.report.cpu_us = thread_cpu_us();
        self.collector.at(self.clock.now_us());
        self.collector.value("observer", self.options.name, "cpu", Kind::MicrosTotal, self.report.cpu_us as f64);
        if let Some(trouble) = self.collector.flush() {
            self.note(format!("samples are lost: {trouble}"));
        }
    }

    fn read(&mut self, index: usize) {
        let paced = &mut self.readers[index];
        let (started, cpu_us) = (Instant::now(), thread_cpu_us());
        self.collector.at(self.clock.at(started));
        let result = paced.reader.read(&mut self.collector);
        let took = started.elapsed();
        self.collector.value("observer", &paced.name, "reading", Kind::MicrosNow, took.as_secs_f64() * 1e6);
        let note = match result {
            Ok(()) if paced.reader.costs_elsewhere() => paced.keep_to_budget(took, &self.options),
            Ok(()) => paced.keep_to_budget(Duration::from_micros(thread_cpu_us() - cpu_us), &self.options),
            Err(Error::Gone { pid }) => {
                paced.gone = true;
                Some(format!("{}: process {pid} has ended", paced.name))
            }
            Err(error) => {
                let first = !std::mem::replace(&mut paced.failing, true);
                first.then(|| format!("{}: {}", paced.name, host::chain(&error)))
            }
        };
        if let Some(note) = note {
            self.note(note);
        }
    }

    /// At most 100, so that trouble does not fill the memory.
    fn note(&mut self, text: String) {
        let known = self.report.notes.iter().any(|event| event.text == text);
        if !known && self.report.notes.len() < 100 {
            self.report.notes.push(Event { at_us: self.clock.now_us(), station: "observe".into(), text });
        }
    }
}

impl Paced {
    fn keep_to_budget(&mut self, cost: Duration, options: &Options) -> Option<String> {
        let granted = options.interval.mul_f64(options.budget * self.every as f64);
        let was_dear = std::mem::replace(&mut self.dear, cost > granted);
        let far_too_dear = cost > granted * 10 && !self.reader.costs_elsewhere();
        if cost <= granted || !(was_dear || far_too_dear) {
            return None;
        }
        self.dear = false;
        let why = format!(
            "{}: a reading cost {:.1} ms, its budget is {:.1} ms",
            self.name,
            cost.as_secs_f64() * 1e3,
            granted.as_secs_f64() * 1e3
        );
        if let Some(tier) = self.reader.cheapen() {
            self.name = self.reader.name();
            return Some(format!("{why}; from here on {tier} is read instead"));
        }
        if self.every >= 64 {
            return None;
        }
        self.every *= 2;
        Some(format!("{why}; from here on it is read every {} intervals", self.every))
    }
}

fn thread_cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1000
}
