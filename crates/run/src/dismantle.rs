// SPDX-License-Identifier: Apache-2.0
//! The order of the undo: first neutralise everything, then dismantle, newest step first. An [`Executor`] undoes the single steps: on the
//! real host, or on a model in tests.

use host::chain;
use host::permit::Permit;
use host::process::Identity;
use journal::{Journal, Outcome, Role, RunId, State, Step, StepState};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// Undoes single steps. Every call may be repeated.
pub trait Executor {
    /// Takes effect at once and is always safe: sets delays to zero, gives RAM back. After a failure, `undo` tries again.
    fn neutralise(&mut self, permit: &Permit, step: &StepState);

    /// Restores what the step changed, unless somebody else has changed it since.
    ///
    /// # Errors
    /// It is not restored; a later call may succeed.
    fn undo(&mut self, permit: &Permit, step: &StepState) -> Result<Outcome, host::Error>;

    /// Ends the remaining processes of the run, except `spared`, when all other steps are undone.
    ///
    /// # Errors
    /// Some of them still live.
    fn sweep(&mut self, permit: &Permit, spared: &[Identity]) -> Result<(), host::Error>;
}

/// A value that somebody else changed, and that was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub run: RunId,
    pub step: String,
    pub expected: String,
    pub found: String,
    /// The shell command that restores the value that the run had found.
    pub repair: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: now '{}'; repair: {}", self.step, self.found, self.repair)
    }
}

/// A command for a POSIX shell that writes `before` to `path`, with any characters in both.
pub(crate) fn repair_command(path: &Path, before: &str) -> String {
    let quote = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
    format!("echo {} > {}", quote(before), quote(&path.to_string_lossy()))
}

/// The result of a dismantling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Steps that were undone, or had nothing left to undo.
    pub restored: Vec<String>,
    pub conflicts: Vec<Conflict>,
    /// Steps that are not undone, with the reason; the journal stays for the next try.
    pub failures: Vec<String>,
}

/// Neutralises every open step.
pub fn neutralise(journal: &Journal, executor: &mut dyn Executor) {
    neutralise_state(journal.state(), &journal.sweep_permit(), executor);
}

/// As [`neutralise`], for a caller that does not own the journal.
pub(crate) fn neutralise_state(state: &State, permit: &Permit, executor: &mut dyn Executor) {
    state.open_steps().iter().for_each(|step| executor.neutralise(permit, step));
}

/// Undoes every open step, then sweeps, and ends the watchdog last, because the watchdog would continue the undo if this process died. A failed step
/// stops only those steps whose undo would do harm before its own undo: see [`Failed::is_in_the_way_of`].
pub fn dismantle(journal: &mut Journal, executor: &mut dyn Executor, progress: &mut dyn FnMut(&str)) -> Report {
    let mut report = Report::default();
    let (watchdog, steps): (Vec<_>, Vec<_>) =
        undo_order(journal.state().open_steps()).into_iter().partition(is_watchdog);
    let mounts: Vec<StepState> =
        steps.iter().filter(|step| matches!(step.change, Step::Mount { .. })).cloned().collect();
    undo_steps(journal, executor, &steps, &mut report, progress);
    let spared: Vec<Identity> = watchdog.iter().flat_map(|step| step.processes.clone()).collect();
    if report.failures.is_empty()
        && let Err(error) = executor.sweep(&journal.sweep_permit(), &spared)
    {
        report.failures.push(chain(&error));
    }
    // A layer whose record failed may have mounted after the look at the mounts; only now it has ended for certain.
    for mount in &mounts {
        if report.failures.is_empty()
            && let Err(error) = executor.undo(&journal.sweep_permit(), mount)
        {
            report.failures.push(format!("{}: {}", mount.change, chain(&error)));
        }
    }
    if report.failures.is_empty() {
        undo_steps(journal, executor, &watchdog, &mut report, progress);
    }
    report
}

fn is_watchdog(step: &StepState) -> bool {
    matches!(step.change, Step::Process { role: Role::Watchdog, .. })
}

fn undo_steps(
    journal: &mut Journal,
    executor: &mut dyn Executor,
    steps: &[StepState],
    report: &mut Report,
    progress: &mut dyn FnMut(&str),
) {
    let mut failed = Failed::default();
    for step in steps {
        if let Some(obstacle) = failed.is_in_the_way_of(&step.change) {
            report.failures.push(format!("{}: {obstacle}", step.change));
        } else if undo_one(journal, executor, step, report, progress) {
            continue;
        }
        failed.note(&step.change);
    }
}

/// The kinds of steps that could not be undone so far.
#[derive(Debug, Default)]
struct Failed {
    mount: bool,
    pool: bool,
    values: BTreeSet<PathBuf>,
}

