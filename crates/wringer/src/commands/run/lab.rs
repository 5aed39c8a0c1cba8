// SPDX-License-Identifier: Apache-2.0
//! One walk of the flow. The lab owns the run, the sandbox and the recording; whatever ends the walk, [`Lab::end`] gives the host
//! back and closes the recording.

use super::arm;
use super::drivers::Prepared;
use super::notes::Notes;
use super::output::{Output, RECORDING};
use super::own_data;
use super::server::{Serving, Watch};
use super::squeezes::{Squeezes, limits_of, ram_mechanism};
use super::translate;
use super::workloads::Workloads;
use crate::commands::command_line;
use crate::commands::ram::ask_consent;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use evidence::{Conditions, ENDED_EARLY, Server, Tool};
use experiment::{Arm, DiskMechanism, Experiment, FillSize, Flavour, LeftOut};
use host::clock::{RunClock, rfc3339, unix_seconds};
use host::places::Places;
use load::fill::{self, FillPlan, FillReport, ServerFacts, Stage};
use load::prepare::pgbench;
use observe::{Observer, Options, conditions, host_readers};
use recording::{Recording, Start};
use run::{Begin, ChildSpec, Kind, Resource, Run};
use sandbox::{Origin, Request, Sandbox, ServerOption, Spec, StartOptions};
use squeeze::disk::SlowLayer;
use squeeze::preloaded;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the command line adds to the experiment.
pub struct Settings {
    pub places: Places,
    /// Set by the first Ctrl-C.
    pub stop: Arc<AtomicBool>,
    /// Leave the sandbox behind.
    pub keep: bool,
    /// Squeeze the host's RAM beside databases that are not ours.
    pub consent: bool,
    /// How the disk is made slow, if it is.
    pub disk: Option<DiskMechanism>,
    pub left_out: Vec<LeftOut>,
    /// The files that arms name as their workloads.
    pub workloads: Workloads,
    /// The programs that are the load of arms, by the arms' names.
    pub drivers: BTreeMap<String, Prepared>,
    /// What the server begins with, when that is somebody's own data.
    pub origin: Option<Origin>,
}

pub struct Lab<'a> {
    pub experiment: &'a Experiment,
    pub settings: Settings,
    pub notes: Notes,
    pub run: Run,
    pub sandbox: Option<Sandbox>,
    pub serving: Option<Serving>,
    pub squeezes: Squeezes,
    pub rows_per_table: u64,
    /// Where the loads go, when that is not the sandbox's own.
    database: Option<String>,
    conditions: Option<Conditions>,
    host_observer: Option<Observer>,
    sandbox_name: String,
    /// Arms that have begun, over all repetitions.
    arms_begun: u32,
    /// The arm that ended the walk, and its position, as they stand in the recording.
    pub broken: Option<(u32, evidence::Arm)>,
    /// Arms that were not measured, and why.
    pub missed: Vec<String>,
}

impl<'a> Lab<'a> {
    /// Takes the locks and starts the watchdog; opens the recording.
    pub fn begin(
        experiment: &'a Experiment,
        text: String,
        settings: Settings,
        output: &Output,
    ) -> Result<Self, Failure> {
        let clock = RunClock::start();
        // two runs may begin in one second, and a killed one leaves its sandbox behind
        let sandbox_name = format!("{}-{}-{:x}", experiment.name, unix_seconds(), std::process::id());
        let hides_ram = experiment.arms.iter().any(|arm| arm.squeeze.ram.is_some()) && is_root();
        let mut resources: Vec<Resource> = Vec::new();
        resources.extend(hides_ram.then_some(Resource::HostRam));
        resources.push(Resource::Sandbox(sandbox_name.clone()));
        if hides_ram {
            ask_consent(&settings.places, settings.consent)?;
        }
        let command = command_line();
        let run = Run::begin(Begin { kind: Kind::Run, command, resources, places: settings.places.clone() })?;
        output.prepare()?;
        let files = settings.workloads.iter().map(|(name, written)| (name.clone(), written.file.text.clone()));
        let scripts = settings.drivers.values().flat_map(|prepared| prepared.scripts.clone());
        let start = Start {
            run_id: run.id().to_string(),
            started: rfc3339(unix_seconds()),
            experiment: text,
            files: files.chain(scripts).collect(),
        };
        let recording = Recording::create(&output.path(RECORDING), &start)?;
        Ok(Self {
            experiment,
            settings,
            notes: Notes { recording, clock },
            run,
            sandbox: None,
            serving: None,
            squeezes: Squeezes::default(),
            rows_per_table: 0,
            database: None,
            conditions: None,
            host_observer: None,
            sandbox_name,
            arms_begun: 0,
            broken: None,
            missed: Vec::new(),
        })
    }

