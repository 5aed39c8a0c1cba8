// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::path::PathBuf;

/// Why a reading failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{operation} {}", path.display())]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    /// The process that was read has ended.
    #[error("process {pid} has ended")]
    Gone { pid: u32 },
    #[error("process {pid} could not be read, and goes on")]
    Unread { pid: u32 },
    /// Neither the activity nor the wait channel of the threads can be read.
    #[error("look at the threads of process {pid}: {why}")]
    Threads { pid: u32, why: String },
    #[error("ask the server: {sql}")]
    Server { sql: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("write down what was read of the server's memory")]
    Json { source: serde_json::Error },
    #[error("start the observer's thread")]
    Thread { source: io::Error },
    #[error(
        "the interval is {asked_ms} ms, and {least_ms} ms is the least: reading more often would itself slow the server down"
    )]
    Interval { asked_ms: u128, least_ms: u128 },
}
