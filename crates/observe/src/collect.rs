// SPDX-License-Identifier: Apache-2.0
use evidence::{Format, Point, SampleSink, Series, SinkError, Snapshot, Span};
use std::collections::HashMap;

/// The kind of a value, so that a reader of the recording can compute with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The value now, which may fall. In bytes.
    BytesNow,
    /// A counter since boot, start or login, which only grows.
    BytesTotal,
    MicrosNow,
    MicrosTotal,
    CountNow,
    CountTotal,
    /// 0 to 100.
    PercentNow,
}

impl Kind {
    fn unit(self) -> &'static str {
        match self {
            Self::BytesNow | Self::BytesTotal => "bytes",
            Self::MicrosNow | Self::MicrosTotal => "us",
            Self::CountNow | Self::CountTotal => "count",
            Self::PercentNow => "percent",
        }
    }

    fn is_cumulative(self) -> bool {
        matches!(self, Self::BytesTotal | Self::MicrosTotal | Self::CountTotal)
    }
}

type Numbers = HashMap<String, u32>;

/// Takes the values of one round and remembers the numbers of their series. After the first rounds a value costs two look-ups and no allocation.
pub struct Collector {
    sink: Box<dyn SampleSink>,
    /// source -> entity -> name -> number in the sink
    known: HashMap<&'static str, HashMap<String, Numbers>>,
    points: Vec<(u32, Point)>,
    at_us: u64,
    trouble: Option<String>,
    remarks: Vec<String>,
}

impl Collector {
    pub fn new(sink: Box<dyn SampleSink>) -> Self {
        Self { sink, known: HashMap::new(), points: Vec::new(), at_us: 0, trouble: None, remarks: Vec::new() }
    }

    /// Sets the time of the values that follow.
    pub(crate) fn at(&mut self, at_us: u64) {
        self.at_us = at_us;
    }

    pub fn value(&mut self, source: &'static str, entity: &str, name: &str, kind: Kind, value: f64) {
        self.value_of(source, entity, name, || kind, value);
    }

    /// Like [`Self::value`], with a function that gives the kind when the series is new.
    pub(crate) fn value_of(
        &mut self,
        source: &'static str,
        entity: &str,
        name: &str,
        kind: impl FnOnce() -> Kind,
        value: f64,
    ) {
        let known = self.known.get(source).and_then(|entities| entities.get(entity)).and_then(|names| names.get(name));
        let number = known.copied().or_else(|| self.declare(source, entity, name, kind()));
        if let Some(number) = number {
            self.points.push((number, Point { at_us: self.at_us, value }));
        }
    }

    /// A text that was read as a whole at the time of this reading. It is passed on at once, because texts are large and rare.
    pub fn snapshot(&mut self, source: &str, entity: &str, format: Format, content: String) {
        let (source, entity) = (source.to_owned(), entity.to_owned());
        let taken = self.sink.snapshot(&Snapshot { at_us: self.at_us, arm: None, source, entity, format, content });
        self.note(taken);
    }

    /// An event that lasted for a time and has ended.
    pub fn span(&mut self, span: &Span) {
        let taken = self.sink.span(span);
        self.note(taken);
    }

    /// What people must know of a reading that did not fail. It becomes a note of the observer.
    pub(crate) fn remark(&mut self, text: String) {
        self.remarks.push(text);
    }

    pub(crate) fn remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    /// The time of this reading, on the run's clock.
    pub fn now_us(&self) -> u64 {
        self.at_us
    }

    /// Passes the values of the round to the sink. Returns the sink's error since the last call, if there was one.
    pub(crate) fn flush(&mut self) -> Option<String> {
        let taken = self.sink.points(&self.points);
        self.note(taken);
        self.points.clear();
        self.trouble.take()
    }

    fn note(&mut self, taken: Result<(), SinkError>) {
        if let Err(error) = taken {
            self.trouble.get_or_insert_with(|| host::chain(&*error));
        }
    }

    fn declare(&mut self, source: &'static str, entity: &str, name: &str, kind: Kind) -> Option<u32> {
        let series = Series {
            source: source.to_owned(),
            entity: entity.to_owned(),
            name: name.to_owned(),
            unit: kind.unit().to_owned(),
            cumulative: kind.is_cumulative(),
            points: Vec::new(),
        };
        match self.sink.declare(&series) {
            Ok(number) => {
                let entities = self.known.entry(source).or_default();
                entities.entry(series.entity).or_default().insert(series.name, number);
                Some(number)
            }
            Err(error) => {
                self.trouble.get_or_insert_with(|| host::chain(&*error));
                None
            }
        }
    }
}
