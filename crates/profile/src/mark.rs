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
    /// The time since the server's start.
    pub at_ms: u64,
    /// The bytes that the server had asked malloc for, summed over its processes; with `--pages-as-heap` the size of all mappings. `None`: heaptrack tells
    /// them only when the server has ended.
    pub heap_bytes: Option<u64>,
    /// The bytes that malloc adds to these, as Massif estimates them. `None`: the other profilers do not tell them.
    pub extra_bytes: Option<u64>,
    /// How long the server stood still for this mark.
    pub took_ms: u64,
    pub processes: Vec<ProcessMark>,
    /// Processes that could not be asked, each with the reason.
    pub missing: Vec<String>,
    /// The file that the profiler wrote for this moment. `None`: the profiler writes all moments into one file.
    pub file: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessMark {
    pub pid: u32,
    /// `client backend` and other names that PostgreSQL gives its processes; `postmaster` for its first one; `server` for other servers.
    pub role: String,
    pub heap_bytes: u64,
}

/// One snapshot, as a profiler gave it.
pub(crate) struct Taken {
    /// The text of a file with this snapshot alone, in Massif's format. `None`: the snapshot is known only when the server has ended.
    pub(crate) whole: Option<String>,
    pub(crate) heap_bytes: Option<u64>,
    pub(crate) extra_bytes: Option<u64>,
    pub(crate) processes: Vec<ProcessMark>,
    pub(crate) missing: Vec<String>,
    pub(crate) file: Option<PathBuf>,
    pub(crate) took: Duration,
}

impl Taken {
    /// The snapshot of a server that is one process.
    pub(crate) fn of_server(pid: u32, heap_bytes: u64, whole: String, file: PathBuf, took: Duration) -> Self {
        Self {
            whole: Some(whole),
            heap_bytes: Some(heap_bytes),
            processes: vec![ProcessMark { pid, role: "server".to_owned(), heap_bytes }],
            file: Some(file),
            ..Self::later(took)
        }
    }

    /// A snapshot whose content is known only when the server has ended.
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
