// SPDX-License-Identifier: Apache-2.0
//! The random source of a load: fast, seeded, not secret.
//!
//! xoshiro256++ 1.0 (D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators", 2019), its state filled by
//! SplitMix64 as its authors advise. The same seed and stream give the same numbers on every machine.

/// One stream of random numbers. Never allocates.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Streams of one seed are independent: a load gives each connection its own.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut mixer = split_mix(seed).wrapping_add(stream.wrapping_mul(0xD1B5_4A32_D192_ED03));
        let mut state = [0; 4];
        for word in &mut state {
            mixer = mixer.wrapping_add(GOLDEN_GAMMA);
            *word = split_mix(mixer);
        }
        Self { state }
    }

    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// In `0.0..1.0`, a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// In `0..count`; 0 when `count` is 0. The bias of the multiply-and-shift is below `count` / 2^64.
    pub fn below(&mut self, count: u64) -> u64 {
        // the high half of a 128-bit product of two 64-bit numbers fits 64 bits
        #[allow(clippy::cast_possible_truncation)]
        let high = ((u128::from(self.next_u64()) * u128::from(count)) >> 64) as u64;
        high
    }
}

const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// The output function of SplitMix64 (G. Steele, D. Lea, C. Flood, 2014).
fn split_mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_and_stream_same_numbers() {
        let draw = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            [rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
        assert_ne!(draw(0, 0), [0, 0], "an all-zero state would stay zero");
    }

    /// The first outputs for the state 1, 2, 3, 4, worked out by hand from the published recurrence.
    #[test]
    fn follows_the_published_recurrence() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!(rng.next_u64(), (5u64 << 23) + 1);
        // state is now 1^2^4 = 7, 2^(3^1) = 0, (3^1)^(2<<17) = 2 ^ 0x40000, rotl(4^2, 45) = 6 << 45
        assert_eq!(rng.state, [7, 0, 0x4_0002, 6 << 45]);
    }

    #[test]
    fn unit_and_below_stay_in_range_and_fill_it() {
        let mut rng = Rng::new(1, 0);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            assert!((0.0..1.0).contains(&rng.unit()));
            seen[usize::try_from(rng.below(10)).unwrap()] += 1;
        }
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
    }
}
