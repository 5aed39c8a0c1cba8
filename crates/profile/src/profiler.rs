// SPDX-License-Identifier: Apache-2.0
//! Which profiler, and what it needs on this machine.

use crate::{Error, vgdb};
use capability::MallocKind;
use host::tool;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A heap profiler that a server can be started with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum With {
    /// Massif, a tool of Valgrind.
    Massif,
    /// A library that writes each allocation down.
    Heaptrack,
    /// The heap profiler of gperftools.
    Tcmalloc,
    /// The heap profiler of jemalloc.
    Jemalloc,
}

/// What a profile needs, found before anything is started.
#[derive(Debug, Clone)]
pub enum Tools {
    Massif { vgdb: PathBuf },
    Heaptrack { library: PathBuf, interpreter: PathBuf },
    Malloc { kind: MallocKind, library: PathBuf },
}

const HOME: &str = "set WRINGER_HOME to a folder without this character in its path, and use a sandbox there";
const CACHE: &str = "set WRINGER_CACHE to a folder without this character in its path";
const LIBRARY: &str =
    "copy the library to a folder without this character in its path; LD_LIBRARY_PATH=FOLDER names it";
const HEAPTRACK: &str = "install heaptrack in a folder without this character in its path";

const TCMALLOC: &str = "libtcmalloc.so.4";
const JEMALLOC: &str = "libjemalloc.so.2";

impl With {
    pub fn name(self) -> &'static str {
        match self {
            Self::Massif => "massif",
            Self::Heaptrack => "heaptrack",
            Self::Tcmalloc => "tcmalloc",
            Self::Jemalloc => "jemalloc",
        }
    }

    /// How a server is started with it, in words.
    pub(crate) fn under(self) -> &'static str {
        match self {
            Self::Massif => "under Massif",
            Self::Heaptrack => "with heaptrack",
            Self::Tcmalloc => "with tcmalloc's profiler",
            Self::Jemalloc => "with jemalloc's profiler",
        }
    }

    /// How many times as long a query takes under this profiler, while one thread is busy: from, to. Valgrind runs one thread at a time: with Massif and
    /// several busy threads, multiply this by their number. Measured with sysbench of one thread on MariaDB 10.11: 14,871 queries a second natively, 5,219
    /// to 5,556 under Massif (Valgrind 3.19). For the other profilers: CPU time of the server for each query of the same load, three runs each
    /// (docs/profile.md).
    pub fn expected_times(self) -> (f64, f64) {
        match self {
            Self::Massif => (2.6, 2.9),
            Self::Heaptrack => (1.0, 1.3),
            Self::Tcmalloc => (1.6, 2.2),
            Self::Jemalloc => (1.1, 2.2),
        }
    }

    /// Callers with less than this percentage of the heap are summed into one line, where nothing else is asked for. Massif's own 1 % would hide most
    /// functions of a server. The other profilers count each allocation, and a threshold would make functions that cross it look as if they grew.
    pub fn threshold(self) -> f64 {
        match self {
            Self::Massif => 0.1,
            Self::Heaptrack | Self::Tcmalloc | Self::Jemalloc => 0.0,
        }
    }

    /// # Errors
    /// [`Error::OneProcess`]: the server forks, as PostgreSQL does, and this profiler does not follow.
    pub fn check_server(self, forks: bool) -> Result<(), Error> {
        if forks && self != Self::Massif { Err(Error::OneProcess { with: self.name() }) } else { Ok(()) }
    }

    /// # Errors
    /// [`Error::NoTool`], [`Error::NoLibrary`], [`Error::NoProfiling`]: what it needs is not on this machine.
    pub fn find(self) -> Result<Tools, Error> {
        let malloc = |kind, file, package| {
            let found = sandbox::library_of_machine(file);
            Ok((kind, found.ok_or(Error::NoLibrary { file, package })?))
        };
        match self {
            Self::Massif => {
                tool::find("valgrind").ok_or(Error::NoTool { program: "valgrind", package: "valgrind" })?;
                Ok(Tools::Massif { vgdb: vgdb::program()? })
            }
            Self::Heaptrack => heaptrack(),
            Self::Tcmalloc => {
                let (kind, library) = malloc(MallocKind::Tcmalloc, TCMALLOC, "libgoogle-perftools4")?;
                Ok(Tools::Malloc { kind, library })
            }
            Self::Jemalloc => {
                let (kind, library) = malloc(MallocKind::Jemalloc, JEMALLOC, "libjemalloc2")?;
                if has_profiling(&library) {
                    Ok(Tools::Malloc { kind, library })
                } else {
                    Err(Error::NoProfiling { library })
                }
            }
        }
    }
}

