// SPDX-License-Identifier: Apache-2.0
//! The heap at one moment: as each profiler gives it, and as the user gets it.

use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// The heap at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mark {
    /// From 0; the number of the snapshot in `heap.massif`.
    pub number: u32,
    pub name: String,
    /// Since the server's start.
    pub at_ms: u64,
    /// As the server asked for them, summed over its processes; with `--pages-as-heap` of all mappings. `None`: with heaptrack, until the end.
    pub heap_bytes: Option<u64>,
    /// What malloc adds to them, by Massif's estimate; of others `None`.
    pub extra_bytes: Option<u64>,
    /// How long taking it held the server.
    pub took_ms: u64,
    pub processes: Vec<ProcessMark>,
    /// Processes that could not be asked, with why.
    pub missing: Vec<String>,
    /// As the profiler wrote this moment. `None`: all its moments are in one file.
    pub file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessMark {
    pub pid: u32,
    /// As PostgreSQL names it: `client backend`; `postmaster`; `server` of the others.
    pub role: String,
    pub heap_bytes: u64,
}

/// What a profiler gave.
pub(crate) struct Taken {
    /// In Massif's format, as a file with one snapshot. `None`: it is known at the end.
    pub(crate) whole: Option<String>,
    pub(crate) heap_bytes: Option<u64>,
    pub(crate) extra_bytes: Option<u64>,
    pub(crate) processes: Vec<ProcessMark>,
    pub(crate) missing: Vec<String>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) took: Duration,
}

impl Taken {
    /// Of a server that is one process.
    pub(crate) fn of_server(pid: u32, heap_bytes: u64, whole: String, file: PathBuf, took: Duration) -> Self {
        Self {
            whole: Some(whole),
            heap_bytes: Some(heap_bytes),
            processes: vec![ProcessMark { pid, role: "server".to_owned(), heap_bytes }],
            file: Some(file),
            ..Self::later(took)
        }
    }

    /// It is told at the end.
    pub(crate) fn later(took: Duration) -> Self {
        let (processes, missing) = (Vec::new(), Vec::new());
        Self { whole: None, heap_bytes: None, extra_bytes: None, processes, missing, file: None, took }
    }

    pub(crate) fn mark(self, number: usize, name: &str, at: Duration) -> Mark {
        let Self { heap_bytes, extra_bytes, processes, missing, file, took, .. } = self;
        Mark {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            name: name.to_owned(),
            at_ms: millis(at),
            heap_bytes,
            extra_bytes,
            took_ms: millis(took),
            processes,
            missing,
            file,
        }
    }
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
