// SPDX-License-Identifier: Apache-2.0
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("make the memory that the preload layer shares")]
    Map { source: io::Error },
    #[error("descriptor {descriptor} is not the memory of a preload layer")]
    NotAMap { descriptor: i32 },
    #[error("the path {} is too long for the preload layer", path.display())]
    PathTooLong { path: PathBuf },
    #[error("write the preload layer's library")]
    Install { source: host::Error },
    #[error("read {}", path.display())]
    Program { path: PathBuf, source: io::Error },
    #[error("{operation} the preload layer's socket {}", path.display())]
    Socket { operation: &'static str, path: PathBuf, source: io::Error },
    #[error("keep the preload layer: {operation}")]
    Keep { operation: &'static str, source: io::Error },
    #[error("the disk model has {0} limits, and the preload layer holds {most}", most = crate::shared_model::LIMITS)]
    TooManyLimits(usize),
}
