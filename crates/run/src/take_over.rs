// SPDX-License-Identifier: Apache-2.0
//! Takes a run over from its controller, to undo the run. The controller is first asked to release the run. It is replaced when it could run and
//! still does not release. A frozen controller cannot act, and is not replaced.

use crate::Error;
use crate::executor::RealHost;
use crate::find::FoundRun;
use crate::folder::{Folder, locks, remove_folder};
use crate::locks::{begin_lock, lock_unless, lock_within, opened};
use crate::reading;
use crate::release::graces;
use crate::{RunId, dismantle};
use host::change::busy_timeout;
use host::clock::boot_time;
use host::looks::{Looks, Silence};
use host::permit::Permit;
use host::places::Places;
use host::process::{Identity, Process, Standstill, holders_of, kill_alone, standstill};
use journal::{Reading, State};
use rustix::process::Signal;
use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a controller that was asked, or a watchdog at work, may take, in addition to the graces of its children, before it is replaced.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(60);
/// The owner lock of a killed process is free within moments.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The least time to wait for others to stop using mounts and devices, even when the controller has already waited for them.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);
/// The pause between two checks whether the controller could run.
const LOOK: Duration = Duration::from_secs(1);
/// A controller may stand still at this many checks after it was asked to end and continued.
const STANDS_STILL_LOOKS: u32 = 2;

/// A run that this process undoes now.
pub(crate) struct Taken {
    /// The run's owner lock.
    pub(crate) _owner: File,
    /// How long to wait until others stop using mounts and devices.
    pub(crate) patience: Duration,
}

/// `None`: its controller or its watchdog has ended the run meanwhile.
///
/// # Errors
/// [`Error::NotRestored`]: its controller is frozen. RAM and delays are given back; the other changes stay until the controller continues.
pub(crate) fn take_over(places: &Places, run: &FoundRun) -> Result<Option<Taken>, Error> {
    let path = Folder::of(places, &run.id).owner();
    // the process that ends a run removes the run's lock
    let is_there = |owner: &File| owner.metadata().is_ok_and(|lock| lock.nlink() > 0);
    let taken = |owner: File, patience| is_there(&owner).then_some(Taken { _owner: owner, patience });
    if run.live {
        // opened before the controller is asked to end, so that a lock that the controller removes is not made anew
        let Some(owner) = opened(&path)? else { return Ok(None) };
        let began = Instant::now();
        let asked = ask_controller(run, &path);
        let mut watch = ControllerWatch::new(run.controller);
        let patience = RELEASE_TIMEOUT + graces(&run.steps);
        if let Some(owner) = lock_unless(owner, &path, patience, &mut || watch.stands_still())? {
            let waited = if asked { began.elapsed() } else { Duration::ZERO };
            return Ok(taken(owner, patience_after(waited)));
        }
        if let Some((controller, cgroup)) = watch.frozen() {
            neutralise_frozen(places, &run.id);
            return Err(Error::NotRestored { id: run.id.clone(), failures: vec![is_frozen(run, controller, &cgroup)] });
        }
        replace_holders(&path)?;
    }
    if !path.exists() && clear_ended(places, &run.id)? {
        return Ok(None);
    }
    match lock_within(&path, LOCK_TIMEOUT)? {
        Some(owner) => Ok(taken(owner, busy_timeout())),
        None if path.exists() => Err(Error::Busy { resource: format!("run {}", run.id), owner: None, journal: None }),
        None => Ok(None),
    }
}

/// Whether a controller that was asked to end was able to run since. Counted in looks, not in time, because the caller may stand still as well.
struct ControllerWatch {
    controller: Option<Identity>,
    next_look: Duration,
    looks: Looks,
    still: Silence,
    found: Option<Standstill>,
}

impl ControllerWatch {
    fn new(controller: Option<Identity>) -> Self {
        let now = boot_time();
        let still = Silence::of(STANDS_STILL_LOOKS);
        Self { controller, next_look: now + LOOK, looks: Looks::new(LOOK, now), still, found: None }
    }

    /// To be called often: it looks only once in a while.
    fn stands_still(&mut self) -> bool {
        let now = boot_time();
        if now < self.next_look {
            return false;
        }
        self.next_look = now + LOOK;
        self.found = self.controller.filter(Identity::is_alive).and_then(|controller| standstill(controller.pid));
        self.judge(now)
    }

    fn judge(&mut self, now: Duration) -> bool {
        let counts = self.looks.counts(now);
        if self.found.is_none() {
            self.still.end();
            return false;
        }
        self.still.look(counts).is_some()
    }

    /// The controller, and the cgroup that freezes it.
    fn frozen(self) -> Option<(Identity, PathBuf)> {
        match self.found {
            Some(Standstill::Frozen { cgroup }) => Some((self.controller?, cgroup)),
            Some(Standstill::Stopped) | None => None,
        }
    }
}

