// SPDX-License-Identifier: Apache-2.0
//! One life of a sandbox's server under a profiler.

use crate::asking::Asking;
use crate::heaptrack::Heaptrack;
use crate::mark::{Mark, Taken, millis};
use crate::massif::Massif;
use crate::snapshots::Stitched;
use crate::{Error, KnownFailure, Pace, Tools, With, known, vgdb};
use host::files;
use host::places::Places;
use run::Run;
use sandbox::{RunningServer, Sandbox, ServerOption, StartOptions, Valgrind};
use serde::Serialize;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How to profile.
#[derive(Debug, Clone)]
pub struct Settings {
    pub with: With,
    /// The result of [`With::find`].
    pub tools: Tools,
    /// Whether all mappings are profiled, such as the buffer pool, and not only the memory that malloc hands out. Only Massif can do this.
    pub pages_as_heap: bool,
    /// Callers with less than this percentage of the heap are summed into one line.
    pub threshold: f64,
    /// A folder with files for debuggers, which the user has named.
    pub debug_files: Option<PathBuf>,
    /// Options of the server for this life.
    pub options: Vec<ServerOption>,
    /// The folder that profiles are written to.
    pub folder: PathBuf,
}

/// The file with all marks: the snapshots of the server's only process, or the sums over its processes.
const MARKS: &str = "heap.massif";
/// The number of bytes at the end of a log in which a known failure is looked for.
const END_OF_LOG: usize = 16 << 10;

/// A server that is profiled.
pub struct Session {
    sandbox: Sandbox,
    pub server: RunningServer,
    settings: Settings,
    profiler: Profiler,
    began: Instant,
    before: Before,
    of_all: Stitched,
    pub start: Duration,
    pub marks: Vec<Mark>,
}

enum Profiler {
    Massif(Massif),
    Heaptrack(Heaptrack),
    Asking(Box<Asking>),
}

/// How a life ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ended {
    /// The time from the request to stop to the end of the last process.
    pub took_ms: u64,
    /// The file that Massif wrote for each process at its end; or heaptrack's file.
    pub files: Vec<PathBuf>,
}

impl Session {
    /// Starts the server and waits until it answers. Under Massif this takes many times as long as without a profiler.
    ///
    /// # Errors
    /// [`Error::Start`]; [`Error::Library`]: the profiler's library does not fit this server, and nothing was started.
    pub fn start(sandbox: &Sandbox, run: &mut Run, settings: Settings, places: &Places) -> Result<Self, Error> {
        let mut options = StartOptions { extra_options: settings.options.clone(), ..StartOptions::default() };
        let profiler = Profiler::prepare(sandbox, &settings, places, &mut options)?;
        let before = Before::look(sandbox);
        let began = Instant::now();
        let started = sandbox.start(run, &options);
        let server = started
            .map_err(|source| Error::start(settings.with.under(), causes(settings.with, sandbox, &before), source))?;
        let (of_all, marks) = (Stitched::default(), Vec::new());
        let start = began.elapsed();
        let sandbox = sandbox.clone();
        Ok(Self { sandbox, server, settings, profiler, began, before, of_all, start, marks })
    }

    /// # Errors
    /// The server does not answer.
    pub fn pace(&self) -> Result<Pace, Error> {
        Pace::measure(&self.server.target, self.start).map_err(Error::Connect)
    }

    /// Takes a snapshot, and writes the files with all snapshots so far.
    ///
    /// # Errors
    /// The server does not answer its profiler, or a file cannot be written. The session goes on; [`Self::is_alive`] tells whether the server lives.
    pub fn mark(&mut self, name: &str) -> Result<&Mark, Error> {
        let (at, pid, folder) = (self.began.elapsed(), self.server.pid, &self.settings.folder);
        let mut taken = match &mut self.profiler {
            Profiler::Massif(massif) => massif.take(&self.sandbox, &self.server)?,
            Profiler::Heaptrack(heaptrack) => heaptrack.take(pid)?,
            Profiler::Asking(_) if !self.server.is_alive() => {
                return Err(Error::Snapshot { pid, why: "it has ended".into() });
            }
            Profiler::Asking(asking) => asking.take(&self.sandbox, pid, at, folder)?,
        };
        let nothing = || Error::NoSnapshot { pid, why: "it has no snapshot".into() };
        if let Some(whole) = taken.whole.take() {
            self.of_all.push(&whole).ok_or_else(nothing)?;
            self.keep()?;
        }
        self.marks.push(Taken::mark(taken, self.marks.len(), name, at));
        self.marks.last().ok_or_else(nothing)
    }

    /// Adds the new snapshots to the files.
    fn keep(&mut self) -> Result<(), Error> {
        let profile = self.profile();
        self.of_all.keep(&profile).map_err(Error::Keep)?;
        match &mut self.profiler {
            Profiler::Massif(massif) => massif.keep(&self.settings.folder),
            _ => Ok(()),
        }
    }

    /// The file with the snapshots of all marks.
    pub fn profile(&self) -> PathBuf {
        self.settings.folder.join(MARKS)
    }

