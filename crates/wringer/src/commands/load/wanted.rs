// SPDX-License-Identifier: Apache-2.0
//! The workload of a load: a named one, or one that a file describes.

use crate::exit::Failure;
use crate::input;
use lab::WorkloadFromFile;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use workload::Name;

/// The workload as the command line and experiments name it: a name that ends in `.toml` is a file.
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
    type Err = workload::Error;

    fn from_str(text: &str) -> Result<Self, workload::Error> {
        if experiment::Load::is_file(text) { Ok(Self::File(text.into())) } else { text.parse().map(Self::Named) }
    }
}

/// # Errors
/// Exit code 3: the file cannot be read. Exit code 2: it is wrong; every problem has its place in the file.
pub fn read(path: &Path) -> Result<WorkloadFromFile, Failure> {
    let text = input::read(path).map_err(|error| {
        let error = error.context(format!("read the workload {}", path.display()));
        Failure::new(input::exit_of(&error), error).hint("`wringer doc workloads` has an example to start from")
    })?;
    Ok(WorkloadFromFile::parse(path, &text)?)
}
