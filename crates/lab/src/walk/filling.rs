// SPDX-License-Identifier: Apache-2.0
//! The stations of a walk before its phases: the sandbox is made, and its server filled.

use super::Walk;
use crate::cell::Phase;
use crate::drivers;
use crate::error::Error;
use crate::kept_fill::{FromCache, Note, imported};
use crate::own_data;
use crate::server_start::{pool_settings, wrapping};
use crate::translate;
use evidence::DiskMechanism;
use experiment::FillSize;
use load::fill::{self, FillPlan, FillReport, ServerFacts, Stage};
use load::prepare::pgbench;
use sandbox::{End, PoolerSpec, Pooling, Sandbox, Spec, StartOptions};
use squeeze::preloaded;

impl Walk<'_> {
    pub(super) fn deploy(&mut self) -> Result<(), Error> {
        let request = &self.lab.cell.server;
        let spinner = self.lab.notes.progress.bar("looking for the server", None);
        let mut progress = |what: &str| spinner.set_message(what);
        let installation = match &self.lab.cell.installation {
            Some(found) => found.clone(),
            None => sandbox::locate(request, &self.places, &mut progress)?,
        };
        if self.lab.cell.disk == Some(DiskMechanism::Preload) {
            preloaded::check_program(&installation.program)?;
            let sandboxes = &self.places.sandboxes;
            preloaded::check_directory(sandboxes.ancestors().find(|it| it.exists()).unwrap_or(sandboxes))?;
        }
        // before anything is made: no phase is refused, or waits for a library, in the middle of the run
        for phase in &self.lab.cell.phases {
            wrapping(&phase.start, &installation, &self.places, &mut progress)?;
        }
        let source = installation.describe();
        let mut spec = Spec::new(installation);
        spec.name = self.sandbox_name.clone();
        // the arms do not differ in these: `wringer plan` refuses that
        spec.options = spec.installation.init_options(&self.lab.cell.phases[0].server_options);
        spec.run = (!self.lab.cell.keep).then(|| self.lab.run.id().to_string());
        spec.held = true;
        self.deployed_us = self.lab.notes.clock.now_us();
        self.from_cache = self.lab.look_for_kept(&spec.installation, &self.places)?;
        spec.filled.clone_from(&self.from_cache.entry);
        // a clone has the user's own data in it already
        spec.imported = spec.filled.as_deref().map(imported).transpose()?.flatten();
        spec.origin = self.lab.cell.origin.clone().filter(|_| spec.filled.is_none());
        if let Some(pgbouncer) = self.lab.cell.pgbouncer() {
            let program = sandbox::locate_pooler(&self.places, &mut progress)?;
            spec.pooler = Some(PoolerSpec { program, settings: pool_settings(pgbouncer)? });
        }
        let asked = spec.options.clone();
        let deployed = Sandbox::deploy(spec, &self.places, &mut progress);
        let sandbox = deployed.map_err(|error| Error::not_deployed(error, &asked))?;
        drop(spinner);
        self.database = own_data::database(&self.lab.cell.fill, &sandbox)?;
        own_data::tell(&sandbox, &self.lab.notes)?;
        self.lab.notes.event("sandbox", format!("deployed {} ({source}) as {}", request.flavour, sandbox.name()))?;
        self.lab.sandbox = Some(sandbox);
        Ok(())
    }

    /// Fills the server on the disk without any squeeze; then the server is stopped, so that the slow layer can be put below it.
    /// A clone of data that were filled before is there already.
    pub(super) fn fill(&mut self) -> Result<(), Error> {
        // held no longer than it is needed
        if let Some(entry) = self.from_cache.entry.take() {
            return self.lab.take_clone(&entry, self.deployed_us);
        }
        self.start_for_fill()?;
        self.lab.record_conditions()?;
        let Some(serving) = &self.lab.serving else { return Ok(()) };
        let target = serving.target().clone();
        let mut note = Note::default();
        match self.lab.cell.fill.size {
            Some(size) => note.report = Some(self.fill_tables(size, self.lab.cell.phases[0].load.seed, &target)?),
            None => {
                self.lab.rows_per_table = own_data::rows(&target);
                note.rows_per_table = self.lab.rows_per_table;
            }
        }
        note.imported = self.lab.sandbox.as_ref().and_then(|sandbox| sandbox.manifest.origin.clone());
        if let Some(scale) = self.lab.cell.fill.pgbench {
            let report = pgbench::fill(&target, scale, false, &self.lab.stop, &mut |_, _| {})?;
            self.lab.notes.event("fill", report.to_string())?;
            note.pgbench = Some(report.to_string());
        }
        if let Some(program) = &self.lab.cell.filler {
            drivers::fill(&mut self.lab, program)?;
            if self.lab.cell.fill.size.is_none() {
                self.lab.rows_per_table = own_data::rows(&target);
                note.rows_per_table = self.lab.rows_per_table;
            }
        }
        self.lab.check_stop()?;
        if let Some(why) = self.stop_server()?.and_then(unclean) {
            // the next server begins by repairing them, and so would that of each clone
            self.from_cache = FromCache::default();
            self.lab.notes.event("fill", format!("the filled data: not kept, because their server {why}"))?;
        }
        let elapsed_us = self.lab.notes.clock.now_us().saturating_sub(self.deployed_us);
        self.lab.keep_filled(&self.from_cache, &note, elapsed_us)
    }

    /// Starts the server with the variables of the first phase with which it does start: a failed start is only the result of its own phase.
    fn start_for_fill(&mut self) -> Result<(), Error> {
        let mut refused: Option<(&Phase, Error)> = None;
        for (index, phase) in self.lab.cell.phases.iter().enumerate() {
            let before = &self.lab.cell.phases[..index];
            if before.iter().any(|earlier| earlier.server_options == phase.server_options) {
                continue;
            }
            match self.start_server(phase, StartOptions { pooling: Pooling::Without, ..StartOptions::default() }) {
                Err(error) if error.is_no_start() => {
                    refused.get_or_insert((phase, error));
                }
                Err(error) => return Err(error),
                Ok(()) => {
                    let Some((first, _)) = refused else { return Ok(()) };
                    // the key of kept data is computed from the first phase's variables
                    self.from_cache = FromCache::default();
                    let said = format!(
                        "filled as in arm '{}': with the variables of '{}' it does not start",
                        phase.name, first.name
                    );
                    return self.lab.notes.event("fill", said);
                }
            }
        }
        refused.map_or(Ok(()), |(_, error)| Err(error))
    }

    fn fill_tables(&mut self, size: FillSize, seed: u64, target: &load::Target) -> Result<FillReport, Error> {
        let facts = ServerFacts::read(target)?;
        let spec = translate::fill_spec(&self.lab.cell.fill, size, seed)?;
        let plan = fill::plan(&spec, &facts)?;
        let began = self.lab.notes.clock.now_us();
        let report = self.fill_with_bar(&plan, target)?;
        self.lab.span("fill", "", began, &[("rows a table", report.rows_per_table.to_string())])?;
        self.lab.rows_per_table = report.rows_per_table;
        self.lab.notes.event("fill", report.to_string())?;
        for measured in report.measured(self.lab.notes.clock.now_us()) {
            self.lab.notes.measured(&measured)?;
        }
        Ok(report)
    }

    fn fill_with_bar(&self, plan: &FillPlan, target: &load::Target) -> Result<FillReport, Error> {
        let bar = self.lab.notes.progress.bar("filling", Some(0));
        let mut last: Option<Stage> = None;
        let report = fill::run(plan, target, &self.lab.stop, &mut |progress| {
            if last.replace(progress.stage) != Some(progress.stage) {
                bar.restart();
                bar.set_message(progress.stage.describe());
            }
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        });
        Ok(report?)
    }
}

/// Why the server's data need a recovery. `None`: they need none.
fn unclean(end: End) -> Option<&'static str> {
    match end {
        End::Clean => None,
        End::Killed => Some("did not end in its time and was killed"),
        End::Failed { .. } => Some("failed while it stopped"),
        End::Before { .. } => Some("had ended by itself before it was asked to stop"),
    }
}
