// SPDX-License-Identifier: Apache-2.0
//! Which server: flavour and version, as people write them.

use crate::Error;
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

/// A server by the name of its engine: XtraDB 5.6 is what MariaDB 10.1, and no later one, has in InnoDB's place.
const XTRADB: (&str, [u32; 2], Flavour, [u32; 2]) = ("xtradb", [5, 6], Flavour::Mariadb, [10, 1]);

impl Flavour {
    pub const ALL: [Self; 4] = [Self::Mariadb, Self::Mysql, Self::Percona, Self::Postgresql];
    /// Those that [`crate::fetch`] can bring; the others come from the machine or from an archive.
    pub const FETCHED: [Self; 3] = [Self::Mariadb, Self::Mysql, Self::Postgresql];

    /// The flavour that this one is made from: what the catalogue says of that one holds here, unless it says otherwise.
    pub fn base(self) -> Option<Self> {
        (self == Self::Percona).then_some(Self::Mysql)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
            Self::Percona => "percona",
            Self::Postgresql => "postgresql",
        }
    }

    /// The protocol that it speaks.
    pub fn protocol(self) -> load::Flavour {
        match self {
            Self::Mariadb | Self::Mysql | Self::Percona => load::Flavour::Mysql,
            Self::Postgresql => load::Flavour::Postgresql,
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
            _ => Err(Error::Request {
                word: word.into(),
                why: "known are 'mariadb', 'mysql', 'percona', 'postgresql', and 'xtradb'".into(),
            }),
        }
    }
}

/// Numbers between dots: 10.11.19, 15.20. Also a prefix of one: `10.11` is met by each 10.11.x.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version(Vec<u32>);

impl Version {
    /// From a table in the code.
    pub(crate) fn of(numbers: &[u32]) -> Self {
        Self(numbers.to_vec())
    }

    /// The first number: what PostgreSQL's folders and packages are named after.
    pub fn major(&self) -> u32 {
        self.0.first().copied().unwrap_or(0)
    }

    /// The first two numbers: what a release series is named after.
    pub fn series(&self) -> Self {
        Self(self.0.iter().copied().take(2).collect())
    }

    /// So many numbers from its beginning.
    pub(crate) fn first(&self, count: usize) -> Self {
        Self(self.0.iter().take(count).copied().collect())
    }

    /// How many numbers it has.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether this version is `wanted`, or a finer one of it.
    pub fn meets(&self, wanted: &Self) -> bool {
        self.0.starts_with(&wanted.0)
    }

    /// The first version number in a program's own words: `mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for ...`,
    /// `postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)`.
    pub fn find_in(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(|word| {
            let numbers = word.trim_matches('(').split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?;
            numbers.contains('.').then(|| numbers.parse().ok()).flatten()
        })
    }

    /// The upstream part of a package's version: `1:10.11.19-0+deb12u1` is 10.11.19.
    pub fn of_package(version: &str) -> Option<Self> {
        let upstream = version.split_once(':').map_or(version, |(_, rest)| rest);
        upstream.split(|c: char| !(c.is_ascii_digit() || c == '.')).next()?.trim_end_matches('.').parse().ok()
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&numbers.join("."))
    }
}

impl FromStr for Version {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let numbers: Result<Vec<u32>, _> = text.split('.').map(str::parse).collect();
        numbers.map(Self).map_err(|_| Error::Request {
            word: text.into(),
            why: "a version is numbers with dots between them, as in 10.11 or 15".into(),
        })
    }
}

impl TryFrom<String> for Version {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<Version> for String {
    fn from(version: Version) -> Self {
        version.to_string()
    }
}

/// A flavour, and perhaps a version or the beginning of one: `mariadb`, `mariadb 10.11`, `postgresql-15`, `mysql@9`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub flavour: Flavour,
    pub version: Option<Version>,
}

impl Request {
    pub fn any(flavour: Flavour) -> Self {
        Self { flavour, version: None }
    }

    /// Whether `version` will do.
    pub fn is_met_by(&self, version: &Version) -> bool {
        self.version.as_ref().is_none_or(|wanted| version.meets(wanted))
    }

    /// `10.11 `, or nothing: for messages.
    pub(crate) fn wanted(&self) -> String {
        self.version.as_ref().map(|version| format!("{version} ")).unwrap_or_default()
    }
}

impl FromStr for Request {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (flavour, version): (&str, Option<Version>) = match text.trim().split_once([' ', '-', ':', '=', '@']) {
            Some((flavour, version)) => (flavour, Some(version.trim().parse()?)),
            None => (text.trim(), None),
        };
        let (engine, engine_version, server, server_version) = XTRADB;
        if !flavour.eq_ignore_ascii_case(engine) {
            return Ok(Self { flavour: flavour.parse()?, version });
        }
        if version.is_some_and(|version| !Version::of(&engine_version).meets(&version)) {
            let why = "of XtraDB there is 5.6 (that of MariaDB 10.1)".to_owned();
            return Err(Error::Request { word: text.into(), why });
        }
        Ok(Self { flavour: server, version: Some(Version::of(&server_version)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    #[test]
    fn a_prefix_is_met_by_finer_versions_only() {
        assert!(version("10.11.19").meets(&version("10.11")));
        assert!(!version("10.1").meets(&version("10.11")));
        assert!(!version("10.11").meets(&version("10.1")));
        assert!(version("15.20") > version("15.9"));
    }

    #[test]
    fn versions_in_the_words_of_programs_and_packages() {
        let mariadb = "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)";
        assert_eq!(Version::find_in(mariadb), Some(version("10.11.19")));
        assert_eq!(Version::find_in("postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)"), Some(version("15.20")));
        assert_eq!(Version::of_package("1:10.11.19-0+deb12u1"), Some(version("10.11.19")));
        assert_eq!(Version::of_package("15.20-0+deb12u1"), Some(version("15.20")));
        assert_eq!(Version::find_in("nothing here"), None);
    }

    #[test]
    fn requests() {
        let request: Request = "postgres 15".parse().expect("parses");
        assert_eq!(request, Request { flavour: Flavour::Postgresql, version: Some(version("15")) });
        assert_eq!("mariadb".parse::<Request>().expect("parses"), Request::any(Flavour::Mariadb));
        assert_eq!("mariadb-10.11".parse::<Request>().expect("parses").version, Some(version("10.11")));
        assert_eq!("mysql@9".parse::<Request>().expect("parses").version, Some(version("9")));
        let xtradb = Request { flavour: Flavour::Mariadb, version: Some(version("10.1")) };
        for text in ["xtradb", "xtradb 5.6", "XtraDB@5"] {
            assert_eq!(text.parse::<Request>().expect("parses"), xtradb, "{text}");
        }
        assert!("xtradb 5.7".parse::<Request>().is_err());
        assert!("oracle".parse::<Request>().is_err());
        assert!("mariadb new".parse::<Request>().is_err());
    }
}
