// SPDX-License-Identifier: Apache-2.0
//! Reads a run's journal and compares it with the other files of the run's folder; words for a journal that was not read whole.

use crate::folder::Folder;
use journal::{JournalFile, Reading, RunId};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A run whose changes are not all known: its journal is damaged, or written by a later release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsure {
    pub run: RunId,
    /// The damage of the journal, and what was done nevertheless; or that the journal is another home's.
    pub why: String,
    /// Commands that show the present state.
    pub looks: Vec<String>,
    /// The command for the case that the host is as it should be, or the command that undoes the run.
    pub cure: String,
}

/// Reads the journal to show it.
pub(crate) fn read(folder: &Folder) -> Reading {
    match JournalFile::open(&folder.journal()) {
        Ok(file) => beside_the_rest(folder, file.read()),
        Err(unopened) => beside_the_rest(folder, unopened.into()),
    }
}

/// Reads the journal to undo it; returns the file, too, if it can be opened.
pub(crate) fn read_to_undo(folder: &Folder) -> (Option<JournalFile>, Reading) {
    match JournalFile::open_to_write(&folder.journal()) {
        Ok(file) => {
            let reading = beside_the_rest(folder, file.read());
            (Some(file), reading)
        }
        Err(unopened) => (None, beside_the_rest(folder, unopened.into())),
    }
}

/// Compares the reading with the other files of the folder. A journal that is gone, or has lost its end, looks like the journal of a new run; the
/// logs of the run's children show the difference.
pub(crate) fn beside_the_rest(folder: &Folder, reading: Reading) -> Reading {
    let entries = std::fs::read_dir(&folder.path).into_iter().flatten().flatten();
    let names: Vec<OsString> = entries.map(|entry| entry.file_name()).collect();
    let logged = names.iter().filter_map(|name| step_of_log(name.to_str()?)).max().unwrap_or(0);
    match reading {
        Reading::Whole(content) | Reading::TornTail(content)
            if content.state.steps.iter().all(|step| step.id.0 < logged) && logged > 0 =>
        {
            Reading::Damaged(content, format!("there is the log of step {logged}, and no record of that step"))
        }
        Reading::Damaged(content, _) if content.state.begun.is_none() && is_unbegun(&folder.path, &names) => {
            // a run that begins makes its locks first, then the journal, then its children
            Reading::Whole(content)
        }
        whole @ (Reading::Whole(_) | Reading::TornTail(_)) => whole,
        other @ (Reading::Damaged(..) | Reading::Unknown(..) | Reading::Unreadable(_)) => other,
    }
}

/// Whether the folder has no journal, and no file that is made after the journal.
fn is_unbegun(folder: &Path, names: &[OsString]) -> bool {
    folder.exists() && names.iter().all(|name| name == "owner.lock" || name == "token")
}

/// The number of the step in a log's name, such as `slow-layer-3.log`.
fn step_of_log(name: &str) -> Option<u32> {
    name.strip_suffix(".log")?.rsplit_once('-')?.1.parse().ok()
}

impl Unsure {
    /// `None`: all changes of the run are known.
    pub(crate) fn of(run: &RunId, reading: &Reading) -> Option<Self> {
        let settle = format!("when the host is as it should be: `wringer undo {run} --settled`");
        let (why, cure) = match reading {
            Reading::Whole(_) | Reading::TornTail(_) => return None,
            Reading::Damaged(_, words) => {
                let told = "what can be read of it is undone, and what the rest says is not known";
                (format!("the journal of run {run} is damaged ({words}): {told}"), settle)
            }
            Reading::Unknown(_, words) => {
                let told = "nothing of this run was touched";
                let release = "undo it with the release of Wringer that wrote it, or a later one";
                (
                    format!("the journal of run {run} is a later release's ({words}): {told}"),
                    format!("{release}; {settle}"),
                )
            }
            Reading::Unreadable(words) => {
                let again = format!("`wringer undo {run}` tries again, and `dmesg` may say what the disk has");
                (
                    format!("the journal of run {run} cannot be read ({words}): nothing of this run was touched"),
                    format!("{again}; {settle}"),
                )
            }
        };
        Some(Self { run: run.clone(), why, looks: looks(run), cure })
    }
}

/// The commands with which a user sees each kind of change. A list of names with the run's id is empty when nothing is left; the user must compare
/// the other values.
fn looks(run: &RunId) -> Vec<String> {
    vec![
        format!("its processes, if any: `grep -slaz WRINGER_RUN={run} /proc/[0-9]*/environ`"),
        format!("its mounts, if any: `grep -s wringer-{run} /proc/[0-9]*/mountinfo`"),
        format!("its cgroups, if any: `find /sys/fs/cgroup -name 'wringer-{run}*'`"),
        format!("its loop devices, if any: `losetup -l | grep {run}`"),
        format!("its mapped devices, if any: `dmsetup ls | grep {run}`"),
        "huge pages, to compare with what this host is set to have (0 on most): `cat /proc/sys/vm/nr_hugepages /proc/sys/vm/nr_overcommit_hugepages`".to_owned(),
        "memory that is offline, if any: `grep -l offline /sys/devices/system/memory/memory*/state`".to_owned(),
    ]
}

/// The path to which a run's folder is moved when the user has called the run settled. Its name is no longer a run's id.
pub(crate) fn aside(journals: &Path, run: &RunId) -> PathBuf {
    let name = |number: u32| match number {
        0 => journals.join(format!("damaged-{run}")),
        number => journals.join(format!("damaged-{run}-{number}")),
    };
    (0..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(0))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use journal::Content;
    use std::fs;

    fn with(names: &[&str], reading: Reading) -> Reading {
        let home = tempfile::tempdir().expect("a folder");
        let folder = Folder { path: home.path().to_owned() };
        names.iter().for_each(|name| fs::write(home.path().join(name), "").expect("writes"));
        beside_the_rest(&folder, reading)
    }

    #[test]
    fn the_logs_tell_of_steps_that_the_journal_has_lost() {
        let empty = || Reading::Whole(Content::default());
        assert_eq!(with(&["owner.lock", "token", "journal"], empty()), empty());
        let lost = with(&["owner.lock", "token", "journal", "watchdog-1.log"], empty());
        assert!(matches!(&lost, Reading::Damaged(_, words) if words.contains("step 1")), "{lost:?}");
        assert_eq!(with(&["journal", "watchdog.log"], empty()), empty(), "no step's log");
    }

    #[test]
    fn a_run_without_a_journal_has_begun_when_it_has_logs() {
        let none = || Reading::Damaged(Content::default(), "there is no file".into());
        assert_eq!(with(&["owner.lock", "token"], none()), Reading::Whole(Content::default()));
        assert_eq!(with(&[], none()), Reading::Whole(Content::default()));
        assert_eq!(with(&["owner.lock", "token", "holder-2.log"], none()), none());
        assert_eq!(with(&["owner.lock", "journal"], none()), none(), "there is one, and it says nothing");
    }
}
