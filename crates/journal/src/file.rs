// SPDX-License-Identifier: Apache-2.0
//! The file: a header of 64 bytes, then records, then zeros. Numbers are little-endian.

use crate::{Begun, Error, OomVictim, Outcome, Record, State, Step, StepId, failpoint};
use host::files;
use host::permit::Permit;
use host::process::Identity;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _};
use std::path::{Path, PathBuf};

/// Decides who may undo a journal: this release, and every later one. Raised when an older release would undo it wrongly.
pub const FORMAT_VERSION: u32 = 2;

const MAGIC: &[u8; 8] = b"WRINGERJ";
const HEADER_BYTES: u64 = 64;
/// Reserved when a run begins, and again whenever an intent would leave too little.
const CHUNK_BYTES: u64 = 64 << 10;
/// Space that an open step may still need: `Pid` twice, `Done`, `Undo`, `Undone` with a conflict.
const RESERVE_PER_STEP_BYTES: u64 = 2048;
/// Longer records are corrupt.
const RECORD_BYTES_MAX: usize = 32 << 10;

/// A journal being written, by its run's controller or by whoever undoes it; the owner lock sees to it that it is one of them.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    state: State,
    end_bytes: u64,
    reserved_bytes: u64,
    /// The first write that failed; later records may be missing.
    damage: Option<std::io::Error>,
}

/// A journal read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    pub boot_id: String,
    pub state: State,
    /// Where the valid records end.
    pub end_bytes: u64,
    /// Bytes other than zero follow: a torn or unknown record.
    pub ignored_tail: bool,
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
            end_bytes: HEADER_BYTES,
            reserved_bytes: CHUNK_BYTES,
            damage: None,
        };
        journal.append(&Record::Begin(Begun { boot_id: Some(boot_id), ..begun }))?;
        Ok(journal)
    }

    /// Opens an existing journal to write its undo. A tail that was ignored in reading is erased: what follows a torn record must
    /// not come to life again behind the next one.
    pub fn open(path: &Path) -> Result<(Self, Reading), Error> {
        let reading = read(path)?;
        let fail = |source| Error::File { operation: "open", path: path.to_owned(), source };
        let reserved_bytes = fs::metadata(path).map_err(fail)?.len();
        let (state, end_bytes) = (reading.state.clone(), reading.end_bytes);
        // a disk that has become read-only stops no undo: its records are not written then
        let opened = open(path, true).and_then(|file| {
            if reading.ignored_tail {
                erase(&file, end_bytes, reserved_bytes).map_err(fail)?;
            }
            Ok(file)
        });
        let (file, damage) = match opened {
            Ok(file) => (file, None),
            Err(Error::File { source, .. }) => (open(path, false)?, Some(source)),
            Err(error) => return Err(error),
        };
        Ok((Self { file, path: path.to_owned(), state, end_bytes, reserved_bytes, damage }, reading))
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

    /// As [`Journal::intent`], of a change that says whom a want of memory is to hit.
    ///
    /// # Errors
    /// As there.
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

    /// Records why the watchdog ended the run, as far as the disk lets it.
    pub fn neutralised(&mut self, reason: &str) {
        self.try_append(&Record::Neutralised { reason: reason.to_owned() });
    }

    /// For what an undo does beyond the steps: ending processes that are only known by the run's token.
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
        if let Err(Error::File { source, .. }) = self.append(record) {
            self.damage.get_or_insert(source);
            self.state.apply(record);
        }
    }

    fn append(&mut self, record: &Record) -> Result<(), Error> {
        let bytes = encode(record);
        self.write(&bytes, matches!(record, Record::Intent { .. })).map_err(|source| Error::File {
            operation: "write",
            path: self.path.clone(),
            source,
        })?;
        self.state.apply(record);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], keep_reserve: bool) -> std::io::Result<()> {
        let length = bytes.len() as u64;
        let open = self.state.steps.iter().filter(|step| step.is_open()).count() as u64 + 1;
        let reserve = if keep_reserve { open * RESERVE_PER_STEP_BYTES } else { 0 };
        while self.end_bytes + length + reserve > self.reserved_bytes {
            files::reserve(&self.file, self.reserved_bytes, CHUNK_BYTES)?;
            self.file.sync_all()?;
            self.reserved_bytes += CHUNK_BYTES;
        }
        if crate::failpoint::forgets_sync() {
            std::os::unix::fs::FileExt::write_all_at(&self.file, bytes, self.end_bytes)?;
        } else {
            files::write_synced_at(&self.file, bytes, self.end_bytes)?;
        }
        self.end_bytes += length;
        Ok(())
    }
}

/// Reads a journal without changing it.
///
/// # Errors
/// [`Error::Future`], [`Error::NotAJournal`]; the file cannot be read, or somebody else can have written it.
pub fn read(path: &Path) -> Result<Reading, Error> {
    read_open(&open(path, false)?, path)
}

/// Only a journal that nobody else can have written is read.
fn open(path: &Path, write: bool) -> Result<File, Error> {
    files::open_safe(path, write).map_err(|error| match error {
        host::Error::Path { source, .. } => Error::File { operation: "read", path: path.to_owned(), source },
        error => Error::Host(error),
    })
}

