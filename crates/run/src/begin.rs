// SPDX-License-Identifier: Apache-2.0
use crate::dismantle::{Report, undo_one};
use crate::executor::RealHost;
use crate::find::{Look, refuse_hot};
use crate::folder::{self, Folder, remove_folder};
use crate::locks::{Resource, begin_lock, lock, take_resources};
use crate::trace::{refuse_lost, second_record};
use crate::watchdog::{Heartbeat, Limits};
use crate::{Error, watchdog};
use host::change::loop_device::LoopDevice;
use host::change::memory::{Blocks, is_online};
use host::change::{PoolSize, read_value};
use host::files;
use host::interrupt;
use host::permit::Permit;
use host::places::Places;
use host::process::{ChildSpec, Identity, Marks, Order, Orphans, Process, Spawned, StopRequest, spawn};
use journal::{Begun, Journal, Kind, Namespaces, OomVictim, Outcome, Role, RunId, Step, StepId, failpoint};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

/// The most bytes of a command that are recorded: a control character takes six bytes of JSON, and a record has at most 32 KiB.
const COMMAND_BYTES_MAX: usize = 4096;

/// The properties of a run that is about to begin.
#[derive(Debug, Clone)]
pub struct Begin {
    pub kind: Kind,
    /// The command as the user typed it, without secrets.
    pub command: Vec<String>,
    /// The resources, locked in this order.
    pub resources: Vec<Resource>,
    pub places: Places,
}

/// A run under its controller. Dropping it releases it, as far as that works; [`Run::release`] also returns the result.
#[derive(Debug)]
pub struct Run {
    pub(crate) id: RunId,
    pub(crate) folder: Folder,
    pub(crate) places: Places,
    pub(crate) journal: Journal,
    pub(crate) host: RealHost,
    pub(crate) children: Vec<(StepId, Spawned)>,
    /// Descriptors that stay open as long as their steps are not undone.
    pub(crate) held: Vec<(StepId, OwnedFd)>,
    pub(crate) finished: bool,
    /// The process that the kernel should kill, for the steps that are made now.
    oom_victim: OomVictim,
    ties: Ties,
}

/// How a process ended that was told to end.
#[derive(Debug, Clone, Copy)]
pub struct ProcessEnd {
    /// It did not end in its time, and the run killed it.
    pub was_killed: bool,
    /// As [`Run::exit_status`]. `None`: not known.
    pub status: Option<std::process::ExitStatus>,
}

/// Descriptors that are open as long as the run, or a part of it, lives, so that others can see that.
#[derive(Debug)]
struct Ties {
    /// The owner lock: while it is locked, the run is live. It is closed on exec.
    _owner: File,
    /// The token, which every child inherits.
    token: File,
    resources: Vec<File>,
    /// Its end of file means that controller and watchdog are dead.
    lifeline: OwnedFd,
    lifeline_writer: OwnedFd,
    /// Only the controller holds it: it ends with the controller.
    _heartbeat: Heartbeat,
    watchdog_lifeline: OwnedFd,
}

/// A child of a run. Its process is ended by [`Run::undo_step`] or with the run, not by dropping this.
#[derive(Debug)]
pub struct Child {
    pub step: StepId,
    /// For a launched server, the pid of the server itself.
    pub pid: u32,
    ready: Option<serde_json::Value>,
    identity: Identity,
    /// `None`: the process had ended before we could open it.
    process: Option<Process>,
}

impl Child {
    /// The child's report when it was ready.
    ///
    /// # Errors
    /// The report is not of this type; the error is the report as it came.
    pub fn ready<O: Order>(&self) -> Result<O::Ready, String> {
        let said = self.ready.clone().unwrap_or_default();
        serde_json::from_value(said.clone()).map_err(|_| said.to_string())
    }

    pub fn is_alive(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_alive)
    }

    /// Returns whether the child ended within `timeout`.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.process.as_ref().is_none_or(|process| process.wait(timeout))
    }

    pub fn identity(&self) -> Identity {
        self.identity
    }
}

impl Run {
    /// Takes the locks, makes the folder and the journal, starts the watchdog.
    ///
    /// # Errors
    /// [`Error::Hot`] when an earlier run was not undone, [`Error::Busy`] when another run holds a resource; nothing was changed then.
    pub fn begin(begin: Begin) -> Result<Self, Error> {
        folder::make(&begin.places)?;
        let beginning = begin_lock(&begin.places, interrupt::requested)?;
        refuse_when_hot(&begin.places)?;
        let id = RunId::new(host::clock::unix_seconds(), random()?);
        let resources = take_resources(&begin.places, &begin.resources, &id)?;
        let folder = Folder::of(&begin.places, &id);
        files::new_private_dir(&folder.path)?;
        second_record::write_home(&begin.places, &id)?;
        let limits = Limits::from_environment();
        let ties = Ties::make(&folder, resources, &limits)?;
        let journal = Journal::create(&folder.journal(), begun(&id, &begin)?)?;
        let host = RealHost::new(id.clone(), folder.clone());
        let mut run = Self {
            id,
            folder,
            places: begin.places,
            journal,
            host,
            children: Vec::new(),
            held: Vec::new(),
            finished: false,
            oom_victim: OomVictim::default(),
            ties,
        };
        drop(beginning);
        run.spawn(Role::Watchdog, watchdog::spec(&run.id, &run.places, limits)?)?;
        Ok(run)
    }

