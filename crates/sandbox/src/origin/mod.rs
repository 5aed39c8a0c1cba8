// SPDX-License-Identifier: Apache-2.0
//! Data from which a sandbox is made. Their kind is found by looking at them, and the original is only read.
//!
//! - [`Origin::look`]: tells whether it is a data directory, a physical backup, or a dump, and of which server; with the reason.
//! - `live_server`: tells whether a server uses a data directory now.
//! - `import`: copies a folder, or loads a dump, and makes the sandbox's own account.

mod copy;
mod elsewhere;
mod folder;
mod import;
mod live_server;
mod load;
mod script;
mod settings;

pub(crate) use copy::shares;
pub(crate) use import::{Servers, finish, prepare};
pub(crate) use live_server::named_by;
pub use script::{Piece, Script};

use crate::{Error, Flavour, Request, ServerOption, Version};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The data that were found at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub path: PathBuf,
    pub kind: Kind,
    pub flavour: Flavour,
    /// The version of the server that wrote the data, as far as the data tell it.
    pub version: Option<Version>,
    /// The reason for this result.
    pub why: String,
    /// The server was not stopped cleanly, or the log of the backup must be replayed: the server recovers when it starts.
    pub recovers: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    DataDirectory,
    /// Files as a backup program has copied them, ready for a start.
    PhysicalBackup,
    /// SQL, which may be packed.
    Dump(Packing),
    /// A file for `pg_restore`: pg_dump's custom format.
    Archive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    None,
    Gzip,
    Zstd,
}

/// The origin of a sandbox, as its manifest keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Imported {
    pub path: PathBuf,
    /// A text such as `data directory of mariadb 10.11.19`.
    pub what: String,
    /// Options that the data needs, or that keep the copy from acting on anything else.
    pub settings: Vec<ServerOption>,
    /// The differences between the copy and the original, one on each line.
    pub changes: Vec<String>,
    /// The databases that users had made, at the moment of the deployment.
    pub databases: Vec<String>,
}

/// Enough bytes for the comments at a dump's head.
const HEAD_BYTES: u64 = 8 << 10;

impl Origin {
    /// Looks at the data at `path`.
    ///
    /// # Errors
    /// [`Error::Origin`]: it cannot be read, is of no known kind, or is not ready for a start.
    pub fn look(path: &Path) -> Result<Self, Error> {
        let real = path.canonicalize().map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => Error::Origin {
                path: path.to_owned(),
                why: "there is no such file or folder".into(),
                hint: "name a data directory, a backup or a dump".into(),
            },
            _ => Error::path("look at", path, source),
        })?;
        let metadata = real.metadata().map_err(|source| Error::path("look at", &real, source))?;
        if metadata.is_dir() { folder::look(&real) } else { load::look(&real) }
    }

    /// A text such as `data directory of mariadb 10.11.19`.
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

    /// Of a folder: a checksum of the names, sizes and times of its files, which is another one after each write to them.
    ///
    /// # Errors
    /// The folder cannot be copied: [`Error::Origin`] says why.
    pub fn as_it_is(&self) -> Result<String, Error> {
        copy::as_it_is(self)
    }

    /// The disk that a sandbox needs for these data: of a folder, what its files take; of a dump the length of the file, which is the least.
    ///
    /// # Errors
    /// The folder cannot be copied: [`Error::Origin`] says why.
    pub fn bytes(&self) -> Result<u64, Error> {
        if self.is_folder() {
            return copy::bytes(self);
        }
        let about = self.path.metadata().map_err(|source| Error::path("look at", &self.path, source))?;
        Ok(about.len())
    }

    pub fn is_folder(&self) -> bool {
        matches!(self.kind, Kind::DataDirectory | Kind::PhysicalBackup)
    }

    /// The server to ask for when the user named none: for a folder of PostgreSQL its major version, else the newest version that can be found.
    pub fn request(&self) -> Request {
        let major = self.version.as_ref().filter(|_| self.flavour == Flavour::Postgresql && self.is_folder());
        Request { flavour: self.flavour, version: major.map(|version| Version::of(&[version.major()])) }
    }

    /// Whether a server of this flavour and version can use the data. A dump is SQL: its version does not matter.
    ///
    /// # Errors
    /// [`Error::Origin`], with the version to ask for.
    pub fn check_server(&self, flavour: Flavour, version: &Version) -> Result<(), Error> {
        let relatives = [Flavour::Mariadb, Flavour::Mysql, Flavour::Percona];
        let is_sql_of_a_relative =
            !self.is_folder() && relatives.contains(&flavour) && relatives.contains(&self.flavour);
        // data of Percona Server look like MySQL's data
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
