// SPDX-License-Identifier: Apache-2.0
//! Workloads that a file describes.

use crate::error::Error;
use crate::problems;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use workload::Workload;
use workload::file::{Problem, WorkloadFile};

/// Workloads, by the names that the experiment has for them.
pub type Workloads = BTreeMap<String, WorkloadFromFile>;

/// A workload's file that could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkloadFromFile {
    path: PathBuf,
    pub file: WorkloadFile,
}

impl WorkloadFromFile {
    /// # Errors
    /// The file is wrong; every problem has its place.
    pub fn parse(path: &Path, text: &str) -> Result<Self, Error> {
        let file = WorkloadFile::parse(text).map_err(|problems| refused(path, text, &problems))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// The name that the file gives itself, or else its own.
    pub fn name(&self) -> String {
        let stem = || self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.file.name.clone().unwrap_or_else(stem)
    }

    /// # Errors
    /// The workload cannot run on this server.
    pub fn build(&self, protocol: load::Protocol, table_size: u64) -> Result<Box<dyn Workload>, Error> {
        self.file.build(protocol, table_size).map_err(|problems| refused(&self.path, &self.file.text, &problems))
    }

    /// # Errors
    /// Refuses a rate together with think times: both say when transactions start.
    pub fn check_arrivals(&self, arrivals: evidence::Arrivals) -> Result<(), Error> {
        if arrivals == evidence::Arrivals::Closed || !self.file.thinks() {
            return Ok(());
        }
        let message =
            format!("{} has clients think between transactions, and a rate says when those start", self.path.display());
        Err(Error::File { message, hint: "remove --rate, or remove `think` from the file".into() })
    }
}

fn refused(path: &Path, text: &str, problems: &[Problem]) -> Error {
    problems::refused(path, text, problems, "a workload that can be sent", "the manual's page `workloads`")
}
