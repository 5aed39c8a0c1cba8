// SPDX-License-Identifier: Apache-2.0
//! Proof that the intent to change something is on disk.

/// Allows its holder to make the one change whose intent record has the number [`Permit::sequence`]. Only `journal` makes permits (`clippy.toml`
/// enforces this), after `fdatasync` of the record has returned.
#[derive(Debug)]
pub struct Permit {
    sequence: u64,
}

impl Permit {
    /// For `journal` alone; the lint `disallowed_methods` refuses the call everywhere else.
    pub fn issue(sequence: u64) -> Self {
        Self { sequence }
    }

    /// The number of the record for this change.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}
