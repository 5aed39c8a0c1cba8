// SPDX-License-Identifier: Apache-2.0
//! Follows the slow log of MySQL, MariaDB and Percona Server: reads entries that are added from now on, also after a rotation, on a thread of its
//! own.

use crate::Error;
use ::stalls::SkippedPart;
use ::stalls::watch::{Logged, Missing};
use host::clock::RunClock;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// The time from one look at the file to the next.
const EVERY: Duration = Duration::from_millis(100);
/// An entry may be read so long after the end of its statement, also when the looks come in time: the last entry of the file is taken when the next look
/// finds no more of it, and the server may write the entry a moment after the end.
const LATE_US: u64 = 300_000;
/// The most bytes that are read in one look; further bytes are read later.
const AT_ONCE: u64 = 4 << 20;
/// A longer entry is left out.
const MOST_PENDING: usize = 16 << 20;
const MOST_STATEMENT_BYTES: usize = 256;
/// From this `long_query_time` on, in seconds, a note says that shorter statements are left out. By default it is 10 s, longer than most stalls.
const LONG_US: f64 = 1.0;

/// The result of one look.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) entries: Vec<Logged>,
    pub(super) skipped: Vec<SkippedPart>,
    /// Why the log is not read any more.
    pub(super) lost: Option<String>,
}

#[derive(Debug)]
pub(super) struct SlowLog {
    reads: Receiver<Read>,
    is_over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl SlowLog {
    /// `variables`: the server's settings, by name. Reading begins at the file's end.
    ///
    /// # Errors
    /// The reason in words: the log is off, is no file, or cannot be read; and what would help.
    pub(super) fn start(variables: &BTreeMap<String, String>, pid: u32, clock: RunClock) -> Result<Self, Missing> {
        let place = place(variables, pid)?;
        let tail = Tail::open(&place, true, clock.now_us()).map_err(|error| unreadable(&place, &error))?;
        let (tell, reads) = channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let work = move || follow(tail, clock, &tell, &over);
        let thread = std::thread::Builder::new().name("slow log".to_owned()).spawn(work);
        let thread = thread.map_err(|source| unreadable(&place, &io::Error::other(Error::Thread { source })))?;
        Ok(Self { reads, is_over, thread: Some(thread) })
    }

    /// The results since the last call.
    pub(super) fn reads(&self) -> Vec<Read> {
        self.reads.try_iter().collect()
    }

    /// Ends the thread, and returns the rest of what is written by now.
    pub(super) fn end(&mut self) -> Vec<Read> {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.reads()
    }
}

impl Drop for SlowLog {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
    }
}

const WHAT: &str = "the server's slow log";

fn unreadable(path: &Path, error: &io::Error) -> Missing {
    let why = format!("{}: {error}", path.display());
    Missing { what: WHAT.to_owned(), why, remedy: Some("root, or the user the server runs as".to_owned()) }
}

/// The path of the log.
fn place(variables: &BTreeMap<String, String>, pid: u32) -> Result<PathBuf, Missing> {
    let of = |name: &str| variables.get(name).map(String::as_str).unwrap_or_default();
    let missing = |why: String, remedy: &str| Missing { what: WHAT.to_owned(), why, remedy: Some(remedy.to_owned()) };
    let is_on = ["ON", "1"].iter().any(|on| of("slow_query_log").eq_ignore_ascii_case(on));
    if !is_on {
        let remedy =
            "SET GLOBAL slow_query_log = ON, long_query_time = 0.05 (new connections take the time; not done here)";
        return Err(missing("slow_query_log is OFF".to_owned(), remedy));
    }
    let output = of("log_output");
    if !output.is_empty() && !output.to_ascii_uppercase().contains("FILE") {
        return Err(missing(format!("log_output is {output}"), "SET GLOBAL log_output = 'FILE' (not done here)"));
    }
    let file = Path::new(of("slow_query_log_file"));
    let path = if file.is_absolute() { file.to_owned() } else { Path::new(of("datadir")).join(file) };
    // a server in a container has its own root of the file system
    let inside = PathBuf::from(format!("/proc/{pid}/root")).join(path.strip_prefix("/").unwrap_or(&path));
    Ok(if File::open(&inside).is_ok() { inside } else { path })
}

/// A note if the log leaves out statements that are as short as a stall.
pub(super) fn leaves_out(variables: &BTreeMap<String, String>) -> Option<Missing> {
    let time = variables.get("long_query_time")?;
    let seconds: f64 = time.parse().ok()?;
    (seconds >= LONG_US).then(|| Missing {
        what: format!("what {WHAT} says of shorter statements"),
        why: format!("long_query_time is {seconds} s"),
        remedy: Some("SET GLOBAL long_query_time = 0.05 (new connections take it; not done here)".to_owned()),
    })
}

fn follow(mut tail: Tail, clock: RunClock, tell: &Sender<Read>, is_over: &AtomicBool) {
    loop {
        let is_last = is_over.load(Ordering::SeqCst);
        let mut read = Read::default();
        let now = Now { us: clock.now_us(), started_unix_us: clock.started_unix_us() };
        if let Err(error) = tail.look(now, is_last, &mut read) {
            read.lost = Some(format!("{}: {error}", tail.path.display()));
        }
        let is_lost = read.lost.is_some();
        let is_empty = read.entries.is_empty() && read.skipped.is_empty() && !is_lost;
        if (!is_empty && tell.send(read).is_err()) || is_last || is_lost {
            return;
        }
        std::thread::sleep(EVERY);
    }
}

/// The time of a look, on the watch's clock; and when that clock began, since 1970.
#[derive(Debug, Clone, Copy)]
struct Now {
    us: u64,
    started_unix_us: u64,
}

