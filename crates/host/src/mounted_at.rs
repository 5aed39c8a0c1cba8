// SPDX-License-Identifier: Apache-2.0
use std::fmt;
use std::fs;
use std::path::PathBuf;

/// The place of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountedAt {
    /// The path as the processes of its namespace see it.
    pub target: PathBuf,
    /// A process that sees it, when it is not in our mount namespace: `nsenter -t PID -m umount TARGET`.
    pub elsewhere: Option<u32>,
}

/// The text after "mounted at".
impl fmt::Display for MountedAt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.target.display())?;
        let Some(pid) = self.elsewhere else { return Ok(()) };
        let program = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        write!(formatter, " in the mount namespace of process {pid} ({})", program.trim())
    }
}