    /// An arm whose squeeze did not come on is not measured: the run goes on with the others, and says so at its end. What the watchdog gave back
    /// in the meantime had come on: then its reason is told, and the run ends.
    pub fn note_missed(&mut self, arm: &str, why: &str) -> Outcome {
        if self.run.neutralised().is_some() {
            return Err(self.stopped());
        }
        self.missed.push(format!("arm '{arm}' was not measured, for its squeeze did not come on: {why}"));
        let text = self.missed.last().cloned().unwrap_or_default();
        self.notes.event("squeeze", text)
    }

    /// Sandbox, fill, then every arm of every repetition.
    pub fn walk(&mut self) -> Outcome {
        self.deploy()?;
        self.observe_host()?;
        self.fill()?;
        for repetition in 0..self.experiment.repeat {
            for arm in &self.experiment.arms {
                self.check_stop()?;
                let first = self.arms_begun == 0;
                if first || arm.restart {
                    self.restart_server(arm)?;
                }
                let position = self.arms_begun;
                self.arms_begun += 1;
                arm::run(self, arm, position, repetition)?;
            }
        }
        Ok(())
    }

    /// Gives the host back and closes the recording, whatever the walk came to. The first failure is the one that is told.
    pub fn end(mut self, walked: Outcome) -> Outcome {
        let walked = walked.map_err(|failure| self.interrupted(failure));
        if let Some(reason) = self.run.neutralised() {
            let _ = self.notes.event("watchdog", format!("ended the run: {reason}"));
        }
        let walked = walked.map_err(|failure| self.explained_by_server(failure));
        if let Err(failure) = &walked {
            self.mark_broken(failure);
            let _ = self.notes.event("release", format!("{ENDED_EARLY}{}", failure.error));
        }
        let stopped = self.stop_server();
        drop(self.host_observer.take());
        let recording = self.notes.recording.clone();
        let clock = self.notes.clock;
        let name = self.sandbox.as_ref().map(|sandbox| sandbox.name().to_owned());
        let released = release(self.run);
        let deleted = match name {
            Some(name) if self.settings.keep => {
                terminal::say(format_args!("kept: `wringer sandbox start {name}`"));
                Ok(())
            }
            Some(name) => delete(&name, &self.settings.places),
            None => Ok(()),
        };
        let finished = recording.finish(clock.now_us()).map_err(Failure::from);
        // a host that is not restored is worse than whatever ended the walk
        released.and(walked).and(stopped).and(deleted).and(finished)
    }

    /// Fails with exit code 130 once somebody asked us to stop; with 4 when it was the watchdog.
    pub fn check_stop(&self) -> Outcome {
        if self.settings.stop.load(Ordering::SeqCst) { Err(self.stopped()) } else { Ok(()) }
    }

    fn interrupted(&self, failure: Failure) -> Failure {
        let asked = self.settings.stop.load(Ordering::SeqCst) || self.run.neutralised().is_some();
        if asked && failure.exit != Exit::NotRestored { self.stopped() } else { failure }
    }

    fn stopped(&self) -> Failure {
        match self.run.neutralised() {
            Some(reason) => Failure::message(Exit::Failed, format_args!("the watchdog ended the run: {reason}"))
                .hint("what was measured until then is in the recording, which says so"),
            None => interrupted(),
        }
    }

