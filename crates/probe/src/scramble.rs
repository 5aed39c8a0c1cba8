// SPDX-License-Identifier: Apache-2.0
//! Numbers and bytes that look random, and are the same in each run.

/// SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) fn scramble(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Bytes that no layer below can compress.
pub(crate) fn fill(memory: &mut [u8], seed: u64) {
    let mut state = seed;
    for chunk in memory.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        chunk.copy_from_slice(&scramble(state).to_le_bytes()[..chunk.len()]);
    }
}
