// SPDX-License-Identifier: Apache-2.0
//! The watchdog while its controller lives: it looks for dangers; at a danger it neutralises the run and makes the controller end it.

use super::guards::{DiskWatch, Reading as HostReading};
use super::kept_journal::KeptJournal;
use super::layer::{FORGET_STANDSTILL, Found, LayerWatch, serving};
use super::lease::Lease;
use super::limits::Limits;
use super::{LayerProbe, note};
use crate::release::graces;
use crate::take_over::{neutralise_live, replace_holders};
use host::clock::boot_time;
use host::looks::{Looks, looks_in};
use host::permit::Permit;
use host::places::Places;
use host::process::{Identity, Process, kill_alone, standstill};
use journal::{Reading, RunId, State, Step};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub(super) struct Watch<'a> {
    places: &'a Places,
    id: &'a RunId,
    journal: &'a KeptJournal,
    /// The state when the journal could last be read as a whole: later damage removes nothing from it.
    known: State,
    limits: Limits,
    looks: Looks,
    lease: Lease,
    /// The reading of the last look.
    before: HostReading,
    own_kills: BTreeMap<PathBuf, u64>,
    disk: DiskWatch,
    layer: LayerWatch,
    /// Set when the run was neutralised: for how many more looks the watchdog waits until the controller has released the run.
    tripped: Option<u32>,
}

enum Heard {
    Nothing,
    SignOfLife,
    End,
}

impl<'a> Watch<'a> {
    pub(super) fn new(
        places: &'a Places,
        id: &'a RunId,
        journal: &'a KeptJournal,
        limits: Limits,
        layer_answers: LayerProbe,
    ) -> Self {
        let mut own_kills = BTreeMap::new();
        let mut disk = DiskWatch::new(places.sandboxes.clone());
        let before = HostReading::take(&State::default(), &mut disk, &mut own_kills);
        let looks = Looks::new(limits.look(), boot_time());
        let lease = Lease::new(limits.lease(), limits.look());
        let layer = LayerWatch::new(journal.folder().path.clone(), layer_answers, &limits);
        let known = State::default();
        Self { places, id, journal, known, limits, looks, lease, before, own_kills, disk, layer, tripped: None }
    }

    /// Waits for the end of the controller; returns whether the watchdog has made the run end.
    pub(super) fn until_the_end_of(&mut self, lifeline: &OwnedFd) -> bool {
        let mut next_look = boot_time() + self.limits.look();
        loop {
            match listen(lifeline, next_look.saturating_sub(boot_time())) {
                Heard::End => return self.tripped.is_some(),
                Heard::SignOfLife => self.lease.renew(),
                Heard::Nothing => {}
            }
            if boot_time() >= next_look {
                self.look();
                next_look = boot_time() + self.limits.look();
            }
        }
    }

    fn look(&mut self) {
        let counts = self.looks.counts(boot_time());
        match self.journal.look() {
            Reading::Whole(content) | Reading::TornTail(content) => self.known = content.state,
            // otherwise the state that was read before stays valid
            Reading::Damaged(content, _) if content.state.steps.len() > self.known.steps.len() => {
                self.known = content.state;
            }
            Reading::Damaged(..) | Reading::Unknown(..) | Reading::Unreadable(_) => {}
        }
        let state = self.known.clone();
        if state.ended || state.left {
            return;
        }
        match self.tripped {
            None => {
                if let Some(reason) = self.danger(&state, counts) {
                    self.trip(&state, &reason);
                }
            }
            Some(patience) => {
                // this covers steps that the controller had begun before it noticed
                self.neutralise(&state);
                if counts && controller_could_run(&state) {
                    self.tripped = Some(patience.saturating_sub(1));
                }
                if patience == 0 {
                    self.replace_controller(&state);
                }
            }
        }
    }

    /// Replaces the controller: it is found by the owner lock that it holds. If somebody removed the folder, the lock is gone, and the state names
    /// the controller.
    fn replace_controller(&self, state: &State) {
        let owner = self.journal.folder().owner();
        let _ = replace_holders(&owner);
        let controller = state.begun.as_ref().map(|begun| begun.controller).filter(|_| !owner.exists());
        let _ = kill_alone(&permit(), controller.as_slice());
    }

    /// `counts`: whether a silence counts at this look.
    fn danger(&mut self, state: &State, counts: bool) -> Option<String> {
        if let Some(silent) = counts.then(|| self.lease.expired()).flatten() {
            return Some(format!(
                "its controller gave no sign of life for {} s, and the lease is {} s: it is {}",
                silent.as_secs(),
                self.limits.lease().as_secs(),
                controller(state)
                    .and_then(|controller| standstill(controller.pid))
                    .map_or_else(|| "stopped, or hangs".to_owned(), |why| why.to_string())
            ));
        }
        if let Some(told) = self.stuck_layer(state, counts) {
            return Some(told);
        }
        let reading = HostReading::take(state, &mut self.disk, &mut self.own_kills);
        let danger = reading.danger(&self.before, state, &self.limits);
        self.before = reading;
        danger
    }

