// SPDX-License-Identifier: Apache-2.0
//! Random numbers that depend on a seed and on names alone: the same file gives the same numbers, whatever was drawn before.

use sha2::{Digest as _, Sha256};

/// 64 random bits for these words. Each word has its length before it, so that no two lists of words are the same bytes.
pub(crate) fn bits(seed: u64, words: &[&str]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(seed.to_le_bytes());
    for word in words {
        hash.update((word.len() as u64).to_le_bytes());
        hash.update(word.as_bytes());
    }
    let digest = hash.finalize();
    digest.iter().take(8).fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

/// A random number from 0 to below 1, with the 53 bits that a double holds.
pub(crate) fn unit(seed: u64, words: &[&str]) -> f64 {
    (bits(seed, words) >> 11) as f64 / (1u64 << 53) as f64
}
