// SPDX-License-Identifier: Apache-2.0
//! Reads a journal: whole, torn, damaged, unknown or unreadable. Each caller handles every one of these states.

use crate::format::{self, CHUNK_BYTES, Decoded, FORMAT_VERSION, HEADER_BYTES};
use crate::{Record, State, StepId};
use host::files;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long a reader waits when a file cannot be read for a moment.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
/// A reader may see a record while it is being written: only damage that stays is damage.
const SECOND_LOOK: Duration = Duration::from_millis(20);
const LOOKS_MAX: u32 = 50;
/// No journal of Wringer is this long.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The result of reading a journal: how much of it was read, and understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// Every byte is understood.
    Whole(Content),
    /// A crash has cut the last record while it was being written, and nothing follows it: the change that it announces did not happen.
    TornTail(Content),
    /// Parts of the journal are lost: the content is the rest. The words tell where.
    Damaged(Content, String),
    /// A later release wrote the journal, in whole or in part: only that release, or a later one, may undo it. The words tell what this release does
    /// not know.
    Unknown(Content, String),
    /// The journal could not be read; the words tell why.
    Unreadable(String),
}

/// The records, and the state that results from them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// `None` when neither the header nor the first record has it.
    pub boot_id: Option<String>,
    pub state: State,
    /// Steps whose intent record is missing: their number is skipped, or other records name them.
    pub lost: Vec<StepId>,
    /// The place after the valid records.
    pub(crate) end_bytes: u64,
    /// The first sector after all bytes that are not zero: a record written there overwrites nothing.
    pub(crate) behind_bytes: u64,
}

impl Reading {
    /// The content that could be read; `None` for an unreadable journal.
    pub fn content(&self) -> Option<&Content> {
        match self {
            Self::Whole(content) | Self::TornTail(content) | Self::Damaged(content, _) | Self::Unknown(content, _) => {
                Some(content)
            }
            Self::Unreadable(_) => None,
        }
    }

    /// The content of a journal that was read as a whole: no other journal may be removed.
    pub fn whole(&self) -> Option<&Content> {
        match self {
            Self::Whole(content) | Self::TornTail(content) => Some(content),
            Self::Damaged(..) | Self::Unknown(..) | Self::Unreadable(_) => None,
        }
    }

    /// Why the journal was not read as a whole.
    pub fn trouble(&self) -> Option<&str> {
        match self {
            Self::Whole(_) | Self::TornTail(_) => None,
            Self::Damaged(_, words) | Self::Unknown(_, words) | Self::Unreadable(words) => Some(words),
        }
    }
}

impl Content {
    /// The place after the valid records.
    pub fn end_bytes(&self) -> u64 {
        self.end_bytes
    }
}

/// A journal that is not there, or cannot be opened. It can be turned into a [`Reading`], too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unopened {
    Missing(String),
    Refused(String),
}

impl From<Unopened> for Reading {
    fn from(unopened: Unopened) -> Self {
        match unopened {
            Unopened::Missing(words) => Self::Damaged(Content::default(), words),
            Unopened::Refused(words) => Self::Unreadable(words),
        }
    }
}

/// The open file of a journal: it can be read even if it has been removed since.
#[derive(Debug)]
pub struct JournalFile {
    pub(crate) file: File,
    pub(crate) path: PathBuf,
    /// Why the file is open for reading alone.
    pub(crate) read_only: Option<io::Error>,
}

impl JournalFile {
    /// Opens the journal to read it.
    ///
    /// # Errors
    /// The file is not there, or cannot be opened for some seconds.
    pub fn open(path: &Path) -> Result<Self, Unopened> {
        let file = patiently(|| open(path, false)).map_err(|error| unopened(path, &error))?;
        Ok(Self { file, path: path.to_owned(), read_only: None })
    }

    /// Opens the journal to undo its steps. A file that may only be read is opened all the same.
    ///
    /// # Errors
    /// The same as for [`JournalFile::open`].
    pub fn open_to_write(path: &Path) -> Result<Self, Unopened> {
        match patiently(|| open(path, true)) {
            Ok(file) => Ok(Self { file, path: path.to_owned(), read_only: None }),
            Err(error) if is_write_refused(&error) => Ok(Self { read_only: Some(error), ..Self::open(path)? }),
            Err(error) => Err(unopened(path, &error)),
        }
    }