    /// A failure that is not somebody's wish may be the server's end: then that is told, with the end of its log.
    fn explained_by_server(&mut self, failure: Failure) -> Failure {
        let explains = |serving: &mut Serving| failure.exit == Exit::Failed && serving.ended_before(&failure);
        match self.serving.take_if(explains) {
            Some(serving) => serving.ended(&failure, &mut self.run, &self.notes).unwrap_or_else(|worse| worse),
            None => failure,
        }
    }

    /// The arm knew only that its load had ended; why is known now.
    fn mark_broken(&mut self, failure: &Failure) {
        let Some((position, mut arm)) = self.broken.take() else { return };
        arm.broke_off = Some(arm::reason(failure));
        let _ = self.notes.recording.arm(position, &arm);
    }

    fn deploy(&mut self) -> Outcome {
        let server = &self.experiment.server;
        let request = server_request(server)?;
        let spinner = terminal::spinner("looking for the server");
        let mut progress = |what: &str| spinner.set_message(what.to_owned());
        let installation = sandbox::locate(&request, &self.settings.places, &mut progress)?;
        if self.settings.disk == Some(DiskMechanism::Preload) {
            preloaded::check_program(&installation.program)?;
            let sandboxes = &self.settings.places.sandboxes;
            preloaded::check_directory(sandboxes.ancestors().find(|it| it.exists()).unwrap_or(sandboxes))?;
        }
        let source = installation.describe();
        let mut spec = Spec::new(installation);
        spec.name = self.sandbox_name.clone();
        spec.run = (!self.settings.keep).then(|| self.run.id().to_string());
        spec.origin = self.settings.origin.take();
        spec.held = true;
        let sandbox = Sandbox::deploy(spec, &self.settings.places, &mut progress)?;
        spinner.finish_and_clear();
        self.database = own_data::database(self.experiment, &sandbox)?;
        if let Some(imported) = &sandbox.manifest.origin {
            let changes: String = imported.changes.iter().map(|change| format!("; {change}")).collect();
            self.notes.event("fill", format!("a copy of {}: {}{changes}", imported.path.display(), imported.what))?;
        }
        self.notes.event("sandbox", format!("deployed {} ({source}) as {}", server.flavour, sandbox.name()))?;
        self.sandbox = Some(sandbox);
        Ok(())
    }

    fn observe_host(&mut self) -> Outcome {
        let (readers, missing) = host_readers::all(Path::new("/proc"));
        for what in missing {
            self.notes.event("observe", format!("not on this kernel: {what}"))?;
        }
        let options = Options { name: "host", interval: self.experiment.observe.interval.0, ..Options::default() };
        self.host_observer = Some(Observer::start(self.notes.clock, readers, self.notes.recording.clone(), options)?);
        Ok(())
    }

    /// On the disk as it is, without any squeeze; then the server is stopped, so that the layer can go under it.
    fn fill(&mut self) -> Outcome {
        let first = &self.experiment.arms[0];
        self.start_server(first, ChildSpec::default())?;
        self.record_conditions()?;
        let Some(serving) = &self.serving else { return Ok(()) };
        let target = serving.target().clone();
        match self.experiment.fill.size {
            Some(size) => self.fill_tables(size, first.load.seed, &target)?,
            None => self.rows_per_table = own_data::rows(&target),
        }
        if let Some(scale) = self.experiment.fill.pgbench {
            let report = pgbench::fill(&target, scale, false, &self.settings.stop, &mut |_, _| {})?;
            self.notes.event("fill", report.to_string())?;
        }
        self.check_stop()?;
        self.stop_server()
    }

    fn fill_tables(&mut self, size: FillSize, seed: u64, target: &load::Target) -> Outcome {
        let facts = ServerFacts::read(target)?;
        let spec = translate::fill_spec(&self.experiment.fill, size, seed)?;
        let plan = fill::plan(&spec, &facts)?;
        let report = fill_with_bar(&plan, target, &self.settings.stop)?;
        self.rows_per_table = report.rows_per_table;
        self.notes.event("fill", report.to_string())?;
        for measured in report.measured(self.notes.clock.now_us()) {
            self.notes.measured(&measured)?;
        }
        Ok(())
    }

