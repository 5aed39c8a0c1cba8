// SPDX-License-Identifier: Apache-2.0
//! The order in which the settings are run.

use crate::draw;

/// The order of each block: all settings once, as their places in `ids`, shuffled by the seed.
///
/// Each setting's place comes from the seed, the block and its id alone. So a setting that is added leaves the order of the others as it was,
/// and the order does not depend on that of the file.
pub fn order(ids: &[&str], blocks: u32, seed: u64) -> Vec<Vec<usize>> {
    let block = |number: u32| {
        let number = number.to_string();
        let mut places: Vec<usize> = (0..ids.len()).collect();
        places.sort_by_key(|place| (draw::bits(seed, &["order", &number, ids[*place]]), ids[*place]));
        places
    };
    (1..=blocks).map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    const IDS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

    #[test]
    fn a_block_has_each_setting_once_and_blocks_differ() {
        let blocks = order(&IDS, 20, 7);
        assert_eq!(blocks.len(), 20);
        for block in &blocks {
            assert_eq!(block.iter().copied().collect::<BTreeSet<_>>(), (0..6).collect());
        }
        assert!(blocks.iter().collect::<BTreeSet<_>>().len() > 10, "{blocks:?}");
        assert_eq!(blocks, order(&IDS, 20, 7), "the same seed, the same order");
        assert_ne!(blocks, order(&IDS, 20, 8));
        assert_eq!(blocks[..5], order(&IDS, 5, 7), "more blocks leave the first ones alone");
    }

    #[test]
    fn no_place_is_preferred() {
        // 6000 blocks: each setting is first in 1000, give or take 5 standard deviations of 29
        let mut first = [0; 6];
        order(&IDS, 6000, 1).iter().for_each(|block| first[block[0]] += 1);
        assert!(first.iter().all(|times| (855..=1145).contains(times)), "{first:?}");
    }

    #[test]
    fn a_setting_that_is_added_leaves_the_others_in_their_order() {
        let before = order(&IDS[..5], 3, 9);
        let after = order(&IDS, 3, 9);
        for (before, after) in before.iter().zip(&after) {
            let without: Vec<usize> = after.iter().copied().filter(|place| *place != 5).collect();
            assert_eq!(*before, without);
        }
        let turned: Vec<&str> = IDS.iter().rev().copied().collect();
        let names = |blocks: Vec<Vec<usize>>, ids: &[&str]| -> Vec<Vec<String>> {
            blocks.iter().map(|block| block.iter().map(|place| ids[*place].to_owned()).collect()).collect()
        };
        assert_eq!(names(order(&IDS, 3, 9), &IDS), names(order(&turned, 3, 9), &turned));
    }
}
