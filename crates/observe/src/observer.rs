// SPDX-License-Identifier: Apache-2.0
use crate::{Collector, Error, Kind};
use evidence::{Event, SampleSink};
use host::clock::{RunClock, thread_cpu_time};
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Reads one source repeatedly.
pub trait Reader: Send {
    /// The name, for people and for the samples of the observer's own cost: `meminfo`, `process.stat server`.
    fn name(&self) -> String;

    /// # Errors
    /// [`Error::Gone`] ends this reader; any other is reported once, and the reading is tried again.
    fn read(&mut self, into: &mut Collector) -> Result<(), Error>;

    /// Goes to a cheaper tier and returns its name; `None` when this is the cheapest.
    fn cheapen(&mut self) -> Option<String> {
        None
    }

    /// The least time between two of its readings, for a source that is expensive or rarely changes. The observer's own interval is used if it is
    /// longer, or if there is none here.
    fn interval(&self) -> Option<Duration> {
        None
    }

    /// Where the cost arises. `false`: on this thread's CPU, so that waiting for a CPU is no cost. `true`: at the server that answers, so that the
    /// whole time counts.
    fn costs_elsewhere(&self) -> bool {
        false
    }

    /// Called after each reading. `None`: the observer keeps the reader to its budget. Otherwise the reader does so itself, because its cost is not
    /// time of this thread.
    fn pace(&mut self) -> Option<Pace> {
        None
    }
}

/// The next step of a reader that keeps to a budget of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pace {
    AsBefore,
    /// Its [`Reader::interval`] has changed; the reason, in words.
    Changed(String),
}

#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Separates this observer's own cost from that of other observers in the same recording: `host`, `server`.
    pub name: &'static str,
    /// The time from one round of readings to the next; at least [`Options::LEAST_INTERVAL`]. A reader with a longer interval of its own
    /// ([`Reader::interval`]) is left out of some rounds.
    pub interval: Duration,
    /// The share of its interval that one reader may cost, 0 to 1. When it is above this twice in a row, or once by ten times, the reader changes to
    /// a cheaper tier, or, if there is none, is read half as often.
    pub budget: f64,
}

impl Options {
    /// With a shorter interval the recording would mainly show the observer itself.
    pub const LEAST_INTERVAL: Duration = Duration::from_millis(10);
}

impl Default for Options {
    fn default() -> Self {
        Self { name: "", interval: Duration::from_secs(1), budget: 0.01 }
    }
}

/// The result of observing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Rounds of readings.
    pub rounds: u64,
    /// Rounds that were left out because the round before took too long.
    pub missed: u64,
    /// CPU time of the observer's thread.
    pub cpu_us: u64,
    /// Tiers that were left, readers that ended, readings that failed; without those that were told before.
    pub notes: Vec<Event>,
}

/// A thread that reads at fixed intervals. Readers that may block (a server's answers) need an observer of their own, so that they do not hold up the
/// others.
#[derive(Debug)]
pub struct Observer {
    thread: Option<JoinHandle<Report>>,
    stop: Sender<()>,
    news: Option<Receiver<Event>>,
    /// How many notes [`Self::news`] has given.
    told: usize,
}

impl Observer {
    /// Starts the thread, which takes the first reading at once.
    ///
    /// # Errors
    /// [`Error::Interval`]; [`Error::Thread`].
    pub fn start(
        clock: RunClock,
        readers: Vec<Box<dyn Reader>>,
        sink: impl SampleSink + 'static,
        options: Options,
    ) -> Result<Self, Error> {
        let (teller, news) = channel();
        let tell = move |note: &Event| {
            // nobody may listen any more
            let _ = teller.send(note.clone());
            false
        };
        let mut observer = Self::start_telling(clock, readers, sink, options, tell)?;
        observer.news = Some(news);
        Ok(observer)
    }

    /// Like [`Self::start`]. `tell` gets each note when it arises, in the observer's thread; a note for which it returns false is in the report.
    ///
    /// # Errors
    /// Those of [`Self::start`].
    pub fn start_telling(
        clock: RunClock,
        readers: Vec<Box<dyn Reader>>,
        sink: impl SampleSink + 'static,
        options: Options,
        tell: impl Fn(&Event) -> bool + Send + 'static,
    ) -> Result<Self, Error> {
        if options.interval < Options::LEAST_INTERVAL {
            let (asked_ms, least_ms) = (options.interval.as_millis(), Options::LEAST_INTERVAL.as_millis());
            return Err(Error::Interval { asked_ms, least_ms });
        }
        let (stop, stopped) = channel();
        let rounds = Rounds { tell: Box::new(tell), ..Rounds::new(clock, readers, Box::new(sink), options) };
        let thread = thread::Builder::new()
            .name("observer".into())
            .spawn(move || rounds.run(&stopped))
            .map_err(|source| Error::Thread { source })?;
        Ok(Self { thread: Some(thread), stop, news: None, told: 0 })
    }

