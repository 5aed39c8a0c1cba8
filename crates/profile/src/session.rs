// SPDX-License-Identifier: Apache-2.0
//! One life of a sandbox's server under Massif.

use crate::snapshots::{self, Stitched};
use crate::{Error, Pace, known, vgdb};
use capability::Flavour;
use host::files;
use load::admin::Connection;
use run::Run;
use sandbox::{RunningServer, Sandbox, ServerOption, StartOptions, Valgrind, Wrapping};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The settings of Massif.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Profile all mappings, such as the buffer pool, and not only the memory that malloc hands out.
    pub pages_as_heap: bool,
    /// Callers with less than this percentage of the heap are summed into one line.
    pub threshold: f64,
    /// A folder of the user's with files for debuggers.
    pub debug_files: Option<PathBuf>,
    /// Options of the server for this life.
    pub options: Vec<ServerOption>,
    /// The folder that profiles are written to.
    pub folder: PathBuf,
}

/// The most threads that Valgrind allows. Its default is 500, and servers may have more connections than that.
const MOST_THREADS: u32 = 4000;
/// The file with the marks: those of the only process, or the sums over all processes.
const MARKS: &str = "heap.massif";
/// Bytes of a log's end in which a failure is looked for.
const END_OF_LOG: usize = 16 << 10;

/// A server that is profiled.
pub struct Session {
    sandbox: Sandbox,
    pub server: RunningServer,
    settings: Settings,
    vgdb: PathBuf,
    began: Instant,
    before: Before,
    of_process: BTreeMap<u32, Stitched>,
    of_all: Stitched,
    pub start: Duration,
    pub marks: Vec<Mark>,
}

/// The heap at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// From 0; the number of the snapshot in `heap.massif`.
    pub number: u32,
    pub name: String,
    /// Since the server's start.
    pub at_ms: u64,
    /// Bytes that the server asked for, summed over its processes; with `--pages-as-heap`, bytes of all mappings.
    pub heap_bytes: u64,
    /// Bytes that malloc adds to them, by Massif's estimate.
    pub extra_bytes: u64,
    /// How long the server stood still while the snapshot was taken.
    pub took_ms: u64,
    pub processes: Vec<ProcessMark>,
    /// Processes that could not be asked, each with the reason.
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessMark {
    pub pid: u32,
    /// The name that PostgreSQL has for the process, such as `client backend`, or `postmaster`; `server` for other servers.
    pub role: String,
    pub heap_bytes: u64,
}

/// How a life ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ended {
    /// The time from the request to stop to the end of the last process.
    pub took_ms: u64,
    /// The files that Massif wrote at the end, one for each process.
    pub files: Vec<PathBuf>,
}

impl Session {
    /// Starts the server, and waits until it answers; that takes many times longer than without Valgrind.
    ///
    /// # Errors
    /// [`Error::Start`]; [`Error::NoTool`]: nothing was started.
    pub fn start(sandbox: &Sandbox, run: &mut Run, settings: Settings) -> Result<Self, Error> {
        let vgdb = vgdb::program()?;
        let before = Before::look(sandbox);
        let began = Instant::now();
        let started = sandbox.start(run, &settings.start_options());
        let server = started.map_err(|source| {
            let known = known(&logs(sandbox, &before));
            Error::start("under Massif", known, source)
        })?;
        let (of_process, of_all, marks) = (BTreeMap::new(), Stitched::default(), Vec::new());
        let start = began.elapsed();
        let sandbox = sandbox.clone();
        Ok(Self { sandbox, server, settings, vgdb, began, before, of_process, of_all, start, marks })
    }

    /// # Errors
    /// The server does not answer.
    pub fn pace(&self) -> Result<Pace, Error> {
        Pace::measure(&self.server.target, self.start).map_err(Error::Connect)
    }

