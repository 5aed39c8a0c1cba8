// SPDX-License-Identifier: Apache-2.0
//! Which workload: one by name, or one that a file describes.

use crate::exit::{Exit, Failure};
use crate::{input, problems};
use load::workload::file::{Problem, WorkloadFile};
use load::workload::{Name, Workload, WorkloadError};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// As it is written on the command line and in experiments: what ends in `.toml` is a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    Named(Name),
    File(PathBuf),
}

impl Wanted {
    pub fn name(&self) -> Option<Name> {
        match self {
            Self::Named(name) => Some(*name),
            Self::File(_) => None,
        }
    }
}

impl FromStr for Wanted {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Self, WorkloadError> {
        if experiment::Load::is_file(text) { Ok(Self::File(text.into())) } else { text.parse().map(Self::Named) }
    }
}

/// A workload's file that could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    path: PathBuf,
    pub file: WorkloadFile,
}

impl Written {
    /// # Errors
    /// Exit code 2: the file cannot be read, or is wrong; every problem has its place.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = input::read(path).map_err(|error| {
            let error = error.context(format!("read the workload {}", path.display()));
            Failure::new(Exit::Usage, error).hint("docs/workloads.md has an example to start from")
        })?;
        Self::parse(path, &text)
    }

    /// # Errors
    /// As [`Self::read`].
    pub fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let file = WorkloadFile::parse(text).map_err(|problems| refused(path, text, &problems))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// The name that the file gives itself, or else its own.
    pub fn name(&self) -> String {
        let stem = || self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.file.name.clone().unwrap_or_else(stem)
    }

    /// # Errors
    /// Exit code 2: it cannot go to this server.
    pub fn build(&self, flavour: load::Flavour, table_size: u64) -> Result<Box<dyn Workload>, Failure> {
        self.file.build(flavour, table_size).map_err(|problems| refused(&self.path, &self.file.text, &problems))
    }

    /// # Errors
    /// Exit code 2: a rate says when transactions start, and so do thoughts.
    pub fn check_arrivals(&self, arrivals: evidence::Arrivals) -> Result<(), Failure> {
        if arrivals == evidence::Arrivals::Closed || !self.file.thinks() {
            return Ok(());
        }
        let message =
            format!("{} has clients think between transactions, and a rate says when those start", self.path.display());
        Err(Failure::message(Exit::Usage, message).hint("remove --rate, or remove `think` from the file"))
    }
}

fn refused(path: &Path, text: &str, problems: &[Problem]) -> Failure {
    problems::refused(path, text, problems, "a workload that can be sent", "docs/workloads.md")
}
