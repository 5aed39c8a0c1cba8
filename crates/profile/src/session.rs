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

/// How Massif is to profile.
#[derive(Debug, Clone)]
pub struct Settings {
    /// All mappings, not only what malloc hands out: the buffer pool is one.
    pub pages_as_heap: bool,
    /// Callers with less than so many percent of the heap are summed up.
    pub threshold: f64,
    /// Files for debuggers, in a folder of the user's.
    pub debug_files: Option<PathBuf>,
    /// Options of the server's, for this life.
    pub options: Vec<ServerOption>,
    /// Where profiles go.
    pub folder: PathBuf,
}

/// Threads that Valgrind keeps notes of; 500 where nobody says otherwise, which is less than servers have connections.
const MOST_THREADS: u32 = 4000;
/// The file with the marks: of the only process, or summed over all.
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
    /// As the server asked for them, summed over its processes; with `--pages-as-heap` of all mappings.
    pub heap_bytes: u64,
    /// What malloc adds to them, by Massif's estimate.
    pub extra_bytes: u64,
    /// How long taking it held the server.
    pub took_ms: u64,
    pub processes: Vec<ProcessMark>,
    /// Processes that could not be asked, with why.
    pub missing: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessMark {
    pub pid: u32,
    /// As PostgreSQL names it: `client backend`; `postmaster`; `server` of the others.
    pub role: String,
    pub heap_bytes: u64,
}

/// How a life ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ended {
    /// From the wish to stop to the end of the last process.
    pub took_ms: u64,
    /// What Massif wrote at the end, of each process.
    pub files: Vec<PathBuf>,
}

impl Session {
    /// Starts it, and awaits that it answers: many times slower than natively.
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
    /// The server does not answer its profiler, or a file cannot be written. The server goes on; whether it lives tells [`Self::is_alive`].
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

    /// Replaced as a whole: whoever looks at them finds all snapshots so far.
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

    /// Stops the server, which takes as much longer as everything else, and copies what Massif has written into the user's folder.
    ///
    /// # Errors
    /// [`Error::Ended`]: it had ended by itself, or was killed; the marks are kept.
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

    /// Who is who among PostgreSQL's processes, as far as it says so.
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
    /// The backend that was asked: it is there only for that.
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

/// One life without a profiler: how fast the server is then.
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

/// What was there before this life.
struct Before {
    /// In the folder of Valgrind.
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

/// The ends of the server's log and of those that Valgrind has written, as far as they are of this life.
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