    /// The notes since the last call, so that they are known before the end.
    pub fn news(&mut self) -> Vec<Event> {
        let news: Vec<Event> = self.news.iter().flat_map(Receiver::try_iter).collect();
        self.told += news.len();
        news
    }

    /// Takes a last reading and ends. The report has the notes that [`Self::news`] has not given.
    pub fn stop(mut self) -> Report {
        let mut report = self.end().unwrap_or_default();
        report.notes.drain(..self.told.min(report.notes.len()));
        report
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
    /// The texts of all notes.
    known: BTreeSet<String>,
    /// Gets each note when it arises; false: the note is kept for the report.
    tell: Box<dyn Fn(&Event) -> bool + Send>,
}

/// A reader, and the pace at which it is read.
struct Paced {
    reader: Box<dyn Reader>,
    name: String,
    /// The number of the observer's intervals from one reading to the next.
    every: u64,
    /// How many times `every` was doubled because the reader was too expensive.
    doubled: u32,
    /// The number of the observer's interval in which it is read next.
    next: u64,
    /// Whether the reading before was above the budget.
    dear: bool,
    failing: bool,
    gone: bool,
}

impl Rounds {
    fn new(clock: RunClock, readers: Vec<Box<dyn Reader>>, sink: Box<dyn SampleSink>, options: Options) -> Self {
        let readers = readers.into_iter().map(|reader| Paced::new(reader, options.interval)).collect();
        let (collector, report) = (Collector::new(sink), Report::default());
        Self { clock, readers, collector, options, report, known: BTreeSet::new(), tell: Box::new(|_| false) }
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

    /// One round. The last round reads all readers, even rarely read ones: it is the end of the observation.
    fn round(&mut self, is_last: bool) {
        let now = self.report.rounds + self.report.missed;
        for index in 0..self.readers.len() {
            let paced = &self.readers[index];
            if (is_last || now >= paced.next) && !paced.gone {
                self.read(index);
                let paced = &mut self.readers[index];
                paced.next = now + paced.every;
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
        let remarks = self.collector.remarks().into_iter().map(|text| format!("{}: {text}", paced.name));
        let mut notes: Vec<String> = remarks.collect();
        let own_pace = result.is_ok().then(|| paced.reader.pace()).flatten();
        paced.failing &= result.is_err();
        let note = match result {
            Ok(()) if own_pace.is_some() => own_pace.and_then(|pace| paced.goes_on(pace, self.options.interval)),
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
        notes.extend(note);
        notes.into_iter().for_each(|note| self.note(note));
    }

    /// Keeps at most 100 notes, so that repeated trouble does not fill the memory.
    fn note(&mut self, text: String) {
        if self.known.len() >= 100 || !self.known.insert(text.clone()) {
            return;
        }
        let note = Event { at_us: self.clock.now_us(), station: "observe".into(), text };
        if !(self.tell)(&note) {
            self.report.notes.push(note);
        }
    }
}

/// A reader that is too expensive is read less often, by up to this factor (2^6).
const DOUBLED_MOST: u32 = 6;

impl Paced {
    fn new(reader: Box<dyn Reader>, interval: Duration) -> Self {
        let (name, every) = (reader.name(), every(&*reader, interval));
        Self { reader, name, every, doubled: 0, next: 0, dear: false, failing: false, gone: false }
    }

    fn goes_on(&mut self, pace: Pace, interval: Duration) -> Option<String> {
        let Pace::Changed(why) = pace else { return None };
        self.every = every(&*self.reader, interval);
        Some(format!("{}: {why}", self.name))
    }

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
            (self.name, self.every) = (self.reader.name(), every(&*self.reader, options.interval));
            return Some(format!("{why}; from here on {tier} is read instead"));
        }
        if self.doubled == DOUBLED_MOST {
            return None;
        }
        self.doubled += 1;
        self.every *= 2;
        Some(format!("{why}; from here on it is read every {} intervals", self.every))
    }
}

/// The number of the observer's intervals between two readings of this reader.
fn every(reader: &dyn Reader, interval: Duration) -> u64 {
    let own = reader.interval().unwrap_or_default().as_nanos();
    u64::try_from(own.div_ceil(interval.as_nanos())).unwrap_or(u64::MAX).max(1)
}

fn thread_cpu_us() -> u64 {
    u64::try_from(thread_cpu_time().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evidence::{Point, Series, SinkError, Snapshot, Span};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Nowhere;

    impl SampleSink for Nowhere {
        fn declare(&mut self, _: &Series) -> Result<u32, SinkError> {
            Ok(0)
        }

        fn points(&mut self, _: &[(u32, Point)]) -> Result<(), SinkError> {
            Ok(())
        }

        fn snapshot(&mut self, _: &Snapshot) -> Result<(), SinkError> {
            Ok(())
        }

        fn span(&mut self, _: &Span) -> Result<(), SinkError> {
            Ok(())
        }
    }

    struct Counted(Arc<AtomicU64>, Option<Duration>);

    /// A reader that is read half as often after its second reading.
    struct Slowing(Arc<AtomicU64>);

    impl Reader for Slowing {
        fn name(&self) -> String {
            "slowing".into()
        }

        fn read(&mut self, _: &mut Collector) -> Result<(), Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn interval(&self) -> Option<Duration> {
            (self.0.load(Ordering::Relaxed) > 1).then_some(Duration::from_millis(20))
        }

        fn pace(&mut self) -> Option<Pace> {
            let is_second = self.0.load(Ordering::Relaxed) == 2;
            Some(if is_second { Pace::Changed("now every 20 ms".into()) } else { Pace::AsBefore })
        }
    }

    impl Reader for Counted {
        fn name(&self) -> String {
            "counted".into()
        }

        fn read(&mut self, _: &mut Collector) -> Result<(), Error> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }

        fn interval(&self) -> Option<Duration> {
            self.1
        }
    }

    /// The number of readings for readers with these intervals, in this many rounds of 10 ms and in the last one.
    fn readings<const N: usize>(intervals: [Option<Duration>; N], rounds: usize, missed: u64) -> [u64; N] {
        let counts: [Arc<AtomicU64>; N] = std::array::from_fn(|_| Arc::default());
        let reader = |(count, own): (&Arc<AtomicU64>, Option<Duration>)| -> Box<dyn Reader> {
            Box::new(Counted(count.clone(), own))
        };
        let readers = counts.iter().zip(intervals).map(reader).collect();
        // no reader is too expensive here, however busy this machine is
        let options = Options { interval: Options::LEAST_INTERVAL, budget: 1e6, ..Options::default() };
        let mut observer = Rounds::new(RunClock::start(), readers, Box::new(Nowhere), options);
        (0..rounds).for_each(|_| {
            observer.round(false);
            observer.report.missed += missed;
        });
        observer.round(true);
        counts.map(|count| count.load(Ordering::Relaxed))
    }

    #[test]
    fn each_reader_is_read_in_its_own_interval() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let minutes = Some(Duration::from_secs(120));
        // in rounds 0 to 11 and in the last one
        assert_eq!(readings([None, ms(1), ms(10), ms(50), ms(45), minutes], 12, 0), [13, 13, 13, 4, 4, 2]);
    }

    #[test]
    fn a_reader_that_keeps_its_own_budget_slows_itself_down() {
        let count = Arc::<AtomicU64>::default();
        // with this budget each reading is too expensive for the observer
        let options = Options { interval: Options::LEAST_INTERVAL, budget: 0.0, ..Options::default() };
        let readers: Vec<Box<dyn Reader>> = vec![Box::new(Slowing(count.clone()))];
        let mut observer = Rounds::new(RunClock::start(), readers, Box::new(Nowhere), options);
        (0..12).for_each(|_| observer.round(false));
        assert_eq!(count.load(Ordering::Relaxed), 7, "in rounds 0, 1, 3, 5, 7, 9 and 11");
        let notes: Vec<_> = observer.report.notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!(notes, ["slowing: now every 20 ms"]);
    }

    /// The recording refuses the first note.
    #[test]
    fn a_note_that_is_not_taken_is_in_the_report() {
        let told = Arc::<AtomicU64>::default();
        let count = told.clone();
        let rounds = Rounds::new(RunClock::start(), Vec::new(), Box::new(Nowhere), Options::default());
        let mut rounds = Rounds { tell: Box::new(move |_| count.fetch_add(1, Ordering::Relaxed) > 0), ..rounds };
        ["one", "two", "two", "one", "three"].into_iter().for_each(|text| rounds.note(text.to_owned()));
        let kept: Vec<_> = rounds.report.notes.iter().map(|note| note.text.as_str()).collect();
        assert_eq!((kept, told.load(Ordering::Relaxed)), (vec!["one"], 3));
    }

    #[test]
    fn what_is_missed_is_time_too() {
        // rounds 0, 5, 10, ... 55 of the clock: the reader is due in each
        assert_eq!(readings([None, Some(Duration::from_millis(50))], 12, 4), [13, 13]);
    }
}