    pub fn id(&self) -> &RunId {
        &self.id
    }

    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The run's own folder, 0700: for sockets and logs. It is removed at the end of the run.
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// Makes steps with `make` that record which process the kernel should kill when memory runs out; the watchdog reads that.
    pub fn with_oom_victim<T>(&mut self, victim: OomVictim, make: impl FnOnce(&mut Self) -> T) -> T {
        let usual = std::mem::replace(&mut self.oom_victim, victim);
        let made = make(self);
        self.oom_victim = usual;
        made
    }

    /// Makes one change: its intent is on the disk before `apply` gets the permit, and its result is recorded afterwards. When `apply` fails, the
    /// step stays open, and the release undoes what the failed change has left. A conflict is no such failure: nothing was changed, and what somebody else
    /// has set must stay.
    ///
    /// # Errors
    /// The error of `apply`; or the journal cannot be written, and then nothing was changed.
    pub fn step<T>(
        &mut self,
        step: Step,
        apply: impl FnOnce(&Permit) -> Result<T, host::Error>,
    ) -> Result<(StepId, T), Error> {
        self.check_watchdog()?;
        let (id, permit) = self.journal.intent_with(step.clone(), self.oom_victim)?;
        second_record::write(&self.places, &self.id, id, &step, None)?;
        let result = apply(&permit).inspect_err(|error| {
            if matches!(error, host::Error::Conflict { .. }) {
                let _ = self.journal.undo(id);
                self.journal.undone(id, Outcome::Nothing);
                second_record::forget_step(&self.folder.path, &self.id, id);
            }
        })?;
        let observed = observe(&step);
        // a failure does no harm: the second record stays true without `observed`
        let _ = second_record::write(&self.places, &self.id, id, &step, observed.as_deref());
        self.journal.done(id, observed)?;
        Ok((id, result))
    }

    /// Keeps a descriptor open until the step is undone: the thing that the step has made ends when nobody has it open.
    pub fn hold(&mut self, step: StepId, descriptor: OwnedFd) {
        self.held.push((step, descriptor));
    }

    /// Starts a child as a step, and waits until it is ready when `child` says so.
    ///
    /// # Errors
    /// The child cannot be started, or did not become ready; its processes are ended with the run.
    pub fn spawn(&mut self, role: Role, child: ChildSpec) -> Result<Child, Error> {
        if role != Role::Watchdog {
            self.check_watchdog()?;
        }
        let (id, permit) = self.journal.intent_with(process_step(role, &child), self.oom_victim)?;
        let log = self.folder.log(&format!("{}-{}", role.to_string().replace(' ', "-"), id.0));
        let mut spawned = spawn(&permit, self.ties.marks(&self.id, &log, role, &child, &mut Vec::new()), &child)?;
        failpoint("between fork and its record");
        let identity = spawned.identity();
        self.host.know(identity);
        self.journal.pid(id, identity)?;
        let ready = spawned.await_ready(child.ready_timeout);
        self.children.push((id, spawned));
        let ready = ready?;
        let identity = self.main_process(id, identity, ready.as_ref().filter(|_| child.launcher))?;
        self.journal.done(id, None)?;
        Ok(Child { step: id, pid: identity.pid, ready, identity, process: Process::open(identity) })
    }

    /// Why the watchdog has neutralised this run, if it has done so; the watchdog has then sent SIGTERM to the controller, which must release the
    /// run.
    pub fn neutralised(&self) -> Option<String> {
        self.folder.read_reason()
    }

    /// Undoes one step before the end of the run, for example one server between two arms.
    ///
    /// # Errors
    /// There is no such open step; or it cannot be undone: [`Error::NotRestored`]. A conflict is an error here, too.
    pub fn undo_step(&mut self, id: StepId) -> Result<(), Error> {
        let open = self.journal.state().step(id).filter(|step| step.is_open()).cloned();
        let step = open.ok_or_else(|| Error::NoSuchStep { id: self.id.clone(), step: id })?;
        let mut report = Report::default();
        self.held.retain(|(held, _)| *held != id);
        undo_one(&mut self.journal, &mut self.host, &step, &mut report, &mut |_| {});
        self.reap();
        let conflicts = report.conflicts.iter().map(ToString::to_string);
        let failures: Vec<String> = report.failures.iter().cloned().chain(conflicts).collect();
        if failures.is_empty() { Ok(()) } else { Err(Error::NotRestored { id: self.id.clone(), failures }) }
    }

