// SPDX-License-Identifier: Apache-2.0
//! Watches the server's threads for stalls while an arm's load runs: the recording has the results beside the load's slow statements.

use crate::error::Error;
use crate::lab::Lab;
use crate::server::Serving;
use capability::Flavour;
use host::process::Identity;
use observe::Reopening;
use observe::stalls::{Asked, Keeper, Options, Recorder, Watcher};

impl Lab<'_> {
    /// `None`: the watch is not asked for, or is not possible; then an event says why.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub(crate) fn watch_stalls(&self, arm: &str) -> Result<Option<Recorder>, Error> {
        let Some((serving, asked)) = self.serving.as_ref().zip(self.cell.observe.stalls) else { return Ok(None) };
        let options = Options {
            interval: asked.interval.map(|interval| interval.0),
            raw: true,
            clock: Some(self.notes.clock),
            ..Options::of_tier(asked.least.map(|least| least.0), asked.deep, asked.probes)
        };
        let keeper = Keeper::new(self.notes.clock, self.sinks(), arm);
        match started(serving, &options, keeper) {
            Ok(recorder) => Ok(Some(recorder)),
            Err(error) => {
                self.notes.event("observe", format!("stalls are not watched: {}", host::chain(&error)))?;
                Ok(None)
            }
        }
    }

    /// Ends the watch, and tells its cost.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub(crate) fn end_of_stalls(&self, arm: &str, recorder: Option<Recorder>) -> Result<(), Error> {
        let Some(recorded) = recorder.and_then(Recorder::stop) else { return Ok(()) };
        let (cost, account) = (recorded.watched.cost, &recorded.watched.account);
        let stalls: u64 = account.by_cause.values().map(|of| of.stalls).sum();
        let told = format!(
            "{arm}: {} seen by their threads, of {:.0} ms and more; watching took {:.2} % of a CPU and {} statements",
            units::counted(stalls, "stall"),
            recorded.watched.resolution_us as f64 / 1000.0,
            cost.cpu_share * 100.0,
            cost.statements
        );
        self.notes.event("observe", told)?;
        for missing in &recorded.watched.missing {
            self.notes.event("observe", format!("stalls: not seen: {}: {}", missing.what, missing.why))?;
        }
        recorded.trouble.map_or(Ok(()), |why| self.notes.event("observe", format!("stalls are lost: {why}")))
    }
}

/// Reads the slow log only where the file switched it on: the load keeps its slow statements itself.
fn started(serving: &Serving, options: &Options, keeper: Keeper) -> Result<Recorder, Error> {
    let pid = serving.running.pid;
    let process = Identity::of(pid).ok_or(observe::Error::Gone { pid })?;
    let by_process = Flavour::has_process_per_connection(serving.kind.flavour);
    let variables = serving.variables()?;
    let slow_log = variables.get("slow_query_log").is_some_and(|it| it.eq_ignore_ascii_case("on"));
    let asked = Asked {
        connection: Reopening::new(serving.target().clone()),
        canary: None,
        own: serving.own.clone(),
        kind: serving.kind.clone(),
        variables,
        name: format!("{} {}", serving.kind.flavour, serving.running.version),
    };
    let watcher = Watcher::start(process, by_process, Some(asked), &Options { slow_log, ..*options })?;
    Ok(Recorder::start(watcher, keeper)?)
}