    /// The same open file once more, through another descriptor.
    ///
    /// # Errors
    /// There is no free descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        let read_only = self.read_only.as_ref().map(|error| io::Error::from(error.kind()));
        Ok(Self { file: self.file.try_clone()?, path: self.path.clone(), read_only })
    }

    /// Whether the file has no name any more.
    pub fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// Reads the journal. Waits some seconds if it cannot be read at first.
    pub fn read(&self) -> Reading {
        self.read_within(PATIENCE)
    }

    /// Reads the journal without waiting: for a caller that looks again anyway.
    pub fn read_at_once(&self) -> Reading {
        self.read_within(Duration::ZERO)
    }

    fn read_within(&self, patience: Duration) -> Reading {
        let bytes = || patiently_within(patience, || contents(&self.file)).map(as_read);
        let unreadable = |error: io::Error| Reading::Unreadable(words(&self.path, &error));
        let mut before = match bytes() {
            Ok(bytes) => bytes,
            Err(error) => return unreadable(error),
        };
        for _ in 0..LOOKS_MAX {
            let reading = read_bytes(&before);
            match reading {
                Reading::Whole(_) | Reading::TornTail(_) | Reading::Unknown(..) | Reading::Unreadable(_) => {
                    return reading;
                }
                Reading::Damaged(..) => {}
            }
            std::thread::sleep(SECOND_LOOK);
            match bytes() {
                Ok(now) if now == before => return reading,
                Ok(now) => before = now,
                Err(error) => return unreadable(error),
            }
        }
        read_bytes(&before)
    }
}

/// Reads a journal without changing it.
pub fn read(path: &Path) -> Reading {
    JournalFile::open(path).map_or_else(Reading::from, |file| file.read())
}

/// Refuses a journal that another user can have written.
fn open(path: &Path, write: bool) -> io::Result<File> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    files::safe_folder(folder).and_then(|_| files::open_safe(path, write)).map_err(|error| match error {
        host::Error::Path { source, .. } => source,
        error => io::Error::other(error),
    })
}

fn contents(mut file: &File) -> io::Result<Vec<u8>> {
    if file.metadata()?.len() > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is longer than {FILE_BYTES_MAX} bytes: no journal is")));
    }
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bytes as a test wants them to be read: with `bad_record`, they end at the first bad record.
fn as_read(mut bytes: Vec<u8>) -> Vec<u8> {
    if crate::failpoint::forgets_kind("bad_record") {
        let mut end = if format::parse_header(&bytes).is_some() { HEADER_BYTES } else { 0 };
        while let Decoded::Known(_, length) | Decoded::Foreign(_, length) = format::decode(&bytes[end..]) {
            end += length;
        }
        bytes[end..].fill(0);
    }
    bytes
}

fn patiently<T>(attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    patiently_within(PATIENCE, attempt)
}

fn patiently_within<T>(patience: Duration, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(error) if may_pass(&error) && began.elapsed() < patience => std::thread::sleep(PAUSE),
            other => return other,
        }
    }
}

