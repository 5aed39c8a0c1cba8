// SPDX-License-Identifier: Apache-2.0
//! One walk of the flow. Whatever ends it, [`Walk::end`] gives the host back and closes the recording.

use crate::cell::{Cell, Phase};
use crate::drivers;
use crate::error::Error;
use crate::footprint;
use crate::hooks::Hooks;
use crate::judged;
use crate::kept_fill::{FromCache, Note, imported};
use crate::lab::Lab;
use crate::meaning::Kind;
use crate::notes::Notes;
use crate::oom::{self, Kills};
use crate::outcome::{self, Ended, Outcome};
use crate::own_data;
use crate::phase;
use crate::server::{Serving, Watch};
use crate::server_start::{pool_settings, pooling, wrapping};
use crate::translate;
use attach::Group;
use evidence::{DiskMechanism, ENDED_EARLY};
use experiment::FillSize;
use host::clock::{RunClock, rfc3339, unix_seconds};
use host::places::Places;
use load::fill::{self, FillPlan, FillReport, ServerFacts, Stage};
use load::prepare::pgbench;
use observe::{Observer, Options};
use recording::{Recording, Start};
use run::{Begin, Kind as RunKind, Resource, Run};
use sandbox::{PoolerSpec, Pooling, Sandbox, Spec, StartOptions};
use squeeze::disk::SlowLayer;
use squeeze::preloaded;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// A walk that has its locks and its watchdog, and has changed nothing yet.
pub struct Begun<'a> {
    cell: &'a Cell,
    places: Places,
    hooks: Hooks<'a>,
    clock: RunClock,
    sandbox_name: String,
    run: Run,
}

/// Takes the locks and starts the watchdog.
///
/// # Errors
/// Another process holds something that the cell needs, or an earlier run is not undone.
pub fn begin<'a>(cell: &'a Cell, places: &Places, hooks: Hooks<'a>) -> Result<Begun<'a>, Error> {
    let clock = RunClock::start();
    // two runs may begin in one second, and a run that was killed leaves its sandbox behind
    let sandbox_name = format!("{}-{}-{:x}", cell.name, unix_seconds(), std::process::id());
    let mut resources: Vec<Resource> = Vec::new();
    resources.extend((cell.changes_host() || cell.takes_huge_pages()).then_some(Resource::HostRam));
    resources.push(Resource::Sandbox(sandbox_name.clone()));
    let (command, places) = (cell.command.clone(), places.clone());
    let run = Run::begin(Begin { kind: RunKind::Run, command, resources, places: places.clone() })?;
    Ok(Begun { cell, places, hooks, clock, sandbox_name, run })
}

impl Begun<'_> {
    /// The id of the run in the journal.
    pub fn run(&self) -> &str {
        self.run.id().as_str()
    }

    /// Makes the sandbox, fills it, runs every phase, and gives everything back. The recording has the results, also when the walk broke off.
    pub fn walk(self, recording: &Path) -> Ended {
        self.walk_to(recording, LastStation::Phases)
    }

    /// Makes the sandbox and fills it, only to keep the data.
    pub(crate) fn fill(self, recording: &Path) -> Ended {
        self.walk_to(recording, LastStation::Fill)
    }

    fn walk_to(self, recording: &Path, last: LastStation) -> Ended {
        let killed_before = oom::on_host();
        let mut walk = match Walk::new(self, recording) {
            Ok(walk) => walk,
            Err(error) => return Ended { outcome: Outcome::CannotStart(error), kept: None, left_alone: Vec::new() },
        };
        let walked = walk.to(last);
        let (missed, began) = (std::mem::take(&mut walk.lab.missed), walk.phases_begun > 0);
        let (kept, mut left_alone) = (walk.sandbox_to_keep(), Vec::new());
        let ended = walk.end(walked, &mut left_alone);
        let outcome = Outcome::of(ended, missed, began, oom::on_host() > killed_before);
        Ended { outcome, kept, left_alone }
    }
}