    /// Stop, switch, start: never storage or limits under a live server. The page cache of the server is filled before any
    /// delay is on.
    fn restart_server(&mut self, arm: &Arm) -> Outcome {
        self.stop_server()?;
        let Some(sandbox) = &self.sandbox else { return Ok(()) };
        let data = sandbox.data();
        squeeze::limits::evict(&data);
        if let Some(mechanism) = self.settings.disk {
            let library = preloaded::library_folder(&self.settings.places);
            self.squeezes.layer(&mut self.run, &data, mechanism, &library, &self.notes)?;
        }
        self.squeezes.limits(&mut self.run, &limits_of(self.experiment, arm), &self.notes)?;
        let layer: Vec<&SlowLayer> = self.squeezes.layer.iter().collect();
        self.start_server(arm, SlowLayer::for_programs(&layer))?;
        self.squeezes.refuse_not_loaded()?;
        self.squeezes.probe(&mut self.run, &data, &self.notes)?;
        arm::preheat(self, arm)
    }

    pub fn look_at_cache(&mut self) {
        if let Some(sandbox) = &self.sandbox {
            self.squeezes.look_at_cache(&sandbox.data());
        }
    }

    /// `seeing`: what lets it see the slow disk.
    fn start_server(&mut self, arm: &Arm, seeing: ChildSpec) -> Outcome {
        let Some(sandbox) = &self.sandbox else { return Ok(()) };
        let options = translate::server_options(arm)?;
        let limits = self.squeezes.limits.as_ref();
        let start = StartOptions {
            cgroups: limits.map(|limits| limits.folders().to_vec()).unwrap_or_default(),
            affinity: limits.and_then(squeeze::limits::Limits::affinity),
            extra_options: options,
            ..StartOptions::default()
        };
        let mut serving = Serving::start(sandbox, &mut self.run, &start.seeing(seeing), &self.notes)?;
        if let Some(database) = &self.database {
            serving.running.target.database = Some(database.clone());
        }
        let observe = self.experiment.observe;
        let watch = Watch { interval: observe.interval.0, process: observe.process, server: observe.server };
        let layer = self.squeezes.layer.as_ref().map(squeeze::disk::SlowLayer::connect).transpose()?;
        serving.watch(watch, layer, self.notes.clock, &self.notes.recording)?;
        self.serving = Some(serving);
        Ok(())
    }

    fn stop_server(&mut self) -> Outcome {
        match self.serving.take() {
            Some(serving) => serving.stop(&mut self.run, &self.notes),
            None => Ok(()),
        }
    }

    /// What only shows when RAM is hidden, such as whether it could be locked.
    pub fn record_ram_traits(&mut self) -> Outcome {
        let (Some(traits), Some(conditions)) = (self.squeezes.ram_traits(), &mut self.conditions) else {
            return Ok(());
        };
        let traits = serde_json::from_value(serde_json::to_value(traits)?)?;
        if conditions.traits.get("ram") != Some(&traits) {
            conditions.traits.insert("ram".into(), traits);
            self.notes.recording.conditions(conditions)?;
        }
        Ok(())
    }

    fn record_conditions(&mut self) -> Outcome {
        let (Some(sandbox), Some(serving)) = (&self.sandbox, &self.serving) else { return Ok(()) };
        let data = sandbox.data();
        let host = conditions::host(&data);
        let mut caveats = conditions::caveats(&host);
        let left_out = self.settings.left_out.iter();
        caveats.extend(left_out.map(|left| format!("left out: {}: {}; {}", left.what, left.why, left.instead)));
        let installation = &sandbox.manifest.installation;
        let conditions = Conditions {
            tool: Tool { version: env!("CARGO_PKG_VERSION").into(), command: command_line(), as_root: is_root() },
            host,
            server: Server {
                flavour: installation.flavour.to_string(),
                version: serving.running.version.clone(),
                binary: installation.program.display().to_string(),
                source: installation.source.describe(),
                variables: serving.variables()?,
            },
            mechanisms: mechanisms(self.experiment, self.settings.disk, &sandbox.options_under_a_library()?),
            traits: BTreeMap::new(),
            caveats,
        };
        self.notes.recording.conditions(&conditions)?;
        self.conditions = Some(conditions);
        Ok(())
    }
}

