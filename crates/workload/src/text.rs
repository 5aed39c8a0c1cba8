// SPDX-License-Identifier: Apache-2.0
//! The text columns of the `sbtest` tables: groups of eleven random digits joined by `-`.

use crate::Rng;
use crate::distribution::Draw as _;

/// `c CHAR(120)`: ten groups, 119 characters.
pub const C_GROUPS: usize = 10;
/// `pad CHAR(60)`: five groups, 59 characters.
pub const PAD_GROUPS: usize = 5;
/// Digits in one group.
pub const GROUP_DIGITS: usize = 11;
const GROUP_VALUES: u64 = 100_000_000_000;

/// Appends `groups` groups; 12 x `groups` - 1 bytes, one draw a group.
pub fn push_groups(rng: &mut Rng, groups: usize, out: &mut Vec<u8>) {
    for group in 0..groups {
        if group > 0 {
            out.push(b'-');
        }
        push_digits(rng.below(GROUP_VALUES), out);
    }
}

fn push_digits(mut value: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; GROUP_DIGITS];
    for digit in digits.iter_mut().rev() {
        // a remainder by 10 fits a byte
        #[allow(clippy::cast_possible_truncation)]
        let remainder = (value % 10) as u8;
        *digit = b'0' + remainder;
        value /= 10;
    }
    out.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rand_core::SeedableRng as _;

    #[test]
    fn has_the_shape_that_sysbench_writes() {
        let (mut rng, mut out) = (Rng::seed_from_u64(5), Vec::new());
        push_groups(&mut rng, C_GROUPS, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.len(), 119);
        assert!(text.split('-').all(|group| group.len() == 11 && group.bytes().all(|b| b.is_ascii_digit())), "{text}");
        assert_eq!(text.split('-').count(), 10);
    }

    #[test]
    fn leading_zeros_stay() {
        let mut out = Vec::new();
        push_digits(7, &mut out);
        assert_eq!(out, b"00000000007");
    }
}