/// How far a walk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LastStation {
    Fill,
    Phases,
}

/// The parts of a walk that its phases do not need.
struct Walk<'a> {
    lab: Lab<'a>,
    places: Places,
    /// The database of the loads, when it is not the sandbox's own.
    database: Option<String>,
    host_observer: Option<Observer>,
    sandbox_name: String,
    phases_begun: u32,
    /// The cell's data in the cache, as far as there are any.
    from_cache: FromCache,
    /// The run's clock when making the sandbox began.
    deployed_us: u64,
}

impl<'a> Walk<'a> {
    fn new(begun: Begun<'a>, recording: &Path) -> Result<Self, Error> {
        let Begun { cell, places, hooks, clock, sandbox_name, run } = begun;
        let start = Start {
            run_id: run.id().to_string(),
            started: rfc3339(unix_seconds()),
            experiment: cell.text.clone(),
            files: cell.files.clone(),
            is_private: false,
        };
        let recording = Recording::create(recording, &start)?;
        let notes = Notes { recording, clock, progress: hooks.progress };
        let lab = Lab::new(cell, notes, run, hooks.stop, hooks.samples);
        Ok(Self {
            lab,
            places,
            database: None,
            host_observer: None,
            sandbox_name,
            phases_begun: 0,
            from_cache: FromCache::default(),
            deployed_us: 0,
        })
    }

    fn to(&mut self, last: LastStation) -> Result<(), Error> {
        self.deploy()?;
        self.observe_host()?;
        self.fill()?;
        match last {
            LastStation::Fill => Ok(()),
            LastStation::Phases => self.every_phase(),
        }
    }

    fn every_phase(&mut self) -> Result<(), Error> {
        for (position, phase) in (0..).zip(&self.lab.cell.phases) {
            self.lab.check_stop()?;
            let killed_before = Kills::now(&self.lab.squeezes);
            if let Err(error) = self.one_phase(phase, position) {
                self.result_of_phase(phase, position, error, &killed_before)?;
            }
        }
        Ok(())
    }

    fn one_phase(&mut self, phase: &Phase, position: u32) -> Result<(), Error> {
        if position == 0 || phase.restart || self.lab.serving.is_none() {
            self.restart_server(phase)?;
        }
        self.phases_begun += 1;
        phase::run(&mut self.lab, phase, position)
    }

    /// Keeps the end of the server as the result of the phase, where it is one: then the next phases run, on a server that is started anew.
    /// Hidden RAM is given back before that, because a new server is filled before RAM is hidden.
    ///
    /// # Errors
    /// `error`, as the end of the server explains it, where it ends the walk.
    fn result_of_phase(
        &mut self,
        phase: &Phase,
        position: u32,
        error: Error,
        killed_before: &Kills,
    ) -> Result<(), Error> {
        if self.lab.stop.load(Ordering::SeqCst) || self.lab.run.neutralised().is_some() {
            return Err(error);
        }
        let error = self.explained_by_server(error);
        let is_killed = Kills::now(&self.lab.squeezes).since(killed_before);
        let Some(outcome) = outcome::of_phase(&error, is_killed) else { return Err(error) };
        self.lab.squeezes.check()?;
        let why = phase::reason(&error);
        let broken = self.lab.broken.take().map(|(_, arm)| arm);
        let mut arm = broken.unwrap_or_else(|| phase::begun(&self.lab, phase));
        arm.ended_us = self.lab.notes.clock.now_us();
        (arm.outcome, arm.broke_off) = (outcome, Some(why.clone()));
        self.lab.notes.recording.arm(position, &arm)?;
        self.lab.note_result("sandbox", phase, outcome, &why)?;
        if let Some((_, log)) = error.to_string().split_once('\n') {
            self.lab.notes.event("sandbox", format!("{}: the server's end; the end of its log:\n{log}", phase.name))?;
        }
        self.lab.squeezes.give_ram_back(&mut self.lab.run)
    }

