// SPDX-License-Identifier: Apache-2.0
use crate::distrust::Distrust;
use crate::mounted_at::MountedAt;
use std::io;
use std::path::{Path, PathBuf};

/// An error at the machine: the operation, the file or process, the cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{operation} {}", path.display())]
    Path { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("{operation}")]
    Call { operation: String, source: io::Error },
    #[error("{program} is not on this machine")]
    MissingProgram { program: String },
    #[error("{program} ended with {status}: {stderr}")]
    Program { program: String, status: String, stderr: String },
    #[error("{path}: expected '{expected}', found '{found}': somebody else changed it", path = path.display())]
    Conflict { path: PathBuf, expected: String, found: String },
    #[error("{program}: {why}{}", log_text(log))]
    Child { program: String, why: String, log: Vec<String> },
    #[error("interrupted")]
    Interrupted,
    #[error("processes {pids:?} are still there after SIGKILL")]
    Unstoppable { pids: Vec<u32> },
    /// All other processes that were to be ended have been told to end.
    #[error("this user may not end {}: end it as its own user, or as root", holder_list(processes))]
    NotPermitted { processes: Vec<Holder> },
    #[error("{path} is busy, held open by {}", holder_list(holders), path = path.display())]
    Busy { path: PathBuf, holders: Vec<Holder> },
    /// A deletion would have to cross this mount, and its files may be somebody else's.
    #[error("something is mounted at {}: it keeps its files, and what it lies on is not deleted", path.display())]
    MountBelow { path: PathBuf },
    /// Somebody else can have written what is there, so it is not used.
    #[error("{} {why}", path.display())]
    Untrusted { path: PathBuf, why: Distrust },
    #[error("{path} is busy: {by}", path = path.display(), by = by.join("; "))]
    InUse { path: PathBuf, by: Vec<String> },
    #[error("{} is mounted at {mount}: umount it first", path.display())]
    Mounted { path: PathBuf, mount: MountedAt },
}

/// A process that uses the file or device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    /// The name that the kernel has for it: `/proc/PID/comm`.
    pub command: String,
}

impl Holder {
    pub fn of(pid: u32) -> Self {
        let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Self { pid, command: command.trim().to_owned() }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{} (process {})", self.command, self.pid)
    }
}

pub(crate) fn holder_list(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return "no process that can be seen from here".to_owned();
    }
    holders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// An error with its causes, in one line.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl Error {
    pub fn path(operation: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Self {
        Self::Path { operation, path: path.as_ref().to_owned(), source: source.into() }
    }

    pub fn call(operation: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Call { operation: operation.into(), source: source.into() }
    }

    /// The kernel's error that caused this one, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Path { source, .. } | Self::Call { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }
}

/// The end of a child's log, below its error.
fn log_text(lines: &[String]) -> String {
    if lines.is_empty() { String::new() } else { format!("; the end of its log:\n  {}", lines.join("\n  ")) }
}