/// Whether an error comes from a busy host or a disk in trouble, so that it proves nothing about the file.
fn may_pass(error: &io::Error) -> bool {
    let moments = [Errno::IO, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    error.kind() == io::ErrorKind::OutOfMemory
        || moments.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn is_write_refused(error: &io::Error) -> bool {
    let refusals = [Errno::ROFS, Errno::ACCESS, Errno::PERM];
    refusals.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn unopened(path: &Path, error: &io::Error) -> Unopened {
    if error.kind() == io::ErrorKind::NotFound {
        Unopened::Missing(format!("there is no file {}", path.display()))
    } else {
        Unopened::Refused(words(path, error))
    }
}

fn words(path: &Path, error: &io::Error) -> String {
    format!("{} cannot be read: {error}", path.display())
}

/// Reads the bytes of a journal. Touches no file.
pub fn read_bytes(bytes: &[u8]) -> Reading {
    let header = format::parse_header(bytes);
    if let Some((version, _)) = header.as_ref().filter(|(version, _)| *version > FORMAT_VERSION) {
        let told = format!("it has format version {version}, and this release knows up to {FORMAT_VERSION}");
        return Reading::Unknown(Content::default(), told);
    }
    let used = format::used(bytes);
    if used == 0 {
        return Reading::Whole(Content {
            end_bytes: HEADER_BYTES as u64,
            behind_bytes: format::next_sector(HEADER_BYTES) as u64,
            ..Content::default()
        });
    }
    let start = if header.is_some() { HEADER_BYTES } else { 0 };
    let Walk { records, unknown, mut troubles, end } = walk(&bytes[..used], start);
    if header.is_none() {
        troubles.insert(0, "its header is not valid".to_owned());
    }
    let state = State::of(&records);
    let begun = state.begun.as_ref();
    if begun.is_none() && !records.is_empty() {
        troubles.push("its first record is lost".to_owned());
    }
    if was_cut(bytes.len() as u64) {
        troubles.push(format!("the file was cut at {} bytes", bytes.len()));
    }
    let boot_id = header.map(|(_, boot_id)| boot_id).or_else(|| begun.and_then(|begun| begun.boot_id.clone()));
    let lost = lost(&records);
    if !lost.is_empty() {
        let numbers: Vec<String> = lost.iter().map(|step| step.0.to_string()).collect();
        troubles.push(format!("of its steps, the intent of number {} is lost", numbers.join(", ")));
    }
    let tail_is_used = used > end;
    let is_torn = tail_is_used && format::is_torn(bytes, end);
    if tail_is_used && !is_torn {
        troubles.push(format!("what stands at byte {end} is no record"));
    }
    // records are written without a gap: a later reader would take zeros between them for damage
    let behind_all = if tail_is_used { format::next_sector(used.max(HEADER_BYTES)) } else { end.max(HEADER_BYTES) };
    let content = Content { boot_id, state, lost, end_bytes: end as u64, behind_bytes: behind_all as u64 };
    if let [first, ..] = unknown.as_slice() {
        return Reading::Unknown(content, format!("it has records that this release does not know: {first}"));
    }
    if !troubles.is_empty() {
        return Reading::Damaged(content, troubles.join("; "));
    }
    if is_torn { Reading::TornTail(content) } else { Reading::Whole(content) }
}

/// Whether the file was cut. The first reservation was made before the header; later reservations come in whole pages of memory, even if they were
/// interrupted.
fn was_cut(length_bytes: u64) -> bool {
    length_bytes < CHUNK_BYTES || !length_bytes.is_multiple_of(4096)
}

struct Walk {
    records: Vec<Record>,
    /// The kinds of records that a later release has written.
    unknown: Vec<String>,
    troubles: Vec<String>,
    /// The place after the last record.
    end: usize,
}

/// Finds every record from `start` on, also after bytes that are no record.
fn walk(bytes: &[u8], start: usize) -> Walk {
    let mut walk = Walk { records: Vec::new(), unknown: Vec::new(), troubles: Vec::new(), end: start };
    loop {
        match format::decode(&bytes[walk.end.min(bytes.len())..]) {
            Decoded::Known(record, length) => {
                walk.records.push(record);
                walk.end += length;
            }
            Decoded::Foreign(kind, length) => {
                walk.unknown.push(kind);
                walk.end += length;
            }
            Decoded::Bad => match format::next_record(bytes, walk.end + 1) {
                Some(next) => {
                    // a damaged header is reported separately
                    if walk.end > 0 || next > HEADER_BYTES {
                        walk.troubles.push(format!("what stands from byte {} to {next} is no record", walk.end));
                    }
                    walk.end = next;
                }
                None => return walk,
            },
        }
    }
}

fn lost(records: &[Record]) -> Vec<StepId> {
    let mut intended = BTreeSet::new();
    let mut last = 0;
    for record in records {
        match record {
            Record::Intent { step, .. } => {
                intended.insert(*step);
                last = last.max(step.0);
            }
            Record::Pid { step, .. }
            | Record::Done { step, .. }
            | Record::Undo { step }
            | Record::Undone { step, .. } => last = last.max(step.0),
            Record::Begin(_) | Record::Neutralised { .. } | Record::Left | Record::End => {}
        }
    }
    (1..=last).map(StepId).filter(|step| !intended.contains(step)).collect()
}
