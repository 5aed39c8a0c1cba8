// SPDX-License-Identifier: Apache-2.0
//! Which server, as people write it.

use crate::{Error, Protocol};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flavour {
    Mariadb,
    Mysql,
    /// Percona Server for MySQL.
    Percona,
    Postgresql,
}

impl Flavour {
    pub const ALL: [Self; 4] = [Self::Mariadb, Self::Mysql, Self::Percona, Self::Postgresql];

    /// The flavour that this one is made from: what the table says of that one holds here, unless it says otherwise.
    pub fn base(self) -> Option<Self> {
        (self == Self::Percona).then_some(Self::Mysql)
    }

    /// Whether each connection has a process of its own, below the server's first one.
    pub fn has_process_per_connection(self) -> bool {
        self == Self::Postgresql
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Percona => "percona",
            Self::Postgresql => "postgresql",
        }
    }

    pub fn protocol(self) -> Protocol {
        match self {
            Self::Mariadb | Self::Mysql | Self::Percona => Protocol::Mysql,
            Self::Postgresql => Protocol::Postgresql,
        }
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Flavour {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        match word.to_ascii_lowercase().as_str() {
            "mariadb" => Ok(Self::Mariadb),
            "mysql" => Ok(Self::Mysql),
            "percona" => Ok(Self::Percona),
            "postgresql" | "postgres" | "pgsql" | "pg" => Ok(Self::Postgresql),
            _ => Err(Error {
                word: word.into(),
                why: "known are 'mariadb', 'mysql', 'percona', 'postgresql', and 'xtradb'".into(),
            }),
        }
    }
}
