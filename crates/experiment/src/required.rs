// SPDX-License-Identifier: Apache-2.0
//! The squeezes that arms ask for, those that must not be left out, and their places in the file.

use crate::model::{Arm, Experiment, Squeeze};
use crate::squeezed::Squeezed;

impl Squeezed {
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

impl Experiment {
    /// Marks squeezes that must not be left out, in any arm that asks for them.
    ///
    /// # Errors
    /// The first squeeze that no arm asks for.
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

    /// Line and column of a setting of the n-th arm, from 0: in the arm, otherwise in the section, otherwise the start of the file.
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
