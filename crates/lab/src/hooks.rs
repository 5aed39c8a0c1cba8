// SPDX-License-Identifier: Apache-2.0
//! What a walk tells its caller while it runs, and what the caller may ask for.

use evidence::{Point, SampleSink, Series, SinkError, Snapshot, Span};
use recording::Recording;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// The caller's progress display.
pub trait Progress {
    /// Something is done, or begins: `station` is one of the flow, such as `fill`.
    fn step(&self, station: &str, text: &str);

    /// Something longer begins; it lasts until the returned value is dropped. `length`: its total, where that is known.
    fn bar(&self, what: &str, length: Option<u64>) -> Box<dyn Bar>;
}

/// The progress of something longer.
pub trait Bar {
    fn set_message(&self, what: &str);
    fn set_length(&self, length: u64);
    fn set_position(&self, position: u64);
    /// It has advanced by this amount.
    fn advance(&self, by: u64);
    /// It begins anew, and its time is measured from here.
    fn restart(&self);
}

/// Shows no progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn step(&self, _station: &str, _text: &str) {}

    fn bar(&self, _what: &str, _length: Option<u64>) -> Box<dyn Bar> {
        Box::new(Self)
    }
}

impl Bar for Silent {
    fn set_message(&self, _what: &str) {}
    fn set_length(&self, _length: u64) {}
    fn set_position(&self, _position: u64) {}
    fn advance(&self, _by: u64) {}
    fn restart(&self) {}
}

/// Takes the samples of all observers of a walk, each of which declares its own series.
pub type SecondSink = Arc<Mutex<dyn SampleSink>>;

/// The caller's part in a walk.
#[derive(Clone)]
pub struct Hooks<'a> {
    pub progress: &'a dyn Progress,
    /// A second sink of samples, besides the recording.
    pub samples: Option<SecondSink>,
    /// Set by a caller that wants the walk to end; everything is given back then, too.
    pub stop: Arc<AtomicBool>,
}

impl fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let samples = self.samples.is_some();
        f.debug_struct("Hooks").field("samples", &samples).field("stop", &self.stop).finish_non_exhaustive()
    }
}

/// The arm that goes on; `None` between arms.
pub(crate) type CurrentArm = Arc<Mutex<Option<String>>>;

/// Gives samples to the recording, then to the caller's sink: a sample that the sink refuses is in the recording.
pub(crate) struct Sinks {
    pub(crate) recording: Recording,
    pub(crate) second: Option<SecondSink>,
    /// The arm of a snapshot whose reader does not know it.
    pub(crate) arm: CurrentArm,
    /// The numbers of series in the second sink, by their numbers in the recording.
    numbers: HashMap<u32, u32>,
}

impl Sinks {
    pub(crate) fn new(recording: Recording, second: Option<SecondSink>, arm: CurrentArm) -> Self {
        Self { recording, second, arm, numbers: HashMap::new() }
    }

    /// `None`: there is no second sink.
    fn second<T>(
        &self,
        hand_over: impl FnOnce(&mut dyn SampleSink) -> Result<T, SinkError>,
    ) -> Result<Option<T>, SinkError> {
        let second = self.second.as_ref().map(|second| second.lock().unwrap_or_else(PoisonError::into_inner));
        second.map(|mut second| hand_over(&mut *second)).transpose()
    }
}

impl SampleSink for Sinks {
    fn declare(&mut self, series: &Series) -> Result<u32, SinkError> {
        let number = self.recording.declare(series)?;
        let its = self.second(|second| second.declare(series))?;
        self.numbers.extend(its.map(|its| (number, its)));
        Ok(number)
    }

    fn points(&mut self, points: &[(u32, Point)]) -> Result<(), SinkError> {
        self.recording.points(points)?;
        let its = points.iter().filter_map(|(number, point)| Some((*self.numbers.get(number)?, *point)));
        self.second(|second| second.points(&its.collect::<Vec<_>>())).map(drop)
    }

    fn snapshot(&mut self, snapshot: &Snapshot) -> Result<(), SinkError> {
        let current = || self.arm.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let snapshot = Snapshot { arm: snapshot.arm.clone().or_else(current), ..snapshot.clone() };
        self.recording.snapshot(&snapshot)?;
        self.second(|second| second.snapshot(&snapshot)).map(drop)
    }

    fn span(&mut self, span: &Span) -> Result<(), SinkError> {
        self.recording.span(span)?;
        self.second(|second| second.span(span)).map(drop)
    }
}
