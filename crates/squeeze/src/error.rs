// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::path::PathBuf;

/// Why a squeeze was refused, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Exit code 3: nothing was changed.
    #[error("{what}")]
    Refused { what: String, hint: String },
    #[error("the slow layer over {} ended by itself", directory.display())]
    LayerDied { directory: PathBuf },
    #[error("the process that holds the hidden RAM ended by itself: its RAM is back, and the run is not what it says")]
    HolderDied,
    #[error("probe {}", path.display())]
    Probe { path: PathBuf, source: io::Error },
    #[error("the probe answered '{answer}'")]
    ProbeAnswer { answer: String },
    #[error("{what}: asked {asked}, got {got}, which is outside of {tolerance}")]
    OutOfTolerance { what: String, asked: String, got: String, tolerance: String },
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error(transparent)]
    Layer(#[from] slowfs::Error),
}
