// SPDX-License-Identifier: Apache-2.0
//! The server whose heap is profiled: it is in an existing sandbox, or in a sandbox that is made for an experiment.

use super::Args;
use super::profiler::failure;
use crate::commands::experiment_file::{self, own_data, workloads};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal;
use ::load::engine::{Hooks, LoadSpec};
use ::profile::{Error, Pace, Prepared, Session, Wanted, prepare};
use experiment::{Arm, Experiment};
use host::clock::{RunClock, unix_seconds};
use host::places::Places;
use lab::Workloads;
use run::Run;
use sandbox::{Origin, Sandbox, ServerOption};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub(super) enum Subject {
    Sandbox(Box<Sandbox>),
    Experiment(Box<OfFile>),
}

pub(super) struct OfFile {
    experiment: Experiment,
    arm: usize,
    workloads: Workloads,
    origin: Option<Origin>,
    /// The name of the sandbox that is made for the experiment.
    name: String,
}

/// The things that exist before the server is started under the profiler.
pub(super) struct Life {
    pub(super) sandbox: Sandbox,
    /// The pace without Valgrind, if it was measured already.
    pub(super) pace: Option<Pace>,
    pub(super) load: Option<Load>,
    pub(super) options: Vec<ServerOption>,
}

impl Subject {
    /// # Errors
    /// Exit code 2: a wrong file, or an arm that it does not have. 3: there is no such sandbox, or its server runs.
    pub(super) fn look(args: &Args, name: &str, places: &Places) -> Result<Self, Failure> {
        if Path::new(name).extension().is_some_and(|it| it == "toml") {
            return OfFile::look(Path::new(name), args).map(|it| Self::Experiment(Box::new(it)));
        }
        if args.arm.is_some() {
            return Err(Failure::message(Exit::Usage, "--arm: a sandbox has no arms")
                .hint("the file of an experiment has: `wringer memory profile FILE.toml --arm NAME`"));
        }
        let sandbox = Sandbox::open(name, places)?;
        sandbox.require_known(places)?;
        sandbox.check_before_start()?;
        Ok(Self::Sandbox(Box::new(sandbox)))
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Sandbox(sandbox) => sandbox.name(),
            Self::Experiment(file) => &file.name,
        }
    }

    /// The folder of the sandbox, which does not exist yet if the sandbox is made for an experiment.
    pub(super) fn folder(&self, places: &Places) -> PathBuf {
        match self {
            Self::Sandbox(sandbox) => sandbox.folder.clone(),
            Self::Experiment(file) => places.sandboxes.join(&file.name),
        }
    }

    /// Whether the server works in processes that it forks.
    pub(super) fn forks(&self) -> bool {
        match self {
            Self::Sandbox(sandbox) => sandbox.flavour() == sandbox::Flavour::Postgresql,
            Self::Experiment(file) => file.experiment.server.flavour == experiment::Flavour::Postgresql,
        }
    }

    /// # Errors
    /// The sandbox of an experiment cannot be made or filled.
    pub(super) fn life(
        &self,
        args: &Args,
        run: &mut Run,
        places: &Places,
        stop: &Arc<AtomicBool>,
    ) -> Result<Life, Failure> {
        match self {
            Self::Sandbox(sandbox) => {
                Ok(Life { sandbox: (**sandbox).clone(), pace: None, load: None, options: Vec::new() })
            }
            Self::Experiment(file) => file.life(args, run, places, stop),
        }
    }

    /// After the run: deletes the sandbox, if it was made for the profile.
    pub(super) fn end(&self, places: &Places) -> Outcome {
        match self {
            Self::Sandbox(_) => Ok(()),
            Self::Experiment(file) => match Sandbox::delete(&file.name, places, false) {
                Ok(_) | Err(sandbox::Error::NoSandbox { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            },
        }
    }
}

impl OfFile {
    fn look(file: &Path, args: &Args) -> Result<Self, Failure> {
        let (_, experiment) = experiment_file::read(file)?;
        let workloads = workloads::read(file, &experiment)?;
        let names = || experiment.arms.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
        let position = match &args.arm {
            None => Some(0),
            Some(name) => experiment.arms.iter().position(|it| it.name == *name),
        };
        let arm = position.filter(|at| *at < experiment.arms.len()).ok_or_else(|| {
            let asked = args.arm.as_deref().unwrap_or_default();
            Failure::message(Exit::Usage, format!("--arm {asked}: {} has no such arm", file.display()))
                .hint(format!("it has {}", names()))
        })?;
        let is_driven = experiment.arms.get(arm).is_some_and(|it| it.load.driver.is_some());
        if is_driven {
            return Err(Failure::message(
                Exit::Usage,
                "the load of this arm is another program, which is not started here",
            )
            .hint(
                "profile a sandbox with `--time`, and start that program meanwhile; or name another arm with --arm",
            ));
        }
        let is_replayed = experiment.arms.get(arm).is_some_and(|it| it.load.replay.is_some());
        let elsewhere = [("load.replay", is_replayed), ("fill.command", !experiment.fill.command.is_empty())];
        if let Some((key, _)) = elsewhere.into_iter().find(|(_, is_set)| *is_set) {
            return Err(Failure::message(Exit::Usage, format!("a profile does not run {key}"))
                .hint("make a sandbox with these data, and profile it with `--time` while the load runs"));
        }
        let origin = own_data::look(file, &experiment)?;
        let name = format!("profile-{}-{:x}", unix_seconds(), std::process::id());
        Ok(Self { experiment, arm, workloads, origin, name })
    }

    fn arm(&self) -> Result<&Arm, Failure> {
        self.experiment.arms.get(self.arm).ok_or_else(|| Failure::message(Exit::Usage, "the experiment has no arm"))
    }

    fn life(&self, args: &Args, run: &mut Run, places: &Places, stop: &Arc<AtomicBool>) -> Result<Life, Failure> {
        let arm = self.arm()?;
        terminal::say(format_args!("  profiles arm '{}': its server, data and load; squeezes are left out", arm.name));
        let written = self.workloads.get(&arm.load.workload);
        let (experiment, origin) = (&self.experiment, self.origin.as_ref());
        let wanted = Wanted { experiment, arm, written, origin, name: &self.name };
        let Prepared { sandbox, pace, load, database, options } =
            prepare(wanted, run, places, &terminal::Shown, stop).map_err(failure)?;
        let load = args.repeat.is_empty().then(|| Load { spec: load, database });
        Ok(Life { sandbox, pace: Some(pace), load, options })
    }
}

/// A load to be sent while the server is under the profiler.
pub(super) struct Load {
    spec: LoadSpec,
    database: Option<String>,
}

/// A load that is being sent.
pub(super) struct Loading {
    thread: JoinHandle<Result<evidence::LoadResult, ::load::Error>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    pub(super) fn start(self, session: &Session) -> Result<Loading, Error> {
        let Self { spec, database } = self;
        let mut target = session.server.target.clone();
        target.database = database.or(target.database);
        let stop = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&stop);
        let send = move || {
            let (mut on_phase, mut on_progress) = (|_| {}, |_: &_| {});
            let mut hooks =
                Hooks { on_phase: &mut on_phase, on_progress: &mut on_progress, progress_interval: None, stop: theirs };
            ::load::engine::run(&spec, &target, &RunClock::start(), &mut hooks)
        };
        let thread = std::thread::Builder::new().name("load".into()).spawn(send);
        let failed = |source| Error::Load(::load::Error::System { operation: "start a thread", source });
        Ok(Loading { thread: thread.map_err(failed)?, stop })
    }
}

impl Loading {
    pub(super) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the last transactions of the load.
    pub(super) fn end(self) -> Result<(), Error> {
        self.stop.store(true, Ordering::SeqCst);
        let lost = || Error::Load(::load::Error::Invalid("the thread that sent it panicked".into()));
        let result = self.thread.join().map_err(|_| lost())?.map_err(Error::Load)?;
        let seconds = result.measured.elapsed_us as f64 / 1e6;
        terminal::say(format_args!(
            "  load     {}: {} transactions in {seconds:.1} s",
            result.workload, result.measured.transactions
        ));
        Ok(())
    }
}