impl Failed {
    fn note(&mut self, change: &Step) {
        self.mount |= matches!(change, Step::Mount { .. } | Step::LoopDevice { .. });
        self.pool |= matches!(change, Step::HugePool { .. });
        if let Step::Value { path, .. } = change {
            self.values.insert(path.clone());
        }
    }

    /// Why this step must wait, if it must. A slow layer is not ended while a mount or a loop device stays, because every access to its files would
    /// fail. An older change of a value waits for the undo of the newer one: otherwise our own newer value would count as somebody else's.
    fn is_in_the_way_of(&self, change: &Step) -> Option<&'static str> {
        match change {
            Step::Process { role: Role::SlowLayer, .. } if self.mount => {
                Some("serves on, undelayed, below what is busy")
            }
            Step::Value { path, .. } if self.values.contains(path) => {
                Some("waits for the newer change of the same value")
            }
            Step::HugePool { .. } if self.pool => Some("waits for the newer change of the pool"),
            _ => None,
        }
    }
}

/// Newest first, but mounts before the slow layer that serves them, whichever was recorded first. A layer that was still starting goes
/// before the mounts: it might mount after the look.
fn undo_order(mut newest_first: Vec<StepState>) -> Vec<StepState> {
    let mounts: Vec<StepState> =
        newest_first.extract_if(.., |step| matches!(step.change, Step::Mount { .. })).collect();
    let serves =
        |step: &StepState| step.completed && matches!(step.change, Step::Process { role: Role::SlowLayer, .. });
    let before_layer = newest_first.iter().position(serves);
    let oldest_mount = mounts.iter().map(|mount| mount.id).min();
    let in_turn = newest_first.iter().position(|step| oldest_mount.is_some_and(|mount| step.id < mount));
    let at = before_layer.into_iter().chain(in_turn).min().unwrap_or(newest_first.len());
    newest_first.splice(at..at, mounts);
    newest_first
}

/// Returns whether the step is undone, in order or as a conflict.
pub(crate) fn undo_one(
    journal: &mut Journal,
    executor: &mut dyn Executor,
    step: &StepState,
    report: &mut Report,
    progress: &mut dyn FnMut(&str),
) -> bool {
    let name = step.change.to_string();
    progress(&name);
    let permit = journal.undo(step.id);
    match executor.undo(&permit, step) {
        Ok(outcome) => {
            note_outcome(journal, &name, &outcome, report);
            journal.undone(step.id, outcome);
            true
        }
        Err(error) => {
            report.failures.push(format!("{name}: {}", chain(&error)));
            false
        }
    }
}

fn note_outcome(journal: &Journal, name: &str, outcome: &Outcome, report: &mut Report) {
    if let Outcome::Conflict { expected, found, repair } = outcome.clone() {
        let Some(run) = journal.state().begun.as_ref().map(|begun| begun.run.clone()) else { return };
        report.conflicts.push(Conflict { run, step: name.to_owned(), expected, found, repair });
    } else {
        report.restored.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::{OomVictim, Phase, StepId};

    fn layer(id: u32, completed: bool) -> StepState {
        let change = Step::Process { role: Role::SlowLayer, program: "layer".into(), stop_signal: 15, grace_ms: 0 };
        step(id, change, completed)
    }

    fn mount(id: u32) -> StepState {
        step(id, Step::Mount { target: "/data".into(), source: "w".into(), fstype: "fuse.wringer".into() }, true)
    }

    fn note(id: u32) -> StepState {
        step(id, Step::Note { text: "note".into() }, true)
    }

    fn step(id: u32, change: Step, completed: bool) -> StepState {
        StepState {
            id: StepId(id),
            change,
            oom_victim: OomVictim::default(),
            phase: Phase::Done,
            completed,
            processes: vec![],
            observed: None,
        }
    }

    fn check(newest_first: Vec<StepState>, expected: &[u32]) {
        let order: Vec<u32> = undo_order(newest_first).iter().map(|step| step.id.0).collect();
        assert_eq!(order, expected);
    }

    #[test]
    fn newest_first_but_a_mount_before_its_layer() {
        check(vec![note(3), note(2), note(1)], &[3, 2, 1]);
        check(vec![note(4), mount(3), layer(2, true), note(1)], &[4, 3, 2, 1]);
        check(vec![note(4), layer(3, true), mount(2), note(1)], &[4, 2, 3, 1]);
    }

    #[test]
    fn a_layer_that_was_starting_goes_first() {
        check(vec![layer(3, false), mount(2), note(1)], &[3, 2, 1]);
    }

    #[test]
    fn the_repair_command_is_quoted() {
        let command = repair_command(Path::new("/tmp/it's"), "4096 87380");
        assert_eq!(command, r"echo '4096 87380' > '/tmp/it'\''s'");
    }
}
