// SPDX-License-Identifier: Apache-2.0

/// A word that names no flavour, or no version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{word}' is not a server: {why}")]
pub struct Error {
    pub word: String,
    pub why: String,
}