    pub fn is_alive(&self) -> bool {
        self.server.is_alive()
    }

    /// Stops the server, and copies the files that the profiler has written into the user's folder. Under a profiler the stop takes longer, too.
    ///
    /// # Errors
    /// [`Error::Ended`]: the server had ended by itself, or was killed; the marks are kept.
    pub fn end(self, run: &mut Run) -> Result<(Vec<Mark>, Ended), Error> {
        let began = Instant::now();
        let (pid, with, profile) = (self.server.pid, self.settings.with, self.profile());
        let Self { sandbox, server, settings, before, mut marks, profiler, .. } = self;
        let source = if server.is_alive() {
            server.stop(run).map_err(Error::stop)?;
            None
        } else {
            Some(server.ended(run).unwrap_or_else(|error| error))
        };
        let took_ms = millis(began.elapsed());
        sandbox.remove_pipes().map_err(Error::stop)?;
        let known = causes(with, &sandbox, &before);
        let files = match profiler {
            Profiler::Massif(_) if source.is_some() => Ok(Vec::new()),
            Profiler::Massif(_) => copy_massif(&sandbox, &before, &settings.folder),
            Profiler::Heaptrack(heaptrack) => {
                let ended = heaptrack.end(&sandbox, pid, &mut marks, &settings.folder);
                ended.and_then(|(file, mut all)| {
                    all.keep(&profile).map_err(Error::Keep)?;
                    Ok(vec![file])
                })
            }
            Profiler::Asking(_) => {
                sandbox.empty_profiles_folder().map(|()| Vec::new()).map_err(|source| Error::Library(source.into()))
            }
        };
        match source {
            Some(source) => Err(Error::Ended { known, source: source.into() }),
            None => Ok((marks, Ended { took_ms, files: files? })),
        }
    }
}

impl Profiler {
    fn prepare(
        sandbox: &Sandbox,
        settings: &Settings,
        places: &Places,
        start: &mut StartOptions,
    ) -> Result<Self, Error> {
        let (threshold, debug_files) = (settings.threshold, settings.debug_files.as_deref());
        Ok(match &settings.tools {
            Tools::Massif { vgdb } => {
                start.wrapping.valgrind = Some(Valgrind::Massif);
                start.wrapping.valgrind_options = Massif::options(settings.pages_as_heap, threshold, debug_files);
                Self::Massif(Massif::new(vgdb.clone()))
            }
            Tools::Heaptrack { library, interpreter } => {
                Self::Heaptrack(Heaptrack::prepare(library, interpreter.clone(), sandbox, threshold, start)?)
            }
            Tools::Malloc { kind, library } => {
                let malloc = (*kind, library.as_path());
                Self::Asking(Box::new(Asking::prepare(malloc, sandbox, places, debug_files, threshold, start)?))
            }
        })
    }
}

/// Copies the files that Massif has written in this life of the server. Returns the profiles among them.
fn copy_massif(sandbox: &Sandbox, before: &Before, into: &Path) -> Result<Vec<PathBuf>, Error> {
    let folder = sandbox.valgrind_folder();
    let mut copied = Vec::new();
    for name in names(&folder).difference(&before.names) {
        let text =
            vgdb::read(&folder.join(name), 0).map_err(|source| Error::Read { path: folder.join(name), source })?;
        let to = into.join(name);
        files::write_atomic(&to, text.as_bytes(), 0o600).map_err(Error::Keep)?;
        copied.push(to);
    }
    copied.retain(|path| path.extension().is_some_and(|it| it == "out"));
    Ok(copied)
}

/// One life of the server without a profiler. Returns how fast the server is then.
///
/// # Errors
/// [`Error::Start`], [`Error::Connect`], [`Error::Stop`].
pub fn native(sandbox: &Sandbox, run: &mut Run, options: &[ServerOption]) -> Result<Pace, Error> {
    let start = StartOptions { extra_options: options.to_vec(), ..StartOptions::default() };
    let began = Instant::now();
    let started = sandbox.start(run, &start);
    let server = started.map_err(Error::natively)?;
    let pace = Pace::measure(&server.target, began.elapsed()).map_err(Error::Connect);
    server.stop(run).map_err(Error::stop)?;
    pace
}

fn names(folder: &Path) -> BTreeSet<OsString> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.file_name()).collect()
}

/// The state of the logs before this life.
struct Before {
    /// Names of the files in Valgrind's folder.
    names: BTreeSet<OsString>,
    /// The length of the server's log.
    log_bytes: u64,
}

impl Before {
    fn look(sandbox: &Sandbox) -> Self {
        let log_bytes = sandbox.log().metadata().map_or(0, |log| log.len());
        Self { names: names(&sandbox.valgrind_folder()), log_bytes }
    }
}

/// The known failures of servers in Valgrind that the logs of this life show. Empty with another profiler.
fn causes(with: With, sandbox: &Sandbox, before: &Before) -> Vec<KnownFailure> {
    if with == With::Massif { known(&logs(sandbox, before)) } else { Vec::new() }
}

/// The last lines of the server's log and of Valgrind's logs, as far as they were written in this life of the server.
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