    /// As [`Self::undo_step`], for the step of a process; tells how the process ended.
    ///
    /// # Errors
    /// Those of [`Self::undo_step`].
    pub fn end_process(&mut self, id: StepId) -> Result<ProcessEnd, Error> {
        // the undo collects the exit statuses of the others
        let mut own: Vec<_> = self.children.extract_if(.., |(step, _)| *step == id).collect();
        let undone = self.undo_step(id);
        let status = own.iter_mut().find_map(|(_, child)| child.reap());
        self.children.append(&mut own);
        self.reap();
        undone.map(|()| ProcessEnd { was_killed: self.host.has_killed(), status })
    }

    /// The first child with this role that has died; a holder or slow layer that dies ends the run.
    pub fn dead_child(&self, role: Role) -> Option<StepId> {
        let of_role = |step: &&journal::StepState| matches!(step.change, Step::Process { role: it, .. } if it == role);
        let open = self.journal.state().steps.iter().filter(|step| step.is_open() && step.completed).filter(of_role);
        open.clone().find(|step| step.processes.iter().any(|process| !process.is_alive())).map(|step| step.id)
    }

    /// The exit status of a child that has ended; for a launched server 128 + n when signal n ended it. `None` while the child runs, and after its
    /// undo.
    pub fn exit_status(&mut self, child: &Child) -> Option<std::process::ExitStatus> {
        self.children.iter_mut().find(|(step, _)| *step == child.step)?.1.reap()
    }

    /// For a command in the foreground that has ended: what was done with the processes that it left running. `None`: not known, because its launcher
    /// was killed.
    ///
    /// # Errors
    /// The launcher does not end.
    pub fn await_orphans(&mut self, child: &Child) -> Result<Option<Orphans>, Error> {
        let Some((_, spawned)) = self.children.iter_mut().find(|(step, _)| *step == child.step) else {
            return Ok(None);
        };
        Ok(spawned.await_orphans()?)
    }

    /// Ends the processes that carry the run's mark and are not children: SIGTERM, `grace`, SIGKILL. Returns their number.
    ///
    /// # Errors
    /// Some of them still live.
    pub fn end_strays(&mut self, grace: Duration) -> Result<usize, Error> {
        let strays = self.host.strays();
        let request = StopRequest { signal: libc::SIGTERM, grace };
        host::process::stop(&self.journal.sweep_permit(), &strays, request)?;
        Ok(strays.len())
    }

    /// Collects the exit statuses of children that have ended.
    pub(crate) fn reap(&mut self) {
        self.children.retain_mut(|(_, spawned)| spawned.reap().is_none());
    }

    /// The server that the launcher has reported, else the child itself.
    fn main_process(
        &mut self,
        id: StepId,
        child: Identity,
        report: Option<&serde_json::Value>,
    ) -> Result<Identity, Error> {
        let reported = report.and_then(|value| serde_json::from_value(value.clone()).ok());
        let Some(server) = reported else { return Ok(child) };
        self.host.know(server);
        self.journal.pid(id, server)?;
        Ok(server)
    }

    fn check_watchdog(&self) -> Result<(), Error> {
        let dead = self.dead_child(Role::Watchdog).is_some();
        if dead { Err(Error::WatchdogDied { id: self.id.clone() }) } else { Ok(()) }
    }

    /// Frees the resources, so that others can begin a run with them, when this run has restored everything.
    pub(crate) fn free_resources(&mut self) {
        self.ties.resources.clear();
    }
}

impl Ties {
    fn make(folder: &Folder, resources: Vec<File>, limits: &Limits) -> Result<Self, Error> {
        let owner = files::open_lock(&folder.owner())?;
        let token = files::open_lock(&folder.token())?;
        // a process that checks whether these locks are free holds them for a moment
        lock(&owner, &folder.owner())?;
        lock(&token, &folder.token())?;
        let (lifeline, lifeline_writer) = pipe()?;
        let (watchdog_lifeline, watchdog_writer) = pipe()?;
        rustix::io::ioctl_fionbio(&watchdog_writer, true)
            .map_err(|errno| host::Error::call("make a pipe that does not block", errno))?;
        let (_owner, _heartbeat) = (owner, Heartbeat::start(watchdog_writer, limits.beat())?);
        Ok(Self { _owner, token, resources, lifeline, lifeline_writer, _heartbeat, watchdog_lifeline })
    }

