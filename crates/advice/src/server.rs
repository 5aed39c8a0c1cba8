// SPDX-License-Identifier: Apache-2.0
//! The server that a reading comes from.

use crate::reading::Reading;
use capability::{Algorithm, Evidence, Flavour, FreeList, Version, free_list};

/// The server, by its variables.
#[derive(Debug, Clone)]
pub struct Server {
    /// `None`: another server that speaks MySQL's protocol.
    pub flavour: Option<Flavour>,
    pub version: Version,
    /// The version in the server's own words.
    pub said: String,
    pub row: Option<&'static FreeList>,
}

/// Servers that are made from one of the three, and have a storage of their own or a free list whose source was not read.
const OTHERS: [&str; 4] = ["tidb", "greatsql", "aurora", "polardb"];

impl Server {
    pub(crate) fn of(reading: &Reading) -> Self {
        let text = reading.variable("version").unwrap_or_default();
        let comment = reading.variable("version_comment").unwrap_or_default();
        let version = Version::find_in(text).unwrap_or_else(|| Version::of(&[0]));
        let said = if comment.is_empty() { text.to_owned() } else { format!("{text}, {comment}") };
        let is_other = reading.variable("aurora_version").is_some()
            || OTHERS.iter().any(|name| said.to_ascii_lowercase().contains(name));
        let flavour = (!is_other).then(|| Flavour::of_mysql_family(text, comment));
        // a version with two numbers would mean the newest known one; a server always tells three
        let row = flavour.filter(|_| version.count() > 2).and_then(|it| free_list(it, &version));
        Self { flavour, version, said, row }
    }

    pub(crate) fn name(&self) -> String {
        match self.flavour {
            Some(Flavour::Mariadb) if self.row.is_some_and(|row| row.algorithms.contains(&Algorithm::Backoff)) => {
                format!("mariadb {} with XtraDB", self.version)
            }
            Some(flavour) => format!("{flavour} {}", self.version),
            None => format!("another server ({})", self.said),
        }
    }

    /// Whether a server of this version was run and measured.
    pub(crate) fn is_measured(&self) -> bool {
        self.row.is_some_and(|row| row.evidence == Evidence::Measured)
    }
}
