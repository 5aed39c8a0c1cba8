// SPDX-License-Identifier: Apache-2.0
//! The squeezes by their names, and which of them must not be left out.

use crate::model::{Arm, Experiment, Squeeze};
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

    pub fn is_asked_by(self, squeeze: &Squeeze) -> bool {
        match self {
            Self::Ram => squeeze.ram.is_some(),
            Self::ServerRam => squeeze.server_ram.is_some(),
            Self::Swap => squeeze.swap.is_some(),
            Self::Cpus => squeeze.cpus.is_some(),
            Self::Cpuset => squeeze.cpuset.is_some(),
            Self::Disk => squeeze.disk.as_ref().is_some_and(|disk| !disk.is_none()),
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

impl Experiment {
    /// From now on these must not be left out, in any arm that asks for them.
    ///
    /// # Errors
    /// The first that no arm asks for.
    pub fn require(&mut self, squeezes: &[Squeezed]) -> Result<(), Squeezed> {
        let asked = |it: &Squeezed| self.arms.iter().any(|arm| it.is_asked_by(&arm.squeeze));
        if let Some(nowhere) = squeezes.iter().find(|it| !asked(it)) {
            return Err(*nowhere);
        }
        self.required.extend(squeezes);
        Ok(())
    }

    /// Whether this squeeze of this arm must not be left out.
    pub(crate) fn demands(&self, arm: &Arm, squeeze: Squeezed) -> bool {
        squeeze.is_asked_by(&arm.squeeze) && (arm.squeeze.required || self.required.contains(&squeeze))
    }

    /// Line and column of where a setting of the n-th arm, from 0, was written: in the arm, else in the section; else the start.
    pub fn place(&self, arm: usize, key: &str) -> (usize, usize) {
        let own = format!("arm.{arm}.{key}");
        let below = |prefix: &str| {
            let inner = format!("{prefix}.");
            let found = self.places.iter().find(|(path, _)| *path == prefix || path.starts_with(&inner));
            found.map(|(_, place)| *place)
        };
        below(&own).or_else(|| below(key)).unwrap_or((1, 1))
    }
}
