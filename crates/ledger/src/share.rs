// SPDX-License-Identifier: Apache-2.0
//! Sums and shares of bytes that stay exact.

/// More than a process can map on x86-64 with four levels of page tables, in bytes. Larger figures are damaged ones.
const MOST: u64 = 1 << 47;

/// A figure as it was read, at most what a process can have, so that no sum overflows.
pub(crate) fn sane(bytes: u64) -> u64 {
    bytes.min(MOST)
}

/// Scales `parts` down so that they sum to `budget` exactly, if they sum to more; else leaves them.
pub(crate) fn cap(parts: &mut [u64], budget: u64) {
    let sum: u128 = parts.iter().map(|part| u128::from(*part)).sum();
    if sum <= u128::from(budget) {
        return;
    }
    let mut left = budget;
    for part in parts.iter_mut() {
        *part = of(*part, budget, sum);
        left -= *part;
    }
    // the bytes that rounding down has left over: fewer than there are parts above zero
    let with_room = parts.iter_mut().filter(|part| **part > 0);
    for part in with_room.take(usize::try_from(left).unwrap_or(usize::MAX)) {
        *part += 1;
        left -= 1;
    }
    if let Some(first) = parts.first_mut() {
        *first += left;
    }
}

/// `bytes` x `part` / `whole`, rounded down; 0 where `whole` is 0.
pub(crate) fn of(bytes: u64, part: u64, whole: u128) -> u64 {
    let product = u128::from(bytes) * u128::from(part);
    product.checked_div(whole).map_or(0, |share| u64::try_from(share).unwrap_or(u64::MAX))
}

/// `bytes` as a signed number; figures are below 2^63 by far.
pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_sum_to_the_budget_exactly_or_stay(mut parts in prop::collection::vec(0..MOST, 0..20), budget in 0..MOST) {
            let before = parts.clone();
            cap(&mut parts, budget);
            let sum: u64 = before.iter().sum();
            prop_assert_eq!(parts.iter().sum::<u64>(), sum.min(budget));
            if sum <= budget {
                prop_assert_eq!(parts, before);
            }
        }
    }
}
