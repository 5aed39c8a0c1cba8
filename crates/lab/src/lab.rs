// SPDX-License-Identifier: Apache-2.0
//! What all phases of a walk share: the run, the sandbox with its server, the squeezes in force, and the recording.

use crate::cell::{Cell, Phase};
use crate::error::Error;
use crate::hooks::{CurrentArm, SecondSink};
use crate::notes::Notes;
use crate::outcome::Missed;
use crate::server::Serving;
use crate::squeezes::Squeezes;
use evidence::{ArmOutcome, Conditions};
use run::Run;
use sandbox::Sandbox;
use squeeze::host_thp::HostThp;
use squeeze::huge_pool::HugePool;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub(crate) struct Lab<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) notes: Notes<'a>,
    pub(crate) run: Run,
    pub(crate) serving: Option<Serving>,
    pub(crate) sandbox: Option<Sandbox>,
    pub(crate) squeezes: Squeezes,
    /// Room for the server's memory, as long as it runs.
    pub(crate) huge_pool: Option<HugePool>,
    /// The host's transparent huge pages, where they were set for the server.
    pub(crate) host_thp: Option<HostThp>,
    pub(crate) rows_per_table: u64,
    /// Set when the caller wants the walk to end.
    pub(crate) stop: Arc<AtomicBool>,
    /// The phase that ended the walk, and its position, as in the recording.
    pub(crate) broken: Option<(u32, evidence::Arm)>,
    pub(crate) conditions: Option<Conditions>,
    /// Whether the server's data were filled or cloned; `None`: they are not there yet.
    pub(crate) data: Option<evidence::Data>,
    /// Phases that were not measured, each with the reason.
    pub(crate) missed: Vec<Missed>,
    /// The arm that snapshots belong to.
    pub(crate) arm: CurrentArm,
    /// A second sink of samples, besides the recording.
    pub(crate) samples: Option<SecondSink>,
}

impl<'a> Lab<'a> {
    pub(crate) fn new(
        cell: &'a Cell,
        notes: Notes<'a>,
        run: Run,
        stop: Arc<AtomicBool>,
        samples: Option<SecondSink>,
    ) -> Self {
        Self {
            cell,
            notes,
            run,
            serving: None,
            sandbox: None,
            squeezes: Squeezes::default(),
            huge_pool: None,
            host_thp: None,
            rows_per_table: 0,
            stop,
            broken: None,
            conditions: None,
            data: None,
            missed: Vec::new(),
            arm: CurrentArm::default(),
            samples,
        }
    }

    /// A phase whose squeeze did not take effect is not measured: the walk goes on with the other phases, and reports it at its end. When the watchdog has
    /// ended the squeeze meanwhile, the walk ends with the watchdog's reason.
    pub(crate) fn note_missed(&mut self, phase: &Phase, why: &str) -> Result<(), Error> {
        if self.run.neutralised().is_some() {
            return Err(self.stopped());
        }
        self.note_result("squeeze", phase, ArmOutcome::Missed, why)
    }

    /// Notes the result of a phase that was not measured completely, and after which the walk goes on.
    pub(crate) fn note_result(
        &mut self,
        station: &str,
        phase: &Phase,
        outcome: ArmOutcome,
        why: &str,
    ) -> Result<(), Error> {
        let missed = Missed { phase: phase.name.clone(), outcome, why: why.to_owned() };
        let text = missed.to_string();
        self.missed.push(missed);
        self.notes.event(station, text)
    }

    /// Fails when the caller has asked for the end, or the watchdog has.
    pub(crate) fn check_stop(&self) -> Result<(), Error> {
        if self.stop.load(Ordering::SeqCst) { Err(self.stopped()) } else { Ok(()) }
    }

    /// Whether the caller has asked for the end, or the watchdog has ended the squeeze: what ends then is no result.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || self.run.neutralised().is_some()
    }

    /// # Errors
    /// [`Error::NoServer`]: the server that was started has ended.
    pub(crate) fn serves(&self) -> Result<(), Error> {
        let has_ended = self.serving.as_ref().is_some_and(|serving| serving.running.wait(Duration::ZERO));
        if has_ended { Err(Error::NoServer) } else { Ok(()) }
    }

    /// The reason of a walk that the caller or the watchdog has ended.
    pub(crate) fn stopped(&self) -> Error {
        self.run.neutralised().map_or(Error::Interrupted, |reason| Error::Watchdog { reason: reason.to_string() })
    }

    pub(crate) fn look_at_cache(&mut self) {
        if let Some(sandbox) = &self.sandbox {
            self.squeezes.look_at_cache(&sandbox.data());
        }
    }
}