impl Tools {
    /// Checks the paths that the server, or what is asked in it, gets in a list of words. To be called before anything is started. `sandbox`: the folder of
    /// the sandbox; `cache`: Wringer's.
    ///
    /// # Errors
    /// [`Error::Split`].
    pub fn check_paths(&self, sandbox: &Path, cache: &Path) -> Result<(), Error> {
        match self {
            // massif/ms_main.c, `handle_gdb_monitor_command`
            Self::Massif { .. } => {
                let lost = "no snapshot could be taken";
                whole(sandbox, &[' '], "Massif's command for a snapshot", (lost, HOME))
            }
            Self::Heaptrack { library, .. } => loaded(library, HEAPTRACK),
            Self::Malloc { kind, library } => {
                loaded(library, LIBRARY)?;
                loaded(cache, CACHE)?;
                let lost = "no profile would be written to it";
                match kind {
                    MallocKind::Jemalloc => whole(sandbox, &[','], "jemalloc's MALLOC_CONF", (lost, HOME)),
                    _ => Ok(()),
                }
            }
        }
    }
}

fn loaded(path: &Path, cure: &'static str) -> Result<(), Error> {
    let lost = "no library could be loaded from it";
    whole(path, &MallocKind::PRELOAD_SEPARATORS, "LD_PRELOAD", (lost, cure))
}

fn whole(
    path: &Path,
    separators: &[char],
    reader: &'static str,
    (lost, cure): (&'static str, &'static str),
) -> Result<(), Error> {
    match path.to_string_lossy().chars().find(|it| separators.contains(it)) {
        Some(at) => Err(Error::Split { path: path.to_owned(), reader, at, lost, cure }),
        None => Ok(()),
    }
}

/// The place where `heaptrack` itself looks for its library and its interpreter: beside the folder of its program.
fn heaptrack() -> Result<Tools, Error> {
    let lacks = Error::NoTool { program: "heaptrack", package: "heaptrack" };
    let Some(program) = tool::find("heaptrack").and_then(|it| it.canonicalize().ok()) else { return Err(lacks) };
    let folder = program.parent().unwrap_or(Path::new("/")).join("../lib/heaptrack");
    let real = |path: PathBuf| path.canonicalize().ok();
    let library = real(folder.join("libheaptrack_preload.so"));
    let interpreter = real(folder.join("libexec/heaptrack_interpret"));
    let (library, interpreter) = library
        .zip(interpreter)
        .ok_or(Error::NoLibrary { file: "libheaptrack_preload.so", package: "libheaptrack" })?;
    Ok(Tools::Heaptrack { library, interpreter })
}

/// Whether the library was built with profiling. It says so itself: with `opt.stats_print` it prints at the end of a program how it was built
/// (jemalloc(3)).
fn has_profiling(library: &Path) -> bool {
    let Some(program) = tool::find("true") else { return false };
    let mut command = tool::command(program);
    command.env("LD_PRELOAD", library).env("MALLOC_CONF", "stats_print:true");
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output();
    output.is_ok_and(|it| String::from_utf8_lossy(&it.stderr).contains("config.prof: true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_profile_is_not_cut() {
        let all = [With::Massif, With::Heaptrack, With::Tcmalloc, With::Jemalloc].map(With::threshold);
        assert_eq!(all.map(|it| it > 0.0), [true, false, false, false]);
    }

    #[test]
    fn a_path_that_would_be_read_as_several_is_refused() {
        let (sandbox, cache) = (Path::new("/home/a b/sandboxes/pears"), Path::new("/home/a:b/cache"));
        let plain = Path::new("/home/a");
        let massif = Tools::Massif { vgdb: "/usr/bin/vgdb".into() };
        let malloc = |kind| Tools::Malloc { kind, library: "/lib/libx.so".into() };
        let said = |tools: &Tools, sandbox, cache| tools.check_paths(sandbox, cache).map_err(|error| error.to_string());
        assert_eq!(
            said(&massif, sandbox, plain).unwrap_err(),
            "/home/a b/sandboxes/pears: Massif's command for a snapshot splits this path at ' ', and no snapshot could be taken"
        );
        assert_eq!(said(&massif, plain, cache), Ok(()), "nothing is preloaded");
        let tcmalloc = said(&malloc(MallocKind::Tcmalloc), sandbox, cache).unwrap_err();
        assert_eq!(
            tcmalloc,
            "/home/a:b/cache: LD_PRELOAD splits this path at ':', and no library could be loaded from it"
        );
        assert_eq!(said(&malloc(MallocKind::Tcmalloc), sandbox, plain), Ok(()));
        let jemalloc = malloc(MallocKind::Jemalloc);
        assert!(said(&jemalloc, Path::new("/home/a,b"), plain).unwrap_err().contains("MALLOC_CONF splits"));
        assert_eq!(said(&jemalloc, sandbox, plain), Ok(()));
        let heaptrack = Tools::Heaptrack { library: "/opt/a b/x.so".into(), interpreter: "/x".into() };
        assert!(said(&heaptrack, plain, plain).unwrap_err().starts_with("/opt/a b/x.so: LD_PRELOAD"));
    }
}