    /// The descriptors that a child of this role inherits. The watchdog keeps the lifeline of the other children open, and the resources locked while
    /// it undoes the run. A server that outlives its command keeps the resources locked, too.
    fn marks<'a>(
        &'a self,
        id: &'a RunId,
        log: &'a Path,
        role: Role,
        child: &ChildSpec,
        keep: &'a mut Vec<BorrowedFd<'a>>,
    ) -> Marks<'a> {
        let is_watchdog = role == Role::Watchdog;
        if is_watchdog || !child.lifeline {
            keep.extend(self.resources.iter().map(AsFd::as_fd));
        }
        if is_watchdog {
            keep.push(self.lifeline_writer.as_fd());
        }
        let lifeline = if is_watchdog { &self.watchdog_lifeline } else { &self.lifeline };
        Marks {
            run_id: id.as_str(),
            default_log: log,
            token: self.token.as_fd(),
            lifeline: Some(lifeline.as_fd()),
            keep,
        }
    }
}

/// To be called under the begin lock. Refuses to begin when an earlier run is hot, and removes the folders of runs of which nothing else is left.
fn refuse_when_hot(places: &Places) -> Result<(), Error> {
    let look = Look::take(places)?;
    refuse_hot(&look.runs)?;
    refuse_lost(places, &look)?;
    look.runs.iter().filter(|run| run.is_debris()).try_for_each(|run| remove_folder(&Folder::of(places, &run.id).path))
}

/// The value or state that a step has after it was applied, for the `done` record.
fn observe(step: &Step) -> Option<String> {
    match step {
        Step::Value { path, .. } => read_value(path).ok(),
        Step::HugePool { .. } => PoolSize::now().ok().map(|size| size.to_string()),
        Step::MemoryBlocks { kernel, movable, .. } => {
            let listed = [kernel, movable].map(|list| Blocks::parse(list).unwrap_or_default().0);
            Some(Blocks(listed.into_iter().flatten().filter(|block| !is_online(*block)).collect()).to_string())
        }
        Step::LoopDevice { name, .. } => LoopDevice::find(name).map(|device| device.path.display().to_string()),
        _ => None,
    }
}

fn process_step(role: Role, child: &ChildSpec) -> Step {
    Step::Process {
        role,
        program: child.program.display().to_string(),
        stop_signal: child.stop_signal,
        grace_ms: u64::try_from(child.grace.as_millis()).unwrap_or(u64::MAX),
    }
}

fn begun(id: &RunId, begin: &Begin) -> Result<Begun, Error> {
    let gone = || host::Error::call("read /proc/self/stat", std::io::Error::from(std::io::ErrorKind::NotFound));
    Ok(Begun {
        run: id.clone(),
        build: env!("CARGO_PKG_VERSION").to_owned(),
        uid: rustix::process::geteuid().as_raw(),
        controller: Identity::own().ok_or_else(gone)?,
        namespaces: Namespaces::own(),
        boot_id: None,
        kind: begin.kind,
        command: shortened(&begin.command),
        resources: begin.resources.iter().map(Resource::lock_name).collect(),
        started: host::clock::unix_seconds(),
    })
}

/// The part of a command for which a record has room, whatever its letters need in JSON. It is only read by people.
fn shortened(command: &[String]) -> Vec<String> {
    let mut room = COMMAND_BYTES_MAX;
    let mut words = Vec::new();
    for word in command {
        if word.len() > room {
            let end = (0..=room).rev().find(|&end| word.is_char_boundary(end)).unwrap_or(0);
            words.push(format!("{}...", &word[..end]));
            break;
        }
        room -= word.len();
        words.push(word.clone());
    }
    words
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    Ok(pipe_with(PipeFlags::CLOEXEC).map_err(|errno| host::Error::call("make a pipe", errno))?)
}

fn random() -> Result<u64, Error> {
    let path = "/dev/urandom";
    let mut bytes = [0; 8];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|source| host::Error::path("read", path, source))?;
    Ok(u64::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_any_length_has_a_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let id = RunId::new(0, 1);
        for long in ["x".repeat(100_000), "\u{1}".repeat(100_000), "\u{20ac}".repeat(100_000)] {
            let command = vec!["wringer".to_owned(), long.clone(), long];
            let begin = Begin { kind: Kind::Run, command, resources: vec![], places: Places::below(folder.path()) };
            let path = folder.path().join("journal");
            let begun = begun(&id, &begin).expect("known");
            Journal::create(&path, begun).expect("written");
            let reading = journal::read(&path);
            let state = &reading.whole().expect("whole").state;
            let words = &state.begun.as_ref().expect("begun").command;
            assert!(words.len() == 2 && words[1].ends_with("..."), "{} words", words.len());
            files::remove_file(&path).expect("removed");
        }
        assert_eq!(shortened(&["a".into(), "b c".into()]), ["a", "b c"]);
    }
}
