// SPDX-License-Identifier: Apache-2.0
//! The values of one figure, side by side.

use std::collections::BTreeMap;

/// The value of one repeat, with its block.
pub(crate) type Valued = (Option<u32>, f64);

/// In the order of the blocks: the mean of each side within each block that holds both.
pub(crate) fn pairs(a: &[Valued], b: &[Valued]) -> Vec<(f64, f64)> {
    let (a, mut b) = (by_block(a), by_block(b));
    a.into_iter().filter_map(|(block, a)| Some((mean(&a), mean(&b.remove(&block)?)))).collect()
}

/// How many repeats stand in no block that holds both sides.
pub(crate) fn left_out(a: &[Valued], b: &[Valued]) -> usize {
    let (in_a, in_b) = (by_block(a), by_block(b));
    let alone = |own: &BTreeMap<u32, Vec<f64>>, other: &BTreeMap<u32, Vec<f64>>| {
        own.iter().filter(|(block, _)| other.contains_key(block)).map(|(_, values)| values.len()).sum::<usize>()
    };
    a.len() + b.len() - alone(&in_a, &in_b) - alone(&in_b, &in_a)
}

fn by_block(side: &[Valued]) -> BTreeMap<u32, Vec<f64>> {
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (block, value) in side.iter().filter_map(|(block, value)| Some(((*block)?, *value))) {
        blocks.entry(block).or_default().push(value);
    }
    blocks
}

/// The mean; 0 of no values.
pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The variance of a sample, with the divisor n - 1; 0 of fewer than two values.
pub(crate) fn variance(values: &[f64]) -> f64 {
    if values.len() < 2 {
        return 0.0;
    }
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}
