// SPDX-License-Identifier: Apache-2.0
//! What a run says and writes down as it goes.

use crate::error::Error;
use crate::hooks::Progress;
use evidence::{Event, Measured};
use host::clock::RunClock;
use recording::Recording;

/// The recording and the clock that everything in it goes by.
pub struct Notes<'a> {
    pub recording: Recording,
    pub clock: RunClock,
    pub progress: &'a dyn Progress,
}

impl Notes<'_> {
    /// Told to the caller, and kept. Of the log of a server in it, the caller is told with the error.
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

    /// Kept.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub fn measured(&self, measured: &Measured) -> Result<(), Error> {
        self.recording.measured(measured)?;
        Ok(())
    }
}
