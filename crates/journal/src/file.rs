// SPDX-License-Identifier: Apache-2.0
//! Writes a journal.

use crate::format::{CHUNK_BYTES, HEADER_BYTES, encode, header};
use crate::{Begun, Error, JournalFile, OomVictim, Outcome, Reading, Record, State, Step, StepId, failpoint};
use host::files;
use host::permit::Permit;
use host::process::Identity;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Space that an open step may still need: `Pid` twice, `Done`, `Undo`, `Undone` with a conflict.
const RESERVE_PER_STEP_BYTES: u64 = 2048;

/// A journal that is being written by one process, which holds the owner lock: the run's controller, or the process that undoes the run.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    state: State,
    end_bytes: u64,
    reserved_bytes: u64,
    /// The end of the bytes that a failed write may have left: the next write covers them.
    spoilt_to_bytes: u64,
    /// The first write that failed; later records may be missing.
    damage: Option<std::io::Error>,
}

impl Journal {
    /// Makes the file with its first record, [`Record::Begin`], in which this boot's id is filled in.
    pub fn create(path: &Path, begun: Begun) -> Result<Self, Error> {
        let file = files::preallocate(path, CHUNK_BYTES)?;
        let fail = |source| Error::File { operation: "begin", path: path.to_owned(), source };
        let boot_id = boot_id()?;
        files::write_synced_at(&file, &header(&boot_id), 0).map_err(fail)?;
        let mut journal = Self {
            file,
            path: path.to_owned(),
            state: State::default(),
            end_bytes: HEADER_BYTES as u64,
            reserved_bytes: CHUNK_BYTES,
            spoilt_to_bytes: 0,
            damage: None,
        };
        journal.append(&Record::Begin(Begun { boot_id: Some(boot_id), ..begun }))?;
        Ok(journal)
    }

