// SPDX-License-Identifier: Apache-2.0
//! The server that is wanted: flavour and version, as people write them.

use crate::{Error, Flavour, Version};
use std::str::FromStr;

/// A server by the name of its engine: XtraDB 5.6 is the engine in the place of InnoDB in MariaDB 10.1, and in no later version.
const XTRADB: (&str, [u32; 2], Flavour, [u32; 2]) = ("xtradb", [5, 6], Flavour::Mariadb, [10, 1]);

/// The flavours that [`crate::fetch`] can fetch; servers of the others are installed, or come from an archive.
pub const FETCHED: [Flavour; 3] = [Flavour::Mariadb, Flavour::Mysql, Flavour::Postgresql];

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

    /// Whether `version` meets the request.
    pub fn is_met_by(&self, version: &Version) -> bool {
        self.version.as_ref().is_none_or(|wanted| version.meets(wanted))
    }

    /// The wanted version, for messages: `10.11 `, or an empty text.
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
