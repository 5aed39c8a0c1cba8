// SPDX-License-Identifier: Apache-2.0
//! The watchdog while its controller lives: it looks, and when it sees a danger, it neutralises and sees to it that the run ends.

use super::guards::Reading;
use super::lease::Lease;
use super::limits::Limits;
use super::{LayerProbe, note};
use crate::executor::RealHost;
use crate::folder::Folder;
use crate::release::graces;
use crate::{dismantle, undo};
use host::clock::boot_time;
use host::permit::Permit;
use host::places::Places;
use host::process::{Identity, Process, kill_alone};
use journal::{Role, RunId, State, Step};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(super) struct Watch<'a> {
    places: &'a Places,
    id: &'a RunId,
    folder: Folder,
    limits: Limits,
    lease: Lease,
    /// Of the last look.
    before: Reading,
    own_kills: BTreeMap<PathBuf, u64>,
    layer: LayerWatch,
    /// When the run was neutralised, and how long its controller may take from then on.
    tripped: Option<(Duration, Duration)>,
}

enum Heard {
    Nothing,
    SignOfLife,
    End,
}

impl<'a> Watch<'a> {
    pub(super) fn new(places: &'a Places, id: &'a RunId, limits: Limits, layer_answers: LayerProbe) -> Self {
        let folder = Folder::of(places, id);
        let mut own_kills = BTreeMap::new();
        let before = Reading::take(&State::default(), &places.sandboxes, &mut own_kills);
        let lease = Lease::new(limits.lease(), boot_time());
        let layer = LayerWatch::new(folder.path.clone(), layer_answers, limits.look());
        Self { places, id, folder, limits, lease, before, own_kills, layer, tripped: None }
    }

    /// Whether it was the watchdog who ended the run.
    pub(super) fn until_the_end_of(&mut self, lifeline: &OwnedFd) -> bool {
        let mut next_look = boot_time() + self.limits.look();
        loop {
            match listen(lifeline, next_look.saturating_sub(boot_time())) {
                Heard::End => return self.tripped.is_some(),
                Heard::SignOfLife => self.lease.renew(boot_time()),
                Heard::Nothing => {}
            }
            if boot_time() >= next_look {
                self.look();
                next_look = boot_time() + self.limits.look();
            }
        }
    }

    fn look(&mut self) {
        let Ok(reading) = journal::read(&self.folder.journal()) else { return };
        let state = reading.state;
        if state.ended || state.left {
            return;
        }
        match self.tripped {
            None => {
                if let Some(reason) = self.danger(&state) {
                    self.trip(&state, &reason);
                }
            }
            Some((since, patience)) => {
                // what the controller had begun before it heard of it
                self.neutralise(&state);
                if boot_time().saturating_sub(since) > patience {
                    let _ = undo::replace_holders(&self.folder.owner());
                }
            }
        }
    }

    fn danger(&mut self, state: &State) -> Option<String> {
        let now = boot_time();
        if let Some(silent) = self.lease.expired(now) {
            return Some(format!(
                "its controller gave no sign of life for {} s, and the lease is {} s: it is stopped, or hangs",
                silent.as_secs(),
                self.limits.lease().as_secs()
            ));
        }
        if let Some(told) = self.stuck_layer(state, now) {
            return Some(told);
        }
        let reading = Reading::take(state, &self.places.sandboxes, &mut self.own_kills);
        let danger = reading.danger(&self.before, state, &self.limits);
        self.before = reading;
        danger
    }

    /// Ends a layer that hangs: the kernel then aborts its connection, and whoever waits for it gets an error instead of nothing. The
    /// worker of a slow disk is left to live: it wakes when its keeper is gone, and answers.
    fn stuck_layer(&mut self, state: &State, now: Duration) -> Option<String> {
        let layers = serving_layers(state);
        let silent = self.layer.silent(!layers.is_empty(), now)?;
        if silent <= self.limits.layer_deadline() {
            return None;
        }
        let pids: Vec<String> = layers.iter().map(|layer| layer.pid.to_string()).collect();
        let _ = kill_alone(&permit(), &layers);
        let serves_a_disk = state.steps.iter().any(|step| matches!(step.change, Step::LoopDevice { .. }));
        let outcome = if serves_a_disk {
            "it was ended, and its worker serves without a delay what waited"
        } else {
            "it was ended, and what waited for it got an error"
        };
        let silence = silent.as_secs();
        Some(format!("the slow layer (process {}) answered nobody for {silence} s: {outcome}", pids.join(", ")))
    }

