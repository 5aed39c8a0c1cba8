// SPDX-License-Identifier: Apache-2.0
use crate::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// `w-20261120-201530-4f2a`: UTC date, time, four random hexadecimal digits. It is the name of a folder, and a part of the names of cgroups and
/// mounts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(String);

impl RunId {
    /// Makes an id. `random` is reduced to 16 bits.
    pub fn new(unix_seconds: u64, random: u64) -> Self {
        let time = host::clock::rfc3339(unix_seconds);
        let digits: String = time.chars().filter(char::is_ascii_digit).collect();
        Self(format!("w-{}-{}-{:04x}", &digits[..8], &digits[8..], random & 0xffff))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The date and the second in which the run began. Texts of two ids compare as the seconds do.
    pub fn second(&self) -> &str {
        self.0.rsplit_once('-').map_or(self.0.as_str(), |(second, _)| second)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for RunId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts: Vec<&str> = text.split('-').collect();
        let hex = |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        match parts[..] {
            ["w", date, time, random] if hex(date, 8) && hex(time, 6) && hex(random, 4) => Ok(Self(text.to_owned())),
            _ => Err(Error::RunId { text: text.to_owned() }),
        }
    }
}

impl TryFrom<String> for RunId {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_and_read_back() {
        let id = RunId::new(1_795_205_730, 0x1_4f2a);
        assert_eq!(id.as_str(), "w-20261120-201530-4f2a");
        assert_eq!(id.as_str().parse::<RunId>().expect("parses"), id);
    }

    #[test]
    fn a_path_is_not_an_id() {
        for text in ["", "locks", "../w-20261120-201530-4f2a", "w-20261120-201530-4f2a/..", "w-2026112-201530-4f2a"] {
            assert!(text.parse::<RunId>().is_err(), "{text}");
        }
    }
}
