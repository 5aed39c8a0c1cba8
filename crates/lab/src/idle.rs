// SPDX-License-Identifier: Apache-2.0
//! A rest after an arm's load, in which the server is observed: how much of its memory it gives back when it has no work.

use crate::cell::Phase;
use crate::error::Error;
use crate::lab::Lab;
use evidence::{Measured, Quantity};
use host::meminfo;
use std::fs;
use std::time::{Duration, Instant};

/// The time between two checks whether the run must end, or the server has ended.
const LOOK: Duration = Duration::from_millis(50);
/// The figures that are compared, each with its line in `/proc/PID/status`.
const FOOTPRINT: [(&str, &str); 2] = [("idle.rss", "VmRSS"), ("idle.vsz", "VmSize")];

impl Lab<'_> {
    /// The load has no work; its connections are closed, except where they are to stay. Observers go on as under load.
    pub(crate) fn idle(&self, phase: &Phase) -> Result<(), Error> {
        let length = phase.load.idle.0;
        let Some(serving) = self.serving.as_ref().filter(|_| !length.is_zero()) else { return Ok(()) };
        self.notes
            .progress
            .step("load", &format!("{}: looking at the idle server for {}", phase.name, phase.load.idle));
        let pid = serving.running.pid;
        self.first_process(phase, pid, "begin")?;
        let (began, began_us) = (Instant::now(), self.notes.clock.now_us());
        while let Some(left) = length.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            self.check_stop()?;
            self.squeezes.check()?;
            if serving.running.wait(left.min(LOOK)) {
                return Err(Error::NoServer);
            }
        }
        self.first_process(phase, pid, "end")?;
        self.footprint(&phase.name, "idle")?;
        self.span("load.idle", &phase.name, began_us, &[])
    }

    /// The figures of the server's first process.
    fn first_process(&self, phase: &Phase, pid: u32, when: &str) -> Result<(), Error> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        for (what, line) in FOOTPRINT {
            let Some(bytes) = meminfo::bytes(&status, line) else { continue };
            let mechanism = match phase.load.stay {
                true => "no load, its connections stay open",
                false => "no load, its connections are closed",
            };
            let witness = format!("{line} in /proc/PID/status of the server's first process");
            let (at_us, arm) = (self.notes.clock.now_us(), Some(phase.name.clone()));
            let measured = Measured::of(format!("{what}.{when}"), mechanism, witness);
            self.notes.measured(&Measured { at_us, arm, got: Some(Quantity::bytes(bytes)), ..measured })?;
        }
        Ok(())
    }
}
