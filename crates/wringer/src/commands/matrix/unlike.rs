// SPDX-License-Identifier: Apache-2.0
//! Settings of a sweep that are not comparable: how many pairs, and why.

use std::collections::BTreeSet;
use sweep::{Comparable, Comparison, State};
use units::counted;

/// The most reasons that a sentence has; the others are only counted.
const MOST_REASONS: usize = 5;

/// `not comparable`. `None`: the two settings can be compared.
pub(super) fn word(one: &Comparison) -> Option<&'static str> {
    (one.verdict == Comparable::NotComparable).then_some("not comparable")
}

/// `None`: all settings can be compared.
pub(super) fn sentence(state: &State) -> Option<String> {
    let unlike = || state.comparisons.iter().filter(|one| word(one).is_some());
    let pairs: BTreeSet<(&str, &str)> = unlike().map(|one| (one.a.as_str(), one.b.as_str())).collect();
    let mut reasons: Vec<&str> = Vec::new();
    for reason in unlike().flat_map(|one| &one.not_comparable) {
        if !reasons.contains(&reason.as_str()) {
            reasons.push(reason);
        }
    }
    let more = match reasons.len().saturating_sub(MOST_REASONS) {
        0 => String::new(),
        more => format!("; and {} in sweep.json", counted(more as u64, "more reason")),
    };
    let told = reasons.iter().take(MOST_REASONS).copied().collect::<Vec<_>>().join("; ");
    let (pairs, are) = (pairs.len() as u64, if pairs.len() == 1 { "is" } else { "are" });
    (pairs > 0).then(|| format!("{} of settings {are} not comparable: {told}{more}.", counted(pairs, "pair")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_once_and_many_are_counted() {
        let of = |b: &str, arm: &str, not_comparable: &[String]| Comparison {
            a: "a".into(),
            b: b.into(),
            arm: arm.into(),
            differs: Vec::new(),
            verdict: if not_comparable.is_empty() { Comparable::Compared } else { Comparable::NotComparable },
            not_comparable: not_comparable.to_vec(),
            figures: Vec::new(),
            told: Vec::new(),
        };
        let said = |comparisons| sentence(&State { comparisons, ..State::default() });
        assert_eq!(said(vec![of("b", "x", &[])]), None);
        let why = ["block 2 of k=1: it failed".to_owned()];
        let one = said(vec![of("b", "x", &why), of("b", "y", &why), of("c", "x", &[])]).unwrap();
        assert_eq!(one, "1 pair of settings is not comparable: block 2 of k=1: it failed.");
        let many: Vec<String> = (0..7).map(|number| format!("why {number}")).collect();
        let many = said(vec![of("b", "x", &many), of("c", "x", &why)]).unwrap();
        let told = "why 0; why 1; why 2; why 3; why 4; and 3 more reasons in sweep.json.";
        assert_eq!(many, format!("2 pairs of settings are not comparable: {told}"));
    }
}
