// SPDX-License-Identifier: Apache-2.0
//! Data to make a sandbox from. Their kind is found by looking at them, and the original is only read.
//!
//! - [`Origin::look`]: a data directory, a physical backup, or a dump, and of which server; with the reason.
//! - `live_server`: a server that uses a data directory now.
//! - `import`: a folder copied, or a dump loaded, and how the sandbox's own account gets in.

mod copy;
mod folder;
mod import;
mod live_server;
mod load;
mod script;
mod settings;

pub(crate) use copy::shares;
pub(crate) use import::{Servers, finish, prepare};
pub use script::{Piece, Script};

use crate::{Error, Flavour, Request, ServerOption, Version};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What was found at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub path: PathBuf,
    pub kind: Kind,
    pub flavour: Flavour,
    /// Of the server that wrote it, as far as the data says.
    pub version: Option<Version>,
    /// By what it was recognised.
    pub why: String,
    /// The server was not stopped cleanly, or the backup is to be replayed: it recovers when it starts.
    pub recovers: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    DataDirectory,
    /// Files as a backup program has copied them, ready to be started on.
    PhysicalBackup,
    /// SQL, perhaps packed.
    Dump(Packing),
    /// What `pg_restore` reads: pg_dump's custom format.
    Archive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    None,
    Gzip,
    Zstd,
}

/// What a sandbox was made from, as its manifest keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    pub path: PathBuf,
    /// `data directory of mariadb 10.11.19`.
    pub what: String,
    /// Options that the data needs, or that keep the copy to itself.
    pub settings: Vec<ServerOption>,
    /// What is otherwise in the copy than in the original, one a line.
    pub changes: Vec<String>,
    /// Those that users made, at the moment of the deployment.
    pub databases: Vec<String>,
}

/// Enough for the comments at a dump's head.
const HEAD_BYTES: u64 = 8 << 10;

impl Origin {
    /// What is at `path`.
    ///
    /// # Errors
    /// [`Error::Origin`]: it cannot be read, is nothing known, or is not ready to be started on.
    pub fn look(path: &Path) -> Result<Self, Error> {
        let real = path.canonicalize().map_err(|source| Error::path("look at", path, source))?;
        let metadata = real.metadata().map_err(|source| Error::path("look at", &real, source))?;
        if metadata.is_dir() { folder::look(&real) } else { load::look(&real) }
    }

    /// `data directory of mariadb 10.11.19`.
    pub fn describe(&self) -> String {
        let kind = match self.kind {
            Kind::DataDirectory => "data directory",
            Kind::PhysicalBackup => "physical backup",
            Kind::Dump(Packing::None) => "SQL dump",
            Kind::Dump(Packing::Gzip) => "SQL dump (gzip)",
            Kind::Dump(Packing::Zstd) => "SQL dump (zstd)",
            Kind::Archive => "archive of pg_dump",
        };
        let version = self.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
        format!("{kind} of {}{version}", self.flavour)
    }

    pub fn is_folder(&self) -> bool {
        matches!(self.kind, Kind::DataDirectory | Kind::PhysicalBackup)
    }

    /// The server to ask for when none was named: for a folder of PostgreSQL its major version, else the newest that is to be had.
    pub fn request(&self) -> Request {
        let major = self.version.as_ref().filter(|_| self.flavour == Flavour::Postgresql && self.is_folder());
        Request { flavour: self.flavour, version: major.map(|version| Version::of(&[version.major()])) }
    }

    /// Whether a server of this flavour and version can take it. A dump is SQL: its version is no obstacle.
    ///
    /// # Errors
    /// [`Error::Origin`], with the version to ask for.
    pub fn check_server(&self, flavour: Flavour, version: &Version) -> Result<(), Error> {
        let relatives = [Flavour::Mariadb, Flavour::Mysql, Flavour::Percona];
        let is_sql_of_a_relative =
            !self.is_folder() && relatives.contains(&flavour) && relatives.contains(&self.flavour);
        // data of Percona Server look like MySQL's
        let is_own = flavour == self.flavour || flavour.base() == Some(self.flavour);
        if !is_own && !is_sql_of_a_relative {
            let why = format!("it is a {}, and the server is {flavour} {version}", self.describe());
            return Err(self.refusal(why, format!("wringer sandbox deploy {} --from ...", self.flavour)));
        }
        let Some(data) = self.version.as_ref().filter(|_| self.is_folder()) else { return Ok(()) };
        let fits = match flavour {
            Flavour::Postgresql => version.major() == data.major(),
            Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => version.series() >= data.series(),
        };
        if fits {
            return Ok(());
        }
        let wanted = match flavour {
            Flavour::Postgresql => data.major().to_string(),
            Flavour::Mariadb | Flavour::Mysql | Flavour::Percona => data.series().to_string(),
        };
        let reason = match flavour {
            Flavour::Postgresql => "PostgreSQL starts on data of its own major version only",
            _ => "it does not start on data of a newer version",
        };
        let why = format!("it is a {}, and the server is {flavour} {version}: {reason}", self.describe());
        Err(self.refusal(why, format!("wringer sandbox deploy {flavour} {wanted} --from ...; or load a dump")))
    }

    fn refusal(&self, why: String, hint: String) -> Error {
        refusal(&self.path, why, hint)
    }
}

fn refusal(path: &Path, why: impl Into<String>, hint: impl Into<String>) -> Error {
    Error::Origin { path: path.into(), why: why.into(), hint: hint.into() }
}
