// SPDX-License-Identifier: Apache-2.0
//! Records spans and snapshots beside the series: how long the parts of a walk took, and what a server says of itself.

use crate::error::Error;
use crate::hooks::Sinks;
use crate::lab::Lab;
use evidence::{Arm, Format, SLOW_STATEMENT, SampleSink as _, SlowStatement, Snapshot, Span};
use std::collections::BTreeMap;
use std::sync::PoisonError;

impl Lab<'_> {
    pub(crate) fn sinks(&self) -> Sinks {
        Sinks::new(self.notes.recording.clone(), self.samples.clone(), self.arm.clone())
    }

    /// From now on snapshots belong to this arm; `None`: to no arm.
    pub(crate) fn goes_on(&self, arm: Option<&str>) {
        *self.arm.lock().unwrap_or_else(PoisonError::into_inner) = arm.map(str::to_owned);
    }

    /// Records a span that ends now.
    pub(crate) fn span(&self, kind: &str, entity: &str, from_us: u64, told: &[(&str, String)]) -> Result<(), Error> {
        self.keep_span(kind, entity, (from_us, self.notes.clock.now_us()), told)
    }

    /// Records the warm-up and the measured part of an arm's load, as far as they came.
    pub(crate) fn load_spans(&self, arm: &Arm) -> Result<(), Error> {
        let Some(load) = &arm.load else { return Ok(()) };
        let warmup = load.warmup.as_ref().map(|phase| ("load.warmup", phase));
        for (kind, phase) in warmup.into_iter().chain([("load.measured", &load.measured)]) {
            let times = (phase.started_us, phase.started_us.saturating_add(phase.elapsed_us));
            let mut told = vec![("transactions", phase.transactions.to_string())];
            if let Some(slow) = &phase.slow {
                told.push(("slow_threshold_us", slow.threshold_us.to_string()));
                told.push(("slow_statements", slow.kept.len().to_string()));
                told.push(("slow_dropped", slow.dropped.to_string()));
            }
            self.keep_span(kind, &arm.name, times, &told)?;
        }
        load.measured.slow.iter().flat_map(|slow| &slow.kept).try_for_each(|slow| self.slow_span(arm, slow))
    }

    fn slow_span(&self, arm: &Arm, slow: &SlowStatement) -> Result<(), Error> {
        let mut told = vec![("connection", slow.connection.to_string()), ("class", slow.class.clone())];
        if slow.late_us > 0 {
            told.push(("late_us", slow.late_us.to_string()));
        }
        if slow.failed {
            told.push(("failed", "true".to_owned()));
        }
        self.keep_span(SLOW_STATEMENT, &arm.name, (slow.from_us, slow.to_us), &told)
    }

    /// Records InnoDB's status, if the server has InnoDB and its counters are read. A failure to read the status is ignored.
    pub(crate) fn innodb_status(&self) -> Result<(), Error> {
        let Some(serving) = self.serving.as_ref().filter(|_| self.cell.observe.server) else { return Ok(()) };
        let content = match serving.innodb_status() {
            Ok(Some(content)) => content,
            Ok(None) => return Ok(()),
            Err(error) => return self.notes.event("observe", format!("InnoDB's status could not be read: {error}")),
        };
        let (source, entity) = ("server.innodb_status".to_owned(), String::new());
        let at_us = self.notes.clock.now_us();
        let snapshot = Snapshot { at_us, arm: None, source, entity, format: Format::Text, content };
        self.sinks().snapshot(&snapshot).map_err(|source| Error::Sink { source })
    }

    pub(crate) fn keep_span(
        &self,
        kind: &str,
        entity: &str,
        (from_us, to_us): (u64, u64),
        told: &[(&str, String)],
    ) -> Result<(), Error> {
        let attributes: BTreeMap<String, String> =
            told.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let span = Span { from_us, to_us, kind: kind.to_owned(), entity: entity.to_owned(), attributes };
        self.sinks().span(&span).map_err(|source| Error::Sink { source })
    }
}