/// As [`read`], from a file that was opened before: also when it has been removed since. `path` is for messages.
///
/// # Errors
/// Those of [`read`].
pub fn read_open(file: &File, path: &Path) -> Result<Reading, Error> {
    let mut bytes = Vec::new();
    let mut from_start = file;
    from_start.rewind().and_then(|()| from_start.read_to_end(&mut bytes)).map_err(|source| Error::File {
        operation: "read",
        path: path.to_owned(),
        source,
    })?;
    let not_a_journal = || Error::NotAJournal { path: path.to_owned() };
    let (version, boot_id) = parse_header(&bytes).ok_or_else(not_a_journal)?;
    if version > FORMAT_VERSION {
        return Err(Error::Future { path: path.to_owned(), version, known: FORMAT_VERSION });
    }
    let (records, end) = decode(&bytes, usize::try_from(HEADER_BYTES).unwrap_or(64));
    let state = State::of(&records);
    if state.begun.is_none() {
        return Err(not_a_journal());
    }
    let ignored_tail = bytes[end..].iter().any(|byte| *byte != 0);
    Ok(Reading { boot_id, state, end_bytes: end as u64, ignored_tail })
}

/// Whether the file shows that its run never came to a first intent, and so changed nothing: it is empty, or has a header and at
/// most the beginning of one record.
pub fn never_began(path: &Path) -> bool {
    let Ok(bytes) = fs::read(path) else { return !path.exists() };
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    if is_zero(&bytes) {
        return true;
    }
    let Some((version, _)) = parse_header(&bytes) else { return false };
    let records = &bytes[usize::try_from(HEADER_BYTES).unwrap_or(64).min(bytes.len())..];
    let first = usize::try_from(number(records)).unwrap_or(usize::MAX);
    let is_torn = first <= RECORD_BYTES_MAX && records.get(8 + first..).is_none_or(is_zero);
    version <= FORMAT_VERSION && (is_zero(records) || is_torn)
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

/// Magic (8), version (4), boot id (36, ASCII), zeros (12), crc32c of the 60 bytes before it (4).
fn header(boot_id: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend(boot_id.bytes().chain(std::iter::repeat(0)).take(36));
    bytes.resize(60, 0);
    let crc = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&crc.to_le_bytes());
    bytes
}

fn parse_header(bytes: &[u8]) -> Option<(u32, String)> {
    let header = bytes.get(..64)?;
    if !header.starts_with(MAGIC) || crc32c::crc32c(&header[..60]) != number(&header[60..]) {
        return None;
    }
    let boot_id = String::from_utf8_lossy(&header[12..48]).trim_end_matches('\0').to_owned();
    Some((number(&header[8..12]), boot_id))
}

/// Length of the JSON (4), crc32c of length and JSON (4), JSON.
fn encode(record: &Record) -> Vec<u8> {
    let json = serde_json::json!(record).to_string();
    let length = u32::try_from(json.len()).unwrap_or(u32::MAX).to_le_bytes();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&length), json.as_bytes()).to_le_bytes();
    [&length[..], &crc[..], json.as_bytes()].concat()
}

/// The valid records from `start`, and where they end.
fn decode(bytes: &[u8], start: usize) -> (Vec<Record>, usize) {
    let (mut records, mut at) = (Vec::new(), start);
    while let Some((record, length)) = decode_one(&bytes[at..]) {
        records.push(record);
        at += length;
    }
    (records, at)
}

fn decode_one(bytes: &[u8]) -> Option<(Record, usize)> {
    let length = usize::try_from(number(bytes.get(..4)?)).ok()?;
    let json = bytes.get(8..8 + length).filter(|_| (1..=RECORD_BYTES_MAX).contains(&length))?;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..4]), json);
    let valid = crc == number(&bytes[4..8]);
    Some((serde_json::from_slice(json).ok().filter(|_| valid)?, 8 + length))
}

fn number(bytes: &[u8]) -> u32 {
    bytes.get(..4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)]
mod tests {
    use super::*;
    use crate::{Kind, RunId};

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

    fn note() -> Step {
        Step::Note { text: "note".into() }
    }

    /// As a disk that has become read-only, or full.
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
        assert_eq!(read(&journal.path).expect("reads").state.open_steps().len(), 1, "the next undo looks again");
    }

    #[test]
    fn a_run_that_never_began_is_told_from_a_damaged_journal() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = journal(folder.path());
        let begun = usize::try_from(journal.end_bytes).expect("small");
        journal.intent(note()).expect("writes");
        let whole = fs::read(&journal.path).expect("reads");
        let torn = |cut: usize| [&whole[..cut], &vec![0; whole.len() - cut][..]].concat();
        let never = |bytes: &[u8]| {
            fs::write(&journal.path, bytes).expect("writes");
            never_began(&journal.path)
        };
        assert!(never(&[]) && never(&torn(0)) && never(&torn(64)) && never(&torn(70)) && never(&torn(begun - 1)));
        assert!(!never(&whole), "it has an intent");
        let mut damaged = whole.clone();
        damaged[100] ^= 1;
        assert!(!never(&damaged), "an intent may follow");
        damaged = whole.clone();
        damaged[3] ^= 1;
        assert!(!never(&damaged), "no header, but records");
    }

    #[test]
    fn the_permit_names_its_record() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut journal = journal(folder.path());
        let (first, permit) = journal.intent(note()).expect("writes");
        assert_eq!((first, permit.sequence()), (StepId(1), 1));
        let on_disk = read(&journal.path).expect("reads").state;
        assert_eq!(&on_disk, journal.state());
    }
}
