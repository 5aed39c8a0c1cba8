// SPDX-License-Identifier: Apache-2.0
//! Versions, as programs and packages write them.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Numbers between dots: 10.11.19, 15.20. A version may be incomplete: each 10.11.x meets `10.11`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Version(Vec<u32>);

impl Version {
    /// From a table in the code, or from the numbers in a file.
    pub fn of(numbers: &[u32]) -> Self {
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

    /// The first `count` numbers.
    pub fn first(&self, count: usize) -> Self {
        Self(self.0.iter().take(count).copied().collect())
    }

    /// The count of numbers.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether this version is `wanted`, or a more exact version of `wanted`.
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
        numbers.map(Self).map_err(|_| Error {
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
}
