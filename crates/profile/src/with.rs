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
