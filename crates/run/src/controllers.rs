// SPDX-License-Identifier: Apache-2.0
//! Controllers of cgroup v2 that several runs use at a time: each of these runs records the same change, and the last of them switches the controller off
//! (kernel, admin-guide/cgroup-v2.rst, "Enabling and Disabling").

use crate::boot::is_of_another_boot;
use crate::folder::{Folder, ids_in, locks_in};
use crate::locks::lock_within;
use crate::{Error, Phase, Run, RunId, Step, StepId, StepState, reading};
use host::change;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

/// How long to wait for a run that looks and switches at the same moment.
const PATIENCE: Duration = Duration::from_secs(5);

/// Hands a controller down to the groups below `root`. `None`: it was handed down before any run.
///
/// # Errors
/// The kernel refuses, or the journal cannot be written.
pub fn hand_down(run: &mut Run, root: &Path, name: &str) -> Result<Option<StepId>, Error> {
    let path = root.join("cgroup.subtree_control");
    let (before, after) = (format!("-{name}"), format!("+{name}"));
    let step = Step::Value { path: path.clone(), before: before.clone(), after: after.clone() };
    let _one_at_a_time = locked(run.folder())?;
    if !is_handed_down(root, name) {
        return Ok(Some(run.step(step, |permit| change::set_value(permit, &path, &before, &after))?.0));
    }
    // also by a run that is about to undo it: it looks at this run's record before it switches anything off
    let is_by_another = another_has(run.folder(), run.id(), &step, &[Phase::Intended, Phase::Done, Phase::Undoing]);
    Ok(if is_by_another { Some(run.step(step, |_| Ok(()))?.0) } else { None })
}

/// Whether the groups below `root` have the controller.
pub fn is_handed_down(root: &Path, name: &str) -> bool {
    lists(&root.join("cgroup.subtree_control"), name)
}

/// Whether a file of controllers, such as `cgroup.controllers`, has this one.
pub fn lists(file: &Path, name: &str) -> bool {
    fs::read_to_string(file).is_ok_and(|list| list.split_whitespace().any(|member| member == name))
}

/// Held while a run looks at the other runs and switches a controller on or off. `None`: the journals have no folder of locks, or somebody holds the lock for
/// longer than [`PATIENCE`]: then the kernel's answer decides.
pub(crate) fn locked(folder: &Path) -> Result<Option<File>, Error> {
    let Some(journals) = folder.parent() else { return Ok(None) };
    lock_within(&locks_in(journals).join("controllers"), PATIENCE)
}

/// Whether the change switches a controller off when it is undone.
pub(crate) fn is_switch(change: &Step) -> bool {
    matches!(change, Step::Value { path, before, .. } if path.ends_with("cgroup.subtree_control") && before.starts_with('-'))
}

/// Whether another run of the same journals has made the same change, and has not begun to undo it. Of two runs that undo it at the same moment neither is
/// left: one switches the controller off, and the other finds it off.
pub(crate) fn is_in_use_by_another(folder: &Path, own: &RunId, change: &Step) -> bool {
    another_has(folder, own, change, &[Phase::Intended, Phase::Done])
}

fn another_has(folder: &Path, own: &RunId, change: &Step, phases: &[Phase]) -> bool {
    let Some(journals) = folder.parent() else { return false };
    let ids = ids_in(journals).unwrap_or_default();
    let uses = |step: &StepState| step.change == *change && phases.contains(&step.phase);
    ids.into_iter().filter(|id| id != own).any(|id| {
        let reading = reading::read(&Folder { path: journals.join(id.as_str()) });
        reading.content().is_some_and(|content| !is_of_another_boot(content) && content.state.steps.iter().any(uses))
    })
}

#[cfg(test)]
#[allow(clippy::expect_used, clippy::disallowed_methods)] // journals of the test's own
mod tests {
    use super::*;
    use host::process::Identity;
    use journal::{Begun, Journal, Kind, Outcome};

    #[test]
    fn a_controller_is_left_to_a_run_that_has_switched_the_same_one_on() {
        let journals = tempfile::tempdir().expect("a folder");
        let id = |number: u32| format!("w-20261128-20000{number}-0000").parse::<RunId>().expect("an id");
        let change = |name: &str| Step::Value {
            path: "/sys/fs/cgroup/cgroup.subtree_control".into(),
            before: format!("-{name}"),
            after: format!("+{name}"),
        };
        let folder = |number: u32| journals.path().join(id(number).as_str());
        let begun = |number: u32| {
            let begun = Begun {
                run: id(number),
                build: String::new(),
                uid: 0,
                controller: Identity::own().expect("this process"),
                namespaces: None,
                boot_id: None,
                kind: Kind::Run,
                command: Vec::new(),
                resources: Vec::new(),
                started: 0,
            };
            fs::create_dir(folder(number)).expect("makes");
            Journal::create(&folder(number).join("journal"), begun).expect("makes")
        };
        let mut memory = begun(1);
        let _cpu = begun(2).intent(change("cpu")).expect("writes");
        let is_used = |name: &str| is_in_use_by_another(&folder(3), &id(3), &change(name));
        assert!(is_used("cpu") && !is_used("memory"), "another controller is no use of this one");
        let (step, _) = memory.intent(change("memory")).expect("writes");
        assert!(is_used("memory"), "also before it is done");
        assert!(!is_in_use_by_another(&folder(1), &id(1), &change("memory")), "a run is not left to itself");
        let _ = memory.undo(step);
        assert!(!is_used("memory"), "who undoes it at the same moment leaves it to nobody");
        memory.undone(step, Outcome::Nothing);
        assert!(!is_used("memory"));
        assert!(is_switch(&change("cpu")));
    }
}
