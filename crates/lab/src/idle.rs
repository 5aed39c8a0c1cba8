// SPDX-License-Identifier: Apache-2.0
//! A rest after an arm's load, in which the server is observed: how much of its memory it gives back when it has no work, of what it had under load.

use crate::cell::Phase;
use crate::error::Error;
use crate::footprint;
use crate::lab::Lab;
use crate::notes::Notes;
use crate::server::Serving;
use evidence::{Footprint, Measured, Quantity};
use std::time::{Duration, Instant};

/// The time between two checks whether the run must end, or the server has ended.
const LOOK: Duration = Duration::from_millis(50);

impl Lab<'_> {
    /// The load has no work; its connections are closed, except where they are to stay. Observers go on as under load.
    pub(crate) fn idle(&self, phase: &Phase) -> Result<(), Error> {
        let length = phase.load.idle.0;
        let Some(serving) = self.serving.as_ref().filter(|_| !length.is_zero()) else { return Ok(()) };
        self.notes
            .progress
            .step("load", &format!("{}: looking at the idle server for {}", phase.name, phase.load.idle));
        let size = || size_of(serving);
        self.size(phase, "begin", &size())?;
        let (began, began_us) = (Instant::now(), self.notes.clock.now_us());
        while let Some(left) = length.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            self.check_stop()?;
            self.squeezes.check()?;
            if serving.running.wait(left.min(LOOK)) {
                return Err(Error::NoServer);
            }
        }
        self.size(phase, "end", &size())?;
        self.footprint(&phase.name, "idle")?;
        self.span("load.idle", &phase.name, began_us, &[])
    }

    fn size(&self, phase: &Phase, when: &str, seen: &Footprint) -> Result<(), Error> {
        let mechanism = match phase.load.stay {
            true => "no load, its connections stay open",
            false => "no load, its connections are closed",
        };
        let named = |figure: &str| format!("idle.{figure}.{when}");
        record(&self.notes, &phase.name, mechanism, seen, &named)
    }
}

/// The server's memory at the end of the measured phase, when its connections are still open and no statement runs. Recorded where the size of the rest
/// after the load is: it is what the rest is compared with.
pub(crate) fn size_under_load(notes: &Notes<'_>, serving: &Serving, phase: &Phase) -> Result<(), Error> {
    if phase.load.idle.0.is_zero() {
        return Ok(());
    }
    let mechanism = "the end of the measured phase, its connections are open";
    record(notes, &phase.name, mechanism, &size_of(serving), &|figure| format!("load.{figure}"))
}

fn size_of(serving: &Serving) -> Footprint {
    let pids = footprint::processes(serving.running.pid, serving.kind.flavour);
    footprint::of_processes(&pids, pids.len() > 1)
}

fn record(
    notes: &Notes<'_>,
    arm: &str,
    mechanism: &str,
    seen: &Footprint,
    named: &dyn Fn(&str) -> String,
) -> Result<(), Error> {
    for (figure, bytes, witness) in rows(seen) {
        let (at_us, arm) = (notes.clock.now_us(), Some(arm.to_owned()));
        let measured = Measured::of(named(figure), mechanism, witness);
        notes.measured(&Measured { at_us, arm, got: Some(Quantity::bytes(bytes)), ..measured })?;
    }
    Ok(())
}

/// The figures, each with its source. A figure that this user may not read is left out.
fn rows(seen: &Footprint) -> Vec<(&'static str, u64, String)> {
    let count = seen.processes;
    let (rss, vsz) = match count {
        1 => (
            "VmRSS in /proc/PID/status of the server's only process".into(),
            "VmSize in /proc/PID/status of the server's only process".into(),
        ),
        _ => (
            format!(
                "Pss in /proc/PID/smaps_rollup, the sum over the server's {count} processes: shared memory counts once"
            ),
            format!("VmSize in /proc/PID/status, of the largest of the server's {count} processes"),
        ),
    };
    let figures = [("rss", seen.rss_bytes, rss), ("vsz", seen.vsz_bytes, vsz)];
    figures.into_iter().filter_map(|(what, bytes, witness)| Some((what, bytes?, witness))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_says_of_which_processes_it_is() {
        let told = |processes, rss_bytes| {
            let seen = Footprint { processes, rss_bytes, vsz_bytes: Some(9), ..Footprint::default() };
            rows(&seen)
        };
        let of_one = told(1, Some(5));
        assert_eq!((of_one[0].0, of_one[0].1, of_one[1].1), ("rss", 5, 9));
        assert!(of_one.iter().all(|(_, _, witness)| witness.ends_with("only process")), "{of_one:?}");
        let of_seven = told(7, Some(5));
        assert!(of_seven[0].2.contains("the sum over the server's 7 processes"), "{of_seven:?}");
        assert!(of_seven[1].2.contains("the largest of the server's 7 processes"), "{of_seven:?}");
        let refused = told(7, None);
        assert_eq!(refused.iter().map(|row| row.0).collect::<Vec<_>>(), ["vsz"], "nothing is made up");
    }
}
