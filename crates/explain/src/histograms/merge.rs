// SPDX-License-Identifier: Apache-2.0
//! The histograms of several runs, added up.

use super::{Error, Named, tidy};
use modes::Bin;
use std::collections::BTreeMap;

/// Adds up the histograms of the same name. Each file gives one set; names stay in the order in which they came first. Bins with the same bounds
/// become one; others are kept beside each other. When the files have different delays, the result has no delay.
///
/// # Errors
/// The sum of the counts is too large.
pub fn merge(files: impl IntoIterator<Item = Vec<Named>>) -> Result<Vec<Named>, Error> {
    let mut merged: Vec<Named> = Vec::new();
    for named in files.into_iter().flatten() {
        match merged.iter_mut().find(|before| before.name == named.name) {
            Some(before) => {
                before.bins.extend(named.bins);
                before.delay_us = before.delay_us.filter(|us| Some(*us) == named.delay_us);
            }
            None => merged.push(named),
        }
    }
    for named in &mut merged {
        tidy(named)?; // this also checks that none of the sums below is too large
        let mut bins: BTreeMap<(u64, u64), Bin> = BTreeMap::new();
        for bin in &named.bins {
            let same = bins.entry((bin.low_us.to_bits(), bin.high_us.to_bits()));
            same.and_modify(|sum| sum.count += bin.count).or_insert(*bin);
        }
        named.bins = bins.into_values().collect();
        tidy(named)?;
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, delay_us: Option<f64>, bins: &[(f64, f64, u64)]) -> Named {
        let bin =
            |(low_us, high_us, count): &(f64, f64, u64)| Bin { low_us: *low_us, high_us: *high_us, count: *count };
        Named { name: name.into(), bins: bins.iter().map(bin).collect(), delay_us }
    }

    #[test]
    fn the_same_name_and_the_same_bounds_are_one() {
        let first = vec![named("a", Some(1e3), &[(1.0, 2.0, 3), (4.0, 8.0, 1)]), named("b", None, &[(1.0, 2.0, 1)])];
        let second = vec![named("a", Some(1e3), &[(2.0, 4.0, 5), (1.0, 2.0, 4)])];
        let merged = merge([first, second]).unwrap();
        assert_eq!(
            merged,
            [named("a", Some(1e3), &[(1.0, 2.0, 7), (2.0, 4.0, 5), (4.0, 8.0, 1)]), named("b", None, &[(1.0, 2.0, 1)])]
        );
    }

    #[test]
    fn delays_that_differ_are_none() {
        let run = |delay_us| vec![named("a", delay_us, &[(1.0, 2.0, 1)])];
        assert_eq!(merge([run(Some(1.0)), run(Some(2.0))]).unwrap()[0].delay_us, None);
        assert_eq!(merge([run(Some(1.0)), run(None)]).unwrap()[0].delay_us, None);
        assert_eq!(merge([run(None), run(Some(1.0))]).unwrap()[0].delay_us, None);
    }

    #[test]
    fn more_than_can_be_counted_is_an_error() {
        let run = || vec![named("a", None, &[(1.0, 2.0, u64::MAX - 1)])];
        assert!(matches!(merge([run(), run()]), Err(Error::Broken { .. })));
    }
}