    /// Continues a journal that was read, to write its undo. A torn record is erased, so that no part of it follows the next record. Damaged bytes
    /// are not overwritten. `None`: this release must not undo the journal.
    pub fn resume(opened: JournalFile, reading: &Reading) -> Option<Self> {
        let (content, end_bytes, is_torn) = match reading {
            Reading::Whole(content) => (content, content.end_bytes, false),
            Reading::TornTail(content) => (content, content.end_bytes, true),
            Reading::Damaged(content, _) => (content, content.behind_bytes, false),
            Reading::Unknown(..) | Reading::Unreadable(_) => return None,
        };
        let JournalFile { file, path, read_only } = opened;
        // on a disk that has become read-only the undo continues, without records
        let reserved = file.metadata().map(|metadata| metadata.len());
        let mut damage = read_only;
        let reserved_bytes = reserved.unwrap_or_else(|error| {
            damage.get_or_insert(error);
            end_bytes
        });
        if is_torn && damage.is_none() {
            damage = erase(&file, end_bytes, reserved_bytes).err();
        }
        let state = content.state.clone();
        Some(Self { file, path, state, end_bytes, reserved_bytes, spoilt_to_bytes: 0, damage })
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// Records that `change` is about to be made; the permit is for that change alone.
    ///
    /// # Errors
    /// The record is not on the disk: nothing may be changed then.
    pub fn intent(&mut self, change: Step) -> Result<(StepId, Permit), Error> {
        self.intent_with(change, OomVictim::default())
    }

    /// The same as [`Journal::intent`], with the process that the kernel is to kill when memory runs out.
    ///
    /// # Errors
    /// The same as for [`Journal::intent`].
    pub fn intent_with(&mut self, change: Step, oom_victim: OomVictim) -> Result<(StepId, Permit), Error> {
        failpoint("before intent");
        let step = self.state.next_step();
        self.append(&Record::Intent { step, change, oom_victim })?;
        failpoint("after intent");
        Ok((step, issue(step)))
    }

    pub fn pid(&mut self, step: StepId, process: Identity) -> Result<(), Error> {
        self.append(&Record::Pid { step, process })
    }

    pub fn done(&mut self, step: StepId, observed: Option<String>) -> Result<(), Error> {
        failpoint("after apply");
        self.append(&Record::Done { step, observed })?;
        failpoint("after done");
        Ok(())
    }

    /// Records that the undo of `step` starts. The permit is given even when the record cannot be written: an undo looks at the
    /// present state, may be repeated, and must not be stopped by a full disk.
    pub fn undo(&mut self, step: StepId) -> Permit {
        failpoint("before undo record");
        self.try_append(&Record::Undo { step });
        failpoint("after undo record");
        issue(step)
    }

    pub fn undone(&mut self, step: StepId, outcome: Outcome) {
        failpoint("before undone record");
        self.try_append(&Record::Undone { step, outcome });
        failpoint("after undone record");
    }

    /// Records why the watchdog ended the run, as far as the disk allows it.
    pub fn neutralised(&mut self, reason: &str) {
        self.try_append(&Record::Neutralised { reason: reason.to_owned() });
    }

    /// A permit for changes of an undo that belong to no step: ending processes that are only known by the run's token.
    pub fn sweep_permit(&self) -> Permit {
        issue(StepId(0))
    }

    pub fn leave(&mut self) -> Result<(), Error> {
        self.append(&Record::Left)
    }

    pub fn end(&mut self) {
        self.try_append(&Record::End);
        failpoint("after end");
    }

    /// The first write that failed during an undo.
    pub fn damage(&self) -> Option<&std::io::Error> {
        self.damage.as_ref()
    }

    fn try_append(&mut self, record: &Record) {
        let Err(error) = self.append(record) else { return };
        self.damage.get_or_insert(match error {
            Error::File { source, .. } => source,
            other => std::io::Error::other(other),
        });
        self.state.apply(record);
    }

    fn append(&mut self, record: &Record) -> Result<(), Error> {
        let bytes = encode(record, &self.path)?;
        self.write(bytes, matches!(record, Record::Intent { .. })).map_err(|source| Error::File {
            operation: "write",
            path: self.path.clone(),
            source,
        })?;
        self.state.apply(record);
        Ok(())
    }

    fn write(&mut self, mut bytes: Vec<u8>, keep_reserve: bool) -> std::io::Result<()> {
        let length = bytes.len() as u64;
        let open = self.state.steps.iter().filter(|step| step.is_open()).count() as u64 + 1;
        let reserve = if keep_reserve { open * RESERVE_PER_STEP_BYTES } else { 0 };
        while self.end_bytes + length + reserve > self.reserved_bytes {
            files::reserve(&self.file, self.reserved_bytes, CHUNK_BYTES)?;
            self.file.sync_all()?;
            self.reserved_bytes += CHUNK_BYTES;
        }
        // bytes that an earlier write has left after the end of this record would count as damage
        let spoilt = usize::try_from(self.spoilt_to_bytes.saturating_sub(self.end_bytes)).unwrap_or_default();
        bytes.resize(bytes.len().max(spoilt), 0);
        self.spoilt_to_bytes = self.end_bytes + bytes.len() as u64;
        if crate::failpoint::forgets_sync() {
            std::os::unix::fs::FileExt::write_all_at(&self.file, &bytes, self.end_bytes)?;
        } else {
            files::write_synced_at(&self.file, &bytes, self.end_bytes)?;
        }
        self.end_bytes += length;
        self.spoilt_to_bytes = 0;
        Ok(())
    }
}

/// The kernel's random id of this boot (random(4), `/proc/sys/kernel/random/boot_id`).
pub fn boot_id() -> Result<String, Error> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = fs::read_to_string(path).map_err(|source| host::Error::path("read", path, source))?;
    Ok(text.trim().to_owned())
}

#[allow(clippy::disallowed_methods)] // the one place that issues permits: the record is on disk
fn issue(step: StepId) -> Permit {
    Permit::issue(step.0.into())
}

