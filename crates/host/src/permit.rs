// SPDX-License-Identifier: Apache-2.0
//! Proof that the intent to change something is on disk.

/// Lets its holder make the one change whose intent record has the number [`Permit::sequence`]. Only `journal` makes these
/// (held by `clippy.toml`), after `fdatasync` of the record has returned.
#[derive(Debug)]
pub struct Permit {
    sequence: u64,
}

impl Permit {
    /// For `journal` alone; everywhere else the lint `disallowed_methods` refuses the call.
    pub fn issue(sequence: u64) -> Self {
        Self { sequence }
    }

    /// The record that this permit rests on.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}
