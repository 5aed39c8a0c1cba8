// SPDX-License-Identifier: Apache-2.0
//! What a run tells its caller and writes into its recording.

use crate::error::Error;
use crate::hooks::Progress;
use evidence::{Clock, Event, LoadResult, Measured};
use host::clock::RunClock;
use observe::Observer;
use recording::Recording;

/// The recording, and the clock of all times in it.
pub struct Notes<'a> {
    pub recording: Recording,
    pub clock: RunClock,
    pub progress: &'a dyn Progress,
}

impl Notes<'_> {
    /// Tells the caller, and records the text. A server's log in the text is only recorded: the caller gets it with the error.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub fn event(&self, station: &str, text: impl Into<String>) -> Result<(), Error> {
        let text = text.into();
        let told = text.split("; the end of its log:").next().unwrap_or(&text);
        self.progress.step(station, told);
        let event = Event { at_us: self.clock.now_us(), station: station.to_owned(), text };
        Ok(self.recording.event(&event)?)
    }

    /// Records each note of an observer when it arises, so that a run that is cut off has it.
    pub fn teller(&self) -> impl Fn(&Event) -> bool + Send + use<> + 'static {
        let recording = self.recording.clone();
        move |note| recording.event(note).is_ok()
    }

    /// Ends the observer, and records the notes that the recording did not take before.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub fn end_observer(&self, observer: Observer) -> Result<(), Error> {
        Ok(observer.stop().notes.iter().try_for_each(|note| self.recording.event(note))?)
    }

    /// Records it.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub fn measured(&self, measured: &Measured) -> Result<(), Error> {
        self.recording.measured(measured)?;
        Ok(())
    }
}

/// The result of a load, in a line.
pub(crate) fn load_summary(name: &str, result: &LoadResult) -> String {
    let measured = &result.measured;
    let response = measured.times(Clock::Response);
    format!(
        "{name}: {} transactions, {:.0} queries/s, p50 {} ms, p99 {} ms, {} errors",
        measured.transactions,
        measured.queries_per_second().unwrap_or(0.0),
        response.percentile(50.0).ms_text(),
        response.percentile(99.0).ms_text(),
        measured.errors.values().sum::<u64>()
    )
}
