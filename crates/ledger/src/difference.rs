// SPDX-License-Identifier: Apache-2.0
//! The changes between two accounts, leaf by leaf.

use crate::entries::{Account, Leaf};
use crate::share::signed;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The later account minus the earlier one. In bytes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    pub from_unix_us: u64,
    pub to_unix_us: u64,
    pub kernel_total_bytes: i64,
    pub unexplained_bytes: i64,
    /// In order of their paths, those that did not change included.
    pub leaves: Vec<LeafDifference>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafDifference {
    pub path: String,
    pub resident_bytes: i64,
    /// `None`: neither account has a meter for it.
    pub allocated_bytes: Option<i64>,
}

/// `after` minus `before`; a leaf that is missing in one account counts as 0 there.
pub fn difference(before: &Account, after: &Account) -> Difference {
    let paths: BTreeSet<&str> = before.leaves.iter().chain(&after.leaves).map(|leaf| leaf.path.as_str()).collect();
    let leaves = paths.into_iter().map(|path| of_leaf(path, find(before, path), find(after, path)));
    Difference {
        from_unix_us: before.at_unix_us,
        to_unix_us: after.at_unix_us,
        kernel_total_bytes: signed(after.kernel_total_bytes) - signed(before.kernel_total_bytes),
        unexplained_bytes: after.unexplained_bytes.saturating_sub(before.unexplained_bytes),
        leaves: leaves.collect(),
    }
}

fn find<'a>(account: &'a Account, path: &str) -> Option<&'a Leaf> {
    account.leaves.iter().find(|leaf| leaf.path == path)
}

fn of_leaf(path: &str, before: Option<&Leaf>, after: Option<&Leaf>) -> LeafDifference {
    let resident = |leaf: Option<&Leaf>| leaf.map_or(0, |leaf| signed(leaf.resident_bytes));
    let allocated = |leaf: Option<&Leaf>| leaf.and_then(|leaf| leaf.allocated_bytes).map(signed);
    let (was, is) = (allocated(before), allocated(after));
    LeafDifference {
        path: path.to_owned(),
        resident_bytes: resident(after) - resident(before),
        allocated_bytes: (was.is_some() || is.is_some()).then(|| is.unwrap_or(0) - was.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Basis;

    fn account(leaves: &[(&str, u64)], unexplained: i64) -> Account {
        let leaf = |(path, bytes): &(&str, u64)| Leaf {
            path: (*path).to_owned(),
            resident_bytes: *bytes,
            allocated_bytes: None,
            basis: Basis::Kernel,
            source: String::new(),
            at_us: 0,
        };
        let total = leaves.iter().map(|(_, bytes)| bytes).sum::<u64>().saturating_add_signed(unexplained);
        let leaves = leaves.iter().map(leaf).collect();
        Account { leaves, unexplained_bytes: unexplained, kernel_total_bytes: total, ..Account::default() }
    }

    #[test]
    fn leaves_that_come_and_go_are_in_it_and_the_sum_holds() {
        let found = difference(&account(&[("a", 10), ("b", 5)], 3), &account(&[("b", 9), ("c", 1)], 1));
        let changes: Vec<_> = found.leaves.iter().map(|it| (it.path.as_str(), it.resident_bytes)).collect();
        assert_eq!(changes, [("a", -10), ("b", 4), ("c", 1)]);
        assert_eq!(found.kernel_total_bytes, -5 + found.unexplained_bytes);
    }
}
