// SPDX-License-Identifier: Apache-2.0
//! One walk of the flow. Whatever ends it, [`Walk::end`] gives the host back and closes the recording.

use crate::cell::{Cell, Phase};
use crate::error::Error;
use crate::footprint;
use crate::hooks::Hooks;
use crate::judged;
use crate::kept_fill::FromCache;
use crate::lab::Lab;
use crate::meaning::Kind;
use crate::notes::Notes;
use crate::oom::{Killed, Kills};
use crate::outcome::{self, Ended, Outcome};
use crate::own_data;
use crate::phase;
use crate::server::{Serving, Watch};
use crate::server_start::{pooling, wrapping};
use attach::Group;
use evidence::{Arm, ArmOutcome, ENDED_EARLY};
use host::clock::{RunClock, rfc3339, unix_seconds};
use host::places::Places;
use observe::{Observer, Options};
use recording::{Recording, Start};
use run::{Begin, Kind as RunKind, Resource, Run};
use sandbox::{End, Sandbox, StartOptions};
use squeeze::disk::SlowLayer;
use std::path::{Path, PathBuf};

mod filling;

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
        let killed_before = Kills::on_host();
        let mut walk = match Walk::new(self, recording) {
            Ok(walk) => walk,
            Err(error) => return Ended { outcome: Outcome::CannotStart(error), kept: None, left_alone: Vec::new() },
        };
        let walked = walk.to(last);
        let (missed, began) = (std::mem::take(&mut walk.lab.missed), walk.phases_begun > 0);
        let (kept, mut left_alone) = (walk.sandbox_to_keep(), Vec::new());
        let server = Kills::now(&walk.lab.squeezes).since(&walk.killed_before);
        let ended = walk.end(walked, &mut left_alone);
        let on_host = Kills::on_host().since(&killed_before) != Killed::Nobody;
        let outcome = Outcome::of(ended, missed, began, server, on_host);
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
    /// The kernel's counts when the last phase began, or the walk.
    killed_before: Kills,
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
            killed_before: Kills::on_host(),
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
            self.killed_before = Kills::now(&self.lab.squeezes);
            match self.one_phase(phase, position).and_then(|arm| self.still_served(position, arm)) {
                Err(error) => self.result_of_phase(phase, position, error)?,
                Ok(arm) => self.killed_in_part(phase, position, arm)?,
            }
        }
        Ok(())
    }

    fn one_phase(&mut self, phase: &Phase, position: u32) -> Result<Arm, Error> {
        if position == 0 || phase.restart || self.lab.serving.is_none() {
            self.restart_server(phase)?;
        }
        self.phases_begun += 1;
        phase::run(&mut self.lab, phase, position)
    }

    /// A server that ended by itself after the last question of an arm has ended in this arm. One that was ended with the run is no result of the arm.
    fn still_served(&mut self, position: u32, mut arm: Arm) -> Result<Arm, Error> {
        host::pause_point("an arm has ended");
        let Err(gone) = self.lab.serves() else { return Ok(arm) };
        if self.lab.is_over() || arm.outcome != ArmOutcome::Measured {
            return Ok(arm);
        }
        arm.outcome = ArmOutcome::BrokeOff;
        self.lab.broken = Some((position, arm));
        Err(gone)
    }

    /// Keeps the end of the server as the result of the phase, where it is one: then the next phases run, on a server that is started anew.
    /// Hidden RAM is given back before that, because a new server is filled before RAM is hidden.
    ///
    /// # Errors
    /// `error`, as the end of the server explains it, where it ends the walk.
    fn result_of_phase(&mut self, phase: &Phase, position: u32, error: Error) -> Result<(), Error> {
        if self.lab.is_over() {
            return Err(error);
        }
        let error = self.explained_by_server(error);
        let killed = Kills::now(&self.lab.squeezes).since(&self.killed_before);
        let Some(outcome) = outcome::of_phase(&error, killed) else { return Err(error) };
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
        // a part of it may live
        self.stop_server().map(drop)
    }

    /// The kernel may kill a part of a server, and the server lives: PostgreSQL ends all its backends then, and goes on with new ones. Such a phase was not
    /// measured as it was asked for, whatever its load has told.
    fn killed_in_part(&mut self, phase: &Phase, position: u32, mut arm: Arm) -> Result<(), Error> {
        let killed = Kills::now(&self.lab.squeezes).since(&self.killed_before);
        if killed != Killed::InOwnCgroup || arm.outcome != ArmOutcome::Measured {
            return Ok(());
        }
        let why = "one of its processes; the server itself went on".to_owned();
        (arm.outcome, arm.broke_off) = (ArmOutcome::OutOfMemory, Some(why.clone()));
        self.lab.notes.recording.arm(position, &arm)?;
        self.lab.note_result("sandbox", phase, ArmOutcome::OutOfMemory, &why)?;
        self.stop_server().map(drop)
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
            let _ = self.lab.notes.event("release", format!("{ENDED_EARLY}{}", host::chain(error)));
        }
        let stopped = self.stop_server().map(drop);
        let observed = self.host_observer.take().map_or(Ok(()), |observer| self.lab.notes.end_observer(observer));
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
        released.and(restored).and(walked).and(stopped).and(deleted).and(judged).and(observed).and(finished)
    }

    fn interrupted(&self, error: Error) -> Error {
        if self.lab.is_over() && error.kind() != Kind::NotRestored { self.lab.stopped() } else { error }
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

    fn observe_host(&mut self) -> Result<(), Error> {
        let group = Group::host();
        for what in group.refused {
            self.lab.notes.event("observe", what)?;
        }
        let options = Options { name: group.name, interval: self.lab.cell.observe.interval.0, ..Options::default() };
        let (notes, sinks) = (&self.lab.notes, self.lab.sinks());
        self.host_observer = Some(Observer::start_telling(notes.clock, group.readers, sinks, options, notes.teller())?);
        Ok(())
    }

    /// Stops the server, switches, and starts it: storage and limits never change under a live server. Its page cache is filled before any delay is set
    /// and any RAM is hidden; how much is to be hidden depends on how much the server has taken.
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

    /// Stops the server without the squeezes of the phase: what it writes at its end, and what the next one reads at its start, is no part of a phase.
    /// `None`: no server was there.
    fn stop_server(&mut self) -> Result<Option<End>, Error> {
        let at_full_speed = self.lab.squeezes.full_speed();
        let with_all_ram = self.lab.squeezes.give_ram_back(&mut self.lab.run);
        let serving = self.lab.serving.take();
        let ended = serving.map(|it| it.stop(&mut self.lab.run, &self.lab.notes)).transpose()?;
        self.lab.put_host_thp_back()?;
        self.lab.give_huge_room_back()?;
        at_full_speed.and(with_all_ram).map(|()| ended)
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