    fn sandbox_to_keep(&self) -> Option<String> {
        let sandbox = self.lab.sandbox.as_ref().filter(|_| self.lab.cell.keep);
        sandbox.map(|sandbox| sandbox.name().to_owned())
    }

    /// Gives the host back and closes the recording, whatever the outcome of the walk is. Of several errors, the first is reported.
    fn end(mut self, walked: Result<(), Error>, left_alone: &mut Vec<PathBuf>) -> Result<(), Error> {
        let walked = walked.map_err(|error| self.interrupted(error));
        if let Some(reason) = self.lab.run.neutralised() {
            let _ = self.lab.notes.event("watchdog", format!("ended the run: {reason}"));
        }
        let walked = walked.map_err(|error| self.explained_by_server(error));
        if let Err(error) = &walked {
            self.mark_broken(error);
            let _ = self.lab.notes.event("release", format!("{ENDED_EARLY}{error}"));
        }
        let stopped = self.stop_server();
        drop(self.host_observer.take());
        let recording = self.lab.notes.recording.clone();
        let clock = self.lab.notes.clock;
        let released = release(self.lab.run);
        let deleted = match &self.lab.sandbox {
            Some(sandbox) if !self.lab.cell.keep => Sandbox::delete(sandbox.name(), &self.places, false)
                .map(|deleted| left_alone.extend(deleted.kept))
                .map_err(Error::from),
            _ => Ok(()),
        };
        let judged = judged::judge_recorded(&self.lab.notes, &self.lab.cell.phases);
        let finished = recording.finish(clock.now_us()).map_err(Error::from);
        // an error that the host is not restored comes before every other error, also where stopping the server has found it
        let (restored, stopped) = match stopped {
            Err(error) if error.kind() == Kind::NotRestored => (Err(error), Ok(())),
            other => (Ok(()), other),
        };
        released.and(restored).and(walked).and(stopped).and(deleted).and(judged).and(finished)
    }

    fn interrupted(&self, error: Error) -> Error {
        let asked = self.lab.stop.load(Ordering::SeqCst) || self.lab.run.neutralised().is_some();
        if asked && error.kind() != Kind::NotRestored { self.lab.stopped() } else { error }
    }

    /// The error as the end of the server explains it, with the end of its log; unchanged when the server lives, or the user asked for the end.
    fn explained_by_server(&mut self, error: Error) -> Error {
        let explains = |serving: &mut Serving| error.kind() == Kind::Failed && serving.ended_before(&error);
        match self.lab.serving.take_if(explains) {
            Some(serving) => serving.ended(&error, &mut self.lab.run, &self.lab.notes).unwrap_or_else(|worse| worse),
            None => error,
        }
    }

    /// Replaces the reason that the phase gave: it knew only that its load had ended.
    fn mark_broken(&mut self, error: &Error) {
        let Some((position, mut arm)) = self.lab.broken.take() else { return };
        arm.broke_off = Some(phase::reason(error));
        let _ = self.lab.notes.recording.arm(position, &arm);
    }

