// SPDX-License-Identifier: Apache-2.0
//! Loads beside an arm's own load, each with threads and connections of its own. They begin with the arm's load, have a warm-up of the same length, and
//! end when it ends.

use crate::cell::Phase;
use crate::error::Error;
use crate::lab::Lab;
use crate::load_cpus::LoadCpus;
use crate::notes::load_summary;
use crate::translate;
use evidence::{Clock, LoadResult, Measured, Quantity, Unit};
use load::engine::{self, Hooks, LoadSpec};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The arm's load ends before: an experiment's load may last so long.
const LONGEST: Duration = Duration::from_secs(24 * 3600);
const PERCENTILES: [(&str, f64); 4] = [("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)];

/// The loads of a phase, while they run. They also end when this is dropped.
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    loads: Vec<(String, JoinHandle<Result<LoadResult, load::Error>>)>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.loads.drain(..).for_each(|(_, load)| drop(load.join()));
    }
}

impl Lab<'_> {
    pub(crate) fn start_loads_beside(&self, phase: &Phase) -> Result<Running, Error> {
        let mut running = Running { stop: Arc::new(AtomicBool::new(false)), loads: Vec::new() };
        let Some(serving) = &self.serving else { return Ok(running) };
        let target = serving.load_target();
        for beside in &phase.load.loads_beside {
            let written = phase.written_beside.get(&beside.load.workload);
            let spec =
                translate::load_spec(&self.cell.fill, &beside.load, written, target.protocol, self.rows_per_table)?;
            let spec = LoadSpec { warmup: phase.load.warmup.0, time: Some(LONGEST), events: None, ..spec };
            load::capacity::check(target, spec.connections, spec.statements_prepared())?;
            let (target, clock, stop) = (target.clone(), self.notes.clock, running.stop.clone());
            // a thread has the CPUs of the thread that starts it
            let _on_cpus = LoadCpus::only(phase.load.cpuset.as_ref())?;
            let load = std::thread::spawn(move || {
                let hooks =
                    &mut Hooks { on_phase: &mut |_| {}, on_progress: &mut |_| {}, progress_interval: None, stop };
                engine::run(&spec, &target, &clock, hooks)
            });
            running.loads.push((beside.name.clone(), load));
        }
        Ok(running)
    }

    /// Ends the loads, and records their results.
    ///
    /// # Errors
    /// A load could not go on to the end: the arm was not measured as asked.
    pub(crate) fn end_loads_beside(&self, phase: &Phase, mut running: Running) -> Result<(), Error> {
        running.stop.store(true, Ordering::SeqCst);
        let mut broken = None;
        for (name, load) in running.loads.drain(..) {
            match load.join() {
                Ok(Ok(result)) => self.keep_beside(phase, &name, &result)?,
                Ok(Err(source)) => {
                    broken.get_or_insert(Error::LoadBeside { name, source });
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        broken.map_or(Ok(()), Err)
    }

    fn keep_beside(&self, phase: &Phase, name: &str, result: &LoadResult) -> Result<(), Error> {
        let summary = load_summary(&format!("{}: beside the load, {name}", phase.name), result);
        self.notes.event("load", summary)?;
        for measured in measured(name, result) {
            let (at_us, arm) = (self.notes.clock.now_us(), Some(phase.name.clone()));
            self.notes.measured(&Measured { at_us, arm, ..measured })?;
        }
        Ok(())
    }
}

fn measured(name: &str, result: &LoadResult) -> Vec<Measured> {
    let phase = &result.measured;
    let mechanism = format!("{} over {}", result.workload, units::counted(result.connections.into(), "connection"));
    let during = format!("{} transactions in {:.1} s", phase.transactions, phase.elapsed_us as f64 / 1e6);
    let one = |what: &str, got: Option<Quantity>, witness: String| Measured {
        got,
        ..Measured::of(format!("beside.{name}.{what}"), mechanism.clone(), witness)
    };
    let per_second = phase.transactions_per_second().map(|value| Quantity { value, unit: Unit::PerSecond });
    let mut all = vec![one("throughput", per_second, during)];
    let times = phase.times(Clock::Response);
    for (what, percentile) in PERCENTILES {
        let time = times.percentile(percentile);
        let is_known = !times.is_empty() && !time.is_at_least();
        let witness = match is_known {
            true => "response times, from the intended start to the last row".to_owned(),
            false => format!("not known: at least {} ms", time.ms_text()),
        };
        all.push(one(what, is_known.then(|| Quantity::micros(time.us())), witness));
    }
    let errors: u64 = phase.errors.values().sum();
    let kinds: Vec<&str> = phase.errors.keys().map(String::as_str).collect();
    let kinds = if kinds.is_empty() { "the server's answers".to_owned() } else { kinds.join(", ") };
    all.push(one("errors", Some(Quantity::count(errors as f64)), kinds));
    all
}
