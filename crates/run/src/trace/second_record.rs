// SPDX-License-Identifier: Apache-2.0
//! The second record of a change without a mark: the pool of huge pages, memory blocks, a value. The file `<run>.step-<number>` beside the locks is
//! written and synced before the change, and removed after its undo. So the change is known even when the journal, or a record in it, is lost. The
//! file `<run>.home` in the same folder names the folder of the run's journal.

use super::Lost;
use crate::Error;
use crate::boot::survives_boot;
use crate::folder::{HOST_LOCKS, host_locks};
use host::files;
use host::places::Places;
use journal::{OomVictim, Phase, RunId, Step, StepId, StepState, failpoint};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The content of the file, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondRecord {
    pub run: RunId,
    /// The id of the boot in which it was written.
    pub boot_id: String,
    /// The folder of journals in which the run's journal was.
    pub journal: PathBuf,
    pub step: StepId,
    pub change: Step,
    /// The same value as in the journal's `done`.
    pub observed: Option<String>,
    /// The owner of the file.
    #[serde(skip)]
    pub uid: u32,
}

impl SecondRecord {
    /// The step as the journal would have it.
    pub(super) fn as_step(&self) -> StepState {
        StepState {
            id: self.step,
            change: self.change.clone(),
            oom_victim: OomVictim::default(),
            phase: if self.observed.is_some() { Phase::Done } else { Phase::Intended },
            completed: self.observed.is_some(),
            processes: Vec::new(),
            observed: self.observed.clone(),
        }
    }

    /// Whether the change was made in an earlier boot and did not survive it.
    fn is_void(&self) -> bool {
        journal::boot_id().is_ok_and(|now| now != self.boot_id) && !survives_boot(&self.change)
    }

    /// Whether the changed file does not exist any more: then nothing can be restored.
    fn is_gone(&self) -> bool {
        let Step::Value { path, .. } = &self.change else { return false };
        fs::symlink_metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    }
}

/// Whether nothing on the host tells to which run the change belongs.
fn bears_no_mark(change: &Step) -> bool {
    matches!(change, Step::Value { .. } | Step::HugePool { .. } | Step::MemoryBlocks { .. })
}

/// Writes the record. To be called before the change without `observed`, and after the change with `observed`.
///
/// # Errors
/// The record cannot be written: then the change must not be made.
pub(crate) fn write(
    places: &Places,
    run: &RunId,
    step: StepId,
    change: &Step,
    observed: Option<&str>,
) -> Result<(), Error> {
    if !bears_no_mark(change) {
        return Ok(());
    }
    let written = SecondRecord {
        run: run.clone(),
        boot_id: journal::boot_id()?,
        journal: super::canonical(&places.journal),
        step,
        change: change.clone(),
        observed: observed.map(str::to_owned),
        uid: 0,
    };
    let path = host_locks(places)?.join(name_of_step(run, step));
    files::write_atomic(&path, serde_json::json!(written).to_string().as_bytes(), 0o600)?;
    failpoint("after the second record");
    Ok(())
}

/// Writes the folder of the run's journal, for a user of another home who finds the run's marks.
pub(crate) fn write_home(places: &Places, run: &RunId) -> Result<(), Error> {
    let home = super::canonical(&places.journal);
    // the file is only a help: nothing is lost if it stays empty because the path is not UTF-8
    let text = home.to_str().unwrap_or_default();
    Ok(files::write_atomic(&host_locks(places)?.join(name_of_home(run)), text.as_bytes(), 0o600)?)
}

/// To be called when the step is undone. `folder`: the run's folder, which may be gone.
pub(crate) fn forget_step(folder: &Path, run: &RunId, step: StepId) {
    forget(folder, &name_of_step(run, step));
}

/// To be called when the run has ended.
pub(crate) fn forget_home(folder: &Path) {
    if let Some(run) = folder.file_name().and_then(|name| name.to_str()?.parse().ok()) {
        forget(folder, &name_of_home(&run));
    }
}

/// To be called when the user has declared the run settled.
pub(crate) fn forget_run(places: &Places, run: &RunId) {
    let prefix = format!("{run}.");
    let is_of_it = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
    let (folders, is_note) =
        (folders(&places.journal), |path: &PathBuf| parse(path).is_some() || home_of(path).is_some());
    names_in(&folders).filter(is_of_it).filter(is_note).for_each(|path| drop(files::remove_file(&path)));
}

/// Removes a file. If it cannot be removed, that does no harm: the next undo finds that its change is undone.
fn forget(folder: &Path, name: &str) {
    for locks in folder.parent().map(folders).unwrap_or_default() {
        let _ = files::remove_file(&locks.join(name));
    }
}

fn name_of_step(run: &RunId, step: StepId) -> String {
    format!("{run}.step-{}", step.0)
}

fn name_of_home(run: &RunId) -> String {
    format!("{run}.home")
}

/// The folders in which such files may be: the one of these places, and for root also the one of the host.
pub(super) fn folders(journal: &Path) -> Vec<PathBuf> {
    let hosts = rustix::process::geteuid().is_root().then(|| PathBuf::from(HOST_LOCKS));
    hosts.into_iter().chain([super::canonical(journal).join("locks")]).collect()
}

/// The second records that are not void, oldest step first.
pub(super) fn read_all(folders: &[PathBuf]) -> Vec<SecondRecord> {
    let mut found: Vec<SecondRecord> = names_in(folders).filter_map(|path| read(&path)).collect();
    found.sort_by(|a, b| (&a.run, a.step).cmp(&(&b.run, b.step)));
    found
}

fn read(path: &Path) -> Option<SecondRecord> {
    let written = parse(path)?;
    if written.is_void() {
        let _ = files::remove_file(path);
        return None;
    }
    (!written.is_gone()).then_some(written)
}

fn parse(path: &Path) -> Option<SecondRecord> {
    let (run, _) = path.file_name()?.to_str()?.split_once(".step-")?;
    let run: RunId = run.parse().ok()?;
    let uid = fs::symlink_metadata(path).ok().filter(|it| it.is_file())?.uid();
    let written: SecondRecord = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
    (written.run == run).then_some(SecondRecord { uid, ..written })
}

pub(super) fn journals(folders: &[PathBuf]) -> BTreeMap<RunId, PathBuf> {
    names_in(folders).filter_map(|path| home_of(&path)).collect()
}

fn home_of(path: &Path) -> Option<(RunId, PathBuf)> {
    let run = path.file_name()?.to_str()?.strip_suffix(".home")?.parse().ok()?;
    Some((run, PathBuf::from(fs::read_to_string(path).ok()?)))
}

/// Removes `.home` files of runs whose folder is gone and that are not among `left`, and records of values whose file is gone.
pub(super) fn tidy(journal: &Path, left: &[Lost]) {
    let folders = folders(journal);
    for (run, home) in journals(&folders) {
        if !home.join(run.as_str()).exists() && !left.iter().any(|it| it.id == run) {
            folders.iter().for_each(|locks| drop(files::remove_file(&locks.join(name_of_home(&run)))));
        }
    }
    let is_over = |written: &SecondRecord| written.is_gone() && !written.journal.join(written.run.as_str()).exists();
    let over = names_in(&folders).filter(|path| parse(path).is_some_and(|written| is_over(&written)));
    over.for_each(|path| drop(files::remove_file(&path)));
}

fn names_in(folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    entries.map(|entry| entry.path())
}
