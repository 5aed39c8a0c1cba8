// SPDX-License-Identifier: Apache-2.0
//! Writes stalls into a recording: each stall as spans as soon as it is settled, so that a watch that is killed loses only the last seconds; the
//! account when the watch has ended. [`Recorder`] watches on a thread of its own, beside a load or an observation.

use super::{Finished, Watcher};
use crate::Error;
use ::stalls::Stall;
use ::stalls::watch::{Part, Parts, Watched};
use evidence::{Format, STALL, STALL_VICTIM, STALLS_WATCHED, SampleSink, SinkError, Snapshot, Span};
use host::clock::{RunClock, thread_cpu_time};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Writes the results of a watch into a sink.
pub struct Keeper {
    /// The clock of the spans.
    clock: RunClock,
    sink: Box<dyn SampleSink>,
    /// The arm's name.
    entity: String,
    told: u64,
}

impl Keeper {
    /// `entity`: the name of the arm that is watched.
    pub fn new(clock: RunClock, sink: impl SampleSink + 'static, entity: &str) -> Self {
        Self { clock, sink: Box::new(sink), entity: entity.to_owned(), told: 0 }
    }

    /// # Errors
    /// An error of the sink.
    pub fn stall(&mut self, stall: &Stall) -> Result<(), SinkError> {
        let Parts { stall, victims } = Parts::of(stall, self.told);
        self.told += 1;
        self.part(STALL, stall)?;
        victims.into_iter().try_for_each(|victim| self.part(STALL_VICTIM, victim))
    }

    /// Other events than stalls: [`Watcher::spans`].
    ///
    /// # Errors
    /// An error of the sink.
    pub fn spans(&mut self, spans: Vec<Span>) -> Result<(), SinkError> {
        spans.into_iter().try_for_each(|span| self.sink.span(&Span { entity: self.entity.clone(), ..span }))
    }

    fn part(&mut self, kind: &str, part: Part) -> Result<(), SinkError> {
        let unix_us = part.started_us.and_then(|us| u64::try_from(us).ok()).unwrap_or(0);
        let from_us = unix_us.saturating_sub(self.clock.started_unix_us());
        self.sink.span(&Span {
            from_us,
            to_us: from_us.saturating_add(part.length_us),
            kind: kind.to_owned(),
            entity: self.entity.clone(),
            attributes: part.attributes,
        })
    }

    /// Writes the end of the watch, without the stalls, which are spans.
    ///
    /// # Errors
    /// An error of the sink.
    pub fn ended(&mut self, watched: &Watched) -> Result<(), SinkError> {
        let watched = Watched { stalls: Vec::new(), ..watched.clone() };
        self.sink.snapshot(&Snapshot {
            at_us: self.clock.now_us(),
            arm: Some(self.entity.clone()),
            source: STALLS_WATCHED.to_owned(),
            entity: String::new(),
            format: Format::Json,
            content: serde_json::to_string(&watched)?,
        })
    }
}

/// Watches until it is stopped.
pub struct Recorder {
    thread: Option<JoinHandle<Recorded>>,
    stop: Arc<AtomicBool>,
}

/// The result of a [`Recorder`].
#[derive(Debug)]
pub struct Recorded {
    /// `cost.cpu_us` is the CPU time of the watch's own threads.
    pub watched: Watched,
    /// Why the recording is not complete.
    pub trouble: Option<String>,
}

impl Recorder {
    /// # Errors
    /// [`Error::Thread`].
    pub fn start(watcher: Watcher, keeper: Keeper) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = stop.clone();
        let thread = std::thread::Builder::new()
            .name("stalls".to_owned())
            .spawn(move || record(watcher, keeper, &is_over))
            .map_err(|source| Error::Thread { source })?;
        Ok(Self { thread: Some(thread), stop })
    }

    /// Stops the watch. `None`: its thread has failed.
    pub fn stop(mut self) -> Option<Recorded> {
        self.end()
    }

    fn end(&mut self) -> Option<Recorded> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take()?.join().ok()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.end();
    }
}

fn record(mut watcher: Watcher, mut keeper: Keeper, is_over: &AtomicBool) -> Recorded {
    let began = thread_cpu_time();
    let mut trouble: Option<SinkError> = None;
    while !is_over.load(Ordering::SeqCst) {
        for stall in watcher.round() {
            trouble = trouble.or(keeper.stall(&stall).err());
        }
        trouble = trouble.or(keeper.spans(watcher.spans()).err());
    }
    let Finished { last, watched, spans } = watcher.finish_beside(&|| thread_cpu_time().saturating_sub(began));
    trouble = trouble.or(keeper.spans(spans).err());
    for stall in last {
        trouble = trouble.or(keeper.stall(&stall).err());
    }
    trouble = trouble.or(keeper.ended(&watched).err());
    Recorded { watched, trouble: trouble.map(|error| host::chain(&*error)) }
}