    /// Takes a snapshot of each of its processes, and writes the files with all snapshots so far.
    ///
    /// # Errors
    /// The server does not answer its profiler, or a file cannot be written. The session goes on; [`Self::is_alive`] tells whether the server lives.
    pub fn mark(&mut self, name: &str) -> Result<&Mark, Error> {
        let (at, roles) = (self.began.elapsed(), self.roles());
        let began = Instant::now();
        let (mut texts, mut processes, mut missing) = (Vec::new(), Vec::new(), Vec::new());
        for pid in vgdb::processes(self.server.pid) {
            if roles.own == Some(pid) {
                continue;
            }
            let text = match vgdb::snapshot(&self.vgdb, &self.sandbox, pid) {
                Ok(text) => text,
                // a backend that has ended meanwhile
                Err(error) if pid != self.server.pid => {
                    missing.push(host::chain(&error));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let none = |why: &str| Error::NoSnapshot { pid, why: why.into() };
            let (heap_bytes, _) = snapshots::bytes(&text).ok_or_else(|| none("it has no size of a heap"))?;
            let stitched = self.of_process.entry(pid).or_default();
            stitched.push(&text).ok_or_else(|| none("its header is not Massif's"))?;
            processes.push(ProcessMark { pid, role: roles.of(pid, self.server.pid), heap_bytes });
            texts.push(text);
        }
        let took = began.elapsed();
        let nothing = || Error::NoSnapshot { pid: self.server.pid, why: "there is no process in Valgrind".into() };
        let whole = if texts.len() == 1 { texts.pop() } else { snapshots::summed(&texts) }.ok_or_else(nothing)?;
        let (heap_bytes, extra_bytes) = snapshots::bytes(&whole).ok_or_else(nothing)?;
        self.of_all.push(&whole).ok_or_else(nothing)?;
        self.keep()?;
        let number = u32::try_from(self.marks.len()).unwrap_or(u32::MAX);
        let (at_ms, took_ms) = (millis(at), millis(took));
        self.marks.push(Mark {
            number,
            name: name.to_owned(),
            at_ms,
            heap_bytes,
            extra_bytes,
            took_ms,
            processes,
            missing,
        });
        self.marks.last().ok_or_else(nothing)
    }

    /// Writes the files anew, each in one step: a reader finds all snapshots so far at any moment.
    fn keep(&self) -> Result<(), Error> {
        let write = |name: &str, text: &str| {
            files::write_atomic(&self.settings.folder.join(name), text.as_bytes(), 0o600).map_err(Error::Keep)
        };
        write(MARKS, self.of_all.text())?;
        if self.sandbox.flavour() != Flavour::Postgresql {
            return Ok(());
        }
        self.of_process.iter().try_for_each(|(pid, it)| write(&format!("heap.{pid}.massif"), it.text()))
    }

    /// The file with the snapshots of all marks.
    pub fn profile(&self) -> PathBuf {
        self.settings.folder.join(MARKS)
    }

    pub fn is_alive(&self) -> bool {
        self.server.is_alive()
    }

    /// Stops the server, which is many times slower than without Valgrind, and copies the files that Massif has written into the user's folder.
    ///
    /// # Errors
    /// [`Error::Ended`]: the server had ended by itself, or was killed; the marks are kept.
    pub fn end(self, run: &mut Run) -> Result<(Vec<Mark>, Ended), Error> {
        let Self { sandbox, server, settings, before, marks, .. } = self;
        let began = Instant::now();
        if server.is_alive() {
            server.stop(run).map_err(Error::stop)?;
        } else {
            let source = server.ended(run).unwrap_or_else(|error| error);
            let known = known(&logs(&sandbox, &before));
            sandbox.remove_pipes().map_err(Error::stop)?;
            return Err(Error::Ended { known, source: source.into() });
        }
        let took_ms = millis(began.elapsed());
        sandbox.remove_pipes().map_err(Error::stop)?;
        let folder = sandbox.valgrind_folder();
        let mut copied = Vec::new();
        for name in names(&folder).difference(&before.names) {
            let text =
                vgdb::read(&folder.join(name), 0).map_err(|source| Error::Read { path: folder.join(name), source })?;
            let to = settings.folder.join(name);
            files::write_atomic(&to, text.as_bytes(), 0o600).map_err(Error::Keep)?;
            copied.push(to);
        }
        copied.retain(|path| path.extension().is_some_and(|it| it == "out"));
        Ok((marks, Ended { took_ms, files: copied }))
    }

    /// The roles of PostgreSQL's processes, as far as PostgreSQL tells them.
    fn roles(&self) -> Roles {
        if self.sandbox.flavour() != Flavour::Postgresql {
            return Roles::default();
        }
        let ask = || {
            let mut connection = Connection::open(&self.server.target)?;
            let own: Option<u32> = connection.query("SELECT pg_backend_pid()")?.parse(0, 0);
            let rows = connection.query("SELECT pid, backend_type FROM pg_stat_activity")?;
            let role = |row| Some((rows.parse(row, 0)?, rows.text(row, 1)?));
            Ok::<_, load::Error>(Roles { own, named: Some((0..rows.len()).filter_map(role).collect()) })
        };
        ask().unwrap_or_default()
    }
}

#[derive(Debug, Default)]
struct Roles {
    /// The backend that answered this question: it exists only for the question.
    own: Option<u32>,
    named: Option<BTreeMap<u32, String>>,
}

impl Roles {
    fn of(&self, pid: u32, first: u32) -> String {
        match &self.named {
            None if pid == first => "server".to_owned(),
            Some(_) if pid == first => "postmaster".to_owned(),
            named => named.as_ref().and_then(|it| it.get(&pid).cloned()).unwrap_or_else(|| "helper".to_owned()),
        }
    }
}

impl Settings {
    fn start_options(&self) -> StartOptions {
        let mut options = vec![
            "--time-unit=ms".to_owned(),
            format!("--threshold={}", self.threshold),
            format!("--max-threads={MOST_THREADS}"),
        ];
        options.extend(self.pages_as_heap.then(|| "--pages-as-heap=yes".to_owned()));
        options.extend(self.debug_files.iter().map(|it| format!("--extra-debuginfo-path={}", it.display())));
        let wrapping = Wrapping { valgrind: Some(Valgrind::Massif), valgrind_options: options, ..Wrapping::default() };
        StartOptions { wrapping, extra_options: self.options.clone(), ..StartOptions::default() }
    }
}

/// One life of the server without Valgrind, to measure its pace.
///
/// # Errors
/// [`Error::Start`], [`Error::Connect`], [`Error::Stop`].
pub fn native(sandbox: &Sandbox, run: &mut Run, options: &[ServerOption]) -> Result<Pace, Error> {
    let start = StartOptions { extra_options: options.to_vec(), ..StartOptions::default() };
    let began = Instant::now();
    let started = sandbox.start(run, &start);
    let server = started.map_err(|source| Error::start("natively", Vec::new(), source))?;
    let pace = Pace::measure(&server.target, began.elapsed()).map_err(Error::Connect);
    server.stop(run).map_err(Error::stop)?;
    pace
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn names(folder: &Path) -> BTreeSet<OsString> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.file_name()).collect()
}

/// The state of the logs before this life.
struct Before {
    /// Names of the files in Valgrind's folder.
    names: BTreeSet<OsString>,
    /// How long the server's log was.
    log_bytes: u64,
}

impl Before {
    fn look(sandbox: &Sandbox) -> Self {
        let log_bytes = sandbox.log().metadata().map_or(0, |log| log.len());
        Self { names: names(&sandbox.valgrind_folder()), log_bytes }
    }
}

/// The ends of the server's log and of Valgrind's logs, as far as they were written in this life.
fn logs(sandbox: &Sandbox, before: &Before) -> String {
    let folder = sandbox.valgrind_folder();
    let new = names(&folder);
    let of_valgrind = new.difference(&before.names).filter(|name| name.to_string_lossy().ends_with(".log"));
    let mut texts: Vec<String> = of_valgrind.filter_map(|name| vgdb::read(&folder.join(name), 0).ok()).collect();
    texts.extend(vgdb::read(&sandbox.log(), before.log_bytes).ok());
    let end = |text: &String| {
        let from = text.len().saturating_sub(END_OF_LOG);
        let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        text.get(from..).unwrap_or_default().to_owned()
    };
    texts.iter().map(end).collect::<Vec<_>>().join("\n")
}
