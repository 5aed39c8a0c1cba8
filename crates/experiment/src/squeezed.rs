// SPDX-License-Identifier: Apache-2.0
//! The squeezes, by their names.

use std::fmt;
use std::str::FromStr;

/// One squeeze of an arm, by its key below `[squeeze]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Squeezed {
    Ram,
    ServerRam,
    Swap,
    Cpus,
    Cpuset,
    Disk,
}

impl Squeezed {
    pub const ALL: [Self; 6] = [Self::Ram, Self::ServerRam, Self::Swap, Self::Cpus, Self::Cpuset, Self::Disk];

    /// As written in the file, below `[squeeze]`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ram => "ram",
            Self::ServerRam => "server_ram",
            Self::Swap => "swap",
            Self::Cpus => "cpus",
            Self::Cpuset => "cpuset",
            Self::Disk => "disk",
        }
    }
}

impl fmt::Display for Squeezed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Squeezed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = text.replace('-', "_");
        let found = Self::ALL.into_iter().find(|it| it.name() == plain);
        found.ok_or_else(|| format!("a squeeze: {}", Self::ALL.map(Self::name).join(", ")))
    }
}