impl Now {
    /// Between which times the statement of an entry began that is read now, and that was not in the log at `without_us`: by the log's own clock, unless
    /// that contradicts these times.
    fn began_us(self, entry: &logs::Entry, took_us: u64, without_us: u64) -> (u64, u64) {
        let latest = self.us.saturating_sub(took_us);
        // a thread that had no CPU looks late
        let earliest = self.us.saturating_sub(LATE_US).min(without_us).saturating_sub(took_us);
        let by_log = u64::try_from(entry.at.us).ok().and_then(|at| at.checked_sub(self.started_unix_us));
        let step_us = entry.figures.step_us;
        by_log
            .filter(|_| step_us > 0)
            .map(|at| (earliest.max(at), latest.min(at.saturating_add(step_us))))
            .filter(|(from, to)| from <= to)
            .unwrap_or((earliest, latest))
    }
}

/// A file that grows.
#[derive(Debug)]
struct Tail {
    path: PathBuf,
    file: File,
    inode: u64,
    /// The position of the next byte.
    position: u64,
    /// Bytes that were read and not parsed yet, because the entry may continue.
    pending: Vec<u8>,
    /// How many of these were read before the present look.
    read_before: usize,
    /// The time of the last look that read the file to its end.
    at_end_us: u64,
    /// At this time no byte of `pending` was in the file.
    without_us: u64,
}

impl Tail {
    /// `at_end_us`: a time at which nothing was in the file that is going to be read.
    fn open(path: &Path, at_end: bool, at_end_us: u64) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let position = if at_end { file.seek(SeekFrom::End(0))? } else { 0 };
        let inode = file.metadata()?.ino();
        Ok(Self {
            path: path.to_owned(),
            file,
            inode,
            position,
            pending: Vec::new(),
            read_before: 0,
            at_end_us,
            without_us: at_end_us,
        })
    }

    /// `is_last`: nothing more will be read after this.
    fn look(&mut self, now: Now, is_last: bool, read: &mut Read) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length < self.position {
            read.skipped.push(self.pending_lost("the log was truncated"));
            self.position = self.file.seek(SeekFrom::Start(0))?;
        }
        let mut grown = self.grow()?;
        let is_rotated = std::fs::metadata(&self.path).is_ok_and(|now| now.ino() != self.inode);
        let is_whole = grown == 0 && self.pending.ends_with(b";\n");
        self.understand(now, is_whole || is_last || (is_rotated && grown == 0), read);
        if is_rotated && grown == 0 {
            // the old file has been read to its end; a new file that cannot be opened yet is tried again
            if let Ok(new) = Self::open(&self.path, false, self.at_end_us) {
                *self = new;
                grown = self.grow()?;
                self.understand(now, is_last, read);
            }
        }
        if grown < AT_ONCE {
            self.at_end_us = now.us;
        }
        Ok(())
    }

    /// Reads more of the file. Returns the number of new bytes.
    fn grow(&mut self) -> io::Result<u64> {
        self.read_before = self.pending.len();
        if self.read_before == 0 {
            self.without_us = self.at_end_us;
        }
        let grown = (&self.file).take(AT_ONCE).read_to_end(&mut self.pending)? as u64;
        self.position += grown;
        Ok(grown)
    }

    /// Parses all complete entries; with `is_all`, everything that was read.
    fn understand(&mut self, now: Now, is_all: bool, read: &mut Read) {
        let end = if is_all { self.pending.len() } else { last_begin(&self.pending) };
        if end == 0 {
            if self.pending.len() > MOST_PENDING {
                read.skipped.push(self.pending_lost("an entry longer than 16 MiB"));
            }
            return;
        }
        let offset = self.position.saturating_sub(self.pending.len() as u64);
        let whole: Vec<u8> = self.pending.drain(..end).collect();
        let bytes = whole.len() as u64;
        let Ok(Some(mut log)) = logs::open_timed(Cursor::new(whole), MOST_STATEMENT_BYTES) else {
            read.skipped.push(SkippedPart { offset, bytes, why: "no entry of a slow log in it".to_owned() });
            return;
        };
        let without_us = self.without_us;
        if end >= self.read_before {
            self.without_us = self.at_end_us;
        }
        for entry in log.by_ref().flatten() {
            if let (Ok(connection), Some(took_us)) = (entry.session.parse(), entry.figures.took_us) {
                let began_us = now.began_us(&entry, took_us, without_us);
                read.entries.push(Logged { connection, began_us, figures: entry.figures });
            }
        }
        read.skipped.extend(log.skipped().places.iter().map(|(place, why)| SkippedPart {
            offset: offset + place.offset,
            bytes: place.bytes,
            why: (*why).to_owned(),
        }));
    }

    fn pending_lost(&mut self, why: &str) -> SkippedPart {
        let bytes = self.pending.len() as u64;
        self.pending.clear();
        SkippedPart { offset: self.position.saturating_sub(bytes), bytes, why: why.to_owned() }
    }
}

/// The position of the last entry's begin: everything before it is complete. 0: there is only one entry, or none.
fn last_begin(text: &[u8]) -> usize {
    let begins = |at: usize, with: &[u8]| text.get(at..).is_some_and(|rest| rest.starts_with(with));
    let lines = (0..text.len()).rev().filter(|at| *at == 0 || text.get(at - 1) == Some(&b'\n'));
    let mut begin = 0;
    for at in lines {
        if begins(at, b"# Time: ") || (begins(at, b"# User@Host: ") && begin == 0) {
            begin = at;
            if begins(at, b"# Time: ") {
                break;
            }
        } else if begin > 0 {
            break;
        }
    }
    begin
}

#[cfg(test)]
#[path = "slow_log_tests.rs"]
mod tests;
