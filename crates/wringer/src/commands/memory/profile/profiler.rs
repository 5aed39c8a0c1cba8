// SPDX-License-Identifier: Apache-2.0
//! The choice of the profiler; and for each failure, its exit code and its remedy.

use crate::exit::{Exit, Failure};
use ::profile::With;
use profile::Error;
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Profiler {
    /// Valgrind's: exact, for each server; PostgreSQL by process. Valgrind runs one thread at a time
    Massif,
    /// A library that writes each allocation down; the marks are told at the end. Package heaptrack
    Heaptrack,
    /// The malloc of gperftools with its profiler, in place of the server's. Package libgoogle-perftools4
    Tcmalloc,
    /// The malloc jemalloc with its profiler, in place of the server's, where it is built with profiling. Package libjemalloc2
    Jemalloc,
}

impl From<Profiler> for With {
    fn from(profiler: Profiler) -> Self {
        match profiler {
            Profiler::Massif => Self::Massif,
            Profiler::Heaptrack => Self::Heaptrack,
            Profiler::Tcmalloc => Self::Tcmalloc,
            Profiler::Jemalloc => Self::Jemalloc,
        }
    }
}

impl Profiler {
    /// # Errors
    /// Exit code 2: an option that this profiler does not have.
    pub(super) fn check(self, pages_as_heap: bool, debug_files: bool) -> Result<(), Failure> {
        if pages_as_heap && self != Self::Massif {
            let what = format!("--pages-as-heap: {} sees no mappings", With::from(self).name());
            return Err(Failure::message(Exit::Usage, what).hint("Massif does: leave --with out"));
        }
        if debug_files && self == Self::Heaptrack {
            let what = "--debug-files: heaptrack looks for files for debuggers in /usr/lib/debug alone";
            return Err(
                Failure::message(Exit::Usage, what).hint("install the package NAME-dbgsym, which puts them there")
            );
        }
        Ok(())
    }
}

pub(super) fn failure(error: Error) -> Failure {
    let exit = match &error {
        Error::Interrupted => Some(Exit::Interrupted),
        Error::NoTool { .. }
        | Error::NoLibrary { .. }
        | Error::NoProfiling { .. }
        | Error::OneProcess { .. }
        | Error::Split { .. }
        | Error::NoTables { .. } => Some(Exit::Missing),
        _ => None,
    };
    let cure = match &error {
        Error::NoTool { package, .. } | Error::NoLibrary { package, .. } => {
            Some(format!("install the package {package}: `apt-get install {package}`"))
        }
        Error::NoProfiling { .. } => Some(
            "take a jemalloc that is built with `--enable-prof`, as Debian's package libjemalloc2 is (LD_LIBRARY_PATH=FOLDER names its folder); or \
             `--with tcmalloc`, `--with massif`"
                .to_owned(),
        ),
        Error::Split { cure, .. } => Some((*cure).to_owned()),
        Error::OneProcess { .. } => {
            Some("`--with massif` follows them, and tells each process and their sum".to_owned())
        }
        _ => None,
    };
    let cures: Vec<String> = error.known().iter().map(|it| format!("{}; {}", it.what, it.cure)).collect();
    let mut failure = Failure::from(error);
    failure.exit = exit.unwrap_or(failure.exit);
    cure.into_iter().chain(cures).fold(failure, Failure::hint)
}

/// Adds the place of the snapshots that were taken before the failure.
pub(super) fn kept_until(failure: Failure, folder: &Path) -> Failure {
    let file = folder.join("heap.massif");
    if file.is_file() {
        return failure.hint(format!("what was taken until then: `wringer heap show {}`", file.display()));
    }
    failure
}