fn erase(file: &File, from_bytes: u64, to_bytes: u64) -> std::io::Result<()> {
    let length = usize::try_from(to_bytes.saturating_sub(from_bytes)).unwrap_or_default();
    files::write_synced_at(file, &vec![0; length], from_bytes)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::format::RECORD_BYTES_MAX;
    use crate::{Kind, RunId, read};

    fn journal(folder: &Path) -> Journal {
        let begun = Begun {
            run: RunId::new(0, 1),
            build: "test".into(),
            uid: 0,
            controller: Identity { pid: 1, start_time: 1 },
            namespaces: None,
            boot_id: None,
            kind: Kind::Run,
            command: vec![],
            resources: vec![],
            started: 0,
        };
        Journal::create(&folder.join("journal"), begun).expect("creates")
    }

    fn whole(path: &Path) -> crate::Content {
        read(path).whole().expect("whole").clone()
    }

    fn note() -> Step {
        Step::Note { text: "note".into() }
    }

    /// Makes writes fail, as on a disk that has become read-only, or is full.
    fn break_disk(journal: &mut Journal) {
        journal.file = File::open(&journal.path).expect("opens for reading alone");
    }

    #[test]
    fn no_permit_without_a_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = journal(folder.path());
        break_disk(&mut journal);
        assert!(matches!(journal.intent(note()), Err(Error::File { operation: "write", .. })));
        assert!(journal.state().steps.is_empty());
    }

    #[test]
    fn an_undo_goes_on_without_records() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = journal(folder.path());
        let (step, _) = journal.intent(note()).expect("writes");
        break_disk(&mut journal);
        assert_eq!(journal.undo(step).sequence(), 1);
        journal.undone(step, Outcome::Restored);
        assert!(journal.state().open_steps().is_empty() && journal.damage().is_some());
        assert_eq!(whole(&journal.path).state.open_steps().len(), 1, "the next undo looks again");
    }

    #[test]
    fn what_would_not_be_read_is_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = journal(folder.path());
        let before = fs::read(&journal.path).expect("reads");
        let long = "x".repeat(RECORD_BYTES_MAX);
        let refused = journal.intent(Step::Note { text: long.clone() }).expect_err("too long");
        assert!(matches!(refused, Error::Unwritable { .. }) && refused.to_string().contains("the most is 32768"));
        assert!(journal.state().steps.is_empty());
        journal.neutralised(&long);
        assert!(journal.damage().is_some() && journal.state().neutralised.is_some(), "an undo goes on without it");
        assert_eq!(fs::read(&journal.path).expect("reads"), before);
        let name = <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(b"/srv/\xff".to_vec());
        let image = std::path::PathBuf::from(name);
        let refused =
            journal.intent(Step::LoopDevice { name: "w".into(), image, read_ahead: None }).expect_err("no text");
        assert!(matches!(refused, Error::Unwritable { .. }), "{refused}");
    }

    /// A disk fails after it has taken a part of a long record, and later takes a short one.
    #[test]
    fn what_a_failed_write_has_left_is_covered_by_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = journal(folder.path());
        let long = Record::Neutralised { reason: "x".repeat(2000) };
        let bytes = encode(&long, &journal.path).expect("fits");
        files::write_synced_at(&journal.file, &bytes[..1500], journal.end_bytes).expect("writes");
        journal.spoilt_to_bytes = journal.end_bytes + bytes.len() as u64;
        journal.intent(note()).expect("writes");
        let reading = read(&journal.path);
        assert!(matches!(&reading, Reading::Whole(content) if content.state.steps.len() == 1), "{reading:?}");
    }

    #[test]
    fn the_permit_names_its_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = journal(folder.path());
        let (first, permit) = journal.intent(note()).expect("writes");
        assert_eq!((first, permit.sequence()), (StepId(1), 1));
        let on_disk = whole(&journal.path).state;
        assert_eq!(&on_disk, journal.state());
    }
}