    /// The reason first: whoever releases the run journals it.
    fn trip(&mut self, state: &State, reason: &str) {
        let _ = host::files::write_atomic(&self.folder.reason(), reason.as_bytes(), 0o600);
        self.neutralise(state);
        note(self.places, self.id, &format!("neutralised: {reason}"));
        if let Some(controller) = state.begun.as_ref().and_then(|begun| Process::open(begun.controller)) {
            // pending when it wakes
            let _ = controller.signal(Signal::TERM);
            let _ = controller.signal(Signal::CONT);
        }
        self.tripped = Some((boot_time(), Duration::from_millis(self.limits.release_ms) + graces(&state.steps)));
    }

    fn neutralise(&self, state: &State) {
        let mut host = RealHost::of_state(self.id.clone(), self.folder.clone(), state);
        // It lives, and so do we: neither is a process that a step had started and not written down. What is one is found at a
        // later look, when it has been written down.
        if let Some(begun) = &state.begun {
            host.know(begun.controller);
        }
        dismantle::neutralise_state(state, &permit(), &mut host);
    }
}

/// To end processes of a run that its journal names: no change that would have to be undone.
#[allow(clippy::disallowed_methods)]
fn permit() -> Permit {
    Permit::issue(0)
}

fn serving_layers(state: &State) -> Vec<Identity> {
    let layers = state.steps.iter().filter(|step| {
        step.is_open() && step.completed && matches!(step.change, Step::Process { role: Role::SlowLayer, .. })
    });
    layers.flat_map(|step| step.processes.clone()).filter(Identity::is_alive).collect()
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

/// Asks the layer in a thread of its own, because the question may hang as the layer does.
struct LayerWatch {
    /// Boot time in milliseconds; 0: not asked yet.
    answered_ms: Arc<AtomicU64>,
    asking: Option<(PathBuf, LayerProbe, Duration)>,
}

impl LayerWatch {
    fn new(folder: PathBuf, answers: LayerProbe, pause: Duration) -> Self {
        Self { answered_ms: Arc::default(), asking: Some((folder, answers, pause)) }
    }

    /// For how long nobody was answered, while a layer serves.
    fn silent(&mut self, serves: bool, now: Duration) -> Option<Duration> {
        if !serves {
            return None;
        }
        if let Some((folder, answers, pause)) = self.asking.take() {
            self.answered_ms.store(milliseconds(now), Ordering::SeqCst);
            let answered_ms = self.answered_ms.clone();
            let ask = move || {
                loop {
                    if answers(&folder) {
                        answered_ms.store(milliseconds(boot_time()), Ordering::SeqCst);
                    }
                    std::thread::sleep(pause);
                }
            };
            // without the thread there is no such guard
            if std::thread::Builder::new().name("ask the layer".into()).spawn(ask).is_err() {
                self.answered_ms.store(u64::MAX, Ordering::SeqCst);
            }
        }
        let answered = Duration::from_millis(self.answered_ms.load(Ordering::SeqCst));
        Some(now.saturating_sub(answered))
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::process::RUN_VARIABLE;
    use journal::{Begun, Kind, OomVictim, Phase, StepId, StepState};
    use std::process::{Child, Command};

    /// A step whose process was started, perhaps, and not written down yet: that moment is a few milliseconds long.
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
        let watch = Watch::new(&places, &id, Limits::default(), |_| true);
        watch.neutralise(&state);
        std::thread::sleep(Duration::from_millis(50));
        let ended = child.try_wait().expect("is ours");
        let _ = child.kill();
        let _ = child.wait();
        assert_eq!(ended, None, "SIGKILL as a holder, or SIGUSR1 as a layer");
    }
}
