// SPDX-License-Identifier: Apache-2.0
use evidence::{Measured, Quantity, Unit};
use std::io;
use std::path::{Path, PathBuf};
use units::Bytes;

/// Why a squeeze was refused, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Exit code 3: nothing was changed.
    #[error("{what}")]
    Refused { what: String, hint: String },
    #[error("the slow layer over {} ended by itself", directory.display())]
    LayerDied { directory: PathBuf },
    #[error(
        "the process that kept RAM hidden has ended by itself: its RAM is back, so what was measured after that had more RAM than was asked for"
    )]
    HolderDied,
    #[error("measure how fast {} is read", path.display())]
    Probe { path: PathBuf, source: io::Error },
    #[error("a read of {} has not come back after {seconds} s", path.display())]
    Hangs { path: PathBuf, seconds: u64 },
    #[error("the process that measures the disk failed: '{answer}'")]
    ProbeAnswer { answer: String },
    #[error("{what} came to {got}, where {asked} was expected (allowed: {tolerance})")]
    OutOfTolerance { what: String, asked: String, got: String, tolerance: String },
    /// All reserved RAM has been given back.
    #[error("only {got} of {asked} could be hidden within {seconds} s: {why}")]
    Shortage { asked: Bytes, got: Bytes, seconds: u64, why: String },
    /// All these pages have been given back.
    #[error("only {got} of {asked} huge pages could be had within {seconds} s, and they were given back: {why}")]
    FewPages { asked: u64, got: u64, seconds: u64, why: String },
    #[error("the process that holds the hidden RAM gave an answer that Wringer does not understand: '{answer}'")]
    HolderAnswer { answer: String },
    #[error("the process that keeps the slow disk gave an answer that Wringer does not understand: '{answer}'")]
    KeeperAnswer { answer: String },
    #[error("{operation} {}", path.display())]
    File { operation: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Run(#[from] run::Error),
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error(transparent)]
    Layer(#[from] slowfs::Error),
    #[error(transparent)]
    Preload(#[from] preload::Error),
}

impl Error {
    pub(crate) fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { operation, path: path.to_owned(), source }
    }
}

impl Error {
    /// Whether the squeeze could be made, but did not come to what was asked: an arm is then not measured, and the others are.
    pub fn is_miss(&self) -> bool {
        matches!(self, Self::Shortage { .. } | Self::OutOfTolerance { .. } | Self::Hangs { .. })
    }

    /// The error for a measured value that is out of its tolerance.
    pub fn out_of_tolerance(measured: &Measured) -> Self {
        Self::OutOfTolerance {
            what: measured.subject(),
            asked: written(measured.predicted.or(measured.asked)),
            got: written(measured.got),
            tolerance: measured.tolerance.clone().unwrap_or_default(),
        }
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // sizes are whole and positive
fn written(quantity: Option<Quantity>) -> String {
    let Some(Quantity { value, unit }) = quantity else { return "nothing".into() };
    match unit {
        Unit::Microseconds => format!("{value:.0} us"),
        Unit::PerSecond => format!("{value:.0}/s"),
        Unit::Bytes => Bytes(value as u64).to_string(),
        Unit::Count => format!("{value:.0}"),
        Unit::Ratio => format!("{:.0} %", value * 100.0),
    }
}