    fn deploy(&mut self) -> Result<(), Error> {
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

    fn observe_host(&mut self) -> Result<(), Error> {
        let group = Group::host();
        for what in group.refused {
            self.lab.notes.event("observe", what)?;
        }
        let options = Options { name: group.name, interval: self.lab.cell.observe.interval.0, ..Options::default() };
        self.host_observer = Some(Observer::start(self.lab.notes.clock, group.readers, self.lab.sinks(), options)?);
        Ok(())
    }

    /// Fills the server on the disk without any squeeze; then the server is stopped, so that the slow layer can be put below it.
    /// A clone of data that were filled before is there already.
    fn fill(&mut self) -> Result<(), Error> {
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
        self.stop_server()?;
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

    /// Stops the server, switches, and starts it: storage and limits never change under a live server. Its page cache is filled before any delay is set.
    fn restart_server(&mut self, phase: &Phase) -> Result<(), Error> {
        self.stop_server()?;
        let Some(sandbox) = &self.lab.sandbox else { return Ok(()) };
        let data = sandbox.data();
        squeeze::limits::evict(&data);
        if let Some(mechanism) = self.lab.cell.disk {
            self.lab.squeezes.layer(&mut self.lab.run, &data, mechanism, &self.lab.notes)?;
        }
        self.lab.squeezes.limits(&mut self.lab.run, &phase.limits, &self.lab.notes)?;
        self.lab.make_huge_room(phase)?;
        self.lab.set_host_thp(phase)?;
        let start = self.start_with(phase)?.squeezed(self.lab.squeezes.for_program());
        self.start_server(phase, start)?;
        if self.lab.conditions.is_none() {
            self.lab.record_conditions()?;
        }
        self.lab.squeezes.refuse_not_loaded()?;
        self.lab.squeezes.probe(&mut self.lab.run, &data, &self.lab.notes)?;
        phase::preheat(&mut self.lab, phase)
    }

    /// The phase's settings of the server's start, besides its variables.
    fn start_with(&self, phase: &Phase) -> Result<StartOptions, Error> {
        let Some(sandbox) = &self.lab.sandbox else { return Ok(StartOptions::default()) };
        let wrapping = wrapping(&phase.start, &sandbox.manifest.installation, &self.places, &mut ())?;
        Ok(StartOptions { wrapping, pooling: pooling(&phase.start)?, ..StartOptions::default() })
    }

    /// `start`: settings of the start, besides the phase's variables.
    fn start_server(&mut self, phase: &Phase, start: StartOptions) -> Result<(), Error> {
        let Some(sandbox) = &self.lab.sandbox else { return Ok(()) };
        let asking = footprint::asking(self.lab.cell, sandbox.flavour(), &self.places)?;
        let start = StartOptions {
            asking: asking.as_ref().map(|asking| asking.preload.clone()),
            extra_options: sandbox.manifest.installation.start_options(&phase.server_options),
            ..start
        };
        let began = self.lab.notes.clock.now_us();
        let mut serving = Serving::start(sandbox, &mut self.lab.run, &start, &self.lab.notes)?;
        serving.asked = asking.map(|asking| asking.map);
        let ready = [("version", serving.running.version.clone())];
        if let Some(database) = &self.database {
            serving.running.target.database = Some(database.clone());
            if self.lab.cell.filler.is_some() {
                // the observers connect to this database, and the program that fills finds it
                own_data::make_database(serving.target())?;
            }
            if let Some(pooled) = &mut serving.running.pooled {
                pooled.database = Some(database.clone());
            }
        }
        let observe = self.lab.cell.observe;
        let watch = Watch {
            interval: observe.interval.0,
            process: observe.process,
            server: observe.server,
            memory: observe.memory.map(|interval| interval.0),
        };
        let layer = self.lab.squeezes.disk().map(SlowLayer::connect).transpose()?;
        serving.watch(watch, layer, &self.lab.notes, &|| self.lab.sinks())?;
        self.lab.serving = Some(serving);
        self.lab.span("server.start", "", began, &ready)
    }

    fn stop_server(&mut self) -> Result<(), Error> {
        if let Some(serving) = self.lab.serving.take() {
            serving.stop(&mut self.lab.run, &self.lab.notes)?;
        }
        self.lab.put_host_thp_back()?;
        self.lab.give_huge_room_back()
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

fn release(run: Run) -> Result<(), Error> {
    let released = run.release()?;
    if released.conflicts.is_empty() {
        return Ok(());
    }
    let changes = released.conflicts.iter();
    let changes = changes.map(|it| format!("{}: expected {}, found {}", it.step, it.expected, it.found)).collect();
    let repairs = released.conflicts.iter().map(|conflict| conflict.repair.clone()).collect();
    Err(Error::Conflicts { changes, repairs })
}
