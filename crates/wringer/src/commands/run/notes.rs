// SPDX-License-Identifier: Apache-2.0
//! What a run says and writes down as it goes.

use crate::exit::Failure;
use crate::terminal;
use evidence::{Event, Measured};
use host::clock::RunClock;
use recording::Recording;

/// The recording and the clock that everything in it goes by.
pub struct Notes {
    pub recording: Recording,
    pub clock: RunClock,
}

impl Notes {
    /// Told to the user, and kept. Of the log of a server in it, the user is told with the failure.
    pub fn event(&self, station: &str, text: impl Into<String>) -> Result<(), Failure> {
        let text = text.into();
        let told = text.split("; the end of its log:").next().unwrap_or(&text);
        terminal::say(format_args!("{station:>8}  {told}"));
        let event = Event { at_us: self.clock.now_us(), station: station.to_owned(), text };
        Ok(self.recording.event(&event)?)
    }

    /// Kept, and told where it is outside of its tolerance.
    pub fn measured(&self, measured: &Measured) -> Result<(), Failure> {
        self.recording.measured(measured)?;
        Ok(())
    }
}