fn is_frozen(run: &FoundRun, controller: Identity, cgroup: &Path) -> String {
    let (pid, id) = (controller.pid, &run.id);
    let thaw = match cgroup.join("freezer.state") {
        state if state.exists() => format!("echo THAWED > {}", state.display()),
        _ => format!("echo 0 > {}", cgroup.join("cgroup.freeze").display()),
    };
    format!(
        "run {id}: its controller (process {pid}) is frozen by the cgroup {}; RAM and delays are given back without it, and the rest when it goes \
         on: `{thaw}`",
        cgroup.display()
    )
}

fn neutralise_frozen(places: &Places, id: &RunId) {
    let folder = Folder::of(places, id);
    match reading::read(&folder) {
        Reading::Whole(content) | Reading::TornTail(content) | Reading::Damaged(content, _) => {
            neutralise_live(id, &folder, &content.state);
        }
        Reading::Unknown(..) | Reading::Unreadable(_) => {}
    }
}

/// Neutralises the run while its controller lives, which is always safe. The controller counts as recorded: otherwise it would be taken for a process
/// that a step has started and not recorded yet.
#[allow(clippy::disallowed_methods)] // no change that would have to be undone
pub(crate) fn neutralise_live(id: &RunId, folder: &Folder, state: &State) {
    let mut host = RealHost::of_state(id.clone(), folder.clone(), state);
    if let Some(begun) = &state.begun {
        host.know(begun.controller);
    }
    dismantle::neutralise_state(state, &Permit::issue(0), &mut host);
}

/// Removes the rest of a folder without its owner lock: somebody was removing that folder. `false`: its journal tells that the run has not ended.
fn clear_ended(places: &Places, id: &RunId) -> Result<bool, Error> {
    let folder = Folder::of(places, id);
    if !folder.path.exists() {
        return Ok(true);
    }
    // a run that begins makes its folder first, then its lock
    let _beginning = locks(places).exists().then(|| begin_lock(places, || false)).transpose()?;
    let ended = match reading::read(&folder) {
        Reading::Whole(content) | Reading::TornTail(content) => content.state.ended || content.state.begun.is_none(),
        Reading::Damaged(..) | Reading::Unknown(..) | Reading::Unreadable(_) => false,
    };
    let removable = ended && !folder.owner().exists();
    if removable {
        remove_folder(&folder.path)?;
    }
    Ok(removable)
}

/// How long to wait for others. A controller that was asked has already waited for them, and that time counts.
fn patience_after(waited: Duration) -> Duration {
    busy_timeout().saturating_sub(waited).max(LEAST_PATIENCE)
}

/// Asks the controller, or, if it is not known, the holders of the owner lock, to release the run, and continues those that are stopped. `false`:
/// there is none.
fn ask_controller(run: &FoundRun, owner: &Path) -> bool {
    let controllers = run.controller.map_or_else(|| holders_of(owner).found, |controller| vec![controller]);
    let ask = |controller| {
        Process::open(controller).is_some_and(|it| it.signal(Signal::TERM).is_ok() && it.signal(Signal::CONT).is_ok())
    };
    controllers.into_iter().filter(|controller| ask(*controller)).count() > 0
}

/// Kills a controller or watchdog that does not end; the run is then undone by its journal. The children of the killed process live on until then: a
/// server must be stopped in the right order, and the caller may be one of the children.
#[allow(clippy::disallowed_methods)] // a process of ours that holds a lock of ours: nothing to journal
pub(crate) fn replace_holders(owner: &Path) -> Result<(), Error> {
    let permit = Permit::issue(0);
    Ok(kill_alone(&permit, &holders_of(owner).found)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `looks`: for each look its second, and whether the controller stands still then. Returns the second at which the caller gives it up.
    fn given_up_at(looks: &[(u64, bool)]) -> Option<u64> {
        let mut watch = ControllerWatch::new(None);
        watch.looks = Looks::new(LOOK, Duration::from_secs(1000));
        let mut judge = |second, still: bool| {
            watch.found = still.then_some(Standstill::Stopped);
            watch.judge(Duration::from_secs(second))
        };
        looks.iter().find(|(second, still)| judge(*second, *still)).map(|(second, _)| *second)
    }

    #[test]
    fn who_stands_still_at_three_looks_is_not_waited_for() {
        assert_eq!(given_up_at(&[(1001, true), (1002, true), (1003, true)]), Some(1003));
        assert_eq!(given_up_at(&[(1001, true), (1002, true), (1003, false), (1004, true), (1005, true)]), None);
        let we_slept_too = [(1001, true), (1002, true), (1038, true), (1039, true), (1040, true), (1041, true)];
        assert_eq!(given_up_at(&we_slept_too), None);
    }

    #[test]
    fn the_time_that_the_controller_has_waited_for_others_counts() {
        let patience = |waited_ms| patience_after(Duration::from_millis(waited_ms)).as_millis();
        assert_eq!((patience(0), patience(2000)), (5000, 3000));
        assert_eq!((patience(5100), patience(60_000)), (1000, 1000));
    }
}
