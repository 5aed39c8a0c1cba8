// SPDX-License-Identifier: Apache-2.0
//! The flavour of a server: the product, and its name as people write it.

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

    /// The flavour that this flavour is made from: the base's rows of the table hold here, too, unless this flavour has rows of its own.
    pub fn base(self) -> Option<Self> {
        (self == Self::Percona).then_some(Self::Mysql)
    }

    /// Whether each connection has a process of its own, below the server's first one.
    pub fn has_process_per_connection(self) -> bool {
        self == Self::Postgresql
    }

    /// The flavour of a server that speaks MySQL's protocol, by its variables `version` and `version_comment`: `5.7.39-42-log` and `Percona Server
    /// (GPL), Release 42, Revision b0a7dc2da2e` is Percona Server. MariaDB 10.1 with XtraDB is MariaDB. The builder of a server chooses both texts: a
    /// server that names neither Percona nor MariaDB is taken for MySQL.
    pub fn of_mysql_family(version: &str, comment: &str) -> Self {
        let says = |word: &str| [version, comment].iter().any(|text| text.to_ascii_lowercase().contains(word));
        if says("mariadb") {
            Self::Mariadb
        } else if says("percona") {
            Self::Percona
        } else {
            Self::Mysql
        }
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

    /// The server variable that sets the size of the server's own page cache.
    pub fn pool_variable(self) -> &'static str {
        match self {
            Self::Mariadb | Self::Mysql | Self::Percona => "innodb_buffer_pool_size",
            Self::Postgresql => "shared_buffers",
        }
    }

    /// The value of [`Self::pool_variable`] when it is not set: 128 MiB in MariaDB 10.x, MySQL 8 and PostgreSQL alike.
    pub fn pool_default_bytes(self) -> u64 {
        128 << 20
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_the_mysql_family_are_told_by_what_they_say_of_themselves() {
        for (version, comment, flavour) in [
            ("8.0.29-21", "Percona Server (GPL), Release 21, Revision c59f87d2854", Flavour::Percona),
            ("5.7.39-42-log", "Percona Server (GPL), Release 42, Revision b0a7dc2da2e", Flavour::Percona),
            ("5.6.35-80.0-log", "Percona Server (GPL), Release 80.0, Revision f113994f31", Flavour::Percona),
            (
                "8.0.36-28.1",
                "Percona XtraDB Cluster (GPL), Release rel28, Revision bfb687f, WSREP version 26.1.4.3",
                Flavour::Percona,
            ),
            ("10.1.23-MariaDB", "Source distribution", Flavour::Mariadb),
            ("10.1.23-MariaDB-9+deb9u1", "Debian 9.0", Flavour::Mariadb),
            ("10.11.19-MariaDB-0+deb12u1", "Debian 12", Flavour::Mariadb),
            ("11.8.6", "mariadb.org binary distribution (MariaDB)", Flavour::Mariadb),
            ("8.4.3", "MySQL Community Server - GPL", Flavour::Mysql),
            ("9.7.2", "Source distribution", Flavour::Mysql),
            ("5.7.44-log", "", Flavour::Mysql),
        ] {
            assert_eq!(Flavour::of_mysql_family(version, comment), flavour, "{version}, {comment}");
        }
    }
}