fn fill_with_bar(plan: &FillPlan, target: &load::Target, stop: &AtomicBool) -> Result<FillReport, Failure> {
    let bar = terminal::bar(0, "filling");
    let mut last: Option<Stage> = None;
    let report = fill::run(plan, target, stop, &mut |progress| {
        if last.replace(progress.stage) != Some(progress.stage) {
            bar.reset();
            bar.set_message(progress.stage.describe());
        }
        bar.set_length(progress.total);
        bar.set_position(progress.done);
    });
    bar.finish_and_clear();
    Ok(report?)
}

fn release(run: Run) -> Outcome {
    let released = run.release()?;
    if released.conflicts.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = released
        .conflicts
        .iter()
        .map(|conflict| format!("{}: expected {}, found {}", conflict.step, conflict.expected, conflict.found))
        .collect();
    let failure =
        Failure::message(Exit::NotRestored, format!("somebody else changed what we had set: {}", lines.join("; ")));
    Err(released.conflicts.iter().fold(failure, |failure, conflict| failure.hint(conflict.repair.clone())))
}

fn delete(name: &str, places: &Places) -> Outcome {
    let deleted = Sandbox::delete(name, places, false)?;
    for kept in deleted.kept {
        terminal::say(format_args!("note: not ours, left alone: {}", kept.display()));
    }
    Ok(())
}

fn mechanisms(
    experiment: &Experiment,
    disk: Option<DiskMechanism>,
    under_a_library: &[ServerOption],
) -> BTreeMap<String, String> {
    let mut mechanisms = BTreeMap::new();
    let any = |of: &dyn Fn(&Arm) -> bool| experiment.arms.iter().any(of);
    let disk = disk.map(|mechanism| match mechanism {
        DiskMechanism::Fuse => "fuse layer in a private mount namespace".to_owned(),
        DiskMechanism::Preload => {
            let options = under_a_library.iter().map(|option| format!("; the server has {option}"));
            format!("preload layer: a library in the server{}", options.collect::<String>())
        }
    });
    mechanisms.extend(disk.map(|disk| ("disk".to_owned(), disk)));
    if any(&|arm| arm.squeeze.ram.is_some()) {
        let chosen = ram_mechanism(experiment).map_or("none", squeeze::ram::Mechanism::name);
        let how = if is_root() { chosen } else { "none: hiding RAM from the host needs root" };
        mechanisms.insert("ram".to_owned(), how.to_owned());
    }
    // refused long ago where it cannot be planned
    let limits =
        |arm: &Arm| squeeze::limits::plan(&limits_of(experiment, arm), squeeze::limits::Words::EXPERIMENT).ok();
    let planned: Vec<_> = experiment.arms.iter().filter_map(limits).collect();
    for (name, controller) in [("server_ram", "memory"), ("server_cpus", "cpu"), ("server_cpuset", "cpuset")] {
        let mechanism = planned.iter().find_map(|plan| plan.mechanism(controller));
        mechanisms.extend(mechanism.map(|mechanism| (name.to_owned(), mechanism)));
    }
    mechanisms
}

/// What the experiment file asks for.
pub fn server_request(server: &experiment::Server) -> Result<Request, Failure> {
    Ok(Request { flavour: flavour(server.flavour), version: version(server.version.as_deref())? })
}

fn flavour(flavour: Flavour) -> sandbox::Flavour {
    match flavour {
        Flavour::Mariadb => sandbox::Flavour::Mariadb,
        Flavour::Mysql => sandbox::Flavour::Mysql,
        Flavour::Percona => sandbox::Flavour::Percona,
        Flavour::Postgresql => sandbox::Flavour::Postgresql,
    }
}

fn version(written: Option<&str>) -> Result<Option<sandbox::Version>, Failure> {
    Ok(written.map(str::parse).transpose()?)
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn interrupted() -> Failure {
    Failure::message(Exit::Interrupted, "interrupted; everything is undone")
}