    /// A layer that stands still is left alone: it continues when its processes continue. A layer that hangs ends the run. It is not killed, because
    /// processes that wait for its files would get an I/O error. Only the keeper of a slow disk is killed: then its worker takes over and answers.
    fn stuck_layer(&mut self, state: &State, counts: bool) -> Option<String> {
        let layers = serving(state);
        match self.layer.look(&layers, counts) {
            Found::Well => None,
            Found::StandsStill(process, why) => {
                let pid = process.pid;
                self.tell(&format!(
                    "the slow layer (process {pid}) is {why}: whoever uses its files waits until it goes on; `wringer undo` wakes one that was stopped"
                ));
                None
            }
            Found::GoesOn => {
                self.tell("the slow layer goes on");
                None
            }
            Found::Hangs(looks) => Some(self.hanging_layer(state, &layers, looks)),
        }
    }

    fn hanging_layer(&self, state: &State, layers: &[Identity], looks: u32) -> String {
        let pids = layers.iter().map(|layer| layer.pid.to_string()).collect::<Vec<_>>().join(" ");
        let serves_a_disk = state.steps.iter().any(|step| matches!(step.change, Step::LoopDevice { .. }));
        let outcome = if serves_a_disk || journal::forgets_kind(FORGET_STANDSTILL) {
            let _ = kill_alone(&permit(), layers);
            "it was ended, and its worker serves without a delay what waited".to_owned()
        } else {
            format!(
                "it hangs, and is not killed, because whoever waits for one of its files would get an I/O error; `kill -KILL {pids}` does that"
            )
        };
        let silence = (self.limits.look() * looks).as_secs();
        format!("the slow layer (process {pids}) could run, and answered nobody for {silence} s: {outcome}")
    }

    fn tell(&self, text: &str) {
        note(self.places, self.id, text);
    }

    /// The reason is written first: the process that releases the run journals it.
    fn trip(&mut self, state: &State, reason: &str) {
        let _ = host::files::write_atomic(&self.journal.folder().reason(), reason.as_bytes(), 0o600);
        self.neutralise(state);
        self.tell(&format!("neutralised: {reason}"));
        if let Some(controller) = controller(state).and_then(Process::open) {
            // a stopped controller gets the signal when it continues
            let _ = controller.signal(Signal::TERM);
            let _ = controller.signal(Signal::CONT);
        }
        let patience = Duration::from_millis(self.limits.release_ms) + graces(&state.steps);
        self.tripped = Some(looks_in(patience, self.limits.look()));
    }

    fn neutralise(&self, state: &State) {
        neutralise_live(self.id, self.journal.folder(), state);
    }
}

/// For ending processes that the run's journal names: that is no change that could be undone.
#[allow(clippy::disallowed_methods)]
fn permit() -> Permit {
    Permit::issue(0)
}

fn controller(state: &State) -> Option<Identity> {
    state.begun.as_ref().map(|begun| begun.controller)
}

/// Whether the controller could run. A frozen controller is not replaced: it has got the signal, and releases when it continues.
fn controller_could_run(state: &State) -> bool {
    controller(state).is_none_or(|controller| standstill(controller.pid).is_none())
}

fn listen(lifeline: &OwnedFd, patience: Duration) -> Heard {
    let timeout = Timespec::try_from(patience).ok();
    let mut set = [PollFd::new(lifeline, PollFlags::IN)];
    if !poll(&mut set, timeout.as_ref()).is_ok_and(|ready| ready > 0) {
        return Heard::Nothing;
    }
    match rustix::io::read(lifeline, &mut [0; 64]) {
        Ok(0) => Heard::End,
        Ok(_) => Heard::SignOfLife,
        Err(_) => Heard::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use host::process::RUN_VARIABLE;
    use journal::{Begun, Kind, OomVictim, Phase, Role, StepId, StepState};
    use std::process::{Child, Command};

    /// A step whose process may have been started and is not recorded yet: that state lasts a few milliseconds.
    fn starting(id: u32, role: Role) -> StepState {
        let change = Step::Process { role, program: "child".into(), stop_signal: 15, grace_ms: 0 };
        StepState {
            id: StepId(id),
            change,
            oom_victim: OomVictim::default(),
            phase: Phase::Intended,
            completed: false,
            processes: vec![],
            observed: None,
        }
    }

    #[allow(clippy::disallowed_methods)] // a controller for the test
    fn controller(id: &RunId) -> Child {
        Command::new("sleep").arg("100").env(RUN_VARIABLE, id.as_str()).spawn().expect("starts")
    }

    #[test]
    fn a_controller_that_is_starting_a_child_is_not_taken_for_it() {
        let home = tempfile::tempdir().expect("a folder");
        let places = Places::below(home.path());
        let id = RunId::new(0, 1);
        let mut child = controller(&id);
        let begun = Begun {
            run: id.clone(),
            build: String::new(),
            uid: 0,
            controller: Identity::of(child.id()).expect("lives"),
            namespaces: None,
            boot_id: None,
            kind: Kind::Run,
            command: vec![],
            resources: vec![],
            started: 0,
        };
        let steps = vec![starting(1, Role::Holder), starting(2, Role::SlowLayer)];
        let state = State { begun: Some(begun), steps, ..State::default() };
        let journal = KeptJournal::open(Folder::of(&places, &id));
        let watch = Watch::new(&places, &id, &journal, Limits::default(), |_| true);
        watch.neutralise(&state);
        std::thread::sleep(Duration::from_millis(50));
        let ended = child.try_wait().expect("is ours");
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!(ended, None, "SIGKILL as a holder, or SIGUSR1 as a layer");
    }
}
