// SPDX-License-Identifier: Apache-2.0
use crate::KnownFailure;
use std::path::PathBuf;

/// The error of another crate. The caller looks which one it is, to choose an exit code.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a server could not be profiled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("start the server {under}")]
    Start {
        under: &'static str,
        /// Known failures that its logs show.
        known: Vec<KnownFailure>,
        #[source]
        source: Cause,
    },
    #[error("the server ended while it was profiled")]
    Ended {
        known: Vec<KnownFailure>,
        #[source]
        source: Cause,
    },
    #[error("make a sandbox for the experiment")]
    Sandbox(#[source] Cause),
    #[error("read the options of the experiment")]
    Words(#[source] Cause),
    #[error("fill the tables")]
    Fill(#[source] Cause),
    #[error("send the load")]
    Load(#[source] load::Error),
    #[error("stop the server")]
    Stop(#[source] Cause),
    #[error("find the server's process")]
    Attach(#[source] Cause),
    #[error("run '{statement}'")]
    Statement {
        statement: String,
        #[source]
        source: load::Error,
    },
    #[error("{name} needs the tables sbtest1 and on, which are not there: `wringer fill` makes them")]
    NoTables { name: &'static str },
    #[error("connect to the server")]
    Connect(#[source] load::Error),
    #[error("without the program '{program}' (package {package}) nothing can be profiled")]
    NoTool { program: &'static str, package: &'static str },
    #[error("without the library {file} (package {package}) nothing can be profiled")]
    NoLibrary { file: &'static str, package: &'static str },
    #[error("{} is built without profiling", library.display())]
    NoProfiling { library: PathBuf },
    #[error("{with} does not follow the processes that PostgreSQL forks, and these processes run its statements")]
    OneProcess { with: &'static str },
    /// A path that another program would read as several.
    #[error("{}: {reader} splits this path at '{at}', and {lost}", path.display())]
    Split { path: PathBuf, reader: &'static str, at: char, lost: &'static str, cure: &'static str },
    #[error("start the server with the profiler's library")]
    Library(#[source] Cause),
    #[error("ask the malloc in the server")]
    Asked(#[source] Cause),
    #[error("{} cannot read the file that heaptrack wrote: {why}", program.display())]
    Interpret { program: PathBuf, why: String },
    #[error("take a snapshot of process {pid}: {why}")]
    Snapshot { pid: u32, why: String },
    #[error("read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("keep a snapshot")]
    Keep(#[source] host::Error),
    #[error("the file that the profiler wrote for process {pid} is no snapshot: {why}")]
    NoSnapshot { pid: u32, why: String },
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    pub(crate) fn start(under: &'static str, known: Vec<KnownFailure>, source: sandbox::Error) -> Self {
        Self::Start { under, known, source: source.into() }
    }

    pub(crate) fn natively(source: sandbox::Error) -> Self {
        Self::Start { under: "natively", known: Vec::new(), source: source.into() }
    }

    pub(crate) fn stop(error: sandbox::Error) -> Self {
        Self::Stop(error.into())
    }

    pub(crate) fn words(error: lab::Error) -> Self {
        Self::Words(error.into())
    }

    pub(crate) fn fill(error: load::fill::Error) -> Self {
        Self::Fill(error.into())
    }

    /// Known causes of this failure, each with its cure.
    pub fn known(&self) -> &[KnownFailure] {
        match self {
            Self::Start { known, .. } | Self::Ended { known, .. } => known,
            _ => &[],
        }
    }
}
